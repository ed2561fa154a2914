from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ebo.space
from ebo.arrays import Floats
from ebo.space import Categorical, Float, Int, Parameter, Space, box
from ebo.space.parameters import LARGEST_LOG_WHOLE

loose: Any = ebo.space  # for what a type checker would not let pass
EPS = float(np.finfo(np.float64).eps)
MIXED = Space(
    rate=Float(1e-6, 1.0, log=True),
    seed=Int(7, 7),
    depth=Int(1, 9),
    kind=Categorical(["a", True, 1, 1.0, None, (1, 2)]),
    size=Categorical([8, 16, 32], ordered=True),
    units=Int(1, 1000, log=True),
    shift=Float(-2, 6),
    host=Categorical(["only"]),
)


def naive_to_unit(parameter: Parameter, x: float) -> float:
    if isinstance(parameter, Categorical):
        return (x + 0.5) / len(parameter.choices)
    low, high = parameter.low, parameter.high
    if isinstance(parameter, Float):
        if parameter.log:
            return math.log(x / low) / math.log(high / low)
        return (x - low) / (high - low)
    if parameter.log:
        edges = [math.log(edge) for edge in (low - 0.5, x - 0.5, x + 0.5, high + 0.5)]
        return ((edges[1] + edges[2]) / 2 - edges[0]) / (edges[3] - edges[0])
    return (x - low + 0.5) / (high - low + 1)


positive = st.floats(1e-6, 1e6)
wholes = st.integers(-(2**50), 2**50) | st.integers(-9, 9)
log_wholes = st.integers(1, 2**45) | st.integers(1, 9)
choices = st.none() | st.booleans() | st.integers(-2, 2) | st.floats() | st.text(max_size=2)


def ordered(values: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(values, min_size=2, max_size=2).map(sorted)


parameters = st.one_of(
    ordered(st.floats(-1e12, 1e12)).map(lambda b: Float(*b)),
    ordered(positive).map(lambda b: Float(*b, log=True)),
    ordered(wholes).map(lambda b: Int(*b)),
    ordered(log_wholes).map(lambda b: Int(*b, log=True)),
    st.builds(
        lambda values, flag: Categorical(values, ordered=flag),
        st.lists(
            choices | st.tuples(choices, choices),
            min_size=1,
            max_size=6,
            unique_by=lambda value: repr(value).replace("-0.0", "0.0"),
        ),
        st.booleans(),
    ),
)
spaces = st.dictionaries(st.text(min_size=1, max_size=3), parameters, min_size=1, max_size=6).map(
    Space
)


def draw(space: Space, seed: int, n: int) -> Floats:
    """Points anywhere in the space, its corners among them."""
    rng = np.random.default_rng(seed)
    share = rng.choice([0.0, 1.0, np.nan], size=(n, space.dims), p=[0.2, 0.2, 0.6])
    share = np.where(np.isnan(share), rng.random(share.shape), share)
    X = np.clip(space.lower + share * (space.upper - space.lower), space.lower, space.upper)
    for d, parameter in enumerate(space.parameters.values()):
        if not isinstance(parameter, Float):
            X[:, d] = np.round(X[:, d])
    return X


@settings(max_examples=150, deadline=None)
@given(spaces, st.integers(0, 2**32 - 1), st.integers(0, 8))
def test_there_and_back(space: Space, seed: int, n: int) -> None:
    X = draw(space, seed, n)
    T = space.to_unit(X)
    assert T.shape == (n, space.free.sum())
    assert ((T >= 0) & (T <= 1)).all()
    back = space.from_unit(T)
    assert ((back >= space.lower) & (back <= space.upper)).all()
    for d, parameter in enumerate(space.parameters.values()):
        tolerance = np.zeros(n)
        if isinstance(parameter, Float):
            if parameter.log:
                digits = 1 + math.log(parameter.high / parameter.low)
                tolerance = 4 * EPS * digits * X[:, d]
            else:
                tolerance = np.full(n, 4 * EPS * max(abs(parameter.low), abs(parameter.high)))
        assert (np.abs(back[:, d] - X[:, d]) <= tolerance).all(), parameter
    assert (space.from_dicts(space.to_dicts(X)) == X).all()
    assert (space.check(X) == X).all()


@settings(max_examples=100, deadline=None)
@given(spaces, st.integers(0, 2**32 - 1), st.integers(0, 8))
def test_snap(space: Space, seed: int, n: int) -> None:
    T = np.random.default_rng(seed).uniform(-0.1, 1.1, (n, int(space.free.sum())))
    given_T = T.copy()
    snapped = space.snap(T)
    assert (given_T == T).all()
    discrete = space.levels > 0
    assert (snapped[:, discrete] == space.to_unit(space.from_unit(T))[:, discrete]).all()
    assert (snapped[:, ~discrete] == np.clip(T, 0, 1)[:, ~discrete]).all()
    assert (space.snap(snapped) == snapped).all()
    assert (space.from_unit(snapped) == space.from_unit(T)).all()


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 20))
def test_to_unit_matches_its_naive_twin(seed: int, n: int) -> None:
    X = draw(MIXED, seed, n)
    values = list(MIXED.parameters.values())
    free = [d for d in range(MIXED.dims) if values[d].levels != 1]
    slow = [[naive_to_unit(values[d], x[d]) for d in free] for x in X]
    np.testing.assert_allclose(MIXED.to_unit(X), slow, rtol=1e-13, atol=1e-15)


def test_a_row_has_the_same_t_alone_and_among_others() -> None:
    X = draw(MIXED, 0, 200)
    T = MIXED.to_unit(X)
    assert all((MIXED.to_unit(X[i : i + 1]) == T[i]).all() for i in range(len(X)))
    assert (MIXED.to_unit(np.asfortranarray(X)) == T).all()
    assert (MIXED.from_unit(np.asfortranarray(T)) == MIXED.from_unit(T)).all()


def test_what_a_space_says_of_itself() -> None:
    assert MIXED.names == ("rate", "seed", "depth", "kind", "size", "units", "shift", "host")
    assert MIXED.dims == 8
    assert MIXED.named
    assert MIXED.free.tolist() == [True, False, True, True, True, True, True, False]
    assert MIXED.lower.tolist() == [1e-6, 7, 1, 0, 0, 1, -2, 0]
    assert MIXED.upper.tolist() == [1, 7, 9, 5, 2, 1000, 6, 0]
    assert MIXED.levels.tolist() == [0, 9, 6, 3, 1000, 0]
    assert MIXED.categorical.tolist() == [False, False, True, False, False, False]
    assert MIXED.parameters["depth"] == Int(1, 9)


def test_repr_is_short() -> None:
    assert repr(Space(x=Float(0, 1), n=Int(1, 9, log=True), c=Categorical(["a", "b"]))) == (
        "Space({'x': Float(0.0, 1.0), 'n': Int(1, 9, log=True), 'c': Categorical(['a', 'b'])})"
    )
    assert repr(box([0], [1])) == "<box of 1: {'x0': Float(0.0, 1.0)}>"
    assert repr(MIXED).endswith("'units': Int(1, 1000, log=True), ... 2 more})")
    assert repr(Categorical(range(9), ordered=True)) == (
        "Categorical([0, 1, 2, 3, 4, 5, ... 3 more], ordered=True)"
    )
    assert len(repr(Categorical(["x" * 10_000]))) < 200


def test_equality() -> None:
    a, b = Float(0, 1), Int(0, 1)
    assert Space(a=a, b=b) == Space({"a": Float(0.0, 1.0)}, b=Int(0, 1))
    assert hash(Space(a=a, b=b)) == hash(Space({"a": a, "b": b}))
    assert Space(a=a, b=b) != Space(b=b, a=a)
    assert Space(a=a) != Space(a=b)
    assert Space(a=a) != "a"
    assert Space(x0=a) != box([0], [1])
    assert Categorical([1, 0]) != Categorical([True, False])
    assert Categorical([1, 0]) != Categorical([1, 0], ordered=True)
    assert Categorical([1, 0]) != (1, 0)
    assert hash(Categorical(["a"])) == hash(Categorical(("a",)))
    assert Float(1, 2) != Float(1, 2, log=True)


@pytest.mark.parametrize("space", [MIXED, box([0, 0], [1, 0])])
@pytest.mark.parametrize("again", [copy.deepcopy, lambda s: pickle.loads(pickle.dumps(s))])
def test_a_copy_is_the_same(space: Space, again: Callable[[Space], Space]) -> None:
    other = again(space)
    assert other == space
    assert other.named == space.named
    assert not other.lower.flags.writeable


def test_a_space_cannot_be_changed() -> None:
    given_parameters: dict[str, Parameter] = {"x": Float(0, 1)}
    space = Space(given_parameters)
    given_parameters["y"] = Float(0, 1)
    assert space.names == ("x",)
    with pytest.raises(TypeError, match="does not support item assignment"):
        space.parameters["y"] = Float(0, 1)  # type: ignore[index]
    for array in (space.lower, space.upper, space.free, space.levels, space.categorical):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


def test_what_is_returned_is_the_callers_own() -> None:
    space, X = box([0], [1]), np.array([[0.5]])
    for result in (space.check(X), space.to_unit(X), space.from_unit(X), space.snap(X)):
        result[0] = 9.0
    assert X == 0.5
    assert space.lower == 0.0


def test_numbers_of_other_types_are_taken() -> None:
    assert loose.Int(2.0, np.int64(5)) == Int(2, 5)
    assert type(loose.Int(2.0, 5).low) is int
    assert loose.Float(np.float32(0.5), Fraction(3, 4)) == Float(0.5, 0.75)
    assert type(Float(np.float64(0), 1).low) is float
    assert loose.Categorical(np.array(["a", "b"])) == Categorical(["a", "b"])
    space = Space(x=Float(0, 4), n=Int(0, 4), c=Categorical([1, 2]))
    rows: list[dict[str, Any]] = [
        {"x": np.int64(1), "n": np.float32(2), "c": np.int64(2)},
        {"x": 1, "n": 2.0, "c": 2},
    ]
    assert space.from_dicts(rows).tolist() == [[1, 2, 1], [1, 2, 1]]
    assert space.check(np.ones((1, 3), dtype=np.int32)).dtype == np.float64
    assert space.check(np.ones((1, 3), dtype=np.uint8)).tolist() == [[1, 1, 1]]


def test_dicts_hold_pythons_own_values() -> None:
    X = [[1e-3, 7, 3, k, 1, 5, 0, 0] for k in range(6)]
    rows = MIXED.to_dicts(X)
    assert [type(value) for value in rows[0].values()] == [
        float,
        int,
        int,
        str,
        int,
        int,
        float,
        str,
    ]
    kinds = [row["kind"] for row in rows]
    assert repr(kinds) == "['a', True, 1, 1.0, None, (1, 2)]"
    assert rows[2] == {**rows[0], "kind": 1}
    assert (MIXED.from_dicts(iter(rows)) == X).all()


def test_choices_that_python_calls_equal_are_told_apart() -> None:
    space = Space(c=Categorical([True, 1, 1.0, (1,), (True,), math.nan]))
    rows = [{"c": value} for value in (1.0, 1, True, np.True_, (True,), (1,), float("nan"))]
    assert space.from_dicts(rows).ravel().tolist() == [2, 1, 0, 0, 4, 3, 5]


def test_ends_and_middles() -> None:
    space = Space(
        x=Float(-2, 6), r=Float(1e-4, 1, log=True), n=Int(3, 6), c=Categorical(["a", "b"])
    )
    ends = np.array([[-2, 1e-4, 3, 0], [6, 1, 6, 1]])
    np.testing.assert_array_equal(
        space.to_unit(ends),
        [[0, 0, 1 / 8, 1 / 4], [1, 1, 7 / 8, 3 / 4]],
    )
    np.testing.assert_array_equal(
        space.from_unit([[0, 0, 0, 0], [1, 1, 1, 1], [-5, -5, -5, -5], [5, 5, 5, 5]]),
        np.vstack([ends, ends]),
    )
    np.testing.assert_allclose(space.from_unit([[0.5] * 4]), [[2, 1e-2, 5, 1]])


def test_every_value_of_a_log_int_has_its_own_slot() -> None:
    space = Space(n=Int(2, 40, log=True))
    edges = np.log(np.arange(1.5, 41))
    edges = (edges - edges[0]) / (edges[-1] - edges[0])
    values = np.arange(2.0, 41)
    for share in (1e-9, 0.3, 0.5, 1 - 1e-9):
        t = edges[:-1] + share * np.diff(edges)
        assert (space.from_unit(t[:, None]).ravel() == values).all()
    np.testing.assert_allclose(space.to_unit(values[:, None]).ravel(), (edges[1:] + edges[:-1]) / 2)


@pytest.mark.parametrize(
    "parameter",
    [
        Int(1, LARGEST_LOG_WHOLE, log=True),
        Int(LARGEST_LOG_WHOLE - 9, LARGEST_LOG_WHOLE, log=True),
        Int(10**6, LARGEST_LOG_WHOLE, log=True),
        Int(-(2**50), 2**50),
        Int(0, 2**50),
    ],
)
def test_the_largest_ints_survive_exactly(parameter: Int) -> None:
    low, high = parameter.low, parameter.high
    rng = np.random.default_rng(0)
    values = np.concatenate(
        [rng.integers(low, high, 20_000, endpoint=True), high - np.arange(20_000), [low]]
    )
    X = np.unique(np.maximum(values, low))[:, None].astype(float)
    space = Space(n=parameter)
    T = space.to_unit(X)
    assert (np.diff(T, axis=0) > 0).all()
    assert (space.from_unit(T) == X).all()
    assert (space.snap(T) == T).all()


@pytest.mark.parametrize(
    "parameter",
    [
        Float(0, 5e-324),
        Float(-8e307, 8e307),
        Float(1e16, 1e16 + 8),
        Float(0.1, 0.1 + 4e-17),
        Float(5e-324, 1e-25, log=True),
        Float(1e9, 1.7976931348623157e308, log=True),
        Float(1, 1 + 4 * EPS, log=True),
    ],
)
def test_extreme_floats(parameter: Float) -> None:
    space = Space(x=parameter)
    T = np.r_[np.linspace(0, 1, 101), EPS, 1 - EPS / 2][:, None]
    X = space.from_unit(T)
    assert (np.clip(X, parameter.low, parameter.high) == X).all()
    assert X[0] == parameter.low
    assert X[100] == parameter.high
    assert space.to_unit(X)[[0, 100]].ravel().tolist() == [0, 1]
    assert (np.diff(space.to_unit(X[:101]), axis=0) >= 0).all()


def test_a_tiny_excess_is_clipped_and_more_is_refused() -> None:
    space = Space(x=Float(0, 10), r=Float(1e-3, 1, log=True))
    X = [[-9e-9, 1e-3 * (1 - 9e-10)], [10 + 9e-9, 1 + 9e-10]]
    assert (space.check(X) == [[0, 1e-3], [10, 1]]).all()
    with pytest.raises(ValueError, match=r"'x': -1.1e-08 is outside \[0.0, 10.0\]"):
        space.check([[-1.1e-8, 1]])
    with pytest.raises(ValueError, match=r"'r': 0.00099999999 is outside"):
        space.check([[0, 0.00099999999]])
    with pytest.raises(ValueError, match="is outside"):
        Space(n=Int(0, 10**12)).check([[-1.0]])
    top = 1.7976931348623157e308
    assert box([0], [top]).check([[top]]) == top


def test_fixed_parameters_have_no_column_in_the_unit_cube() -> None:
    space = Space(a=Float(0.1, 0.1), b=Float(0, 2), c=Categorical(["only"]), d=Int(3, 3, log=True))
    X = [[0.1, 1, 0, 3]]
    assert space.to_unit(X).tolist() == [[0.5]]
    assert space.from_unit([[0.5]]).tolist() == X
    assert space.to_dicts(X) == [{"a": 0.1, "b": 1.0, "c": "only", "d": 3}]
    with pytest.raises(ValueError, match=r"row 0, parameter 'a': 0.2 is not 0.1, to which it is f"):
        space.check([[0.2, 1, 0, 3]])


def test_all_parameters_fixed() -> None:
    space = box([1, 2], [1, 2])
    assert space.to_unit([[1, 2]] * 3).shape == (3, 0)
    assert space.from_unit(np.empty((3, 0))).tolist() == [[1, 2]] * 3
    assert space.snap(np.empty((3, 0))).shape == (3, 0)
    assert space.levels.size == space.categorical.size == 0


def test_no_points() -> None:
    assert MIXED.to_unit(np.empty((0, 8))).shape == (0, 6)
    assert MIXED.from_unit(np.empty((0, 6))).shape == (0, 8)
    assert MIXED.snap(np.empty((0, 6))).shape == (0, 6)
    assert MIXED.to_dicts(np.empty((0, 8))) == []
    assert MIXED.from_dicts([]).shape == (0, 8)


def test_a_thousand_parameters() -> None:
    kinds = (Float(-1, 1), Float(1, 9, log=True), Int(0, 9), Int(1, 99, log=True), Int(4, 4))
    kinds_too = (Categorical(["a", "b", "c"]), Categorical([1, 2], ordered=True))
    every = (*kinds, *kinds_too)
    space = Space({f"p{d}": every[d % 7] for d in range(1000)})
    T = space.snap(np.random.default_rng(0).random((300, int(space.free.sum()))))
    X = space.from_unit(T)  # several blocks of rows
    np.testing.assert_allclose(space.to_unit(X), T, atol=1e-14)
    assert (space.from_dicts(space.to_dicts(X)) == X).all()
    assert (np.vstack([space.from_unit(T[:7]), space.from_unit(T[7:])]) == X).all()
    X[299, 993] = math.nan
    with pytest.raises(ValueError, match="row 299, parameter 'p993': nan"):
        space.check(X)
    assert len(repr(space)) < 500


def test_box() -> None:
    space = box([0, -1, 2], np.array([1, 1, 2.0]))
    assert space.names == ("x0", "x1", "x2")
    assert not space.named
    assert space.free.tolist() == [True, True, False]
    assert space.parameters["x1"] == Float(-1, 1)
    assert box([0, 0], [1, 1], ["u", "v"]).names == ("u", "v")
    X = np.random.default_rng(0).random((5, 3))
    unit = box([0] * 3, [1] * 3)
    assert (unit.to_unit(X) == X).all()
    assert (unit.from_unit(X) == X).all()


@pytest.mark.parametrize(
    ("lower", "upper", "names", "message"),
    [
        (0, 1, None, r"shape \(\) and upper \(\); give two vectors.*such as \[0.0\] \* 3"),
        ([0, 0], 1, None, "give two vectors of the same length"),
        ([0, 0], [1], None, "same length"),
        ([], [], None, "at least 1"),
        ([[0]], [[1]], None, "give two vectors"),
        ([0, 1], [1, 0], None, r"dimension 1, 'x1': Float\(1, 0\): low is above high; swap them"),
        ([0, np.nan], [1, 1], None, r"dimension 1, 'x1': .*not finite; give finite"),
        ([-1.7e308], [1.7e308], None, "dimension 0, 'x0': .*overflows"),
        ([0], [1], ["a", "b"], r"names are \['a', 'b'\] for 1 dimensions; give one for each"),
        ([0, 0], [1, 1], ["a", "a"], "all different"),
        ([0, 0], [1, 1], "ab", "give one for each"),
        ([0, [1]], [1, 1], None, "lower is not an array: its rows have different lengths"),
    ],
)
def test_bad_boxes(lower: Any, upper: Any, names: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        box(lower, upper, names)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: loose.Float(3, 1), ValueError, r"Float\(3, 1\): low is above high; swap them"),
        (
            lambda: loose.Float(0, math.inf),
            ValueError,
            r"Float\(0, inf\): the bounds are not finite",
        ),
        (lambda: loose.Float(math.nan, 1), ValueError, "not finite; give finite ones"),
        (lambda: loose.Float(0, 10**400), ValueError, "not finite"),
        (
            lambda: loose.Float(-1.7e308, 1.7e308),
            ValueError,
            "high - low overflows; give bounds that",
        ),
        (
            lambda: loose.Float(0, 1, log=True),
            ValueError,
            "a log scale needs low > 0; raise low, or",
        ),
        (
            lambda: loose.Float(1e-300, 1e300, log=True),
            ValueError,
            "high/low is above 1e.300; raise low",
        ),
        (
            lambda: loose.Float(True, 2),
            TypeError,
            r"Float\(True, 2\): True \(bool\) is not a number",
        ),
        (lambda: loose.Float("0", 1), TypeError, r"Float\('0', 1\): '0' \(str\) is not a number"),
        (lambda: loose.Float(0, None), TypeError, r"None \(NoneType\) is not a number"),
        (lambda: loose.Float(1, 2, log="yes"), TypeError, "log is 'yes'; give True or False"),
        (lambda: loose.Int(3, 1), ValueError, r"Int\(3, 1\): low is above high"),
        (
            lambda: loose.Int(0.5, 2),
            ValueError,
            r"Int\(0.5, 2\): .* not whole; round them, or use Float",
        ),
        (lambda: loose.Int(0, math.inf), ValueError, "not finite"),
        (lambda: loose.Int(0, 2**50 + 1), ValueError, r"beyond 2\*\*50, .*use Float, and round"),
        (lambda: loose.Int(-(2**51), 0), ValueError, r"beyond 2\*\*50"),
        (lambda: loose.Int(1, 2**45 + 1, log=True), ValueError, r"beyond 2\*\*45"),
        (lambda: loose.Int(0, 2, log=True), ValueError, "a log scale needs low > 0"),
        (lambda: loose.Int(False, True), TypeError, r"False \(bool\) is not a number"),
        (lambda: loose.Categorical([]), ValueError, "choices are empty; give at least one"),
        (
            lambda: loose.Categorical(["a", "b", "a"]),
            ValueError,
            "choices 0 and 2 are both 'a'; leave",
        ),
        (lambda: loose.Categorical([math.nan, math.nan]), ValueError, "both nan"),
        (lambda: loose.Categorical([(1,), (1,)]), ValueError, r"both \(1,\)"),
        (lambda: loose.Categorical("ab"), TypeError, "choices are 'ab'; give a list or tuple"),
        (lambda: loose.Categorical({"a"}), TypeError, "which has an order"),
        (lambda: loose.Categorical(3), TypeError, "choices are 3; give a list or tuple"),
        (
            lambda: loose.Categorical(["a", [1]]),
            TypeError,
            r"choice 1, \[1\], cannot be hashed; use a tu",
        ),
        (
            lambda: loose.Categorical(["a"], ordered=1),
            TypeError,
            "ordered is 1; give True or False",
        ),
        (
            lambda: loose.Space(),
            ValueError,
            r"no parameters; give at least one, such as x=Float\(0, 1\)",
        ),
        (lambda: loose.Space({}), ValueError, "no parameters"),
        (
            lambda: loose.Space([Float(0, 1)]),
            TypeError,
            r"give a mapping such as {'x': Float\(0, 1\)}",
        ),
        (lambda: loose.Space({1: Float(0, 1)}), TypeError, "the name 1 is not a string; give '1'"),
        (
            lambda: loose.Space({"": Float(0, 1)}),
            ValueError,
            r"the name of Float\(0.0, 1.0\) is empty",
        ),
        (
            lambda: loose.Space(x=(0, 1)),
            TypeError,
            r"parameter 'x' is \(0, 1\); give Float\(low, high\)",
        ),
        (
            lambda: loose.Space({"x": Float(0, 1)}, x=Int(0, 1)),
            ValueError,
            "'x' is given twice; leave",
        ),
        (lambda: loose.box(["a"], [1]), TypeError, "lower has dtype <U1, which is not of numbers"),
        (lambda: loose.box([False], [True]), TypeError, "lower has dtype bool"),
    ],
)
def test_bad_parameters(make: Callable[[], object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()


@pytest.mark.parametrize(
    ("X", "error", "message"),
    [
        ([0.5, 1, 0], ValueError, r"shape \(3,\), expected \(n, 3\); .*give X\[None, :\]"),
        ([0.5, 1], ValueError, r"shape \(2,\), expected \(n, 3\): one row a point"),
        ([[0.5, 1]], ValueError, r"shape \(1, 2\), expected \(n, 3\)"),
        ([[[0.5, 1, 0]]], ValueError, r"shape \(1, 1, 3\)"),
        ([[0.5, 1, 0], [0.5, 1]], ValueError, "X is not an array: its rows have different lengths"),
        ([[math.nan, 1, 0]], ValueError, "row 0, parameter 'x': nan is not finite; drop the point"),
        ([[0.5, 1, 0], [0.5, math.inf, 0]], ValueError, "row 1, parameter 'n': inf is not finite"),
        ([[1.7, 1, 0]], ValueError, r"row 0, parameter 'x': 1.7 is outside \[0.0, 1.0\]; clip it"),
        ([[0.5, 6, 0]], ValueError, r"parameter 'n': 6.0 is outside \[1, 5\]; .* or widen"),
        ([[0.5, 1.5, 0]], ValueError, r"'n': 1.5 is not whole, but .* Int\(1, 5\); round it"),
        (
            [[0.5, 1, 2]],
            ValueError,
            "'c': 2.0 is not the index of a choice; .* 0 to 1, for 'a', 'b'",
        ),
        ([[0.5, 1, 0.5]], ValueError, "'c': 0.5 is not the index of a choice"),
        ([["0.5", "1", "a"]], TypeError, "X has dtype <U3, which is not of numbers; give an array"),
        ([[0.5, 1, None]], TypeError, "dtype object"),
        ([[True, True, True]], TypeError, "dtype bool"),
        ([[1j, 1, 0]], TypeError, "dtype complex128"),
        ([{"x": 0.5}], TypeError, "dtype object.*from_dicts"),
    ],
)
@pytest.mark.parametrize("method", ["check", "to_unit", "to_dicts"])
def test_bad_points(method: str, X: Any, error: type[Exception], message: str) -> None:
    space = Space(x=Float(0, 1), n=Int(1, 5), c=Categorical(["a", "b"]))
    with pytest.raises(error, match=message):
        getattr(space, method)(X)


@pytest.mark.parametrize(
    ("T", "error", "message"),
    [
        ([0.5, 0.5], ValueError, r"T has shape \(2,\), expected \(n, 2\).*one column a free param"),
        ([[0.5, 0.5, 0.5]], ValueError, r"shape \(1, 3\), expected \(n, 2\)"),
        ([[0.5, math.nan]], ValueError, "row 0 of T, parameter 'n': nan is not finite; drop"),
        ([[math.inf, 0]], ValueError, "row 0 of T, parameter 'x': inf is not finite"),
        ([["a", "b"]], TypeError, "T has dtype <U1"),
    ],
)
@pytest.mark.parametrize("method", ["from_unit", "snap"])
def test_bad_unit_points(method: str, T: Any, error: type[Exception], message: str) -> None:
    space = Space(x=Float(0, 1), fixed=Int(1, 1), n=Int(1, 5))
    with pytest.raises(error, match=message):
        getattr(space, method)(T)


GOOD: dict[Any, Any] = {"rate": 0.5, "depth": 3, "kind": 1}


@pytest.mark.parametrize(
    ("rows", "error", "message"),
    [
        (GOOD, TypeError, r"rows is one mapping; give a list of them, \[row\]"),
        ([[0.5, 3, 1]], TypeError, r"row 0 is \[0.5, 3, 1\], not a mapping.*give a dict"),
        (
            [GOOD, {"rate": 0.5}],
            ValueError,
            "row 1: no value for 'depth', 'kind'; give all of 'rate",
        ),
        (
            [{"rate": 0.5, "dept": 3, "kind": 1}],
            ValueError,
            r"row 0: unknown name 'dept', did you mean 'depth'\? The names are 'rate', 'depth', 'k",
        ),
        (
            [{**GOOD, "zzz": 1}],
            ValueError,
            "unknown name 'zzz', leave it out. The names are 'rate', 'depth', 'kind'$",
        ),
        ([{**GOOD, 3: 1}], ValueError, "unknown name 3"),
        ([{**GOOD, "kind": True}], ValueError, r"'kind': True \(bool\) is not a choice; .*'a', 1"),
        ([{**GOOD, "kind": "b"}], ValueError, r"row 0, parameter 'kind': 'b' \(str\) is not a ch"),
        ([{**GOOD, "kind": [1]}], ValueError, r"\[1\] \(list\) is not a choice"),
        (
            [{**GOOD, "rate": "0.5"}],
            TypeError,
            r"'rate': '0.5' \(str\) is not .* Float\(0.0, 1.0\)",
        ),
        ([{**GOOD, "rate": None}], TypeError, r"None \(NoneType\) is not a number"),
        ([{**GOOD, "depth": True}], TypeError, r"'depth': True \(bool\) is not a number"),
        ([{**GOOD, "depth": 2.5}], ValueError, r"row 0, parameter 'depth': 2.5 is not whole"),
        ([GOOD, {**GOOD, "depth": 99}], ValueError, r"row 1, parameter 'depth': 99.0 is outside"),
        ([{**GOOD, "rate": 10**400}], ValueError, "'rate': inf is not finite"),
        ([{**GOOD, "rate": -(10**400)}], ValueError, "'rate': -inf is not finite"),
    ],
)
def test_bad_dicts(rows: Any, error: type[Exception], message: str) -> None:
    space = Space(rate=Float(0, 1), depth=Int(1, 9), kind=Categorical(["a", 1]))
    with pytest.raises(error, match=message):
        space.from_dicts(rows)
