"""Write docs/benchmarks.md, with its figures, from the JSON that `ebo bench` left.

    python docs/make_benchmarks.py FOLDER...

Every folder is the `--out` of an experiment or of a comparison. All figures in the page come from
there; what is said about them is in `remarks.md`, by the name of the experiment. What the page has
of other experiments stays, with the remarks as they are now.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

from ebo.bench.experiments import EXPERIMENTS, get
from ebo.bench.show import as_text

HERE = Path(__file__).parent
PAGE, FIGURES, REMARKS = HERE / "benchmarks.md", HERE / "figures", HERE / "remarks.md"


def main(folders: list[Path]) -> None:
    """Write the page."""
    reports = {}
    for folder in folders:
        for file in sorted(folder.glob("*.json")):
            report = json.loads(file.read_text(encoding="utf-8"))
            report["folder"] = folder
            reports[folder.name if file.stem == "compare" else file.stem] = report
    FIGURES.mkdir(exist_ok=True)
    remarks = by_heading(REMARKS.read_text(encoding="utf-8"))
    before = by_heading(PAGE.read_text(encoding="utf-8")) if PAGE.exists() else {"": ""}
    parts = [remarks.pop("").strip()]
    known = [name for name in before if name and name not in EXPERIMENTS]
    order = [name for name in EXPERIMENTS if name in reports or name in before]
    order += [*known, *(name for name in reports if name not in (*order, *known))]
    for name in order:
        remark = remarks.pop(name, "")
        if name in reports:
            parts.append(section(name, reports[name], remark))
        else:
            parts.append(kept(name, before[name], remark))
    if remarks:
        sys.exit(f"remarks on what was not run: {', '.join(remarks)}; give their folders too")
    PAGE.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    print(f"Wrote {PAGE}: {', '.join(reports) or 'nothing'} anew.")


def by_heading(text: str) -> dict[str, str]:
    """By heading of the second level, what stands below it; before the first under ""."""
    pieces = re.split(r"^## (.+)$", text, flags=re.MULTILINE)
    return {"": pieces[0], **dict(zip(pieces[1::2], pieces[2::2], strict=True))}


def kept(name: str, text: str, remark: str) -> str:
    """A section of the page as it is, up to its last figure, and the remark."""
    end = text.index("\n", text.rindex("\n![") + 1)
    return f"## {name}{text[:end]}" + (f"\n\n{remark.strip()}" if remark.strip() else "")


def section(name: str, report: dict[str, Any], remark: str) -> str:
    """An experiment: command, machine, tables, claims, figures and remark."""
    machine = report["machine"]
    lines = [
        f"## {name}",
        "",
        *([f"{EXPERIMENTS[name]}.", ""] if name in EXPERIMENTS else []),
        f"`{report['command']}`  ",
        f"{report['date']}, {machine['processor']}, {machine['cores']} cores, "
        f"{machine['instruction_set']}, Python {machine['python']}.",
    ]
    for title, rows in tables(name, report).items():
        lines += ["", f"**{title}**", "", *markdown(rows)]
    if report.get("claims"):
        lines += ["", "| should hold | found | |", "|---|---|---|"]
        for claim in report["claims"]:
            mark = "yes" if claim["holds"] else "**no**"
            lines.append(f"| {claim['text']} | {claim['found']} | {mark} |")
    for figure in report["figures"]:
        target = FIGURES / (figure if figure.startswith(name) else f"{name}-{figure}")
        shutil.copyfile(report["folder"] / figure, target)
        lines += ["", f"![{name}](figures/{target.name})"]
    if remark.strip():
        lines += ["", remark.strip()]
    return "\n".join(lines)


def tables(name: str, report: dict[str, Any]) -> dict[str, Any]:
    """Rows by title."""
    if name in EXPERIMENTS:
        return get(name).tables(report["result"])
    from ebo.bench.compare_command import tables as compared

    return compared(report)


def markdown(rows: list[dict[str, Any]]) -> list[str]:
    """A table in Markdown; numbers to the right."""
    heads = [key.replace("_", " ") for key in rows[0]]
    right = [isinstance(value, int | float) for value in rows[0].values()]
    rule = ["---:" if is_number else "---" for is_number in right]
    body = [[as_text(value) for value in row.values()] for row in rows]
    return ["| " + " | ".join(cells) + " |" for cells in (heads, rule, *body)]


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main([Path(argument) for argument in sys.argv[1:]])
