"""How the optimiser works: every choice it has, with the paper's symbol where it has one."""

from __future__ import annotations

from dataclasses import dataclass, fields
from numbers import Integral, Real
from typing import Any

from ebo.acquisition import ACQUISITIONS
from ebo.checks import check_count

KERNELS = ("tile-coding", "mondrian-grid", "hat", "laplace")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The default preset; `Settings.paper()` is Alg. 1 as printed.

    Partition (Alg. 3):
        max_leaves: N_p, most leaves.
        leaf_size: S; a leaf with at most so many observations is not cut. A cap, not a minimum;
            but where pooled, a model knows of others outside if need be: of the nearest, so many in
            all, with a smooth part; without, of some of the best, fewer if half is not additive.
            Where pooled, for batches of more than S / 2 it is two batches, up to 2 S.
        overlap: ε; a leaf also sees the observations within ε of its box (a part of the range).
        fixed_partition: draw one partition and keep it (the paper's baseline PBO).
    Model (Alg. 2):
        kernel: "tile-coding" or "mondrian-grid" with `layers` layers; or what they tend to for
            infinitely many, "hat" and "laplace" (the latter with Poisson cuts on each layer).
        layers: L, of the kernels that have layers.
        alpha: α, Dirichlet prior of the groups.
        beta: (β₀, β₁), rate and shape of the Gamma prior of a dimension's number of cuts.
        group_limit: most dimensions in a group; None for no limit.
        noise: noise variance σ² in parts of the variance of a leaf's values; None to learn it.
        per_layer: a number of cuts for every layer, or one for all layers of a dimension.
    Learning (Section 3.2):
        sweeps: Gibbs sweeps over all dimensions an iteration; 0 to keep the structure of the state
            that the optimiser was restored from (where none was: every dimension by itself).
        pooled: one z and k, learned from blocks of observations together; or each leaf its own.
        block_size: most observations of a block, where pooled.
        learn_from: most observations that all blocks have together, where pooled. Both without the
            block of probes, which has up to one and a half times `block_size`.
        smooth: where pooled, a part of the kernel that takes all dimensions together, for what is
            not additive; its share and its lengths are fitted around the best observation.
        probes: for each dimension (60 at most), so many evaluations to tell which dimensions act
            together: half of a batch, once there are four times as many observations, in iterations
            without the smooth part; where pooled, and there are sweeps and groups.
    Search (Section 3.3, appendix on budget allocation):
        acquisition: "eta", "ucb", "ei", "pi", "mes" or "mes-gumbel".
        deviations: c of the upper confidence bound μ + c σ.
        block_samples: points whose blocks are tried for each group.
        passes: times that every group has its turn. Where `greedy`: every group that is to move,
            and twice as often as long as all observations fit into one leaf.
        greedy: candidates of a leaf one after the other, each from a good observation and knowing
            of those before; or all at once by combining the best blocks, and random ones.
        apart: share of the candidates that start at the best observation of some region, the others
            at one of the best of all; where `greedy`.
        crossed: share of the candidates that try blocks of other observations; where `greedy`.
        leaping: most of the candidates, a share, that first move along a difference of two good
            observations: so many where all is smooth, none where half is additive; where `greedy`.
        polish: most of the batch, a share, that goes to where the best observation is, once much
            is known there: so many where all is smooth, none where half is additive; where pooled.
        candidates: how many times the batch size all leaves together propose.
        pay_by_rank: leaves propose in number by the rank of their best value, few leaves most; or
            by their volume and best value, as in the appendix.
    """

    max_leaves: int = 1000
    leaf_size: int = 500
    overlap: float = 0.0
    fixed_partition: bool = False

    kernel: str = "laplace"
    layers: int = 64
    alpha: float = 1.0
    beta: tuple[float, float] = (0.5, 3.0)
    group_limit: int | None = 8
    noise: float | None = None
    per_layer: bool = False

    sweeps: int = 1
    pooled: bool = True
    block_size: int = 200
    learn_from: int = 1000
    smooth: bool = True
    probes: float = 5.0

    acquisition: str = "ei"
    deviations: float = 2.0
    block_samples: int = 40
    passes: int = 2
    greedy: bool = True
    apart: float = 0.25
    crossed: float = 0.2
    leaping: float = 0.5
    polish: float = 0.3
    candidates: float = 2.0
    pay_by_rank: bool = True

    @classmethod
    def paper(cls, **changes: Any) -> Settings:
        """Alg. 1 as printed: per-leaf Gibbs on tile coding, η, the appendix's heuristics.

        Numbers are those of the rover experiment. All layers of a dimension have one number of
        cuts, as Section 3.4 speaks of them; `per_layer=True` is Section 3.2 to the letter and about
        `layers` times dearer. Keyword arguments change single settings.
        """
        preset: dict[str, Any] = {
            "max_leaves": 1000,
            "leaf_size": 100,
            "kernel": "tile-coding",
            "layers": 100,
            "beta": (2.0, 5.0),
            "group_limit": None,
            "noise": 1e-2,
            "sweeps": 10,
            "pooled": False,
            "smooth": False,
            "probes": 0.0,
            "acquisition": "eta",
            "block_samples": 1000,
            "passes": 1,
            "greedy": False,
            "candidates": 2.0,
            "pay_by_rank": False,
        }
        return cls(**{**preset, **changes})

    def __post_init__(self) -> None:
        whole = "max_leaves", "leaf_size", "layers", "block_size", "learn_from"
        for name in (*whole, "block_samples", "passes"):
            check_count(name, getattr(self, name), 1)
        check_count("sweeps", self.sweeps, 0)
        for name in ("fixed_partition", "per_layer", "pooled", "smooth", "greedy", "pay_by_rank"):
            if not isinstance(getattr(self, name), bool):
                raise ValueError(f"{name} is {getattr(self, name)!r}; give True or False")
        _choice("kernel", self.kernel, KERNELS)
        _choice("acquisition", self.acquisition, tuple(ACQUISITIONS))
        _number("overlap", self.overlap, 0.0, 1.0)
        _number("alpha", self.alpha, 1e-9, 1e9)
        _number("deviations", self.deviations, 0.0, 1e6)
        _number("candidates", self.candidates, 1.0, 1000.0)
        _number("probes", self.probes, 0.0, 1000.0)
        _number("apart", self.apart, 0.0, 1.0)
        _number("crossed", self.crossed, 0.0, 1.0)
        _number("leaping", self.leaping, 0.0, 1.0)
        _number("polish", self.polish, 0.0, 1.0)
        if self.noise is not None:
            _number("noise", self.noise, 1e-8, 1e6)
        if not isinstance(self.beta, tuple) or len(self.beta) != 2:
            raise ValueError(f"beta is {self.beta!r}; give a pair of positive numbers")
        for value in self.beta:
            _number("beta", value, 1e-9, 1e9)
        limit = self.group_limit
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, Integral)):
            raise ValueError(f"group_limit is {limit!r}; give a whole number, or None for no limit")
        if limit is not None and limit < 1:
            raise ValueError(f"group_limit is {limit}; give at least 1, or None for no limit")
        if self.per_layer and self.kernel in ("hat", "laplace"):
            raise ValueError(
                f"per_layer needs layers, and the kernel {self.kernel!r} is a limit without any; "
                f"choose 'tile-coding' or 'mondrian-grid'"
            )

    def as_dict(self) -> dict[str, Any]:
        """All settings by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def _choice(name: str, value: object, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ValueError(f"{name} is {value!r}; choose one of {', '.join(allowed)}")


def _number(name: str, value: object, low: float, high: float) -> None:
    if isinstance(value, bool) or not isinstance(value, Real) or not low <= float(value) <= high:
        raise ValueError(f"{name} is {value!r}; give a number from {low:g} to {high:g}")
