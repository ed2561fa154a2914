"""Chains in the leaves of a partition: one seed, one result, whoever runs them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from ebo.partition import mondrian
from ebo.tilegp.gibbs import ChainState, Info, Prior
from ebo.tilegp.leaves import sample_leaves


def chains(threads: int) -> list[tuple[ChainState, Info]]:
    rng = np.random.default_rng(0)
    T = rng.random((400, 5))
    y = np.sin(6 * T[:, 0]) + T[:, 1] * T[:, 2]
    leaves = mondrian(T, max_leaves=20, leaf_size=60, rng=rng)
    with ThreadPoolExecutor(threads) as pool:
        return sample_leaves(
            T,
            y,
            leaves,
            Prior(noise=np.geomspace(1e-4, 1, 12)),
            layers=20,
            sweeps=3,
            seed=np.random.SeedSequence(7),
            map=pool.map,
        )


def test_threads_give_bit_identical_chains() -> None:
    for (a, info_a), (b, info_b) in zip(chains(1), chains(3), strict=True):
        assert np.array_equal(info_a.z, info_b.z)
        assert np.array_equal(info_a.cuts, info_b.cuts)
        assert np.array_equal(info_a.log_likelihood, info_b.log_likelihood)
        assert a.noise == b.noise


def test_every_leaf_has_a_stream_of_its_own() -> None:
    first = [(*info.z.flat, *info.cuts.flat) for _, info in chains(1)]
    assert len(set(first)) == len(first)


def test_a_leaf_without_points_draws_from_the_prior() -> None:
    T = np.full((30, 2), 0.9)
    leaves = mondrian(T, max_leaves=10, leaf_size=5, rng=np.random.default_rng(1))
    results = sample_leaves(
        T,
        np.ones(30),
        leaves,
        Prior(),
        layers=4,
        sweeps=2,
        seed=np.random.SeedSequence(0),
    )
    empty = [info for leaf, (_, info) in zip(leaves, results, strict=True) if not len(leaf.rows)]
    assert empty
    assert all(np.all(info.log_likelihood == 0.0) for info in empty)
