"""The benchmark problems, against slow twins, values of the literature and exhaustive search."""

from __future__ import annotations

import itertools
import math
import pickle
import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.interpolate import splev, splprep
from scipy.optimize import minimize

from ebo import problems
from ebo.arrays import Floats
from ebo.problems import additive, bbob, push, rover, standard

needs_box2d = pytest.mark.skipif(find_spec("Box2D") is None, reason="Box2D is not installed")
PUSH = pytest.param("push14", marks=needs_box2d)
NAMES = [
    PUSH,
    *(n.replace("{D}", "4").replace("{F}", "15") for n in problems.names() if n != "push14"),
]
NOISY = [PUSH, "rover60", "rover60-exact"]


def uniform(problem: problems.Problem, n: int, seed: int = 0) -> Floats:
    rng = np.random.default_rng(seed)
    return rng.uniform(problem.lower, problem.upper, (n, problem.dims))


# All problems.


@pytest.mark.parametrize("name", NAMES)
def test_a_problem_is_a_bounded_function_of_its_seed(name: str) -> None:
    problem = problems.get(name, seed=3)
    X = uniform(problem, 6)
    values = problem(X)
    assert problem.name == name
    assert problem.lower.shape == problem.upper.shape == (problem.dims,)
    assert values.shape == (6,)
    assert values.dtype == np.float64
    assert (values <= problem.upper_bound).all()
    assert problem.maximum == problem.upper_bound
    assert np.array_equal(problems.get(name, seed=3)(X), values)
    assert problem(X[:0]).shape == (0,)


@pytest.mark.parametrize("name", NAMES)
def test_batches_and_pickling_do_not_show(name: str) -> None:
    whole, parts = (problems.get(name, seed=1) for _ in range(2))
    X = uniform(whole, 7)
    values = whole(np.asfortranarray(X))
    first = parts(X[:2])
    parts = pickle.loads(pickle.dumps(parts))
    rest = [parts(X[i : i + 1]) for i in range(2, 7)]
    assert np.array_equal(values, np.concatenate([first, *rest]))


@pytest.mark.parametrize("name", NOISY)
def test_noise_can_be_switched_off(name: str) -> None:
    noisy, quiet = problems.get(name), problems.get(name, noise=False)
    X = uniform(noisy, 5, seed=5)
    assert noisy.noise is not None
    assert quiet.noise is None
    assert (noisy(X) != noisy(X)).any()
    assert (quiet(X) == quiet(X)).all()
    own = problems.get(name, noise=np.random.default_rng(8))
    noisy.noise = np.random.default_rng(8)
    assert np.array_equal(own(X), noisy(X))


def test_an_unknown_name_gets_the_names() -> None:
    for name in ("rosenbork3", "ackley", "ackley0", "add", "rover60-smooth", "ackley5-separate"):
        with pytest.raises(ValueError, match=rf"unknown problem '{name}'.*push14.*ackley\{{D\}}"):
            problems.get(name)


def test_points_are_checked() -> None:
    problem = problems.get("branin")
    with pytest.raises(ValueError, match=r"shape \(2,\), expected \(n, 2\)"):
        problem([0.0, 0.0])
    with pytest.raises(ValueError, match=r"branin: point 1, dimension 0: 11.0 is outside \[-5, 10"):
        problem([[0.0, 0.0], [11.0, 0.0]])
    with pytest.raises(ValueError, match="nan is outside"):
        problem([[0.0, np.nan]])
    assert problem([[10.0 + 1e-12, 0.0]]) == problem([[10.0, 0.0]])


def test_the_space_has_the_bounds() -> None:
    problem = problems.get("branin")
    assert np.array_equal(problem.space.lower, problem.lower)
    assert np.array_equal(problem.space.upper, problem.upper)


# Robot pushing.

PUSHES = {
    (-3.0, 2, 6, 1, 12, 1.5, 2, -2.5, -4, 3, 15, 0.5, 0.5, -0.5): 6.37907,
    (-2.0, 1, 4, 2.5, 20, 0.7, 1.5, -4, -3, 6, 10, 2, 0, 1): 4.19957,
    (0.0, 0, 1, 8, 6, 0, 3, -3, -8, 8, 8, 0.785, -1, 0.25): 1.04934,
    (4.0, 4, 1, 1, 2, 0, -4, -4, -1, -1, 2, 0, 0, 0): 0.0,
}


@needs_box2d
def test_pushing_gives_the_rewards_of_the_literature() -> None:
    problem = problems.get("push14", noise=False)
    assert problem(list(PUSHES)) == pytest.approx(list(PUSHES.values()), abs=1e-3)
    assert problem.upper_bound == pytest.approx(11.0727, abs=1e-4)


@needs_box2d
def test_pushing_has_noise_on_velocities_only() -> None:
    X = np.array(list(PUSHES))
    noise = np.random.default_rng(2)
    shaken = X.copy()
    shaken[:, [2, 3, 8, 9]] += 0.01 * np.random.default_rng(2).standard_normal((4, 4))
    values = problems.get("push14", noise=noise)(X)
    assert np.array_equal(values, problems.get("push14", noise=False)(shaken))


def test_without_box2d_the_error_tells_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "Box2D", None)
    with pytest.raises(ImportError, match=r"pip install 'ebo\[bench\]'"):
        push.Push(None)


# Rover trajectories.


def place_cost(x: float, y: float, centres: Floats) -> float:
    hit = not (0 <= x < 1 and 0 <= y < 1)
    for a, b in centres:
        hit |= a - 0.025 <= x < a + 0.025 and b - 0.025 <= y < b + 0.025
    return 20.05 if hit else 0.05


def rover_twin(x: Floats, centres: Floats, s: float | None) -> float:
    """The reward by SciPy's own splines, place by place."""
    spline: Any = splprep(x.reshape(30, 2).T, k=3, s=s)[0]
    path = [(float(a), float(b)) for a, b in np.transpose(splev(np.linspace(0, 1, 1000), spline))]
    costs = [place_cost(a, b, centres) for a, b in path]
    total = sum(math.dist(path[i], path[i + 1]) * (costs[i] + costs[i + 1]) / 2 for i in range(999))
    (a, b), (c, d) = path[0], path[-1]
    return 5 - total - 10 * (abs(a - 0.05) + abs(b - 0.05) + abs(c - 0.95) + abs(d - 0.95))


def trajectories() -> Floats:
    """Scattered, wandering, straight, curved, short, alternating and nearly standing ones."""
    rng = np.random.default_rng(4)
    t = np.linspace(0, 1, 30)
    lines = [
        (0.05 + 0.9 * t, 0.05 + 0.9 * t),
        (0.05 + 0.9 * t, 0.05 + 0.9 * t**2),
        (0.05 + 0.9 * t, 0.05 + 0.9 * np.sqrt(t)),
        (0.1 + 0.5 * t, 0.9 - 0.3 * t),
        (0.5 + 0.4 * np.cos(9 * t), 0.5 + 0.4 * np.sin(9 * t)),
        (0.4 + 1e-3 * t, 0.6 - 1e-3 * t**2),
        (0.5 + 0.59 * (-1.0) ** np.arange(30), 0.5 - 0.59 * (-1.0) ** np.arange(30)),
        (0.2 + 0.6 * (t > 0.5) + 1e-6 * t, 0.3 + 1e-6 * t),
    ]
    walks = np.clip(0.3 + np.cumsum(rng.normal(0, 0.05, (8, 30, 2)), axis=1), -0.099, 1.098)
    walks += 1e-4 * rng.random(walks.shape)  # FITPACK refuses points that repeat the one before
    scattered = rng.uniform(-0.1, 1.1, (12, 60))
    corners = np.where(rng.random((8, 60)) < 0.5, -0.099, 1.099) + 1e-3 * rng.random((8, 60))
    curves = np.array([np.stack(line, axis=1).ravel() for line in lines])
    return np.concatenate([scattered, walks.reshape(8, 60), corners, curves])


@pytest.mark.parametrize(("name", "s"), [("rover60", None), ("rover60-exact", 0.0)])
def test_rewards_are_those_of_scipys_splines(name: str, s: float | None) -> None:
    X = trajectories()
    for centres in (np.empty((0, 2)), rover.layout(np.random.default_rng(6))[:25]):
        problem = problems.get(name, noise=False, obstacles=centres)
        twins = [rover_twin(x, centres, s) for x in X]
        assert problem(X) == pytest.approx(twins, abs=1e-8, rel=1e-10)


def test_rewards_without_obstacles() -> None:
    problem = problems.get("rover60", noise=False, obstacles=np.empty((0, 2)))
    values = problem(trajectories()[28:32])
    assert values == pytest.approx([4.936360, 4.777871, 4.802889, -11.029155], abs=1e-6)
    assert values[0] <= problem.upper_bound == pytest.approx(4.936, abs=1e-3)


def test_no_trajectory_needs_a_knot_under_default_smoothing() -> None:
    signs = (-1.0) ** np.arange(30)
    extreme = np.stack([0.5 + 0.6 * signs, 0.5 + 0.6 * signs], axis=1)  # the most there can be
    for x in (*trajectories(), extreme):
        (spline, _), residual, *_ = splprep(x.reshape(30, 2).T, k=3, full_output=True)
        assert np.size(spline[0]) == 8  # no knots but those at the ends
        assert residual <= 30 * 2 * 0.6**2


@pytest.mark.parametrize("name", ["rover60", "rover60-exact"])
def test_a_trajectory_may_stand_still(name: str) -> None:
    problem = problems.get(name, noise=False, obstacles=[])
    paths = rover.interpolated if name == "rover60-exact" else rover.smoothed
    still = np.tile([0.3, 0.4], 30)
    assert problem(still[None])[0] == pytest.approx(5 - 10 * (0.25 + 0.35 + 0.65 + 0.55))
    for distinct in (2, 3, 4, 29):
        rng = np.random.default_rng(distinct)
        points = np.linspace([0.1, 0.2], [0.7, 0.5], distinct)  # on a line, so that nothing bends
        P = points[np.sort(np.append(np.arange(distinct), rng.integers(distinct, size=30))[:30])]
        path = paths(P[None])[0]
        assert np.isfinite(problem(P.reshape(1, 60))).all()
        assert path[:, 1] - 0.2 == pytest.approx(0.5 * (path[:, 0] - 0.1), abs=1e-9)
        assert path[[0, -1]] == pytest.approx(P[[0, -1]], abs=1e-9)


def test_obstacles_are_closed_below_and_open_above() -> None:
    centres = np.array([[0.3, 0.4], [0.32, 0.41], [0.0, 0.9]])
    places = rover.Map(centres)
    edges = np.concatenate([centres.ravel() - 0.025, centres.ravel() + 0.025, [0.0, 1.0, -0.05]])
    near = np.concatenate([np.nextafter(edges, -1), edges, np.nextafter(edges, 2), [0.305, 0.5]])
    x, y = (grid.ravel() for grid in np.meshgrid(near, near))
    twin = [place_cost(a, b, centres) > 1 for a, b in zip(x, y, strict=True)]
    assert np.array_equal(places(x, y), twin)


def test_layouts_leave_start_and_goal_free() -> None:
    ends = np.array([0.05, 0.95])
    layouts = [rover.layout(np.random.default_rng(seed)) for seed in range(40)]
    for centres in layouts:
        assert centres.shape == (113, 2)
        assert ((centres >= 0) & (centres < 1)).all()
        assert not rover.Map(centres)(ends, ends).any()
    assert not np.array_equal(layouts[0], layouts[1])


def test_obstacles_come_from_a_file_or_an_array(tmp_path: Path) -> None:
    file = tmp_path / "centres.csv"
    file.write_text("0.5,0.5\n0.25,0.75\n")
    for source in (file, str(file), [[0.5, 0.5], [0.25, 0.75]]):
        problem = problems.get("rover60", obstacles=source)
        assert isinstance(problem, rover.Rover)
        assert np.array_equal(problem.centres, [[0.5, 0.5], [0.25, 0.75]])
    file.write_text("0.5,0.5,0.1\n")
    with pytest.raises(ValueError, match=r"centres.csv: obstacles of shape \(1, 3\)"):
        problems.get("rover60", obstacles=file)
    with pytest.raises(ValueError, match="branin has no obstacles"):
        problems.get("branin", obstacles=file)


# Additive Gaussian processes.


def laplace(X: Floats, X2: Floats) -> Floats:
    K: Floats = np.exp(-10.0 * np.abs(X[:, None] - X2).sum(axis=2))
    return K


@pytest.mark.parametrize("dims", [1, 2, 3, 4])
def test_components_are_exact_interpolants(dims: int) -> None:
    rng = np.random.default_rng(dims)
    points = rng.random((60, dims))
    component: additive.Component
    if dims == 1:
        component = line = additive.Line(points, rng)
        points, values = line.points[:, None] / 10.0, line.values
    else:
        component = product = additive.Product(points, rng)
        values = product.values
    X = np.concatenate([points, rng.random((50, dims)), np.zeros((1, dims)), np.ones((1, dims))])
    twin = laplace(X, points) @ np.linalg.solve(laplace(points, points), values)
    assert component(X) == pytest.approx(twin, abs=1e-9)
    assert component(points) == pytest.approx(values, abs=1e-9)


@pytest.mark.parametrize("dims", [1, 2])
def test_components_are_samples_of_the_process(dims: int) -> None:
    points = np.random.default_rng(0).random((8, dims))
    points = points[np.argsort(points[:, 0])]
    kind = additive.Line if dims == 1 else additive.Product
    draws = 4000
    values = np.array(
        [kind(points, np.random.default_rng([dims, seed])).values for seed in range(draws)]
    )
    K = laplace(points, points)
    error = values.T @ values / draws - K
    deviation = np.sqrt((K**2 + 1.0) / draws)  # of a product of two correlated normal numbers
    assert (np.abs(error) < 5 * deviation).all()
    assert (np.abs(values.mean(axis=0)) < 5 / np.sqrt(draws)).all()


@pytest.mark.parametrize(("dims", "points"), [(1, 300), (2, 150), (3, 40), (4, 18)])
def test_no_place_beats_the_maximum_of_a_component(dims: int, points: int) -> None:
    """Exhaustively on the coordinates of the points, and by random and local search between."""
    for seed in range(4):
        rng = np.random.default_rng([dims, seed])
        place = rng.random((points, dims))
        kind: Callable[[Floats, np.random.Generator], additive.Line | additive.Product]
        kind = additive.Line if dims == 1 else additive.Product
        component = kind(place, rng)
        best, value = component.maximum(rng)

        def downhill(x: Floats, f: additive.Component = component) -> float:
            return -float(f(np.clip(x, 0, 1)[None])[0])

        grid = np.array(list(itertools.product(*place.T)))
        random = rng.random((20_000, dims))
        starts = np.concatenate([best[None], random[np.argsort(-component(random))[:2]]])
        assert value == pytest.approx(component(grid).max(), abs=1e-9)
        assert value >= component(random).max() - 1e-9
        assert value == pytest.approx(component(best[None])[0], abs=1e-12)
        for start in starts:
            found = minimize(downhill, start, method="Nelder-Mead", options={"maxfev": 300})
            assert value >= -found.fun - 1e-9


def test_additive_problems_know_groups_and_maximum() -> None:
    problem = problems.get("add12", seed=2)
    assert isinstance(problem, additive.Additive)
    assert problem.z.shape == (12,)
    assert set(np.bincount(problem.z)) <= {1, 2, 3, 4}
    assert problem.length_scale == 0.1
    assert problem(problem.optimum[None])[0] == pytest.approx(problem.upper_bound, abs=1e-10)
    rng = np.random.default_rng(0)
    X, step = rng.random((200, 12)), rng.normal(0, 1e-3, (200, 12))
    assert (problem(X) < problem.upper_bound).all()
    near = np.clip(problem.optimum + step, 0, 1)
    assert (problem(near) < problem.upper_bound).all()
    for group in problem.groups:  # a group's part does not depend on the others
        moved = X.copy()
        moved[:, group] = problem.optimum[group]
        gain = problem(moved) - problem(X)
        other = rng.random((200, 12))
        other[:, group] = X[:, group]
        moved = other.copy()
        moved[:, group] = problem.optimum[group]
        assert problem(moved) - problem(other) == pytest.approx(gain, abs=1e-9)


def test_separate_dimensions() -> None:
    problem = problems.get("add20-separate")
    assert isinstance(problem, additive.Additive)
    assert np.array_equal(problem.z, np.arange(20))


# Functions of the literature.


def twins(name: str, x: Sequence[float]) -> float:
    n = len(x)
    if name == "ackley":
        a = math.sqrt(sum(v * v for v in x) / n)
        b = sum(math.cos(2 * math.pi * v) for v in x) / n
        return -20 * math.exp(-0.2 * a) - math.exp(b) + 20 + math.e
    if name == "rastrigin":
        return 10 * n + sum(v * v - 10 * math.cos(2 * math.pi * v) for v in x)
    if name == "griewank":
        product = math.prod(math.cos(v / math.sqrt(i + 1)) for i, v in enumerate(x))
        return sum(v * v for v in x) / 4000 - product + 1
    if name == "rosenbrock":
        return sum(100 * (x[i + 1] - x[i] ** 2) ** 2 + (1 - x[i]) ** 2 for i in range(n - 1))
    w = [1 + (v - 1) / 4 for v in x]
    middle = sum((v - 1) ** 2 * (1 + 10 * math.sin(math.pi * v + 1) ** 2) for v in w[:-1])
    end = (w[-1] - 1) ** 2 * (1 + math.sin(2 * math.pi * w[-1]) ** 2)
    return math.sin(math.pi * w[0]) ** 2 + middle + end


@pytest.mark.parametrize("kind", sorted(standard.FAMILIES))
@pytest.mark.parametrize("dims", [2, 7])
def test_families_are_the_negated_functions(kind: str, dims: int) -> None:
    plain = problems.get(f"{kind}{dims}", shift=False)
    shifted = problems.get(f"{kind}{dims}", seed=5)
    assert isinstance(plain, standard.Standard)
    assert isinstance(shifted, standard.Standard)
    X = uniform(plain, 30)
    assert plain(X) == pytest.approx([-twins(kind, x.tolist()) for x in X])
    assert shifted(X) == pytest.approx([-twins(kind, (x - shifted.shift).tolist()) for x in X])
    for problem in (plain, shifted):
        assert problem(problem.optimum[None])[0] == pytest.approx(0.0, abs=1e-12)
        assert problem.upper_bound == 0.0
        assert (problem(uniform(problem, 500)) < 0).all()
    relative = (shifted.optimum - shifted.lower) / (shifted.upper - shifted.lower)
    assert ((relative >= 0.2) & (relative <= 0.8)).all()
    assert len(set(relative)) == dims


def test_shifts_come_from_the_seed() -> None:
    one, two = (problems.get("ackley5", seed=seed) for seed in (0, 1))
    assert isinstance(one, standard.Standard)
    assert isinstance(two, standard.Standard)
    assert not np.isclose(one.shift, two.shift).any()


def test_rosenbrock_needs_two_dimensions() -> None:
    with pytest.raises(ValueError, match="rosenbrock in 1 dimensions; give at least 2"):
        problems.get("rosenbrock1")


def test_branin_and_hartmann() -> None:
    branin, hartmann = problems.get("branin"), problems.get("hartmann6")
    optima = [[-math.pi, 12.275], [math.pi, 2.275], [9.42478, 2.475]]
    assert branin(optima) == pytest.approx([-0.397887] * 3, abs=1e-6)
    assert branin.upper_bound == pytest.approx(-0.397887, abs=1e-6)
    assert branin([[0.0, 0.0]])[0] == pytest.approx(-55.602113, abs=1e-6)
    best = [[0.20169, 0.150011, 0.476874, 0.275332, 0.311652, 0.6573]]
    assert hartmann(best)[0] == pytest.approx(3.32237, abs=1e-5)
    assert hartmann.upper_bound == pytest.approx(3.32237, abs=1e-5)
    for problem in (branin, hartmann):
        assert isinstance(problem, standard.Standard)
        top = problem(problem.optimum[None])[0]
        assert top == pytest.approx(problem.upper_bound, abs=1e-12)
        assert (problem(uniform(problem, 3000)) < problem.upper_bound).all()


def test_bbob_is_a_twin_of_the_sphere_and_has_its_optimum_at_zero() -> None:
    sphere = problems.get("bbob1-5", seed=2)
    assert isinstance(sphere, bbob.BBOB)
    optimum = np.array(sphere._function.optimum.x)
    X = uniform(sphere, 50)
    assert np.allclose(sphere(X), -np.sum((X - optimum) ** 2, axis=1))
    assert sphere(optimum[None])[0] == 0.0
    assert not np.allclose(sphere(X), problems.get("bbob1-5", seed=3)(X))
    for wrong in ("bbob25-5", "bbob1-1"):
        with pytest.raises(ValueError, match="BBOB"):
            problems.get(wrong)
