"""The only place that prints.

Results for people go to stdout, or to stderr when ``--json`` keeps stdout for one JSON object; notes and
errors always go to stderr. Control characters in data (a station name may hold an escape sequence) are shown,
never sent.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TextIO

from cli._globals import Globals

__all__ = ["Console", "console", "shown"]

_SHOWN = {code: f"\\x{code:02x}" for code in [*range(32), *range(127, 160)] if chr(code) not in "\n\t"}


class Console:
    """Writes text, tables and results according to the global options."""

    def __init__(self) -> None:
        self.settings = Globals()

    @property
    def people(self) -> TextIO:
        """Where text for people goes."""
        return sys.stderr if self.settings.json else sys.stdout

    def configure(self, settings: Globals) -> None:
        """Apply the global options of this invocation."""
        self.settings = settings
        for stream in (sys.stdout, sys.stderr):
            # A terminal that cannot show `∇²` gets an escape instead of a crash.
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="backslashreplace")

    def start_logging(self) -> None:
        """Send the libraries' log records to stderr at the chosen level."""
        import logging

        class Plain(logging.Formatter):
            """One line a record, control characters shown."""

            def format(self, record: logging.LogRecord) -> str:
                return f"{record.levelname.lower()}: {record.getMessage()}".translate(_SHOWN)

        class Once(logging.Filter):
            """Print a warning once: several parts of a model may warn about the same few stations."""

            printed: set[str] = set()  # noqa: RUF012 - of this invocation

            def filter(self, record: logging.LogRecord) -> bool:
                is_repeated = record.getMessage() in self.printed
                self.printed.add(record.getMessage())
                return not is_repeated or record.levelno != logging.WARNING

        levels = {-1: logging.ERROR, 0: logging.WARNING, 1: logging.INFO, 2: logging.DEBUG}
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(Plain())
        handler.addFilter(Once())
        for name in ("pde_ops", "fields", "stationpde"):
            logger = logging.getLogger(name)
            logger.handlers = [handler]
            logger.setLevel(levels[self.settings.verbosity])

    def text(self, message: str = "") -> None:
        """Print a result for people."""
        _write(message.translate(_SHOWN), self.people)

    def note(self, message: str) -> None:
        """Print a note to stderr; `-q` silences it."""
        if self.settings.verbosity >= 0:
            _write(message.translate(_SHOWN), sys.stderr)

    def result(self, value: Mapping[str, Any]) -> None:
        """Print the one object of ``--json``; without that option, nothing."""
        if self.settings.json:
            encoding = (getattr(sys.stdout, "encoding", None) or "ascii").lower().replace("-", "")
            text = json.dumps(_plain(value), indent=2, ensure_ascii=encoding != "utf8", allow_nan=False)
            _write(text, sys.stdout)

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[str]], essential: int = 2) -> None:
        """Print rows under headings: whole, one unbroken line a row, when piped; fitted to a terminal.

        A terminal too narrow for everything shows the ``essential`` columns, and of the rest what has room.
        """
        shown = [[cell.translate(_SHOWN) for cell in row] for row in rows]
        widths = [max(map(len, cells)) for cells in zip(columns, *shown, strict=True)]
        if self.people.isatty():
            count = _columns_that_fit(widths, essential)
            self._fitted_table(columns[:count], [row[:count] for row in shown])
            return
        for row in [list(columns), *shown]:
            line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            _write(line.rstrip(), self.people)

    def _fitted_table(self, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        from rich.console import Console as RichConsole
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
        for index, column in enumerate(columns):
            # The first column is what one copies and types again: it is never folded.
            table.add_column(column, no_wrap=index == 0)
        for row in rows:
            table.add_row(*(Text(cell) for cell in row))
        RichConsole(file=self.people).print(table)

    def error(self, lines: Sequence[str]) -> None:
        """Print an error in the project's form; the first word is red where colour is wanted."""
        first, *others = (line.translate(_SHOWN) for line in lines)
        if _wants_colour(sys.stderr):
            word, _, tail = first.partition(" ")
            first = f"\x1b[1;31m{word}\x1b[0m {tail}"
        _write("\n".join([first, *others]), sys.stderr)

    def traceback(self, problem: BaseException) -> None:
        """Print the traceback, for ``--debug``."""
        import traceback

        _write("".join(traceback.format_exception(problem)).rstrip().translate(_SHOWN), sys.stderr)


def shown(value: object) -> str:
    """Format a value for people: four digits of a number, words for what is not there or a switch."""
    if value is None or isinstance(value, bool):
        return {None: "none", True: "yes", False: "no"}[value]
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _columns_that_fit(widths: Sequence[int], essential: int) -> int:
    room = shutil.get_terminal_size().columns
    fits = [n for n in range(essential, len(widths) + 1) if sum(widths[:n]) + 2 * n <= room]
    return max(fits, default=min(essential, len(widths)))


def _write(text: str, stream: TextIO) -> None:
    try:
        print(text, file=stream, flush=True)
    except BrokenPipeError:
        # The reader (`| head`) has closed the pipe: the rest is dropped, and the command still ends as it would.
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), stream.fileno())


def _wants_colour(stream: TextIO) -> bool:
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _plain(value: Any) -> Any:
    """Convert to what JSON can hold: a number that is not finite becomes null, an unknown object its text."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int | str):
        return value
    return str(value)


console = Console()
