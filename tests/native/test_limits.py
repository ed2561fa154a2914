"""What the core does at its limits: threads, signals, two calls at once, and what it refuses."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ebo import native

ROOT = Path(__file__).parents[2]
SOON = 0.5  # seconds of a processor, in which work looks for a signal


def settings(dims: int = 3, **changed: Any) -> dict[str, Any]:
    """Of a right sampler."""
    given: dict[str, Any] = {
        "family": "laplace", "dims": dims, "layers": 1, "max_cuts": 12, "uniforms": np.zeros(0),
        "categorical": [False] * dims, "alpha": np.ones(dims), "beta_rate": 0.5, "beta_shape": 3.0,
        "widths": np.ones(dims), "group_limit": dims, "noise": np.array([0.1]),
        "per_layer": False, "threads": 1,
    }  # fmt: skip
    return given | changed


def started(n: int = 5, dims: int = 3, **changed: Any) -> native.Gibbs:
    rng = np.random.default_rng(0)
    sampler = native.Gibbs(**settings(dims, **changed))
    sampler.add_block(rng.random((n, dims)), rng.standard_normal(n))
    sampler.start([*range(dims)], [3] * dims, 0)
    return sampler


def tiles(dims: int, layers: int) -> dict[str, Any]:
    uniforms = np.random.default_rng(1).random((dims, layers))
    return {"family": "tile_coding", "layers": layers, "uniforms": uniforms}


# ---- threads -------------------------------------------------------------------------

FEW_THREADS = """
import resource, sys
import numpy as np
from tests.native.test_limits import started
expected = started(30).run(3, 1)
size = int(next(line for line in open("/proc/self/status") if line.startswith("VmSize")).split()[1])
limit = 1024 * size + int(sys.argv[1]) * 2**20
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
found = started(30, threads=400).run(3, 1)
assert all(np.array_equal(a, b) for a, b in zip(expected, found))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("room", [20, 100, 400])
def test_with_fewer_threads_where_the_system_gives_no_more(room: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FEW_THREADS, str(room)],
        cwd=ROOT,
        timeout=60,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def test_one_call_at_a_time() -> None:
    sampler, refused = started(200), []
    thread = threading.Thread(target=sampler.run, args=(300, 1))
    thread.start()
    while thread.is_alive():
        try:
            sampler.group_likelihoods(0)
        except RuntimeError as error:
            refused.append(str(error))
    assert refused
    assert set(refused) == {
        "this sampler is busy with another call; wait for its end, or make one for each thread"
    }
    assert sampler.counts()["sweeps"] == 300


# ---- signals -------------------------------------------------------------------------


class Alarm(Exception):  # noqa: N818
    """Raised in the middle of something."""


@contextmanager
def alarm(seconds: float) -> Iterator[float]:
    """Rings once; when, by `time.process_time`, which other processes do not stretch."""

    def ring(number: int, frame: object) -> None:
        raise Alarm

    before = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield time.process_time() + seconds
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)


def blocks(n: int, dims: int, **changed: Any) -> Callable[[], Any]:
    """Adding a block, starting from it and running."""
    sampler, rng = native.Gibbs(**settings(dims, **changed)), np.random.default_rng(0)
    t, y = rng.random((n, dims)), rng.standard_normal(n)

    def work() -> None:
        sampler.add_block(t, y)
        sampler.start([*range(dims)], [3] * dims, 0)
        sampler.run(10**6, 1)

    return work


def leaf(work: str) -> Callable[[], Any]:
    """Long work on a leaf of many observations and many points."""
    rng, dims, n, points = np.random.default_rng(0), 20, 5_000, 2_000
    T = rng.random((dims, n)).astype(np.float32)
    rates, mask = np.ones(dims, np.float32), np.zeros(dims, np.bool_)
    inverse, w = np.eye(n, dtype=np.float32), np.zeros(n, np.float32)
    one = native.Walk(
        laplace=True, T=T, cuts=rates, categorical=mask, scale=0.5, rates=rates, share=0.5,
        inverse=inverse, w=w,
    )  # fmt: skip
    P, members, ends = rng.random((points, dims)), np.arange(dims), np.arange(1, dims + 1)
    goal = native.Aim(
        kind="mes", best=0.0, upper_bound=1.0, deviations=2.0, maxima=[1.0] * 1_000, mean=0.0,
        scale=1.0,
    )  # fmt: skip
    singles = P.astype(np.float32)
    codes = rng.integers(0, 3, (dims, points, 100)).astype(np.uint16)
    calls: dict[str, Callable[[], Any]] = {
        "climb": lambda: one.climb(goal, P, members, ends, w),
        "whiten": lambda: native.whiten(T[0] + np.zeros((points, 1), np.float32), inverse, w, w),
        "limit_gram": lambda: native.limit_gram(
            True, singles, T, n, members, ends, rates, mask, 0.5
        ),
        "smooth_gram": lambda: native.smooth_gram(singles, T, n, members, rates, mask, 0.5),
        "collisions": lambda: native.collisions(codes, codes),
        "worth": lambda: goal.worth(np.zeros(10**5), np.ones(10**5)),
    }
    return calls[work]


def endlessly(work: Callable[[], Any]) -> None:
    while True:
        work()


@pytest.mark.parametrize(
    ("make", "seconds", "threads"),
    [
        (lambda: blocks(2_000, 60), 0.05, 1),  # in add_block
        (lambda: blocks(2_000, 20), 1.2, 1),  # in start
        (lambda: blocks(2_000, 8, **tiles(8, 64)), 2.0, 1),  # in run
        (lambda: blocks(2_000, 8, **tiles(8, 64), threads=2), 2.0, 2),
        (lambda: blocks(200, 8, **tiles(8, 64), threads=2), 0.5, 2),
        *(
            (lambda work=work: leaf(work), 0.15, 1)
            for work in ("climb", "whiten", "limit_gram", "smooth_gram", "collisions", "worth")
        ),
    ],
)
def test_long_work_looks_for_signals(make: Callable[[], Any], seconds: float, threads: int) -> None:
    work = make()
    with alarm(seconds) as due, pytest.raises(Alarm):
        endlessly(work)  # what is fast is called again
    assert time.process_time() - due < SOON * threads


def test_a_sampler_goes_on_after_an_interrupt() -> None:
    sampler = started(300, 6, **tiles(6, 64))
    with alarm(0.3), pytest.raises(Alarm):
        sampler.run(10**6, 1)
    z, cuts, _, log_likelihood = sampler.run(2, 1)
    fresh = native.Gibbs(**settings(6, **tiles(6, 64)))
    rng = np.random.default_rng(0)
    fresh.add_block(rng.random((300, 6)), rng.standard_normal(300))
    fresh.start(z[-1].tolist(), cuts[-1].ravel().tolist(), 0)
    assert fresh.log_likelihood() == pytest.approx(log_likelihood[-1], rel=1e-12)


# ---- refusals ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"family": "typo"}, "family is 'typo'; give one of 'tile_coding', .*'laplace'"),
        ({"dims": 0}, "dims is 0; give 1 to"),
        ({"dims": 2**31 - 1}, "dims is 2147483647; give 1 to"),
        ({"dims": 4}, r"categorical has 3 values; give 4"),
        ({"layers": 0}, "layers of a limit kernel is 0; give 1 to 1"),
        ({"max_cuts": 256}, "max_cuts is 256; give 0 to 255"),
        ({"family": "tile_coding"}, r"uniforms has shape \(0,\); give \(3 dimensions, 1 layers\)"),
        ({**tiles(3, 2), "layers": 2**30}, "layers is 1073741824; give 1 to 4194304"),
        ({**tiles(3, 1), "uniforms": np.full((3, 1), np.nan)}, "uniforms has nan at place 0; give"),
        ({"alpha": np.zeros(0)}, r"alpha has shape \(0,\); give \(3 dimensions,\)"),
        ({"alpha": np.array([1.0, 0.0, 1.0])}, "alpha has 0 at place 1; give positive"),
        ({"beta_rate": np.nan}, "beta_rate is nan; give a positive"),
        ({"beta_shape": -1.0}, "beta_shape is -1; give a positive"),
        ({"widths": np.array([1.0, 2.0, 1.0])}, "widths has 2 at place 1; give"),
        ({"noise": np.zeros(0)}, r"noise has shape \(0,\); give \(1 or more variances,\)"),
        ({"noise": np.array([np.inf])}, "noise has inf at place 0; give positive, finite"),
        ({"group_limit": 0}, "group_limit is 0; give 1 to"),
        ({"threads": 0}, "threads is 0; give 1 to 1024"),
        ({"threads": 2**31 - 1}, "threads is 2147483647; give 1 to 1024"),
    ],
)
def test_a_sampler_refuses_wrong_settings(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        native.Gibbs(**settings() | changed)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda s: s.run(2**31, 0), "sweeps is 2147483648; give 1 to"),
        (lambda s: s.run(-1, 0), "sweeps is -1; give 1 to"),
        (lambda s: s.group_likelihoods(3), "d is 3; give 0 to 2"),
        (lambda s: s.group_likelihoods(-1), "d is -1; give 0 to 2"),
        (lambda s: s.cut_likelihoods(0, 1, [1]), "layer is 1; give 0 to 0"),
        (lambda s: s.cut_likelihoods(0, 0, [1] * 9), "how many cuts there are is 9; give 0 to 8"),
        (lambda s: s.cut_likelihoods(0, 0, [13]), "cuts has 13 at place 0; give .* 0 to 12"),
        (lambda s: s.start([0, 1], [0] * 3, 0), "z has 2 labels; give 3"),
        (lambda s: s.start([0, 1, 3], [0] * 3, 0), "z has 3 at place 2; give .* 0 to 2"),
        (lambda s: s.start([0, 1, 2], [0] * 4, 0), "cuts has 4 numbers; give 3"),
        (lambda s: s.start([0, 1, 2], [0, 0, -1], 0), "cuts has -1 at place 2; give .* 0 to 12"),
        (lambda s: s.start([0, 1, 2], [0] * 3, 1), "noise is 1; give 0 to 0"),
    ],
)
def test_a_sampler_refuses_what_is_out_of_range(
    call: Callable[[native.Gibbs], Any], message: str
) -> None:
    sampler = started()
    before = sampler.log_likelihood()
    with pytest.raises(ValueError, match=message):
        call(sampler)
    assert sampler.log_likelihood() == before


@pytest.mark.parametrize(
    ("t", "y", "message"),
    [
        (np.zeros((2, 2)), np.zeros(2), "t has shape (2, 2); give (2 points, 3 dimensions)"),
        (np.zeros((2, 3)), np.zeros(1), "t has shape (2, 3); give (1 points, 3 dimensions)"),
        (np.full((2, 3), np.nan), np.zeros(2), "t has nan at place 0; give points of the unit box"),
        (np.full((2, 3), 1.5), np.zeros(2), "t has 1.5 at place 0; give points of the unit box"),
        (np.zeros((2, 3)), np.array([0.0, np.inf]), "y has inf at place 1; give finite numbers"),
        (np.zeros((2**17, 3)), np.zeros(2**17), "points of the block is 131072; give 0 to 65536"),
    ],
)
def test_a_block_that_does_not_fit_is_refused(t: Any, y: Any, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        native.Gibbs(**settings()).add_block(t, y)


def test_a_block_that_no_memory_could_hold_is_refused() -> None:
    sampler = native.Gibbs(**settings(600))
    with pytest.raises(MemoryError, match=r"65000 points in 600 .* take .* GB, .*; give less"):
        sampler.add_block(np.zeros((65_000, 600)), np.zeros(65_000))


def test_more_categories_than_a_cell_has_codes_are_refused() -> None:
    sampler = native.Gibbs(**settings(1, **tiles(1, 3), categorical=[True]))
    sampler.add_block(np.arange(256)[:, None] / 300, np.zeros(256))
    with pytest.raises(ValueError, match="dimension 0 has 257 categories in one block; give at mo"):
        sampler.add_block(np.arange(257)[:, None] / 300, np.zeros(257))


@pytest.mark.parametrize(
    "call",
    [
        lambda s: s.run(1, 0),
        lambda s: s.log_likelihood(),
        lambda s: s.can_be_rough(),
        lambda s: s.rough_log_likelihood(),
        lambda s: s.group_likelihoods(0),
        lambda s: s.cut_likelihoods(0, 0, [1]),
    ],
)
def test_before_start_there_is_no_state(call: Callable[[native.Gibbs], Any]) -> None:
    sampler = native.Gibbs(**settings())
    sampler.add_block(np.zeros((2, 3)), np.zeros(2))
    with pytest.raises(RuntimeError, match="no state; call start before"):
        call(sampler)


def test_the_order_of_calls() -> None:
    sampler = native.Gibbs(**settings())
    with pytest.raises(RuntimeError, match="no blocks; add one before"):
        sampler.start([0, 1, 2], [0, 0, 0], 0)
    with pytest.raises(RuntimeError, match="has started; add all blocks before"):
        started().add_block(np.zeros((2, 3)), np.zeros(2))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"kind": "typo"}, "kind is 'typo'; give one of 'eta', 'ucb', 'ei', 'pi', 'mes'"),
        ({"best": np.nan}, "best is nan; give a finite number"),
        ({"scale": 0.0}, "scale is 0; give a positive"),
        ({"maxima": [np.inf]}, "maxima has inf at place 0; give finite numbers"),
    ],
)
def test_a_goal_refuses_what_means_nothing(changed: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {
        "kind": "ei", "best": 0.0, "upper_bound": 1.0, "deviations": 2.0, "maxima": [],
        "mean": 0.0, "scale": 1.0,
    }  # fmt: skip
    with pytest.raises(ValueError, match=message):
        native.Aim(**given | changed)
