"""The report page: one HTML file with its style, its script and its data inside.

Nothing is fetched when it is read, and a policy in its head forbids it: the browser runs the one script whose hash the
policy names, so that a station called ``<script>`` stays a name.
"""

from __future__ import annotations

import base64
import hashlib
import json
import time
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from fields import atomic
from fields.times import format_time
from stationpde.errors import UsageError
from stationpde.report.content import content_of
from stationpde.report.sections import sections, text
from stationpde.report.view import RunView

__all__ = ["check_page", "page", "write_page"]


def check_page(path: str | Path, force: bool = False) -> Path:
    """Check, before any work, that the path ends in .html and is free.

    Raises
    ------
    UsageError
        If it does not; the advice is another ending, or ``--force``.
    """
    target = Path(path)
    if target.suffix.lower() not in (".html", ".htm"):
        raise UsageError(f"'{target.name}' is no name of a page", code="SPDE-R001", do="end it in .html")
    if target.is_dir():
        raise UsageError(f"{target} is a directory", code="SPDE-R002", do="choose another name")
    if target.exists() and not force:
        raise UsageError(f"{target} exists", code="SPDE-R002", do="add --force (in Python: force=True) to replace it")
    atomic.write_probe(target.parent)
    return target


def page(view: RunView) -> str:
    """Build the page about a run as HTML."""
    content = content_of(view)
    script = _part("page.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    notes = "".join(f'<p class="note">{text(note)}</p>' for note in view.notes)
    return Template(_part("page.html")).substitute(
        title=text(f"StationPDE: {view.run.path.name}"), lead=_lead(view), notes=notes, style=_part("page.css"),
        script=script, script_hash=f"sha256-{digest}", content=_json(content), footer=_footer(),
        sections="\n".join(sections(view, content)),
    )  # fmt: skip


def write_page(view: RunView, path: str | Path) -> Path:
    """Write the page; it appears whole or not at all."""
    target = Path(path)
    content = page(view).encode()
    with atomic.machine_faults(target):
        atomic.write_file(target, content)
    return target


def _lead(view: RunView) -> str:
    config = view.run.model.config
    data = config.data
    hours = data.step_seconds / 3600.0
    many = len(view.run.model.statistics.stations)
    grid = view.run.model.region.grid
    summary = (
        f"{many:,} stations, {data.history * hours:g} h of history, {data.horizon * hours:g} h ahead in steps of "
        f"{hours:g} h, on {grid.height} × {grid.width} cells of {grid.dy / 1e3:.0f} km; variant {config.variant}."
    )
    if view.moment is not None:
        summary += f" The forecast shown was issued {format_time(view.moment.issue_time, 'minute')} UTC."
    return text(summary)


def _footer() -> str:
    now = format_time(int(time.time()), "minute") + " UTC"
    return f"Written {now}. This file is all there is: it needs no server and no network."


def _json(content: dict[str, Any]) -> str:
    """Encode as JSON that can stand inside a page: no character of it ends the element."""
    plain = json.dumps(content, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return plain.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _part(name: str) -> str:
    return files("stationpde.report").joinpath(name).read_text(encoding="utf-8")
