"""Learn which parameters act together, and draw it: a demonstration of the Gibbs sampler.

A random function of 12 parameters is a sum of parts, each of which depends on 1 to 4 of them.
From 600 noisy evaluations at random points the sampler finds the parts; nobody tells it how many
there are. It prints what it found and writes a picture to out/structure.png.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from rich.console import Console
from rich.progress import track

from ebo.bench.additive import sample_values
from ebo.learning.sync import adjusted_rand_index, co_membership, combine_groups
from ebo.problems.additive import random_groups
from ebo.tilegp.box import Box
from ebo.tilegp.gibbs import ChainState, Prior, sample
from ebo.tilegp.kernel import Laplace, members

DIMS, POINTS, SWEEPS = 12, 600, 30


def main() -> None:
    """Run the demonstration."""
    parser = argparse.ArgumentParser(description="Learn the additive structure of a function.")
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder of the picture")
    out = parser.parse_args().out

    rng = np.random.default_rng(0)
    truth = random_groups(DIMS, 4, rng)
    X = rng.random((POINTS, DIMS))
    y = sample_values(X, truth, 0.3, rng, noise=1e-3)

    prior = Prior(noise=np.geomspace(1e-4, 1.0, 25))
    state = ChainState(z=np.arange(DIMS), cuts=np.full(DIMS, 4), noise=1.0)
    chain, trace = [], []
    for _ in track(range(SWEEPS), description="Gibbs sweeps"):
        state, info = sample(
            [(X, y)], Box.unit(DIMS), Laplace(), prior, sweeps=1, rng=rng, start=state, threads=2
        )
        chain.append(state.z)
        trace.append(info.log_likelihood[-1])

    certainty = co_membership(chain[SWEEPS // 2 :])
    z = combine_groups(certainty)
    console = Console()
    console.print(f"true groups     {[group.tolist() for group in members(truth)]}")
    console.print(f"learned groups  {[group.tolist() for group in members(z)]}")
    console.print(f"adjusted Rand index {adjusted_rand_index(z, truth):.2f} (1 is perfect)")
    console.print(f"learned noise variance {state.noise:.2g}, cuts {state.cuts.tolist()}")

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
    order = np.argsort(truth, kind="stable")
    image = left.imshow(certainty[np.ix_(order, order)], vmin=0, vmax=1, cmap="viridis")
    left.set_xticks(range(DIMS), [f"{d}" for d in order])
    left.set_yticks(range(DIMS), [f"{d}" for d in order])
    ends = np.flatnonzero(np.diff(truth[order])) + 0.5
    for edge in ends:
        left.axhline(edge, color="white", linewidth=1)
        left.axvline(edge, color="white", linewidth=1)
    left.set_title("How surely two parameters act together\n(white lines: the true groups)")
    left.set_xlabel("parameter")
    left.set_ylabel("parameter")
    figure.colorbar(image, ax=left)
    right.plot(range(1, SWEEPS + 1), trace, marker=".")
    right.set_title("Log-likelihood of the chain")
    right.set_xlabel("sweep")
    out.mkdir(parents=True, exist_ok=True)
    figure.savefig(out / "structure.png", dpi=120)
    console.print(f"picture: {out / 'structure.png'}")


if __name__ == "__main__":
    main()
