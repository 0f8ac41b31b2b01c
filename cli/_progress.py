"""Progress of long commands on stderr: a bar with the time to go on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any

from cli._console import console

__all__ = ["ProgressDisplay"]

_LINE_SECONDS = 10.0
_NAMES = {
    "read": "reading", "check": "checking", "write": "writing", "train": "training", "guide": "first guess",
    "fit": "fitting", "weigh": "weighing", "calibrate": "calibrating",
}  # fmt: skip


class ProgressDisplay:
    """A context that shows the events of one job; silent with ``-q``."""

    def __init__(self) -> None:
        self._bar: Any = None
        self._task: Any = None
        self._stage = ""
        self._printed_at = 0.0

    def __enter__(self) -> ProgressDisplay:
        if console.settings.verbosity >= 0 and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                TaskProgressColumn(),
                TextColumn("{task.fields[eta]}"),
            )
            self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, event: Any) -> None:
        """Show an event of `fields.progress` or of `stationpde.training.progress`."""
        if console.settings.verbosity < 0:
            return
        if event.stage == "validation":
            self._print_line(event.note)
        elif self._bar is not None:
            self._update_bar(event)
        else:
            self._print_event(event)

    def _print_line(self, line: str) -> None:
        """Print a line that stays, above the bar if there is one."""
        if self._bar is not None:
            self._bar.console.print(line, markup=False, highlight=False)
        else:
            console.note(line)

    def _update_bar(self, event: Any) -> None:
        from fields.times import format_elapsed

        total = event.total or None
        eta = "" if event.eta is None else f"{format_elapsed(event.eta)} left"
        eta = "  ".join(filter(None, (eta, getattr(event, "note", ""))))
        if event.stage != self._stage:
            self._stage = event.stage
            self._task = self._bar.add_task(_NAMES.get(event.stage, event.stage), total=total, eta=eta)
        self._bar.update(self._task, completed=event.done, total=total, eta=eta)

    def _print_event(self, event: Any) -> None:
        from fields.times import format_elapsed

        now = time.monotonic()
        begins = event.stage != self._stage
        if not begins and not event.is_last and now - self._printed_at < _LINE_SECONDS:
            return
        self._stage, self._printed_at = event.stage, now
        share = "" if event.fraction is None else f" {100 * event.fraction:3.0f} %"
        eta = "" if event.eta is None or event.is_last else f", {format_elapsed(event.eta)} left"
        ended = f" in {format_elapsed(event.elapsed)}" if event.is_last else ""
        note = getattr(event, "note", "")
        line = f"{_NAMES.get(event.stage, event.stage)}{share} {amount(event.done, event.unit)}{eta}{ended}"
        console.note(f"{line}  {note}" if note else line)


def amount(count: int, unit: str) -> str:
    """Format a count with its unit for people."""
    if unit == "bytes":
        return f"{count / 1e6:,.1f} MB"
    return f"{count:,} {unit.removesuffix('s') if count == 1 else unit}"
