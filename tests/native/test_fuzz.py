"""Random calls of every entry of the core, most of them wrong: each returns or is refused.

A process of its own makes the calls, so that a crash is its exit status; what it printed last is
the call that it died of. `python -m tests.native.test_fuzz SEED CALLS` makes the same calls again.
"""

from __future__ import annotations

import faulthandler
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ebo import native

ROOT = Path(__file__).parents[2]
MEMORY = 4 << 30  # bytes of a process: what is too large must be refused, not tried
PATIENCE = 0.5  # seconds, after which a call is interrupted
GRACE = 2.5  # in which it must have ended; the sanitizers make all of it slower
REFUSALS = (ValueError, RuntimeError, TypeError, MemoryError)
WHOLE = (0, -1, 1, 9, 255, 256, 2**24, 2**31 - 1, 2**31, -(2**31), 2**40, 2**63 - 1, 2**64, 10**30)
REAL = (0.0, -1.0, np.nan, np.inf, -np.inf, 1e308, -1e308, 5e-324, 2.0**31, 1e30)
JUNK: tuple[Any, ...] = (
    None,
    "typo",
    b"x",
    [],
    {},
    object(),
    1.5,
    True,
    2**70,
    ("a",),
    [None],
    [[1.0], [2.0]],
)
DTYPES = (
    np.float64,
    np.float32,
    np.int64,
    np.int32,
    np.uint16,
    np.bool_,
    np.complex128,
    np.object_,
)

Call = tuple[str, Callable[..., Any], tuple[Any, ...], dict[str, Any]]


class Interrupted(Exception):  # noqa: N818
    """Raised by the alarm."""


class Fuzz:
    """Calls one after the other, on objects that earlier ones made."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.samplers: list[tuple[native.Gibbs, dict[str, Any]]] = []
        self.goals = [native.Aim(**self.goal("ei"))]
        self.leaves: list[tuple[native.Walk, dict[str, Any]]] = []

    def next(self) -> Call:
        """A call, spoiled more often than not."""
        entries = (
            [self.construct, self.collisions, self.limit_gram, self.smooth_gram, self.whiten]
            + [self.make_goal, self.worth, self.make_leaf]
            + 3 * [self.use_leaf]
            + 8 * [self.use_sampler]
        )
        name, function, positional, named = self.one_of(entries)()
        if self.rng.random() < 0.6:
            positional, named = self.spoiled(positional, named)
        return name, function, positional, named

    # ---- valid calls -----------------------------------------------------------------

    def construct(self) -> Call:
        rng, family = self.rng, self.one_of(("tile_coding", "mondrian_grid", "hat", "laplace"))
        dims, limit = self.whole(1, 4), family in ("hat", "laplace")
        layers, cuts = 1 if limit else self.one_of((1, 3, 64, 70)), self.whole(0, 12)
        shape = {"tile_coding": (dims, layers), "mondrian_grid": (dims, cuts, layers)}
        given = {
            "family": family,
            "dims": dims,
            "layers": layers,
            "max_cuts": cuts,
            "uniforms": rng.random(shape.get(family, (0,))),
            "categorical": (rng.random(dims) < 0.2).tolist(),
            "alpha": np.ones(dims),
            "beta_rate": 0.5,
            "beta_shape": 3.0,
            "widths": np.ones(dims),
            "group_limit": self.whole(1, dims),
            "noise": np.geomspace(0.1, 1.0, self.whole(1, 12)),
            "per_layer": not limit and bool(rng.random() < 0.4),
            "threads": self.whole(1, 3),
        }
        if rng.random() < 0.9:  # a right one, to be called in wrong ways
            self.keep(native.Gibbs, self.samplers, given)(**given)
            sampler = self.samplers[-1][0]
            for n in rng.integers(0, 40, self.whole(1, 3)):
                sampler.add_block(rng.random((n, dims)), rng.standard_normal(n))
            if rng.random() < 0.9:
                layers = given["layers"] if given["per_layer"] else 1
                sampler.start([*range(dims)], [0] * dims * layers, 0)
        keep = rng.random() < 0.3
        make = self.keep(native.Gibbs, self.samplers, given) if keep else native.Gibbs
        return "Gibbs", make, (), given

    def use_sampler(self) -> Call:
        if not self.samplers:
            return self.construct()
        sampler, about = self.samplers[self.rng.integers(len(self.samplers))]
        rng, dims, most = self.rng, about["dims"], about["max_cuts"]
        layers = about["layers"] if about["per_layer"] else 1
        n = self.one_of((0, 1, 2, 5, 9, 30, 230))
        cuts = rng.integers(0, most + 1, self.whole(0, 8)).tolist()
        start = (list(range(dims)), rng.integers(0, most + 1, dims * layers).tolist(), 0)
        d = self.whole(0, dims - 1)
        name, arguments = self.one_of(
            (
                ("add_block", (rng.random((n, dims)), rng.standard_normal(n))),
                ("add_block", (rng.random((n, dims)), rng.standard_normal(n))),
                ("start", start),
                ("start", start),
                ("run", (self.whole(1, 4), self.whole(0, 99), bool(rng.random() < 0.5))),
                ("log_likelihood", ()),
                ("can_be_rough", ()),
                ("rough_log_likelihood", ()),
                ("group_likelihoods", (d, bool(rng.random() < 0.5))),
                ("cut_likelihoods", (d, self.whole(0, layers - 1), cuts, False)),
                ("counts", ()),
                ("twice", ()),
                ("__init__", ()),
                ("__new__", ()),
            )
        )
        if name == "twice":
            return "twice", partial(at_once, sampler, start), (), {}
        if name == "__init__":  # a second time
            return "Gibbs.__init__", sampler.__init__, (), about  # type: ignore[misc]
        if name == "__new__":
            return "Gibbs.__new__", unmade, (), {}
        return f"Gibbs.{name}", getattr(sampler, name), arguments, {}

    def collisions(self) -> Call:
        dims, n, n2, layers = self.whole(1, 3), self.whole(0, 6), self.whole(0, 6), self.whole(1, 9)
        a, b = (self.rng.integers(0, 3, (dims, k, layers)).astype(np.uint16) for k in (n, n2))
        return "collisions", native.collisions, (a, b), {}

    def limit_gram(self) -> Call:
        P, T, dims = self.points()
        members, ends = self.groups(dims)
        given = {"laplace": True, "P": P, "T": T, "columns": self.whole(0, T.shape[1])}
        given |= {"members": members, "ends": ends, **self.rates("cuts", dims), "scale": 0.5}
        return "limit_gram", native.limit_gram, (), given

    def smooth_gram(self) -> Call:
        P, T, dims = self.points()
        given = {"P": P, "T": T, "columns": self.whole(0, T.shape[1])}
        given |= {"group": self.groups(dims)[0], **self.rates("rates", dims), "scale": 0.5}
        return "smooth_gram", native.smooth_gram, (), given

    def whiten(self) -> Call:
        n, points = self.whole(0, 20), self.whole(0, 60)
        arrays = self.singles(points, n), self.singles(n + 1, n), self.singles(n), self.singles(n)
        return "whiten", native.whiten, arrays, {}

    def make_goal(self) -> Call:
        given = self.goal(self.one_of(("eta", "ucb", "ei", "pi", "mes")))
        return "Aim", self.keep(native.Aim, self.goals, None), (), given

    def worth(self) -> Call:
        mean = self.rng.standard_normal(self.whole(0, 9))
        return "Aim.worth", self.one_of(self.goals).worth, (mean, np.ones_like(mean)), {}

    def make_leaf(self) -> Call:
        dims, n = self.whole(1, 4), self.whole(0, 20)
        given = {"laplace": True, "T": self.singles(dims, n), **self.rates("cuts", dims)}
        given |= {"scale": 0.5, "rates": self.singles(self.one_of((0, dims))), "share": 0.5}
        given |= {"inverse": self.singles(n, n), "w": self.singles(n)}
        return "Walk", self.keep(native.Walk, self.leaves, given), (), given

    def use_leaf(self) -> Call:
        if not self.leaves:
            return self.make_leaf()
        leaf, about = self.leaves[self.rng.integers(len(self.leaves))]
        dims, most = about["T"].shape
        P = self.rng.random((self.whole(1, 60), dims))
        (members, ends), base = self.groups(dims), self.singles(self.whole(0, most))
        if self.rng.random() < 0.5:
            return "Walk.vary", leaf.vary, (P, members, base), {}
        return "Walk.climb", leaf.climb, (self.one_of(self.goals), P, members, ends, base), {}

    # ---- what they are made of -------------------------------------------------------

    def one_of(self, values: Sequence[Any]) -> Any:
        return values[int(self.rng.integers(len(values)))]

    def whole(self, least: int, most: int) -> int:
        return int(self.rng.integers(least, most + 1))

    def singles(self, *shape: int) -> Any:
        return self.rng.random(shape).astype(np.float32)

    def points(self) -> tuple[Any, Any, int]:
        dims = self.whole(1, 4)
        return self.singles(self.whole(1, 9), dims), self.singles(dims, self.whole(0, 20)), dims

    def rates(self, name: str, dims: int) -> dict[str, Any]:
        return {name: self.singles(dims), "categorical": self.rng.random(dims) < 0.2}

    def groups(self, dims: int) -> tuple[Any, Any]:
        members = self.rng.permutation(dims)[: self.whole(0, dims)]
        return members, np.sort(self.rng.integers(0, len(members) + 1, self.whole(0, 3)))

    def goal(self, kind: str) -> dict[str, Any]:
        given = {"kind": kind, "best": 0.3, "upper_bound": 1.0, "deviations": 2.0}
        return given | {"maxima": [0.5, 1.5], "mean": 0.1, "scale": 1.2}

    def keep(self, make: Any, where: list[Any], about: Any) -> Callable[..., Any]:
        """Make an object, and remember some of them."""

        def made(*positional: Any, **named: Any) -> None:
            one = make(*positional, **named)
            where.append(one if about is None else (one, {**about, **named}))
            if len(where) > 6:
                del where[self.rng.integers(len(where) - 1)]

        return made

    # ---- wrong calls -----------------------------------------------------------------

    def spoiled(self, positional: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """One or two arguments are changed, or one is left out, or there is one too many."""
        values, names = [*positional], dict(named)
        keys: list[Any] = [*range(len(values)), *names]
        for _ in range(self.whole(1, 2)):
            if not keys or self.rng.random() < 0.03:
                return (*values, self.one_of(JUNK)), names
            key = self.one_of(keys)
            where: Any = values if isinstance(key, int) else names
            where[key] = self.wrong(where[key])
        if names and self.rng.random() < 0.03:
            names.pop(self.one_of([*names]))
        return tuple(values), names

    def wrong(self, value: Any) -> Any:
        if self.rng.random() < 0.08:
            return self.one_of(JUNK)
        if isinstance(value, np.ndarray):
            return self.wrong_array(value)
        if isinstance(value, list):
            return self.wrong_list(value)
        if isinstance(value, float):
            return self.one_of(REAL)
        if isinstance(value, int) and not isinstance(value, bool):
            return self.one_of((*WHOLE, value + 1, value - 1))
        return self.one_of(JUNK)

    def wrong_list(self, value: list[Any]) -> Any:
        kind = self.whole(0, 3)
        if kind == 0 or not value:
            return value[:-1] if self.rng.random() < 0.5 else []
        if kind == 1:
            return value * self.one_of((2, 3, 100))
        changed = [*value]
        changed[self.rng.integers(len(value))] = self.one_of(WHOLE if kind == 2 else REAL)
        return changed

    def wrong_array(self, value: Any) -> Any:
        if max(value.shape, default=0) > 10_000:  # nothing, but very much of it, already
            return value.ravel()
        kind = self.whole(0, 9)
        if kind < 4 and value.size:  # some of its values
            pool = REAL if value.dtype.kind == "f" else (-1, 1, 7, 2**31, 2**62, -(2**63), 65535)
            changed = value.copy()
            with np.errstate(all="ignore"), suppress(OverflowError):
                changed.flat[self.rng.integers(value.size, size=self.whole(1, 2))] = self.one_of(
                    pool
                )
            return changed
        if kind == 4:  # its type
            return np.ones(value.shape, self.one_of(DTYPES))
        if kind == 5:  # its layout
            return self.one_of((value.T, value[::-1], np.asfortranarray(value), value[..., ::2]))
        if kind == 6:  # its number of axes
            return self.one_of((value.ravel(), value[None], value[..., None], value.sum()))
        if kind == 7:  # nothing, but very much of it
            shape = [self.one_of((0, 1, 2**18, 2**26)) for _ in value.shape]
            return np.zeros([0, *shape[1:]] if 0 not in shape else shape, value.dtype)
        axis = self.whole(0, max(0, value.ndim - 1))  # its length
        length = value.shape[axis] if value.ndim else 0
        places = self.one_of(([], range(length - 1), [*range(length), *([0] if length else [])]))
        return np.ascontiguousarray(value.take(np.array([*places], dtype=np.int64), axis=axis))


def at_once(sampler: native.Gibbs, start: Any) -> None:
    """Two threads with one object: one of them may be refused."""

    def other() -> None:
        with suppress(*REFUSALS):
            sampler.run(3, 0)

    thread = threading.Thread(target=other)
    thread.start()
    try:
        for _ in range(20):
            with suppress(*REFUSALS):
                sampler.start(*start)
            with suppress(*REFUSALS):
                sampler.group_likelihoods(0)
    finally:
        thread.join()


def unmade() -> None:
    native.Gibbs.__new__(native.Gibbs).log_likelihood()


def alarm(number: int, frame: object) -> None:
    raise Interrupted


def main(seed: int, calls: int, memory: int = MEMORY) -> None:
    """Make the calls; say which is next, and in the end how many of each were refused."""
    faulthandler.enable()
    faulthandler.dump_traceback_later(120, exit=True)
    if memory:
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    signal.signal(signal.SIGALRM, alarm)
    fuzz = Fuzz(seed)
    counts: dict[str, list[int]] = {}
    for number in range(calls):
        name, function, positional, named = fuzz.next()
        with np.printoptions(threshold=20, edgeitems=2):
            print(f"{number} {name} {positional} {named}"[:2000].replace("\n", " "), flush=True)
        count = counts.setdefault(name, [0, 0])
        faulthandler.dump_traceback_later(PATIENCE + GRACE, exit=True)
        try:
            signal.setitimer(signal.ITIMER_REAL, PATIENCE)
            function(*positional, **named)
            signal.setitimer(signal.ITIMER_REAL, 0.0)
            count[0] += 1
        except REFUSALS as refusal:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
            message = str(refusal).split("Invoked")[0]
            count[1] += 1
            if len(message) < 10 or "std::" in message:
                raise AssertionError(f"{name} says only: {message}") from refusal
        except Interrupted:
            pass
        faulthandler.cancel_dump_traceback_later()
    print("done", counts)


def fuzz(seed: int, calls: int) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.native.test_fuzz", str(seed), str(calls)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=600,
    )
    lines = done.stdout.splitlines()
    assert done.returncode == 0, f"seed {seed}: {lines[-1:]} {done.stderr[-3000:]}"
    assert lines[-1].startswith("done"), lines[-1]
    counts: dict[str, list[int]] = eval(lines[-1].removeprefix("done"))
    assert len(counts) > 20, counts
    for name, (fine, refused) in counts.items():  # all in both ways, if there are enough
        assert fine or calls < 1_000 or name in ("Gibbs.__init__", "Gibbs.__new__"), counts
        assert refused or calls < 1_000, counts


@pytest.mark.parametrize("seed", [0, 1])
def test_malformed_calls_are_refused(seed: int) -> None:
    fuzz(seed, 400)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 110))
def test_thousands_of_malformed_calls_are_refused(seed: int) -> None:
    fuzz(seed, 1_000)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
