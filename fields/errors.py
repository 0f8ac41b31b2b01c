"""Typed errors and reports: what is wrong, where, why, and what to type.

A `Problem` is one finding. A `ProblemReport` collects independent findings so that a user mends them in one go. A
`FieldsError` is what is raised: it has a stable ``code``, an ``exit_code`` for command lines and, where one is
known, ``do``: the command to type.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Literal, TypeGuard

__all__ = [
    "CorruptStoreError",
    "DataError",
    "FieldsError",
    "LockedError",
    "Problem",
    "ProblemReport",
    "ResourceError",
    "UsageError",
    "counted",
    "is_finite_number",
    "is_whole",
    "locate",
    "printable",
    "require_processes",
]

Severity = Literal["error", "warning", "notice"]

# Processes side by side that any machine may be asked for; more only where it has as many cores.
_PROCESSES = 16
# Independent problems of one severity that are shown; the rest are counted.
MOST_SHOWN = 20


def printable(text: object) -> str:
    r"""Return text that cannot move the cursor or break a line: control characters are written as ``\x1b``.

    Station names come from files that others wrote; an escape sequence in one must not reach a terminal.
    """
    raw = str(text)
    if raw.isprintable():
        return raw
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in raw)


def counted(number: int, noun: str) -> str:
    """Write ``1 station``, ``2,160 stations``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def is_whole(value: object, least: int | None = None) -> bool:
    """Return whether a value is a whole number (no bool, no float), of at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        return False
    return least is None or int(value) >= least


def is_finite_number(value: object) -> TypeGuard[float]:
    """Return whether a value is a real number (no bool, no text) that is finite."""
    return not isinstance(value, bool) and isinstance(value, Real) and math.isfinite(value)


def require_processes(count: object, option: str) -> None:
    """Refuse a number of processes that a machine does not run side by side, before the first of them is started.

    Raises
    ------
    UsageError
        For no whole number from 0, or more than 16 and than there are cores.
    """
    cores, shown = os.cpu_count() or 1, printable(repr(count))[:40]
    if not is_whole(count, 0):
        what = f"a number of processes is a whole one from 0, not {shown}"
    elif int(str(count)) > max(_PROCESSES, cores):
        what = f"{shown} processes are more than this machine of {counted(cores, 'core')} runs side by side"
    else:
        return
    raise UsageError(what, code="SPDE-D001", do=f"{option} {cores}")


def locate(*parts: object, stations: Iterable[object] | None = None, out_of: int | None = None) -> str:
    """Write a place as ``file › variable › 41 of 64 stations (first: 71799, 71200)``; empty parts are left out."""
    named = [printable(part) for part in parts if part not in (None, "")]
    if stations is not None:
        ids = [printable(station) for station in stations]
        if len(ids) == 1:
            named.append(f"station {ids[0]}")
        elif ids:
            count = f"{len(ids)} of {out_of}" if out_of else f"{len(ids)}"
            named.append(f"{count} stations (first: {', '.join(ids[:3])})")
    return " › ".join(named)


@dataclass(frozen=True, slots=True)
class Problem:
    """One finding: ``what`` in a sentence, ``where``, ``why`` (the value against what is allowed), ``do``."""

    code: str
    what: str
    where: str = ""
    why: str = ""
    do: str = ""
    severity: Severity = "error"

    def __post_init__(self) -> None:
        for name in ("what", "where", "why", "do"):
            object.__setattr__(self, name, printable(getattr(self, name)))

    def lines(self) -> list[str]:
        """Return the finding for people, as lines."""
        place = "   ".join(part for part in (self.where, self.why) if part)
        details = [(label, text) for label, text in (("where", place), ("do", self.do)) if text]
        return [f"{self.severity} {self.code}: {self.what}", *(f"  {label:<6}{text}" for label, text in details)]

    def to_dict(self) -> dict[str, str]:
        """Return the finding for machines."""
        return {name: getattr(self, name) for name in ("severity", "code", "what", "where", "why", "do")}


class FieldsError(Exception):
    """Base of every error that ``fields`` raises on purpose."""

    code = "SPDE-D000"
    exit_code = 3

    def __init__(
        self, message: str, *, code: str | None = None, where: str | None = None, do: str | None = None
    ) -> None:
        super().__init__(message)
        self.message = printable(message)
        self.where = printable(where) if where else None
        self.do = printable(do) if do else None
        self.code = code or type(self).code
        self.problems: tuple[Problem, ...] = ()

    @classmethod
    def from_problems(cls, problems: Iterable[Problem], hidden: int = 0) -> FieldsError:
        """Make one error of one or several problems, with the code of the first; ``hidden`` more are only counted."""
        listed = tuple(problems)
        first = listed[0]
        if len(listed) == 1 and not hidden:
            where = "   ".join(part for part in (first.where, first.why) if part)
            error = cls(first.what, code=first.code, where=where or None, do=first.do or None)
        else:
            error = cls(f"{len(listed) + hidden} problems", code=first.code)
            shown = [line for problem in listed for line in problem.lines()]
            more = [f"and {hidden} more"] if hidden else []
            # Each line is printable by itself; the line breaks between them stay.
            error.message = "\n".join([error.message, *shown, *more])
        error.problems = listed
        return error

    def __str__(self) -> str:
        return "; ".join(part for part in (self.message, self.where, self.do) if part)

    def __reduce__(self) -> tuple[object, ...]:
        # Errors cross process borders (dask workers); keyword arguments would be lost.
        return _revive, (type(self), self.message, self.code, self.where, self.do, self.problems)


def _revive(
    kind: type[FieldsError],
    message: str,
    code: str,
    where: str | None,
    do: str | None,
    problems: tuple[Problem, ...],
) -> FieldsError:
    error = kind(message, code=code, where=where, do=do)
    error.message, error.problems = message, problems
    return error


class UsageError(FieldsError):
    """The call cannot be carried out as asked."""

    code = "SPDE-D001"
    exit_code = 2


class DataError(FieldsError):
    """The observations are not what they are said to be, or cannot be used."""

    code = "SPDE-D002"
    exit_code = 3


class CorruptStoreError(FieldsError):
    """A store is damaged, unfinished, foreign, or of a version that this one cannot read."""

    code = "SPDE-D050"
    exit_code = 5


class ResourceError(FieldsError):
    """The machine cannot do it: no room, no right to write, no memory."""

    code = "SPDE-D060"
    exit_code = 7


class LockedError(FieldsError):
    """Another process is writing the same output."""

    code = "SPDE-D065"
    exit_code = 8


class ProblemReport:
    """Findings of one check, at most 20 of each severity kept, all of them counted."""

    def __init__(self, problems: Iterable[Problem] = ()) -> None:
        self._findings: dict[str, list[Problem]] = {"error": [], "warning": [], "notice": []}
        self._seen: dict[str, int] = dict.fromkeys(self._findings, 0)
        for problem in problems:
            self.add(problem)

    def add(self, problem: Problem) -> None:
        """Keep a finding, or only count it once there are 20 of its severity."""
        self._seen[problem.severity] += 1
        if len(self._findings[problem.severity]) < MOST_SHOWN:
            self._findings[problem.severity].append(problem)

    def error(self, code: str, what: str, *, where: str = "", why: str = "", do: str = "") -> None:
        """Add an error."""
        self.add(Problem(code, what, where, why, do, "error"))

    def warning(self, code: str, what: str, *, where: str = "", why: str = "", do: str = "") -> None:
        """Add a warning."""
        self.add(Problem(code, what, where, why, do, "warning"))

    def notice(self, code: str, what: str, *, where: str = "", why: str = "", do: str = "") -> None:
        """Add a notice."""
        self.add(Problem(code, what, where, why, do, "notice"))

    def extend(self, other: ProblemReport) -> None:
        """Take over another report's findings and counts."""
        for severity, problems in other._findings.items():
            room = MOST_SHOWN - len(self._findings[severity])
            self._findings[severity].extend(problems[:room])
            self._seen[severity] += other._seen[severity]

    @property
    def errors(self) -> tuple[Problem, ...]:
        """The errors kept."""
        return tuple(self._findings["error"])

    @property
    def warnings(self) -> tuple[Problem, ...]:
        """The warnings kept."""
        return tuple(self._findings["warning"])

    @property
    def notices(self) -> tuple[Problem, ...]:
        """The notices kept."""
        return tuple(self._findings["notice"])

    def count(self, severity: Severity) -> int:
        """Return the number of findings of a severity, kept or only counted."""
        return self._seen[severity]

    @property
    def ok(self) -> bool:
        """Whether there is no error."""
        return self._seen["error"] == 0

    def __iter__(self) -> Iterator[Problem]:
        return iter((*self.errors, *self.warnings, *self.notices))

    def __len__(self) -> int:
        return sum(self._seen.values())

    def codes(self) -> set[str]:
        """Return the codes of all kept findings."""
        return {problem.code for problem in self}

    def lenient(self) -> ProblemReport:
        """Return the same findings with errors as warnings, for a user who vouches for the values."""
        return ProblemReport(
            replace(problem, severity="warning") if problem.severity == "error" else problem for problem in self
        )

    def raise_if_errors(self, kind: type[FieldsError] = DataError) -> None:
        """Raise all errors as one."""
        if not self.ok:
            raise kind.from_problems(self.errors, self._seen["error"] - len(self.errors))

    def lines(self) -> list[str]:
        """Return the whole report for people, as lines."""
        shown = [line for problem in self for line in problem.lines()]
        hidden = len(self) - sum(len(problems) for problems in self._findings.values())
        return [*shown, f"and {hidden} more"] if hidden else shown

    def to_dict(self) -> dict[str, object]:
        """Return the whole report for machines."""
        return {
            "ok": self.ok,
            "counts": {f"{severity}s": count for severity, count in self._seen.items()},
            "problems": [problem.to_dict() for problem in self],
        }
