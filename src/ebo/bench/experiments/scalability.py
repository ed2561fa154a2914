"""`ebo bench scalability`: time of Gibbs sampling against observations and cores, beside SKL.

Section 4.1 and Fig. 4 of the paper: ten sweeps on a fully additive function of 20 dimensions.

EBO   z and cuts in every leaf of a Mondrian partition, at most 1,000 leaves, which are cut as long
      as they hold more than 100 observations; on all cores.
SKL   z with one dense kernel on all observations; one thread, since its sampler is sequential. Its
      cost is cubic, so it ends at 1,500 observations, or where the next size would take longer
      than the time limit.

Both are the same native code with other blocks (`bench/gibbs.py`): the ratio is that of the
partition and the cores alone. The paper's, more than 390, is of 240 cores and of two programs.

The Rand index is the share of pairs of dimensions on which learned and true groups agree. Every
dimension being a group of its own here, any fine grouping has a high one. EBO has two: of the z
that its leaves agree on, and the mean over the leaves of their own. So have draws from the prior,
told beside: what they agree on is that no two dimensions belong together, which happens to be
right. The adjusted index is one where z is exactly right here, else zero.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from ebo.bench import gibbs
from ebo.bench.experiments.base import Claim, Notes, Result, Rows
from ebo.bench.experiments.scalability_figure import figures
from ebo.learning.sync import adjusted_rand_index, co_membership, combine_groups, rand_index
from ebo.tilegp.box import Box
from ebo.tilegp.features import TileCoding

__all__ = ["SCALES", "claims", "figures", "run", "tables"]

TRUTH = np.arange(gibbs.DIMS)
PAPER_SIZE, PAPER_RATIO, PAPER_RAND, PAPER_SKL_RAND = 1_500, 390.0, 0.968, 0.963
PAPER_EFFICIENCY = 20.0 / 24.0  # 240 cores were almost 20 times as fast as 10
SIMILAR = 0.01  # of a Rand index
MINUTES = 5.0  # "within minutes"
PRIOR_DRAWS = 200
LONG = 10_000  # observations beyond which one round is enough: it sees all moods of the machine


@dataclass(frozen=True)
class Scale:
    """Numbers of observations, rounds of which the fastest counts, and SKL's limit in seconds."""

    seeds: int
    sizes: tuple[int, ...]
    skl_sizes: tuple[int, ...]
    core_size: int
    rounds: int
    time_limit: float


SIZES = (100, 200, 500, 1_000, 1_500, 2_000, 5_000, 10_000, 20_000, 50_000)
SKL_SIZES = (100, 200, 500, 1_000, 1_500)
SCALES = {
    "smoke": Scale(1, (100, 300, 600), (100, 300), 600, 2, 5.0),
    "small": Scale(1, SIZES, SKL_SIZES, 5_000, 3, 240.0),
    "paper": Scale(5, SIZES, SKL_SIZES, 30_000, 5, 3_600.0),
}


def run(scale: Scale, seeds: int, notes: Notes) -> Result:
    """EBO and SKL at every size, and EBO by the number of cores."""
    import scipy.linalg  # noqa: F401  its threads must be there to be limited

    cores = os.cpu_count() or 1
    ebo: Rows = []
    skl: Rows = []
    speed: Rows = []
    with threadpool_limits(1):  # threads are those of the leaves
        for seed in range(seeds):
            for n in scale.sizes:
                rounds = scale.rounds if n <= LONG else 1
                key = {"EBO": n, "seed": seed, "cores": cores, "rounds": rounds}
                ebo.append(notes.part(key, partial(in_leaves, n, seed, cores, rounds)))
            key = {"by cores": scale.core_size, "seed": seed, "cores": cores}
            job = partial(by_cores, scale.core_size, seed, cores, scale.rounds)
            speed += notes.part({**key, "rounds": scale.rounds}, job)
            before: dict[str, Any] | None = None
            for n in scale.skl_sizes:
                if before is not None and expected(before, n) > scale.time_limit:
                    break
                before = notes.part({"SKL": n, "seed": seed}, partial(dense, n, seed))
                skl.append(before)
    return {
        "cores": cores,
        "dims": gibbs.DIMS,
        "seeds": seeds,
        "time_limit": scale.time_limit,
        "ebo": averages(ebo, "n"),
        "skl": averages(skl, "n"),
        "speed": averages(speed, "threads"),
        **prior_rand(),
    }


def core_counts(cores: int) -> list[int]:
    """1, 2, 4, … and all."""
    return sorted({*(2**i for i in range(cores.bit_length()) if 2**i <= cores), cores})


def expected(before: dict[str, Any], n: int) -> float:
    """Seconds at n, from those at a smaller size: the cost is cubic."""
    return float(before["seconds"] * (n / before["n"]) ** 3)


def in_leaves(n: int, seed: int, threads: int, rounds: int) -> dict[str, Any]:
    """Seconds of ten sweeps in all leaves, the fastest round, and how good z is."""
    T, y, leaves = gibbs.workload(n, seed)
    timed = [gibbs.timed(gibbs.in_leaves, T, y, leaves, seed, threads) for _ in range(rounds)]
    chains = timed[0][1]  # the same in every round
    combined = combine_groups(co_membership([state.z for state, _ in chains]))
    return {
        "n": n,
        "leaves": len(leaves),
        "seconds": min(seconds for seconds, _ in timed),
        "rand": rand_index(combined, TRUTH),
        "adjusted_rand": adjusted_rand_index(combined, TRUTH),
        "leaf_rand": float(np.mean([rand_index(state.z, TRUTH) for state, _ in chains])),
    }


def by_cores(n: int, seed: int, cores: int, rounds: int) -> Rows:
    """Seconds by the number of threads, which take turns: a ratio of what was at the same time."""
    T, y, leaves = gibbs.workload(n, seed)
    seconds = dict.fromkeys(core_counts(cores), np.inf)
    for _ in range(rounds):
        for threads, before in seconds.items():
            now = gibbs.timed(gibbs.in_leaves, T, y, leaves, seed, threads)[0]
            seconds[threads] = min(before, now)
    return [{"threads": threads, "n": n, "seconds": least} for threads, least in seconds.items()]


def dense(n: int, seed: int) -> dict[str, Any]:
    """The same by SKL."""
    T, y, _ = gibbs.workload(n, seed)
    seconds, (state, _) = gibbs.timed(gibbs.without_partition, T, y, seed, 1)
    return {
        "n": n,
        "seconds": seconds,
        "rand": rand_index(state.z, TRUTH),
        "adjusted_rand": adjusted_rand_index(state.z, TRUTH),
    }


def prior_rand() -> dict[str, float]:
    """Rand index without any data: the mean of draws from the prior, and of the draws combined."""
    rng = np.random.default_rng(0)
    kernel, box = TileCoding.draw(gibbs.DIMS, 1, rng), Box.unit(gibbs.DIMS)
    draws = [gibbs.PRIOR.draw(box, kernel, rng).z for _ in range(PRIOR_DRAWS)]
    return {
        "prior_rand": float(np.mean([rand_index(z, TRUTH) for z in draws])),
        "combined_prior_rand": rand_index(combine_groups(co_membership(draws)), TRUTH),
    }


def averages(rows: Rows, by: str) -> Rows:
    """Means over the seeds, a row for every value of one column, in its order."""
    values = sorted({row[by] for row in rows})
    return [
        {
            key: same[0][key] if key == by else float(np.mean([row[key] for row in same]))
            for key in same[0]
        }
        for same in ([row for row in rows if row[by] == value] for value in values)
    ]


def tables(result: Result) -> dict[str, Rows]:
    """Times and Rand indices by N; times by cores."""
    skl = {row["n"]: row for row in result["skl"]}
    sizes: Rows = []
    quality: Rows = []
    for row in result["ebo"]:
        other = skl.get(row["n"], {})
        sizes.append(
            {
                "N": row["n"],
                "leaves": row["leaves"],
                "EBO seconds": row["seconds"],
                "SKL seconds": other.get("seconds"),
                "ratio": other["seconds"] / row["seconds"] if other else None,
            }
        )
        quality.append(
            {
                "N": row["n"],
                "EBO": row["rand"],
                "its leaves": row["leaf_rand"],
                "SKL": other.get("rand"),
                "EBO adjusted": row["adjusted_rand"],
                "SKL adjusted": other.get("adjusted_rand"),
            }
        )
    alone = result["speed"][0]["seconds"]
    cores: Rows = [
        {"cores": row["threads"], "seconds": row["seconds"], "speed-up": alone / row["seconds"]}
        for row in result["speed"]
    ]
    return {
        f"Ten sweeps in {result['dims']} dimensions, EBO on {result['cores']} cores": sizes,
        f"Rand index; of a draw from the prior {result['prior_rand']:.3f}": quality,
        f"EBO by cores, N = {int(result['speed'][0]['n']):,}": cores,
    }


def claims(result: Result) -> list[Claim]:
    """The paper's numbers beside those found."""
    ebo = {row["n"]: row for row in result["ebo"]}
    largest = result["skl"][-1]  # the last that SKL finished
    beside, most = ebo[largest["n"]], result["ebo"][-1]
    ratio, reached = largest["seconds"] / beside["seconds"], largest["n"] >= PAPER_SIZE
    where = f"at N = {largest['n']:,}"
    alone, together = result["speed"][0], result["speed"][-1]
    speed_up, cores = alone["seconds"] / together["seconds"], together["threads"]
    return [
        Claim(
            f"EBO {PAPER_RATIO:.0f} times faster than SKL at N = {PAPER_SIZE:,} (240 cores)",
            f"{ratio:.3g} times {where} on {result['cores']} cores: {beside['seconds']:.3g} s and "
            f"{largest['seconds']:.3g} s",
            reached and ratio >= PAPER_RATIO,
        ),
        Claim(
            f"Rand indices of EBO and SKL are similar ({PAPER_RAND:.1%}, {PAPER_SKL_RAND:.1%})",
            f"{beside['rand']:.1%} (mean of a leaf's own {beside['leaf_rand']:.1%}) and "
            f"{largest['rand']:.1%} {where}; without any data {result['combined_prior_rand']:.1%} "
            f"({result['prior_rand']:.1%})",
            beside["rand"] >= largest["rand"] - SIMILAR,
        ),
        Claim(
            "More cores make EBO faster almost in proportion (240 beside 10: nearly 20 times)",
            f"{cores:.0f} beside 1: {speed_up:.2f} times",
            cores > 1 and speed_up / cores >= PAPER_EFFICIENCY,
        ),
        Claim(
            "Tens of thousands of observations within minutes",
            f"N = {most['n']:,}: {most['seconds']:.3g} s",
            most["n"] >= 20_000 and most["seconds"] <= 60.0 * MINUTES,
        ),
    ]
