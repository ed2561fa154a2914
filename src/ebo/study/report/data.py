"""What a report is made from, and what is worked out of it once for all its figures.

==============  ==========  =====================================================================
name            shape       meaning
==============  ==========  =====================================================================
X               (n, D)      points in the user's units, categoricals as the index of the choice
value           (n,)        f, in the user's units; NaN unless done
done            (N,)        rows of the evaluations that have a value, in the order of X
y               (N,)        their values
goodness        (N,)        the same, signed so that more is better
T               (N, D)      where in its range, 0 to 1, a point lies; fixed parameters at 1/2
==============  ==========  =====================================================================
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ebo.arrays import Floats, Ints
from ebo.space.parameters import Categorical, Int, Parameter
from ebo.study.storage import trial
from ebo.study.storage.trial import ENDS, TrialState

if TYPE_CHECKING:
    from ebo.study.study import Study

STATES = tuple(map(str, (*ENDS, TrialState.RUNNING, TrialState.WAITING)))
FAILURES = tuple(map(str, trial.FAILURES))
LARGEST = 1e300  # values beyond are drawn there: the width of an axis must not overflow
RANKED = 5_000  # evaluations that the importance of parameters is worked out from
BINS = 10  # of a parameter's range, for the same


@dataclass(frozen=True, eq=False, kw_only=True)
class ReportData:
    """A study as a report needs it; n evaluations of D parameters.

    ids: (n,), what the study calls its evaluations; row numbers if None.
    state: (n,), each one of `STATES`.
    batch: (n,), -1 for what was imported.
    started, finished: (n,), seconds since 1970, NaN where not known.
    errors: texts by id.
    upper_bound: f*, known or estimated (a lower bound where f is minimised), None if neither.
    certainty: (D, D), how often two parameters were in one group, NaN for fixed ones.
    iterations: dicts with `batch`, `seconds` (by stage), `observations`, `leaves`, `groups`,
        `noise`, `best`, `upper_bound`; what is missing is not drawn.
    settings: told as they are.
    """

    title: str
    direction: str
    names: Sequence[str]
    parameters: Sequence[Parameter]
    X: Floats
    value: Floats
    state: Sequence[str] | NDArray[np.str_]
    batch: Ints
    started: Floats
    finished: Floats
    generated: datetime
    version: str
    ids: Ints | None = None
    errors: Mapping[int, str] = field(default_factory=dict)
    upper_bound: float | None = None
    upper_bound_known: bool = False
    certainty: Floats | None = None
    groups: Sequence[Sequence[str]] = ()
    cuts: Mapping[str, float] = field(default_factory=dict)
    iterations: Sequence[Mapping[str, Any]] = ()
    settings: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.direction not in ("maximize", "minimize"):
            raise ValueError(f"direction is {self.direction!r}; give 'maximize' or 'minimize'")
        n, dims = len(self.value), len(self.names)
        wanted: list[tuple[str, Any, tuple[int, ...]]] = [
            ("parameters", self.parameters, (dims,)),
            ("X", self.X, (n, dims)),
            *((key, getattr(self, key), (n,)) for key in ("state", "batch", "started", "finished")),
        ]
        if self.ids is not None:
            wanted.append(("ids", self.ids, (n,)))
        if self.certainty is not None:
            wanted.append(("certainty", self.certainty, (dims, dims)))
        for name, given, shape in wanted:
            has = np.shape(given) if isinstance(given, np.ndarray) else (len(given),)
            if has != shape:
                raise ValueError(f"{name} has shape {has}, expected {shape}; give the same rows")
        unknown = set(np.unique(np.asarray(self.state, dtype=str)).tolist()) - set(STATES)
        if unknown:
            raise ValueError(f"state {sorted(unknown)[0]!r} is none of {', '.join(STATES)}")


class Facts:
    """A study, and what several figures need of it."""

    def __init__(self, data: ReportData) -> None:
        self.data = data
        self.maximize = data.direction == "maximize"
        self.sign = 1.0 if self.maximize else -1.0
        self.state = np.asarray(data.state, dtype=str)
        self.ids = np.arange(len(self.state)) if data.ids is None else np.asarray(data.ids)
        value = np.asarray(data.value, dtype=np.float64)
        self.done: Ints = np.flatnonzero((self.state == "done") & np.isfinite(value))
        self.y: Floats = np.clip(value[self.done], -LARGEST, LARGEST)
        self.goodness: Floats = self.sign * self.y
        self.free = np.array([p.levels != 1 for p in data.parameters], dtype=bool)

    @cached_property
    def counts(self) -> dict[str, int]:
        """How many evaluations are in each state."""
        return {state: int((self.state == state).sum()) for state in STATES}

    @property
    def failures(self) -> int:
        """Failed, timed out and lost."""
        return sum(self.counts[state] for state in FAILURES)

    @cached_property
    def learned(self) -> int:
        """In how many iterations something was learned: those that tell of noise."""
        return sum(it.get("noise") is not None for it in self.data.iterations)

    @cached_property
    def lengths(self) -> Floats:
        """Seconds that evaluations took, of those that were made here.

        What was made elsewhere and told begins and ends at the moment when it was told.
        """
        lengths = np.asarray(self.data.finished) - np.asarray(self.data.started)
        found: Floats = lengths[np.isfinite(lengths) & (lengths > 0)]
        return found

    @cached_property
    def best(self) -> int:
        """Which of `done` is the best; the first of equals."""
        return int(np.argmax(self.goodness))

    @cached_property
    def best_so_far(self) -> Floats:
        """(N,), after each evaluation in turn."""
        return self.sign * np.maximum.accumulate(self.goodness)

    @cached_property
    def order(self) -> Ints:
        """`done` from the worst to the best: drawn so, the good ones are on top."""
        return np.argsort(self.goodness, kind="stable")

    @cached_property
    def importance(self) -> Floats:
        """(D,), the share of the variance of the values' ranks between bins of one parameter.

        A correlation ratio, so that a peak within the range counts as much as a slope; less what
        chance alone would give. All 0 with too little to tell.
        """
        rows = evenly(len(self.y), RANKED)
        result = np.zeros(len(self.data.names))
        if len(rows) < 2 * BINS or np.ptp(self.goodness[rows]) == 0.0:
            return result
        rank = _ranks(self.goodness[rows])
        rank -= rank.mean()
        total = float(rank @ rank)
        for d in np.flatnonzero(self.free):
            label = _bins(np.asarray(self.data.X)[self.done[rows], d])
            size = np.bincount(label)
            sums = np.bincount(label, weights=rank)
            between = float((sums[size > 0] ** 2 / size[size > 0]).sum()) / total
            groups = int((size > 0).sum())
            if len(rows) > groups:
                chance = (groups - 1) / (len(rows) - 1)
                result[d] = max(0.0, (between - chance) / (1.0 - chance))
        return result

    @cached_property
    def by_importance(self) -> Ints:
        """The free parameters, the most telling first, equals in their own order."""
        free = np.flatnonzero(self.free)
        finest = np.array([self.data.cuts.get(self.data.names[d], 0.0) for d in free.tolist()])
        return free[np.lexsort((free, -finest, -self.importance[free]))]

    def unit(self, d: int, rows: Ints | None = None) -> Floats:
        """Where in the range of parameter d evaluations of `done` lie: a column of T."""
        at = self.done if rows is None else self.done[rows]
        return positions(self.data.parameters[d], np.asarray(self.data.X)[at, d])

    def thinned(self, limit: int) -> Ints:
        """At most `limit` of `done`, worst first: the best, a sixth, and others at random."""
        if len(self.order) <= limit:
            return self.order
        top = self.order[-(limit // 6) :]
        rest = np.sort(self.order[: -(limit // 6)])
        some = rest[np.random.default_rng(0).permutation(len(rest))[: limit - len(top)]]
        return np.concatenate([some[np.argsort(self.goodness[some], kind="stable")], top])


def positions(parameter: Parameter, x: Floats) -> Floats:
    """Where in its range, 0 to 1, a parameter's values lie; whole numbers in their own slots."""
    low, high, log = span(parameter)
    if low == high:
        return np.full(len(x), 0.5)
    if log:
        with np.errstate(divide="ignore", invalid="ignore"):
            t = np.log(x / low) / np.log(high / low)
    else:
        t = (x - low) / (high - low)
    place: Floats = np.clip(np.nan_to_num(t, nan=0.0), 0.0, 1.0)
    return place


def span(parameter: Parameter) -> tuple[float, float, bool]:
    """The ends of a parameter's axis, half a step wider for whole numbers, and if it is log."""
    if isinstance(parameter, Categorical):
        return -0.5, parameter.levels - 0.5, False
    half = 0.5 if isinstance(parameter, Int) and parameter.levels > 1 else 0.0
    return parameter.low - half, parameter.high + half, parameter.log


def evenly(n: int, limit: int) -> Ints:
    """At most `limit` of 0 .. n - 1, evenly, the last among them."""
    if n <= limit:
        return np.arange(n)
    return np.unique(np.linspace(0, n - 1, limit).round().astype(np.int64))


def _ranks(values: Floats) -> Floats:
    """Ranks, equal values sharing theirs."""
    _, inverse, size = np.unique(values, return_inverse=True, return_counts=True)
    middle = np.cumsum(size) - (size - 1) / 2.0
    ranks: Floats = middle[inverse]
    return ranks


def _bins(x: Floats) -> Ints:
    """Few values each their own bin, many in `BINS` with equally many points."""
    distinct, label = np.unique(x, return_inverse=True)
    if len(distinct) <= BINS:
        return label
    edges = np.quantile(x, np.arange(1, BINS) / BINS)
    return np.searchsorted(edges, x, side="right")


def data_of(study: Study) -> ReportData:
    """What a report shows of a study."""
    columns = study.columns()
    optimizer = study.optimizer  # once: a study open to be read makes it anew each time
    learned = optimizer.structure() if optimizer.state.structure is not None else None
    names = np.array([str(state) for state in TrialState], dtype=object)
    bounds = list(study.bounds.values())
    return ReportData(
        title=Path(study.name).stem,
        direction=study.direction,
        names=study.space.names,
        parameters=tuple(study.space.parameters.values()),
        X=columns["X"],
        value=columns["value"],
        state=names[columns["state"]],
        batch=columns["batch"],
        started=columns["started"],
        finished=columns["finished"],
        ids=columns["id"],
        errors=study.storage.errors(),
        upper_bound=bounds[0] if bounds else None,
        upper_bound_known=bool(bounds),
        settings=study.settings.flat(),
        certainty=None if learned is None else learned.certainty,
        groups=() if learned is None else learned.groups,
        cuts={} if learned is None else learned.cuts,
        iterations=[numbers_of(row) for row in study.iterations()],
        generated=datetime.now(),
        version=version("ebo"),
    )


def numbers_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """What an ask told, as far as it is numbers: a file may say anything."""
    seconds = row.get("seconds")
    stages = seconds if isinstance(seconds, Mapping) else {}
    return {
        **{key: value for key, value in row.items() if _is_number(value)},
        "seconds": {str(stage): value for stage, value in stages.items() if _is_number(value)},
    }


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and np.isfinite(value)
