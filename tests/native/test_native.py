"""The core's likelihoods against the naive ones, on every instruction set of the machine.

The core picks its instruction set when it is imported, so a process for each set runs `main`,
which answers all cases; they are judged here.
"""

from __future__ import annotations

import functools
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from ebo import native
from ebo.arrays import Floats, Ints
from ebo.tilegp.box import Box
from ebo.tilegp.features import MondrianGrid, TileCoding
from ebo.tilegp.gibbs import ChainState, Prior, begin, build, canonical
from ebo.tilegp.kernel import Hat, Laplace, SampledKernel
from tests import naive

ROOT = Path(__file__).parents[2]
CASES = 600  # for each instruction set
LARGE = 32  # so many of them have more than 224 points, where another code path begins,
LAYERS = (1, 3, 65, 130)  # and these layers
MAX_CUTS = 30  # of the grids
TWIN = 40_000  # Gram entries times layers up to which plain loops are affordable
TOLERANCE = 1e-9
UNIT = 2.0**-24  # of rounding in single precision
AFFORDABLE = 2_000  # cut steps of a sweep times points


@dataclass(frozen=True)
class Answer:
    """A log-likelihood that the core gave for a state, without -n/2 log 2 pi."""

    case: int
    kind: str
    state: ChainState
    value: float


class Case:
    """A random problem and a state to start from."""

    def __init__(self, number: int) -> None:
        rng = np.random.default_rng([number, 17])
        family, large = number % 4, number < LARGE
        # Some have more groups than a vector has lanes.
        wide = number % 32 in (4, 5) and not large
        fewest, most = (9, 24) if wide else (1, 6)
        self.number, self.dims = number, int(rng.integers(fewest, most + 1))
        layers = rng.choice([1, 3, 63, 64, 65, 130], p=[0.35, 0.35, 0.05, 0.1, 0.1, 0.05])
        self.layers = 1 if family > 1 else LAYERS[number // 4 % 4] if large else int(layers)
        sizes = [int(rng.choice([225, 230, 260]))] if large else _sizes(rng)
        mask = rng.random(self.dims) < 0.2
        kinds = np.where(mask, "categorical", np.where(rng.random(self.dims) < 0.2, "integer", ""))
        kinds = np.where(kinds == "", "continuous", kinds)
        whole = kinds != "continuous"
        self.box = Box(np.zeros(self.dims), np.where(whole, 4.0, 1.0), tuple(kinds))
        self.blocks = []
        for n in sizes:
            X = np.where(whole, rng.integers(0, 5, (n, self.dims)), rng.random((n, self.dims)))
            if n > 3:
                X[1] = X[0]  # a duplicate, with another y
            self.blocks.append((X, rng.standard_normal(n)))
        self.kernel = _kernel(family, self, mask, rng)
        per_layer = family < 2 and bool(number < LARGE / 2 if large else rng.random() < 0.5)
        noise: float | Floats = float(10 ** rng.uniform(-4, 0))
        if rng.random() < 0.3:
            noise = np.geomspace(1e-3, 1.0, int(rng.integers(2, 13)))
        self.prior = Prior(per_layer=per_layer, noise=noise)
        drawn = self.prior.draw(self.box, self.kernel, rng)
        z = np.arange(self.dims) if wide and number % 64 < 32 else drawn.z
        self.start = ChainState(z, np.minimum(drawn.cuts, MAX_CUTS), drawn.noise)
        steps = self.dims * (self.layers if per_layer else 1)
        self.affordable = steps * self.points <= AFFORDABLE  # to sweep
        self.sweeps = int(rng.integers(1, 4))
        self.asked = 2 if self.points <= 12 else 1  # dimensions to ask for candidates of
        self.rng = rng

    @property
    def points(self) -> int:
        return sum(len(y) for _, y in self.blocks)


def _sizes(rng: np.random.Generator) -> list[int]:
    """Of the blocks."""
    draw = rng.random()
    if draw < 0.01:
        return [230, 12, 0]
    if draw < 0.07:
        return [int(rng.choice([50, 101, 223, 224]))]
    if draw < 0.30:
        return [int(n) for n in rng.integers(0, 10, rng.integers(2, 4))]
    return [int(rng.choice([0, 1, 2, 3, 5, 12, 33, *range(4, 12), rng.integers(13, 41)]))]


def _kernel(
    family: int, case: Case, mask: NDArray[np.bool_], rng: np.random.Generator
) -> SampledKernel:
    dims, layers = case.dims, case.layers
    if family == 2:
        return Hat(mask)
    if family == 3:
        return Laplace(mask)
    drawn: TileCoding | MondrianGrid
    if family == 0:
        drawn = TileCoding.draw(dims, layers, rng, mask)
    else:
        drawn = MondrianGrid.draw(dims, layers, rng, MAX_CUTS, mask)
    T = case.box.to_unit(case.blocks[0][0])
    if len(T) and rng.random() < 0.4:  # cuts that go through points, or miss them by a rounding
        for d in range(dims):
            layer, t = rng.integers(layers), T[rng.integers(len(T)), d]
            if isinstance(drawn, TileCoding):
                p = rng.integers(1, 10) * t
                u = np.nextafter(p - np.floor(p), rng.choice([0.0, 1.0]))
                drawn.uniforms[d, layer] = rng.choice([u, p - np.floor(p)])
            else:
                drawn.uniforms[d, rng.integers(5), layer] = t
    return drawn


def answers(case: Case, sampler: native.Gibbs) -> Iterator[Answer]:
    """All likelihoods that the core evaluates for a case, before and after some sweeps."""
    number, state = case.number, case.start
    constant = 0.5 * case.points * np.log(2.0 * np.pi)
    for stage in ("start", "later"):
        if stage == "later":
            labels, cuts, noise, trace = sampler.run(case.sweeps, number)
            for row in range(case.sweeps):
                k = cuts[row] if case.prior.per_layer else cuts[row][:, 0]
                state = ChainState(
                    labels[row].astype(np.int64), k.astype(np.int64), float(noise[row])
                )
                yield Answer(number, "trace", state, trace[row] + constant)
        yield Answer(number, stage, state, sampler.log_likelihood() + constant)
        if sampler.can_be_rough():
            yield Answer(number, "rough", state, sampler.rough_log_likelihood())
        for d in case.rng.choice(case.dims, min(case.dims, case.asked), replace=False).tolist():
            yield from _candidates(case, sampler, d, state)
        if not case.affordable:
            return


def _candidates(case: Case, sampler: native.Gibbs, d: int, state: ChainState) -> Iterator[Answer]:
    kinds = {"": False} | ({"rough ": True} if sampler.can_be_rough() else {})
    for kind, rough in kinds.items():
        labels, values = sampler.group_likelihoods(d, rough)
        assert sorted(labels) == sorted(set(state.z))
        for label, value in zip([*labels, case.dims], values, strict=True):
            if label != state.z[d]:  # the group that d is in already has no meaning
                z = state.z.copy()
                z[d] = label
                changed = ChainState(z, state.cuts, state.noise)
                yield Answer(case.number, kind + "group", changed, float(value))
    if case.box.categorical[d]:
        return
    layer = int(case.rng.integers(case.layers)) if case.prior.per_layer else 0
    ks = case.rng.choice(MAX_CUTS + 1, int(case.rng.integers(1, 9)), replace=False).tolist()
    if not isinstance(case.kernel, MondrianGrid):
        ks[0] = int(case.rng.integers(256))
    for kind, rough in kinds.items():
        for k, value in zip(ks, sampler.cut_likelihoods(d, layer, ks, rough), strict=True):
            cuts = state.cuts.copy()
            cuts[(d, layer) if case.prior.per_layer else d] = k
            changed = ChainState(state.z, cuts, state.noise)
            yield Answer(case.number, kind + "cuts", changed, float(value))


def rough_values(case: Case, sampler: native.Gibbs, z: Ints) -> list[float]:
    """Rough likelihoods of a state, and of states near it, in an order of their own."""
    values = [sampler.rough_log_likelihood()]
    for d in range(case.dims):
        labels, near = sampler.group_likelihoods(d, rough=True)
        of_label = dict(zip([*labels.tolist(), case.dims], near.tolist(), strict=True))
        values += [of_label[label] for label in sorted(of_label) if label != z[d]]
        if not case.box.categorical[d]:
            values += sampler.cut_likelihoods(d, 0, list(range(8)), rough=True).tolist()
    return values


def main(path: str) -> None:
    """Answer all cases, and run a longer chain of each; does its end show where it came from?"""
    found, chains, routes = [], {}, {}
    for case in map(Case, range(CASES)):
        sampler = build(case.blocks, case.box, case.kernel, case.prior)
        begin(sampler, case.start, case.box, case.kernel, case.prior)
        found += list(answers(case, sampler))
        if case.affordable:
            sweeps = max(2, 60 // (case.points + case.layers))
            z, cuts, noise, log_likelihood = sampler.run(sweeps, case.number)
            chains[case.number] = (z, cuts, log_likelihood)
            if sampler.can_be_rough():
                k = cuts[-1] if case.prior.per_layer else cuts[-1][:, 0]
                fresh = build(case.blocks, case.box, case.kernel, case.prior)
                end = ChainState(z[-1], k, float(noise[-1]))
                begin(fresh, end, case.box, case.kernel, case.prior)
                routes[case.number] = [rough_values(case, s, z[-1]) for s in (sampler, fresh)]
    Path(path).write_bytes(pickle.dumps((native.instruction_set(), found, chains, routes)))


def python(isa: str | None, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "EBO_SIMD"}
    if isa is not None:
        environment["EBO_SIMD"] = isa
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, cwd=ROOT, env=environment
    )


Chain = tuple[NDArray[np.int32], NDArray[np.int32], Floats]
Result = tuple[str, list[Answer], dict[int, Chain], dict[int, list[list[float]]]]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Result]:
    """What the core of each instruction set answers."""
    found = {}
    for isa in native.instruction_sets():
        path = tmp_path_factory.mktemp("native") / isa
        done = python(
            isa, "-c", f"from tests.native import test_native as t; t.main({str(path)!r})"
        )
        assert done.returncode == 0, done.stderr
        found[isa] = pickle.loads(path.read_bytes())
    return found


@functools.cache
def target(number: int) -> tuple[Case, naive.Target]:
    case = Case(number)
    blocks = [(case.box.to_unit(X), y) for X, y in case.blocks]
    return case, naive.Target(case.kernel, blocks)


@functools.cache
def expected(number: int, z: tuple[int, ...], cuts: bytes, noise: float) -> float:
    """The naive log-likelihood, without -n/2 log 2 pi; cached: all sets see about the same."""
    case, slow = target(number)
    k = np.frombuffer(cuts, dtype=np.int64).reshape(case.start.cuts.shape)
    constant = 0.5 * case.points * np.log(2.0 * np.pi)
    if sum(len(y) ** 2 for _, y in case.blocks) * case.layers <= TWIN:
        return float(slow.log_likelihood(z, k, noise) + constant)
    blocks = [(case.kernel.gram(T, T, np.array(z), k), y) for T, y in slow.blocks if len(T)]
    return float(sum(naive.log_likelihood(K, y, noise) for K, y in blocks) + constant)


@functools.cache
def sensitivity(number: int, z: tuple[int, ...], cuts: bytes, noise: float) -> float:
    """By how much the log-likelihood changes, if all of the covariance's elements do by a little:
    the sum over them of |(a a' - A^-1) / 2|, where A a = y.
    """
    case, slow = target(number)
    k = np.frombuffer(cuts, dtype=np.int64).reshape(case.start.cuts.shape)
    total = 0.0
    for T, y in slow.blocks:
        if len(T):
            A = case.kernel.gram(T, T, np.array(z), k) + noise * np.eye(len(T))
            inverse = np.linalg.inv(A)
            total += 0.5 * float(np.abs(np.outer(inverse @ y, inverse @ y) - inverse).sum())
    return total


@pytest.mark.parametrize("isa", native.instruction_sets())
def test_likelihoods_match_the_naive_ones(isa: str, results: dict[str, Result]) -> None:
    used, found = results[isa][:2]
    assert used == isa
    kinds = dict.fromkeys(("start", "later", "trace", "group", "cuts"), 0)
    kinds |= dict.fromkeys(("rough", "rough group", "rough cuts"), 0)
    for answer in found:
        state = answer.state
        what = (answer.case, tuple(canonical(state.z).tolist()), state.cuts.tobytes(), state.noise)
        value = expected(*what)
        tolerance = TOLERANCE * max(1.0, abs(value))
        if answer.kind.startswith("rough"):
            tolerance = UNIT * (2.0 * sensitivity(*what) + 8.0 * max(1.0, abs(value)))
        assert abs(answer.value - value) <= tolerance, (answer, value)
        kinds[answer.kind] += 1
    for kind, count in kinds.items():
        assert count > CASES / (4 if kind.startswith("rough") else 2), kinds


@pytest.mark.parametrize("isa", native.instruction_sets())
def test_rough_likelihoods_do_not_depend_on_the_route(isa: str, results: dict[str, Result]) -> None:
    routes = results[isa][3]
    assert len(routes) > CASES / 8
    for number, (carried, fresh) in routes.items():
        assert carried == fresh, number


def test_the_cases_cover_what_they_should() -> None:
    cases = [target(number)[0] for number in range(CASES)]
    assert {case.dims for case in cases} > set(range(1, 7))
    groups = [len(set(case.start.z)) for case in cases]
    assert sum(count > 8 for count in groups) > 20
    assert sum(count > 16 for count in groups) > 1
    assert {case.layers for case in cases} == {1, 3, 63, 64, 65, 130}
    sizes = {len(y) for case in cases for _, y in case.blocks}
    assert sizes >= {0, 1, 2, 3, 5, 12, 33, 50, 101, 224, 225, 230, 260}
    swept = {type(case.kernel) for case in cases if case.points > 224 and case.affordable}
    assert swept == {TileCoding, MondrianGrid, Hat, Laplace}
    layered = {
        (type(case.kernel), case.prior.per_layer, case.layers > 64, case.points > 224)
        for case in cases
        if case.layers > 1
    }
    assert len(layered) == 16
    assert any(len(case.blocks) == 3 for case in cases)
    assert any(case.box.categorical.all() for case in cases)


def test_all_instruction_sets_run_the_same_chain(results: dict[str, Result]) -> None:
    best = results[native.instruction_sets()[0]][2]
    for isa, (_, _, chains, routes) in results.items():
        others = []
        for number, (z, cuts, log_likelihood) in best.items():
            same = np.array_equal(chains[number][0], z) and np.array_equal(chains[number][1], cuts)
            if same:
                np.testing.assert_allclose(
                    chains[number][2], log_likelihood, rtol=1e-9, err_msg=isa
                )
            else:
                others.append(number)
        # Without fused operations single precision rounds otherwise, and a draw may tip over.
        assert all(isinstance(target(i)[0].kernel, TileCoding | MondrianGrid) for i in others)
        assert len(others) <= (0.02 * len(routes) if isa == "baseline" else 0)


@pytest.mark.parametrize("large", [False, True])
def test_avx2_and_avx512_agree_to_the_last_bit(large: bool, results: dict[str, Result]) -> None:
    if not {"avx2", "avx512"} <= set(results):
        pytest.skip("this machine has not both AVX2 and AVX-512")
    compared = 0
    for number, chain in results["avx2"][2].items():
        if (max(len(y) for _, y in target(number)[0].blocks) > 224) == large:
            np.testing.assert_array_equal(results["avx512"][2][number][2], chain[2])
            compared += 1
    assert compared > 10


def test_rough_likelihoods_agree_to_the_last_bit(results: dict[str, Result]) -> None:
    if not {"avx2", "avx512"} <= set(results):
        pytest.skip("this machine has not both AVX2 and AVX-512")
    narrow, wide = (
        [answer.value for answer in results[isa][1] if answer.kind.startswith("rough")]
        for isa in ("avx2", "avx512")
    )
    assert narrow == wide


@pytest.mark.parametrize("kernel", [Hat(), Laplace()])
def test_rounding_does_not_pile_up(kernel: Hat | Laplace) -> None:
    rng = np.random.default_rng(1)
    X, y, box, prior = rng.random((6, 4)), rng.standard_normal(6), Box.unit(4), Prior(noise=1e-4)
    sampler = build([(X, y)], box, kernel, prior)
    begin(sampler, prior.draw(box, kernel, rng), box, kernel, prior)
    z, cuts, _, log_likelihood = sampler.run(30_000, 2)
    slow = naive.Target(kernel, [(X, y)])
    for row in range(-20, 0):
        value = slow.log_likelihood(z[row].tolist(), cuts[row][:, 0].astype(np.int64), 1e-4)
        assert log_likelihood[row] == pytest.approx(value, rel=TOLERANCE)


def test_the_best_instruction_set_is_the_default() -> None:
    done = python(None, "-c", "from ebo import native; print(native.instruction_set())")
    assert done.stdout.strip() == native.instruction_sets()[0], done.stderr


@pytest.mark.parametrize("isa", native.instruction_sets())
def test_ebo_simd_chooses_the_instruction_set(isa: str) -> None:
    done = python(isa, "-c", "from ebo import native; print(native.instruction_set())")
    assert done.stdout.strip() == isa, done.stderr


def test_the_baseline_is_everywhere() -> None:
    assert native.instruction_sets()[-1] == "baseline"
    assert native.instruction_set() in native.instruction_sets()


def test_an_unknown_instruction_set_is_refused() -> None:
    done = python("sse9", "-c", "from ebo import native")
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError: EBO_SIMD is 'sse9', but this machine has ")
    for isa in native.instruction_sets():
        assert isa in last
    assert last.endswith("set it to one of these, or unset it")
