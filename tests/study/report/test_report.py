"""The report: it renders whatever a study holds, stays small, runs nothing and loads nothing."""

from __future__ import annotations

import base64
import os
import re
import shutil
import struct
import subprocess
import time
import zlib
from dataclasses import replace
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ebo.space import Categorical, Float, Int, Parameter
from ebo.study.report import chart, html, image
from ebo.study.report.data import Facts
from ebo.study.report.page import ReportData, render, write_report
from ebo.study.report.progress import Bins, is_log, value_axis

BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
VOID = {"meta", "img", "path", "rect", "source", "br"}
HOSTILE = (
    "</title><script>document.title='owned'</script>\"'><img src=x onerror=alert(1)>"
    "&amp;\x00\ud800\u202e"
)


def study(n: int = 400, dims: int = 6, per: int = 40, **more: Any) -> ReportData:
    """A run that looks like one: batches that close in on an optimum, a few failures, structure."""
    rng = np.random.default_rng(0)
    kinds: list[Parameter] = [
        Float(-5.0, 10.0),
        Float(1e-6, 1.0, log=True),
        Int(1, 9),
        Categorical(["relu", "tanh", "gelu"]),
        Int(1, 4096, log=True),
        Float(0.0, 1.0),
    ]
    parameters = [kinds[d % len(kinds)] for d in range(dims)]
    names = [f"x{d}" for d in range(dims)]
    batch = np.arange(n) // per
    width = 0.4 * np.exp(-3.0 * batch / max(int(batch.max(initial=0)), 1))
    T = np.clip(0.4 + width[:, None] * rng.standard_normal((n, dims)), 0.0, 1.0)
    value = 5.0 - ((T - 0.4) ** 2).sum(1) / max(dims, 1) * 30.0
    state = np.full(n, "done", dtype="<U9")
    for k, name in enumerate(("failed", "timed out", "lost", "running", "waiting")):
        state[7 + k :: 50] = name
    started = 1.7e9 + 60.0 * batch + rng.random(n)
    fields: dict[str, Any] = {
        "title": "A study",
        "direction": "maximize",
        "names": names,
        "parameters": parameters,
        "X": _in_units(parameters, T),
        "value": np.where(state == "done", value, np.nan),
        "state": state,
        "batch": batch,
        "started": started,
        "finished": np.where(np.isin(state, ["running", "waiting"]), np.nan, started + 20.0),
        "errors": {
            int(i): f"Traceback\n  at\nValueError: bad {i}"
            for i in np.flatnonzero(state == "failed")
        },
        "certainty": _certainty(dims, rng),
        "groups": tuple(tuple(names[d : d + 2]) for d in range(0, dims, 2)),
        "cuts": {name: float(k) for name, k in zip(names, rng.gamma(2.0, 3.0, dims), strict=True)},
        "iterations": [_iteration(b, rng) for b in np.unique(batch).tolist()],
        "settings": {"seed": 1, "leaf_size": 100},
        "generated": datetime(2026, 8, 14, 9, 30, tzinfo=UTC),
        "version": "0.1.0",
    }
    return ReportData(**{**fields, **more})


def _in_units(parameters: list[Parameter], T: Any) -> Any:
    X = np.empty_like(T)
    for d, p in enumerate(parameters):
        if isinstance(p, Categorical):
            X[:, d] = np.minimum(np.floor(T[:, d] * p.levels), p.levels - 1)
        elif p.log:
            X[:, d] = p.low * (p.high / p.low) ** T[:, d]
        else:
            X[:, d] = p.low + T[:, d] * (p.high - p.low)
        if isinstance(p, Int):
            X[:, d] = np.rint(X[:, d])
    return X


def _certainty(dims: int, rng: np.random.Generator) -> Any:
    shares = rng.beta(0.5, 5.0, (dims, dims))
    for d in range(0, dims - 1, 2):
        shares[d, d + 1] = shares[d + 1, d] = 0.93
    shares = (shares + shares.T) / 2.0
    np.fill_diagonal(shares, 1.0)
    return shares


def _iteration(batch: int, rng: np.random.Generator) -> dict[str, Any]:
    stages = ("partition", "learn", "search", "filter")
    return {
        "batch": batch,
        "seconds": dict(zip(stages, rng.random(4).tolist(), strict=True)),
        "observations": 40 * batch,
        "leaves": 1 + batch,
        "groups": 3,
        "noise": 0.1,
        "best": 4.0 + 0.01 * batch,
        "upper_bound": 5.0,
    }


class Page(HTMLParser):
    """A page taken apart: it must nest, and all that it refers to is within itself."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.text: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attrs:
            assert not name.startswith("on"), (tag, name)
            if name == "id":
                self.ids.append(value or "")
            if name in ("src", "href", "srcset", "action", "data", "poster"):
                self.links.append(value or "")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        assert tag in VOID

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:  # a browser writes </path>
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.text.append(data)

    @property
    def words(self) -> str:
        return " ".join(" ".join(self.text).split())


def page(data: ReportData) -> Page:
    text = render(data)
    found = Page(text)
    assert set(found.tags).isdisjoint({"script", "iframe", "object", "embed", "link", "form"})
    for link in found.links:
        assert link.startswith(("data:image/png;base64,", "#")), link[:80]
        assert not link.startswith("#") or link[1:] in found.ids
    assert not re.search(r"(https?:)?//[a-z]|@import|url\(", text.split("<body>")[0])
    assert not re.search(r"[\"' =](nan|NaN|inf)[\"'%; ]", text)
    return found


def test_tells_all_that_is_asked_of_it() -> None:
    words = page(study()).words
    for told in (
        "Best value against evaluations",
        "Best value against time",
        "Distribution of each batch",
        "Best point",
        "The best 100 evaluations across parameters",
        "Which parameters act together",
        "How finely the function varies",
        "How the model developed",
        "By state",
        "Most frequent messages",
        "Time of each iteration",
        "leaf_size",
        "ValueError: bad",
        "log scale",
    ):
        assert told in words


def test_headline_is_right() -> None:
    data = study(ids=np.arange(1000, 1400))
    words = page(data).words
    best = int(np.nanargmax(data.value))
    assert html.number(float(data.value[best])) in words
    rank = int(np.isfinite(data.value[: best + 1]).sum())
    told = f"evaluation {rank:,} of {np.isfinite(data.value).sum():,} (trial {1000 + best:,})"
    assert f"{told}, batch {best // 40}" in words
    assert f"The last improvement came at {rank:,} of" in words
    assert "Failures 24 8 failed, 8 timed out, 8 lost" in words
    assert "Evaluations 384 10 batches, 6 parameters, 8 running, 8 waiting" in words


def test_nothing_is_sure_before_several_iterations_have_learned() -> None:
    data = study(dims=4)
    for n in (0, 1, 2):
        words = page(replace(data, iterations=data.iterations[:n])).words
        assert "How sure this is cannot be told yet" in words
        assert "iterations that have learned" not in words
        assert "most often together" not in words
    words = page(replace(data, iterations=data.iterations[:3])).words
    assert "Over the 3 iterations that have learned" in words
    assert "most often together" in words


def test_what_was_told_by_hand_took_no_time_that_is_known() -> None:
    data = study()
    words = page(replace(data, started=data.finished)).words
    assert " 0 ms" not in words
    assert "evaluated elsewhere" in words
    at_once = np.full(len(data.value), 1.8e9)
    assert "Time –" in page(replace(data, started=at_once, finished=at_once)).words


@pytest.mark.parametrize(("late", "told"), [(1.0, "going on may pay"), (0.01, "levelled off")])
def test_whether_going_on_may_pay_is_told_by_the_gain(late: float, told: str) -> None:
    value = np.concatenate([np.linspace(0.0, 10.0, 180), np.linspace(10.0, 10.0 + late, 20)])
    words = page(study(200, state=np.full(200, "done"), value=value)).words
    assert told in words
    assert words.count("going on may pay") + words.count("levelled off") == 1


def test_minimising_takes_the_smallest() -> None:
    data = study()
    data = replace(data, direction="minimize", value=-data.value)
    words = page(data).words
    assert html.number(float(np.nanmin(data.value))) in words
    assert "lower is better" in words


@pytest.mark.parametrize("n", [0, 1, 2, 3, 5, 30])
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_small_studies(n: int, dims: int) -> None:
    page(study(n, dims))


def test_nothing_known_at_all() -> None:
    bare: dict[str, Any] = {"certainty": None, "groups": (), "cuts": {}, "iterations": []}
    found = page(study(0, 2, settings={}, **bare))
    assert "No evaluation has finished yet" in found.words
    assert "Structure learned" not in found.words
    some = page(study(50, 2, settings={}, errors={}, **bare))
    assert "Structure learned" not in some.words


@pytest.mark.parametrize("state", ["failed", "timed out", "lost", "running", "waiting"])
def test_no_evaluation_has_a_value(state: str) -> None:
    data = study(60)
    data = replace(data, state=[state] * 60, value=np.full(60, np.nan))
    words = page(data).words
    assert "none yet" in words
    assert ("all that finished have failed" in words) == (state in ("failed", "timed out", "lost"))


def test_one_batch_only_imported_no_times() -> None:
    page(study(40, per=100))
    imported = study(40, batch=np.full(40, -1))
    assert "40 imported" in page(imported).words
    unknown = np.full(40, np.nan)
    assert "No times are recorded" in page(study(40, started=unknown, finished=unknown)).words
    half = study(80, batch=np.repeat([-1, 0], 40))
    half.finished[:40] = half.started[:40] = np.nan
    assert "Imported evaluations are in no batch" in page(half).words


def test_fixed_parameters() -> None:
    data = study(80, 3)
    fixed: list[Parameter] = [Float(2.0, 2.0), Categorical(["only"]), Float(0.0, 1.0)]
    data.X[:, :2] = [2.0, 0.0]
    certainty = np.full((3, 3), np.nan)
    certainty[2, 2] = 1.0
    data = replace(data, parameters=fixed, certainty=certainty, groups=(("x2",),), cuts={"x2": 3.0})
    assert "only fixed" in page(data).words
    every = replace(data, parameters=[Float(2.0, 2.0)] * 3, certainty=None, groups=(), cuts={})
    data.X[:] = 2.0
    page(every)


@pytest.mark.parametrize(
    "values",
    [
        np.zeros(100),
        np.full(100, 1e308),
        np.where(np.arange(100) % 2, 1.7e308, -1.7e308),
        np.full(100, 5e-324),
        1e6 + 1e-9 * np.arange(100),
        np.geomspace(1e-12, 1e12, 100),
        -np.geomspace(1e-12, 1e12, 100),
        np.geomspace(1e-320, 1e300, 100),
        np.r_[np.zeros(99), 1.0],
        np.r_[np.ones(99), 0.0],
    ],
)
@pytest.mark.parametrize("direction", ["maximize", "minimize"])
def test_extreme_values(values: Any, direction: str) -> None:
    data = study(100)
    page(replace(data, value=values, state=["done"] * 100, direction=direction))


@pytest.mark.parametrize(
    "parameter",
    [
        Float(-1e307, 1e307),
        Float(1e-290, 1.0, log=True),
        Float(1.0, 1.0 + 1e-15),
        Float(3.0, 3.1, log=True),
        Int(-(2**50), 2**50),
        Int(1, 2**45, log=True),
        Int(0, 1),
        Categorical([f"choice {i} with a long name" for i in range(50)]),
        Categorical([True, 1, 1.0, None]),
    ],
)
def test_extreme_parameters(parameter: Parameter) -> None:
    data = study(100, 3)
    parameters = [parameter, parameter, Float(0.0, 1.0)]
    T = np.random.default_rng(0).random((100, 3))
    page(replace(data, parameters=parameters, X=_in_units(parameters, T)))


def test_bounds_and_strange_iterations() -> None:
    for bound in (5.5, 1e300, -100.0, float("nan"), None):
        page(study(100, upper_bound=bound, upper_bound_known=True))
    odd: list[dict[str, Any]] = [
        {"batch": 0},
        {"batch": 1, "seconds": {}, "best": None, "noise": float("nan")},
        {"batch": 2, "seconds": {"learn": float("nan"), HOSTILE: 1.0}, "leaves": 3},
        {"seconds": {"learn": 1.0}},
        {"batch": 9, "seconds": {"learn": 2.0}, "leaves": 4, "upper_bound": 1e308, "best": -1e308},
    ]
    page(study(100, iterations=odd))


def test_hostile_text_is_shown_and_does_nothing() -> None:
    names = [f"{HOSTILE}{d}" for d in range(6)]
    data = study(200)
    kinds: list[Parameter] = [Categorical([HOSTILE, "</svg>", "`${7*7}`"]), *data.parameters[1:]]
    data.X[:, 0] = np.arange(200) % 3
    data = replace(
        data,
        title=HOSTILE,
        names=names,
        parameters=kinds,
        groups=(tuple(names[:3]), tuple(names[3:])),
        cuts=dict.fromkeys(names, 1.0),
        errors={1: HOSTILE, 2: "x\n" + HOSTILE, 3: "", 4: HOSTILE * 5000},
        settings={HOSTILE: HOSTILE},
        iterations=[{"batch": 0, "seconds": {HOSTILE: 1.0}}],
        version=HOSTILE,
    )
    found = page(data)
    assert "<script>" in found.words
    text = render(data)
    assert "<script" not in text
    assert "<img src=x" not in text
    assert "\x00" not in text
    assert "\u202e" not in text


def test_messages_are_counted_by_kind() -> None:
    errors = {i: f"step {i}: residual {i / 7:.3e} too large" for i in range(90)}
    errors |= dict.fromkeys(range(90, 100), "other")
    words = page(study(100, errors=errors)).words
    assert "90 step 0: residual 0.000e+00 too large 0 10 other 90" in words


def test_a_thousand_parameters() -> None:
    data = study(300, 1000)
    began = time.perf_counter()
    found = page(data)
    assert time.perf_counter() - began < 20.0
    assert "Shown are 60 of 1,000 parameters" in found.words
    assert len(render(data)) < 5e6


def test_50_000_by_60_is_small_and_quick(tmp_path: Path) -> None:
    data = study(50_000, 60, 500)
    began = time.perf_counter()
    write_report(data, tmp_path / "report.html")
    assert time.perf_counter() - began < 20.0
    assert (tmp_path / "report.html").stat().st_size < 5e6
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_many_batches_of_one() -> None:
    data = study(5_000, 2, 1)
    assert len(render(data)) < 1e6


def test_is_the_same_every_time() -> None:
    assert render(study(3_000)) == render(study(3_000))


def test_writing_is_all_or_nothing(tmp_path: Path) -> None:
    target = tmp_path / "report.html"
    target.write_text("old")
    with pytest.raises(FileNotFoundError):
        write_report(study(10), tmp_path / "nowhere" / "report.html")
    link = tmp_path / "link.html"
    link.symlink_to(target)
    write_report(study(10), link)
    assert link.is_symlink()
    assert target.read_text(encoding="utf-8").endswith("</html>\n")
    assert target.stat().st_mode & 0o777 == 0o666 & ~_umask()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_wrong_data_is_refused() -> None:
    with pytest.raises(ValueError, match="'up'"):
        study(direction="up")
    with pytest.raises(ValueError, match=r"batch has shape \(3,\), expected \(400,\)"):
        study(batch=np.arange(3))
    with pytest.raises(ValueError, match="'finished' is none of"):
        study(10, state=["finished"] * 10)
    with pytest.raises(ValueError, match="certainty"):
        study(certainty=np.eye(2))


def test_importance_finds_slopes_and_peaks() -> None:
    rng = np.random.default_rng(1)
    X = rng.random((800, 4))
    value = 2.0 * X[:, 1] - 8.0 * (X[:, 3] - 0.5) ** 2 + 0.2 * rng.standard_normal(800)
    data = study(800, 4)
    data = replace(
        data, parameters=[Float(0.0, 1.0)] * 4, X=X, value=value, state=["done"] * 800, cuts={}
    )
    facts = Facts(data)
    assert set(facts.by_importance[:2].tolist()) == {1, 3}
    assert facts.importance[[0, 2]].max() < 0.05


def test_thinning_keeps_the_best() -> None:
    facts = Facts(study(5_000))
    rows = facts.thinned(300)
    assert len(set(rows.tolist())) == 300
    assert rows[-50:].tolist() == facts.order[-50:].tolist()
    assert (np.diff(facts.goodness[rows]) >= 0).all()


@pytest.mark.parametrize("n", [1, 2, 199, 200, 201, 1000])
def test_bins_hold_every_batch_once(n: int) -> None:
    batch = np.arange(n) * 3
    bins = Bins.of(batch)
    label = bins.label(batch)
    assert bins.count <= 200
    assert np.unique(label).tolist() == list(range(bins.count))
    assert (bins.first[label] <= batch).all()
    assert (batch <= bins.last[label]).all()
    assert bins.label(np.array([-1, 3 * n + 5])).tolist() == [-1, -1]


def test_axes() -> None:
    axis = chart.linear(0.0, 10.0)
    assert [label for _, label in axis.ticks] == ["0", "2", "4", "6", "8", "10"]
    assert axis.at([0.0, 5.0, 10.0]).tolist() == [0.0, 0.5, 1.0]
    log = chart.logarithmic(1e-6, 1.0)
    assert log.at([1e-6, 1e-3, 1.0]) == pytest.approx([0.0, 0.5, 1.0])
    below = chart.logarithmic(-1.0, -1e-6)
    assert below.at([-1.0, -1e-3, -1e-6]) == pytest.approx([0.0, 0.5, 1.0])
    assert "10<sup>−6</sup>" in dict(log.ticks).values()


def test_values_over_many_decades_get_a_log_axis() -> None:
    data = study(200, state=["done"] * 200, value=np.geomspace(1e3, 1e-3, 200))
    assert not is_log(Facts(data))
    least = Facts(replace(data, direction="minimize"))
    assert is_log(least)
    assert value_axis(least).log
    assert is_log(Facts(replace(data, value=-np.asarray(data.value))))


def test_numbers_in_words() -> None:
    assert html.number(0.1 + 0.2) == "0.3"
    assert html.number(-1234567.0) == "−1,234,567"
    assert html.number(1e-7) == "1e−7"
    assert html.duration(0.0123) == "12.3 ms"
    assert html.duration(3725) == "1 h 2 min"
    assert html.duration(200_000) == "2 days 7 h"
    assert html.percent(0.001) == "under 1\u00a0%"
    assert html.percent(0.9999) == "99\u00a0%"
    assert html.short("a" * 100, 10) == "aaaaaa…aaa"


def test_pictures_are_png() -> None:
    pixels = np.arange(12, dtype=np.uint8).reshape(3, 4) % 5
    uri = image.png(pixels, np.zeros((5, 4), dtype=np.uint8))
    raw = base64.b64decode(uri.removeprefix("data:image/png;base64,"))
    assert raw[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", raw[16:24]) == (4, 3)
    start = raw.index(b"IDAT") + 4
    lines = np.frombuffer(zlib.decompressobj().decompress(raw[start:]), dtype=np.uint8)
    assert (lines.reshape(3, 5)[:, 1:] == pixels).all()


PHONE = """<!doctype html><title>not measured</title>
<iframe src="report.html" style="width:390px;height:800px;border:0" onload="
const page = this.contentDocument.documentElement
document.title = `${page.scrollWidth} of ${page.clientWidth}`"></iframe>
"""


def _browse(*arguments: str, home: Path) -> subprocess.CompletedProcess[str]:
    assert BROWSER is not None
    always = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars")
    quiet = ("background-networking", "component-update", "sync", "quic")  # it calls nobody
    disabled = [f"--disable-{what}" for what in quiet]
    return subprocess.run(
        [BROWSER, *always, "--no-first-run", *disabled, f"--user-data-dir={home}", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )


@pytest.mark.skipif(BROWSER is None, reason="no browser is installed")
def test_opens_in_a_browser(tmp_path: Path) -> None:
    report, shot = tmp_path / "report.html", tmp_path / "shot.png"
    data = study(20_000, 30, 500)
    write_report(replace(data, names=[f"{HOSTILE}{d}" for d in range(30)], title=HOSTILE), report)
    dom = _browse("--dump-dom", report.as_uri(), home=tmp_path / "home").stdout
    found = Page(dom)
    assert found.tags.count("section") >= 6
    assert found.tags.count("img") >= 33
    assert "script" not in found.tags
    assert "<title>owned" not in dom
    assert "Which parameters act together" in found.words

    # As wide as a phone: what is wider scrolls within its own box. The window itself cannot be made
    # as narrow, a frame can.
    (tmp_path / "phone.html").write_text(PHONE)
    phone = (tmp_path / "phone.html").as_uri()
    narrow = _browse("--allow-file-access-from-files", "--dump-dom", phone, home=tmp_path / "home")
    assert "<title>390 of 390</title>" in narrow.stdout

    size = "--window-size=1280,4000"
    _browse(f"--screenshot={shot}", size, report.as_uri(), home=tmp_path / "home")
    raw = shot.read_bytes()
    assert struct.unpack(">II", raw[16:24]) == (1280, 4000)
    assert len(raw) > 200_000  # an empty page is 20 kB
