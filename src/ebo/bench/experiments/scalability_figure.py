"""The picture of `scalability`: seconds against observations, and speed-up against cores."""

from __future__ import annotations

from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from ebo.bench.compare_figure import COLOURS, plain
from ebo.bench.experiments.base import Result


def figures(result: Result, folder: Path) -> list[Path]:
    """The two parts of Fig. 4."""
    drawing = Figure(figsize=(10, 4.5), dpi=120, layout="constrained")
    times, cores = drawing.subplots(1, 2, width_ratios=(3, 2))
    names = {"skl": "SKL, one thread", "ebo": f"EBO, {result['cores']} cores"}
    for (method, name), colour in zip(names.items(), (COLOURS[1], COLOURS[0]), strict=True):
        rows = result[method]
        sizes, seconds = [row["n"] for row in rows], [row["seconds"] for row in rows]
        times.plot(sizes, seconds, "o-", color=colour, label=name, linewidth=1.8, markersize=4)
    times.set_xscale("log")
    times.set_yscale("log")
    times.xaxis.set_major_formatter(FuncFormatter(lambda n, _: f"{n:,.0f}"))
    times.yaxis.set_major_formatter(FuncFormatter(lambda seconds, _: f"{seconds:g}"))
    times.xaxis.set_minor_formatter(NullFormatter())
    times.set_xlabel("observations N")
    times.set_ylabel("seconds of ten sweeps")
    times.set_title(f"(a) Gibbs sampling in {result['dims']} dimensions")
    times.legend(frameon=False)

    speed = result["speed"]
    threads = [row["threads"] for row in speed]
    cores.plot(threads, threads, color="#999999", linewidth=1.0, label="in proportion")
    gain = [speed[0]["seconds"] / row["seconds"] for row in speed]
    cores.plot(threads, gain, "o-", color=COLOURS[0], label="EBO", linewidth=1.8, markersize=4)
    cores.set_xticks(threads)
    cores.set_ylim(bottom=0)
    cores.set_xlabel("cores")
    cores.set_ylabel("speed-up over one core")
    cores.set_title(f"(b) N = {int(speed[0]['n']):,}")
    cores.legend(frameon=False, loc="lower right")
    for axes in (times, cores):
        plain(axes)
    file = folder / "scalability.png"
    drawing.savefig(file)
    return [file]
