"""The experiments that are pictures, against obvious twins of what they compute."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from ebo.arrays import Floats
from ebo.bench.experiments import crossover, features, illustration, starvation
from ebo.bench.experiments.base import Notes
from ebo.bench.experiments.starvation_models import (
    LEAF_SIZE,
    LOWER,
    NOISE,
    OBSERVED,
    UPPER,
    SquaredExponential,
    draw,
    in_leaves,
    partition,
    predict,
)
from ebo.bench.illustration import Illustration
from ebo.optimizer import Optimizer
from ebo.tilegp.features import FourierFeatures, TileCoding
from ebo.tilegp.kernel import Hat


def exact(X: Floats, y: Floats, x: Floats, length: float) -> tuple[Floats, Floats]:
    """μ and σ of the squared exponential process, as printed."""

    def kappa(a: Floats, b: Floats) -> Floats:
        return np.exp(-((a[:, None] - b[None, :]) ** 2) / (2.0 * length**2))

    inverse = np.linalg.inv(kappa(X, X) + NOISE**2 * np.eye(len(X)))
    across = kappa(x, X)
    variance = 1.0 - np.sum(across @ inverse * across, axis=1)
    return across @ inverse @ y, np.sqrt(np.maximum(variance, 1e-16))


class TestStarvation:
    X = np.random.default_rng(0).uniform(LOWER, OBSERVED, 12)
    y = np.sin(X)
    x = np.linspace(LOWER, UPPER, 41)
    rate = (UPPER - LOWER) / 1.5

    def test_the_exact_process_is_its_naive_twin(self) -> None:
        found = predict(SquaredExponential(), self.rate, self.X, self.y, self.x)
        np.testing.assert_allclose(found, exact(self.X, self.y, self.x, 1.5), atol=1e-6)

    def test_very_many_fourier_features_of_few_data_are_the_exact_process(self) -> None:
        X, y = self.X[:4], self.y[:4]
        fourier = FourierFeatures.draw(1, 20_000, np.random.default_rng(1))
        mean, sd = predict(fourier, self.rate, X, y, self.x)
        expected_mean, expected_sd = exact(X, y, self.x, 1.5)
        np.testing.assert_allclose(mean, expected_mean, atol=0.05)
        np.testing.assert_allclose(sd, expected_sd, atol=0.05)

    def test_far_fewer_features_than_observations_leave_no_variance(self) -> None:
        rng = np.random.default_rng(2)
        X = rng.uniform(LOWER, OBSERVED, 400)
        fourier = FourierFeatures.draw(1, 5, rng)
        _, sd = predict(fourier, 50.0, X, np.zeros(400), self.x, form="features")
        assert sd.max() < 0.05

    def test_a_sample_has_the_covariance_of_its_kernel(self) -> None:
        x = np.array([0.0, 1.0, 4.0])
        samples = np.array([draw(x, 1.0, np.random.default_rng(i)) for i in range(4_000)])
        expected = np.exp(-0.5 * (x[:, None] - x) ** 2)
        np.testing.assert_allclose(samples.T @ samples / 4_000, expected, atol=0.08)

    def test_leaves_hold_every_observation_once_and_no_more_than_they_may(self) -> None:
        X = np.random.default_rng(3).uniform(LOWER, OBSERVED, 1_000)
        edges, leaves = partition(X, np.random.default_rng(4))
        assert (edges[0], edges[-1]) == (LOWER, UPPER)
        assert (np.diff(edges) > 0).all()
        assert sorted(np.concatenate(leaves).tolist()) == list(range(1_000))
        for low, high, rows in zip(edges[:-1], edges[1:], leaves, strict=True):
            assert len(rows) <= LEAF_SIZE
            assert ((low <= X[rows]) & (X[rows] <= high)).all()

    def test_a_leaf_answers_for_its_own_points_only(self) -> None:
        X, y = np.array([-5.0, -1.0]), np.array([1.0, -1.0])
        edges, leaves = np.array([LOWER, -3.0, UPPER]), [np.array([0]), np.array([1])]
        mean, sd = in_leaves(lambda j: Hat(), 4.0, leaves, edges, X, y, self.x)
        for j, (low, high) in enumerate([(LOWER, -3.0), (-3.0, UPPER + 1.0)]):
            here = (low <= self.x) & (self.x < high)
            alone = predict(Hat(), 4.0, X[j : j + 1], y[j : j + 1], self.x[here])
            np.testing.assert_allclose((mean[here], sd[here]), alone, atol=1e-12)

    def test_fewer_observations_never_mean_less_variance(self) -> None:
        X = np.random.default_rng(5).uniform(LOWER, OBSERVED, 300)
        edges, leaves = partition(X, np.random.default_rng(6))
        nothing = np.zeros(300)
        tiles = TileCoding.draw(1, 30, np.random.default_rng(7))
        _, whole = predict(tiles, 20, X, nothing, self.x)
        _, parts = in_leaves(lambda j: tiles, 20, leaves, edges, X, nothing, self.x)
        assert (parts >= whole - 1e-6).all()

    def test_ratios_fall_and_the_tilegp_does_not_starve(self, tmp_path: Path) -> None:
        scale = starvation.Scale(100, (10, 100, 400), (1.0, 0.1), 101, seeds=1)
        result = starvation.run(scale, 2, Notes(tmp_path, "starvation"))
        claims = starvation.claims(result)
        assert all(claim.holds for claim in claims), claims
        assert len(result["rows"]) == 2 * 3 * 3


class TestCrossover:
    def test_one_observation_has_the_posterior_of_the_printed_equations(self) -> None:
        x, p = np.array([[-1.0, 0.0]]), np.array([[0.5, 0.3]])
        across = np.exp(-2 * 1.5**2) + np.exp(-2 * 0.3**2)
        found = crossover.surfaces(x, p)
        assert found["mean"][0] == pytest.approx(across / (2 + crossover.NOISE))
        sd = np.sqrt(2 - across**2 / (2 + crossover.NOISE))
        assert found["ucb"][0] - found["mean"][0] == pytest.approx(0.1 * sd)

    def test_maxima_are_at_the_exchanged_points(self, tmp_path: Path) -> None:
        result = crossover.run(crossover.SCALES["small"], 1, Notes(tmp_path, "crossover"))
        claims = crossover.claims(result)
        assert all(claim.holds for claim in claims), claims
        highest = result["stages"][-1]["ucb"]["maxima"][:2]
        np.testing.assert_allclose(sorted(highest), [[-1, 2], [2, 0]], atol=0.06)

    def test_a_kernel_that_is_not_additive_expects_nothing_there(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def joint(X: Floats, X2: Floats) -> Floats:
            square = np.sum((X[:, None, :] - X2[None, :, :]) ** 2, axis=2)
            return np.asarray(2.0 * np.exp(-2.0 * square))

        monkeypatch.setattr(crossover, "kernel", joint)
        assert (crossover.surfaces(crossover.OBSERVED, crossover.CROSSED)["mean"] < 0.01).all()
        assert (crossover.surfaces(crossover.OBSERVED, crossover.OBSERVED)["mean"] > 0.99).all()

    def test_local_maxima_by_hand(self) -> None:
        t = np.array([0.0, 1.0, 2.0])
        surface = np.array([[5.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 9.0]])
        np.testing.assert_array_equal(crossover.local_maxima(surface, t), [[2, 2], [0, 0]])
        assert crossover.local_maxima(np.zeros((3, 3)), t).shape == (0, 2)


class TestFeatures:
    @pytest.mark.parametrize("family", features.FAMILIES)
    @pytest.mark.parametrize("seed", range(3))
    def test_boxes_cover_the_plane_without_overlap(self, family: str, seed: int) -> None:
        layer, cuts = features.draw(family, 1, np.random.default_rng(seed))
        boxes = features.boxes(layer, cuts, raster=100)
        sides = boxes[:, 2:] - boxes[:, :2]
        assert (sides > 0).all()
        assert np.prod(sides, axis=1).sum() == pytest.approx(1.0)
        pixels = (np.stack(np.meshgrid(*2 * [np.arange(100)]), axis=-1) + 0.5) / 100
        inside = (boxes[:, None, None, :2] < pixels) & (pixels < boxes[:, None, None, 2:])
        assert (inside.all(axis=-1).sum(axis=0) == 1).all()

    def test_boxes_of_tile_coding_are_where_its_cuts_are(self) -> None:
        layer = TileCoding([[0.5], [0.0]])
        boxes = features.boxes(layer, np.array([2.0, 1.0]), raster=100)
        np.testing.assert_allclose(boxes[:, 0], [0, 0.25, 0.75])
        np.testing.assert_allclose(boxes[:, 2], [0.25, 0.75, 1])
        np.testing.assert_allclose(boxes[:, [1, 3]], [[0, 1]] * 3)

    @pytest.mark.parametrize("family", features.FAMILIES)
    def test_the_error_is_that_of_independent_layers(self, family: str) -> None:
        found = features.deviation(family, 16, 30, 30)
        assert found["error"] == pytest.approx(found["rate"], rel=0.15)

    def test_the_slope_is_a_half(self, tmp_path: Path) -> None:
        scale = features.Scale((4, 32, 256), 30, seeds=20)
        result = features.run(scale, 20, Notes(tmp_path, "features"))
        assert all(claim.holds for claim in features.claims(result)), features.claims(result)


class TestIllustration:
    scale = illustration.Scale(3, 20, 20, seeds=1)

    @pytest.mark.parametrize("preset", illustration.PRESETS)
    def test_iterations_are_those_of_the_optimizer(self, preset: str) -> None:
        found = illustration.search(self.scale, preset, 0)
        f = Illustration(0)
        bound = f.maximum if preset == "paper" else None
        settings = illustration.PRESETS[preset]
        optimizer = Optimizer(f.space, seed=0, settings=settings, upper_bound=bound)
        for iteration in found["iterations"]:
            X = optimizer.ask(20)
            optimizer.tell(X, f(X))
            np.testing.assert_allclose(iteration["selected"], X, atol=1e-4)
            assert len(iteration["boxes"]) == max(1, len(optimizer.leaves))
        assert found["regret"] == sorted(found["regret"], reverse=True)
        assert found["regret"][-1] == f.regret(optimizer.best()[0])

    def test_leaves_cover_the_square_and_change(self) -> None:
        found = illustration.search(illustration.Scale(4, 20, 20, seeds=1), "paper", 0)
        boxes = [np.array(iteration["boxes"]) for iteration in found["iterations"]]
        assert [len(box) for box in boxes[:2]] == [1, 1]
        for box in boxes:
            assert np.prod(box[:, 2:] - box[:, :2], axis=1).sum() == pytest.approx(1.0, abs=1e-3)
        assert len(boxes[2]) > 1
        assert not np.array_equal(boxes[2], boxes[3])

    @pytest.mark.parametrize("preset", illustration.PRESETS)
    def test_leaves_are_of_twenty_at_most(self, preset: str) -> None:
        """The default's, too, though it doubles them for large batches."""
        found = illustration.search(illustration.Scale(6, 20, 20, seeds=1), preset, 0)
        fullest = max(iteration["fullest"] for iteration in found["iterations"])
        assert 15 <= fullest <= 20

    @pytest.mark.parametrize("seed", range(3))
    def test_the_maximum_is_marked_where_it_is(self, seed: int) -> None:
        f = Illustration(seed)
        assert f.regret(np.array(illustration.highest(f))) == pytest.approx(0.0, abs=0.01)

    def test_an_optimizer_has_no_leaves_before_any_value(self) -> None:
        f = Illustration(0)
        optimizer = Optimizer(f.space, seed=0)
        optimizer.ask(5)
        assert optimizer.leaves == []

    def test_a_picture_has_every_box_and_every_point(self) -> None:
        ax = Figure().add_subplot()
        boxes = [[0.0, 0.0, 0.5, 1.0], [0.5, 0.0, 1.0, 1.0]]
        illustration.draw_iteration(ax, boxes, [[0.1, 0.2]], [[0.3, 0.4], [0.5, 0.6]])
        assert len(ax.collections[0].get_paths()) == 2
        assert [len(line.get_xdata()) for line in ax.lines] == [1, 2]  # type: ignore[arg-type]


def test_pictures_are_drawn_from_what_json_holds(tmp_path: Path) -> None:
    result = illustration.run(
        illustration.Scale(3, 8, 20, seeds=1), 1, Notes(tmp_path, "illustration")
    )
    files = illustration.figures(json.loads(json.dumps(result, allow_nan=False)), tmp_path)
    assert [file.name for file in files] == ["illustration-paper.png", "illustration-default.png"]
    assert all(file.read_bytes().startswith(b"\x89PNG") for file in files)
