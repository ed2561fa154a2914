"""Acquisition functions, against their definitions by numerical integration."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import integrate, optimize, special, stats

from ebo import acquisition
from ebo.acquisition import (
    ACQUISITIONS,
    Acquisition,
    Aim,
    Goal,
    Worth,
    entropy,
    eta,
    gumbel_maxima,
    log_improvement,
    log_probability,
    register,
    sampled_maxima,
    upper_confidence,
)
from ebo.arrays import Floats

GOAL = Goal(best=0.7, upper_bound=1.9, maxima=np.array([0.9, 1.4, 2.5]), deviations=1.5)


def points(count: int, seed: int) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(seed)
    return rng.normal(0.0, 1.5, count), np.exp(rng.uniform(-1.5, 1.0, count))


def naive_improvement(mean: float, sd: float, best: float) -> float:
    """E max(0, f - best)."""
    top = max(best, mean) + 12.0 * sd
    value, _ = integrate.quad(
        lambda f: (f - best) * stats.norm.pdf(f, mean, sd), best, top, epsabs=0, limit=200
    )
    return float(value)


def naive_log_h(u: float) -> float:
    """log ∫ s φ(s - u) ds over s > 0, with φ(u) and 1/u² taken out: well conditioned for u < 0."""
    t = -u
    value, _ = integrate.quad(
        lambda r: r * math.exp(-r - 0.5 * (r / t) ** 2), 0.0, 60.0, epsabs=0, epsrel=1e-12
    )
    return -0.5 * u * u - 0.5 * math.log(2.0 * math.pi) - 2.0 * math.log(t) + math.log(value)


def log_h(u: Floats) -> Floats:
    """log(φ(u) + u Φ(u)): the improvement on a best of 0 with a deviation of 1."""
    return log_improvement(u, np.ones_like(u), Goal(0.0, 1.0))


def naive_information(mean: float, sd: float, maximum: float) -> float:
    """Entropy of f, less the entropy of f known to be below the maximum."""
    whole = float(stats.norm.entropy(mean, sd))
    log_share = float(stats.norm.logcdf(maximum, mean, sd))

    def integrand(f: float) -> float:
        log_density = float(stats.norm.logpdf(f, mean, sd)) - log_share
        return -math.exp(log_density) * log_density

    low = min(mean, maximum) - 12.0 * sd
    cut, _ = integrate.quad(integrand, low, min(maximum, mean + 12.0 * sd), limit=200)
    return whole - float(cut)


def test_eta_and_upper_confidence() -> None:
    mean, sd = points(20, 0)
    expected = [-(GOAL.upper_bound - m) / s for m, s in zip(mean, sd, strict=True)]
    np.testing.assert_allclose(eta(mean, sd, GOAL), expected)
    expected = [m + 1.5 * s for m, s in zip(mean, sd, strict=True)]
    np.testing.assert_allclose(upper_confidence(mean, sd, GOAL), expected)


def test_improvement_and_its_probability() -> None:
    mean, sd = points(20, 1)
    expected = [naive_improvement(m, s, GOAL.best) for m, s in zip(mean, sd, strict=True)]
    np.testing.assert_allclose(np.exp(log_improvement(mean, sd, GOAL)), expected, rtol=1e-7)
    expected = [stats.norm.sf(GOAL.best, m, s) for m, s in zip(mean, sd, strict=True)]
    np.testing.assert_allclose(np.exp(log_probability(mean, sd, GOAL)), expected, rtol=1e-10)


@pytest.mark.parametrize("u", [-0.5, -4.9, -5.1, -9.0, -30.0, -300.0, -2000.0, -1e4, -1e6])
def test_log_improvement_in_the_tail(u: float) -> None:
    assert float(log_h(np.array(u))) == pytest.approx(naive_log_h(u), rel=1e-13, abs=1e-12)


@pytest.mark.parametrize("u", [-40.0, -10.0, -5.1, -4.9, -1.0, -1e-9, 1e-9, 1.0, 5.0, 9.0, 30.0])
def test_log_probability_in_both_tails(u: float) -> None:
    value = log_probability(np.array([u]), np.ones(1), Goal(0.0, 1.0))[0]
    assert value == pytest.approx(float(special.log_ndtr(u)), rel=1e-13)


def test_log_improvement_rises_everywhere() -> None:
    u = np.concatenate([-np.geomspace(1e9, 1e-3, 4000), np.geomspace(1e-3, 1e9, 4000)])
    assert (np.diff(log_h(u)) > 0).all()


@pytest.mark.parametrize("function", [log_improvement, log_probability, entropy])
def test_no_step_where_the_formulas_meet(function: Worth) -> None:
    for middle in (-5.0, 0.0, 5.0):
        around = middle + np.linspace(-1e-7, 1e-7, 101)
        value = function(around, np.ones(101), Goal(0.0, 1.0, maxima=np.zeros(1)))
        assert (np.diff(value) > 0).all()


def test_entropy() -> None:
    mean, sd = points(12, 2)
    maxima = np.array([0.9, 1.4, 2.5])
    expected = [
        np.mean([naive_information(m, s, top) for top in maxima])
        for m, s in zip(mean, sd, strict=True)
    ]
    np.testing.assert_allclose(np.exp(entropy(mean, sd, GOAL)), expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(
    "gamma",
    [
        *(-3.0, -10.0, -100.0, -1e3),
        *(-1e4, -1e5, -1e7, -1e9),
    ],
)
def test_entropy_where_the_mean_is_above_the_maximum(gamma: float) -> None:
    """What is left of f is nearly exponential: log|γ| + log √(2π) - 1/2, up to 2/γ²."""
    value = entropy(np.array([0.0]), np.array([1.0]), Goal(0.0, 1.0, np.array([gamma])))
    expected = math.log(-gamma) + 0.5 * math.log(2.0 * math.pi) - 0.5
    assert np.exp(value[0]) == pytest.approx(expected, abs=3.0 / gamma**2 + 1e-6)


def test_entropy_needs_maxima() -> None:
    with pytest.raises(ValueError, match="samples of the maximum"):
        entropy(np.zeros(1), np.ones(1), Goal(0.0, 1.0))


@pytest.mark.parametrize("name", ACQUISITIONS)
@pytest.mark.parametrize("sd", [0.3, 1.0])
def test_rises_with_the_mean(name: str, sd: float) -> None:
    mean = np.linspace(-5.0, 3.0, 400)
    value = ACQUISITIONS[name].worth(mean, np.full(400, sd), GOAL)
    assert (np.diff(value) > 0).all()


@pytest.mark.parametrize("name", ["ucb", "ei", "pi", "mes", "eta"])
def test_rises_with_the_deviation_below_the_best(name: str) -> None:
    sd = np.geomspace(0.2, 10.0, 200)
    value = ACQUISITIONS[name].worth(np.full(200, -1.0), sd, GOAL)
    assert (np.diff(value) > 0).all()


@pytest.mark.parametrize("name", ACQUISITIONS)
def test_finite_at_the_extremes(name: str) -> None:
    sd, mean = np.meshgrid(
        np.geomspace(1e-6, 1e3, 40), np.concatenate([np.linspace(-1e3, 1e3, 41), [0.7, 0.9]])
    )
    for goal in (GOAL, Goal(-1e3, 1e3, np.array([-1e3, 1e3])), Goal(1e3, 1e3, np.array([1e3]))):
        value = ACQUISITIONS[name].worth(mean, sd, goal)
        assert value.shape == mean.shape
        assert np.isfinite(value).all()


@pytest.mark.parametrize("name", ["eta", "ucb", "ei", "pi", "mes"])
def test_rises_with_the_mean_at_the_least_deviation(name: str) -> None:
    """Never falls: max-value entropy is level where the chance to exceed the maximum is nil."""
    mean = np.linspace(-10.0, 10.0, 2001)
    value = ACQUISITIONS[name].worth(mean, np.full(len(mean), 1e-6), GOAL)
    assert (np.diff(value) >= 0).all()


@pytest.mark.parametrize("name", ACQUISITIONS)
def test_one_point_at_a_time_or_all_at_once(name: str) -> None:
    mean, sd = points(9, 3)
    together = ACQUISITIONS[name].worth(mean, sd, GOAL)
    alone = [float(ACQUISITIONS[name].worth(mean[i], sd[i], GOAL)) for i in range(9)]
    np.testing.assert_allclose(alone, together, rtol=1e-12)


# Samples of the maximum.


@pytest.mark.parametrize("count", [1, 5, 300])
def test_gumbel_law_has_the_quartiles_of_the_maximum(count: int) -> None:
    mean, sd = points(count, 4)
    drawn = gumbel_maxima(mean, sd, 200_000, np.random.default_rng(0))

    def log_chance(top: float) -> float:
        return float(np.sum(stats.norm.logcdf(top, mean, sd)))

    for p in (0.25, 0.75):
        exact = optimize.brentq(lambda top, p=p: log_chance(top) - math.log(p), -50.0, 50.0)
        assert (drawn <= exact).mean() == pytest.approx(p, abs=0.006)  # six standard errors
    rng = np.random.default_rng(1)
    empirical = np.max([rng.normal(mean, sd) for _ in range(4000)], axis=1)
    for p in (0.25, 0.75):
        assert (drawn <= np.quantile(empirical, p)).mean() == pytest.approx(p, abs=0.045)


def test_gumbel_law_of_points_that_are_all_but_known() -> None:
    drawn = gumbel_maxima(
        np.array([0.0, 3.0, -1e3]), np.full(3, 1e-6), 1000, np.random.default_rng(2)
    )
    assert np.isfinite(drawn).all()
    np.testing.assert_allclose(drawn, 3.0, atol=1e-4)


def test_gumbel_law_moves_with_its_points() -> None:
    mean, sd = points(30, 5)
    drawn = gumbel_maxima(mean, sd, 100, np.random.default_rng(3))
    moved = gumbel_maxima(3.0 * mean - 40.0, 3.0 * sd, 100, np.random.default_rng(3))
    np.testing.assert_allclose(moved, 3.0 * drawn - 40.0, rtol=1e-9)


def test_sampled_maxima_have_the_law_of_the_maximum() -> None:
    mean = np.array([0.0, 0.3, -0.5, 0.2])
    distance = np.abs(np.subtract.outer(np.arange(4), np.arange(4)))
    covariance = 0.8**distance
    drawn = sampled_maxima(mean, covariance, 20_000, np.random.default_rng(4))
    plain = np.random.default_rng(5).multivariate_normal(
        mean, covariance, 20_000, method="cholesky"
    )
    assert stats.ks_2samp(drawn, plain.max(axis=1)).pvalue > 1e-4


def test_sampled_maxima_of_equal_points() -> None:
    """The same point twice and one that is known: the covariance is singular."""
    covariance = np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
    drawn = sampled_maxima(np.array([0.0, 0.0, 0.5]), covariance, 20_000, np.random.default_rng(6))
    assert drawn.min() == pytest.approx(0.5, abs=1e-6)
    assert (drawn > 0.5 + 1e-6).mean() == pytest.approx(stats.norm.sf(0.5), abs=0.02)


def test_rounding_may_make_the_covariance_indefinite() -> None:
    covariance = np.array([[1.0, 1.0 + 1e-9], [1.0 + 1e-9, 1.0]])
    assert np.isfinite(sampled_maxima(np.zeros(2), covariance, 50, np.random.default_rng(7))).all()


def test_the_core_takes_the_scale_of_a_model() -> None:
    mean, sd = points(9, 8)
    for each in ACQUISITIONS.values():
        aim = Aim(each, GOAL, mean=-0.3, scale=2.5)
        assert aim.core is not None
        expected = each.worth(-0.3 + 2.5 * mean, 2.5 * sd, GOAL)
        for scaled in (aim.worth(mean, sd), aim.core.worth(mean, sd)):
            np.testing.assert_allclose(scaled, expected, rtol=1e-13)


def test_the_core_refuses_arrays_of_different_lengths() -> None:
    with pytest.raises(ValueError, match="different lengths"):
        Aim(ACQUISITIONS["ei"], GOAL).worth(np.zeros(2), np.ones(3))


# Functions of one's own.


def cautious(mean: Floats, sd: Floats, goal: Goal) -> Floats:
    return mean - goal.deviations * sd


def test_a_function_of_ones_own_takes_the_scale_of_a_model() -> None:
    mean, sd = points(9, 9)
    aim = Aim(Acquisition(cautious), GOAL, mean=-0.3, scale=2.5)
    assert aim.core is None
    np.testing.assert_allclose(aim.worth(mean, sd), (-0.3 + 2.5 * mean) - 1.5 * 2.5 * sd)


def test_a_registered_function_has_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ebo.acquisition.ACQUISITIONS", dict(ACQUISITIONS))
    register("cautious", cautious)
    assert acquisition.ACQUISITIONS["cautious"] == Acquisition(cautious)
    for taken in ("cautious", "ei"):
        with pytest.raises(ValueError, match=f"there is an acquisition function '{taken}' already"):
            register(taken, cautious)
    with pytest.raises(TypeError, match="worth is 3; give a function of means, deviations"):
        register("three", 3)  # type: ignore[arg-type]
    assert list(acquisition.ACQUISITIONS) == [*ACQUISITIONS, "cautious"]
