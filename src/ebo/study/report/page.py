"""The report of a study: one HTML file that needs nothing else, neither network nor script.

`render` puts the sections together; each of the modules `report_*` holds those of one subject. The
page forbids itself, by its content security policy, to load or to run anything at all.
"""

from __future__ import annotations

import os
from pathlib import Path

from ebo.study.report import operation as operation
from ebo.study.report import parameters as parameters
from ebo.study.report import progress as progress
from ebo.study.report import structure as structure
from ebo.study.report.data import Facts, ReportData
from ebo.study.report.html import escape, section, short

__all__ = ["ReportData", "render", "write_report"]

POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


def write_report(data: ReportData, path: str | os.PathLike[str]) -> None:
    """Write the report to a file, all of it or nothing."""
    text = render(data).encode("utf-8", "backslashreplace")
    target = Path(path)
    if target.exists() and not target.is_file():  # a pipe, a terminal
        target.write_bytes(text)
        return
    target = target.resolve()
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        part.write_bytes(text)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def render(data: ReportData) -> str:
    """The report as the text of an HTML page."""
    facts = Facts(data)
    sections = [part for part in _sections(facts) if part[2]]
    links = "".join(f'<a href="#{anchor}">{title}</a>' for anchor, title, _, _ in sections)
    body = "".join(section(a, title, inner, lead) for a, title, inner, lead in sections)
    style = Path(__file__).with_name("report.css").read_text(encoding="utf-8")
    when = data.generated.strftime("%Y-%m-%d %H:%M %Z").strip()
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{short(data.title, 80)} – ebo</title><style>{style}</style></head><body>"
        f"<header><div><h1>{short(data.title, 120)}</h1>"
        f"<p>Ensemble Bayesian optimisation · {data.direction} · report of {escape(when)}</p></div>"
        f"<nav>{links}</nav></header><main>{progress.headline(facts)}{_empty(facts)}{body}</main>"
        f"<footer>ebo {escape(data.version)} · one file, works offline</footer></body></html>\n"
    )


def _sections(facts: Facts) -> list[tuple[str, str, str, str]]:
    """Anchor, title, body and lead of each; those without a body are left out."""
    sections = []
    if len(facts.y):
        tiles, lead = parameters.slices(facts)
        sections += [
            ("progress", "Progress", progress.convergence(facts) + progress.batches(facts), ""),
            ("best", "Best point", parameters.best_point(facts), ""),
            ("parameters", "Parameters", tiles + parameters.parallel(facts), lead),
        ]
    learned = structure.groups(facts) + structure.cuts(facts) + structure.development(facts)
    sections.append(("structure", "Structure learned", learned, ""))
    if len(facts.state):
        sections.append(("failures", "States and failures", operation.failures(facts), ""))
    sections.append(("time", "Time", operation.stages(facts), ""))
    sections.append(("settings", "Settings", operation.settings(facts), ""))
    return sections


def _empty(facts: Facts) -> str:
    """What to say where there is no value to show."""
    if len(facts.y):
        return ""
    if facts.failures:
        told = "No evaluation has a value: all that finished have failed. The messages are below."
    else:
        told = "No evaluation has finished yet. Make the report again when some have."
    return f'<section class="none">{told}</section>'
