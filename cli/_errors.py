"""Exit codes, the form of an error, and the boundary that turns every exception into both.

An error of this project has a stable ``code``, an ``exit_code`` and, where one is known, ``do``: what to type. Any
other exception that is not listed here is reported as a defect of the project.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from types import TracebackType

import typer

from cli._console import console

__all__ = ["Boundary", "ExitCode", "Failure", "explain"]


class ExitCode(IntEnum):
    """Exit codes of the command."""

    OK = 0
    BUG = 1
    USAGE = 2
    DATA = 3
    CONFIG = 4
    ARTEFACT = 5
    DIVERGED = 6
    RESOURCE = 7
    LOCKED = 8
    RESUMABLE = 75
    INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class Failure:
    """An error ready to be shown: ``where`` and ``do`` are separate lines when they are set."""

    code: str
    message: str
    exit_code: int
    where: str | None = None
    do: str | None = None

    def lines(self) -> list[str]:
        """Return the error as lines of text."""
        details = [(label, text) for label, text in (("where", self.where), ("do", self.do)) if text]
        return [f"error {self.code}: {self.message}", *(f"  {label:<6}{text}" for label, text in details)]


def explain(problem: BaseException, words: Sequence[str] = ()) -> Failure:
    """Convert an exception to a failure with code, message and exit code.

    Parameters
    ----------
    words : the command line, for advice that can be typed with this command
    """
    code = getattr(problem, "code", None)
    if isinstance(code, str) and code.startswith("SPDE-"):
        return Failure(
            code,
            str(getattr(problem, "message", problem)),
            int(getattr(problem, "exit_code", ExitCode.BUG)),
            where=getattr(problem, "where", None),
            do=_with_options(getattr(problem, "do", None), words),
        )
    if isinstance(problem, typer.TyperException):
        return _usage(problem)
    if isinstance(problem, KeyboardInterrupt | typer.Abort):
        return Failure("SPDE-X004", "interrupted", ExitCode.INTERRUPTED)
    if isinstance(problem, MemoryError):
        return Failure(
            "SPDE-X003", "out of memory", ExitCode.RESOURCE, do="use smaller batches, a coarser grid or fewer stations"
        )
    if isinstance(problem, ModuleNotFoundError) and _top(problem) not in _PROJECT:
        return Failure("SPDE-X005", str(problem), ExitCode.RESOURCE, do=f"pip install {_top(problem)}")
    if isinstance(problem, ImportError) and not isinstance(problem, ModuleNotFoundError):
        return Failure("SPDE-X005", str(problem), ExitCode.RESOURCE)
    if isinstance(problem, OSError) and (problem.errno in _MACHINE_FAULTS or _has_no_place(problem)):
        return Failure("SPDE-X002", str(problem), ExitCode.RESOURCE, do="choose a path with room and access")
    kind = type(problem).__name__
    return Failure(
        "SPDE-X000",
        f"unexpected {kind}: {problem}" if str(problem) else f"unexpected {kind}",
        ExitCode.BUG,
        where=_origin(problem),
        do="stationpde doctor; this is a defect: report it with that output and what --debug shows",
    )


class Boundary:
    """Context manager around a whole command: reports any exception and stores its exit code.

    Parameters
    ----------
    words : the command line
    """

    def __init__(self, words: Sequence[str] = ()) -> None:
        self.words = words
        self.exit_code: int = ExitCode.OK

    def __enter__(self) -> Boundary:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if problem is None or isinstance(problem, SystemExit | GeneratorExit):
            return False
        failure = explain(problem, self.words)
        self.exit_code = failure.exit_code
        report(failure, problem)
        return True


def report(failure: Failure, problem: BaseException | None = None) -> None:
    """Print a failure, as text and, if requested, as JSON."""
    if problem is not None and console.settings.debug:
        console.traceback(problem)
    if failure.exit_code == ExitCode.INTERRUPTED:
        console.note("interrupted" if failure.do is None else f"interrupted: {failure.message}\n  do    {failure.do}")
    else:
        console.error(failure.lines())
    about = {"code": failure.code, "message": failure.message, "where": failure.where, "do": failure.do}
    console.result({"error": {**about, "exit_code": int(failure.exit_code)}})


def _with_options(do: str | None, words: Sequence[str]) -> str | None:
    """Write the keys of the configuration that an advice names as options, where the command takes them so."""
    path = tuple(word for word in words if not word.startswith("-"))
    if do is None or not {path[:1], path[:2]} & set(TAKE_KEYS):
        return do
    return _KEY.sub(r"--set \g<0>", do)


# Commands that change keys of the configuration by `--set KEY=VALUE`.
TAKE_KEYS = (("train",), ("benchmark",), ("ablate",), ("demo",), ("plot", "w-alt"), ("config", "show"))
_KEY = re.compile(r"(?<![\w.-])(?<!--set )[a-z]+\.[a-z_]+=(?=\S)")
_PROJECT = {"pde_ops", "fields", "stationpde", "cli"}
_MACHINE_FAULTS = {
    errno.ENOSPC, errno.EACCES, errno.EPERM, errno.EROFS, errno.EDQUOT, errno.EMFILE, errno.ENAMETOOLONG,
    errno.ENOTDIR, errno.ELOOP, errno.EIO, errno.ESTALE, errno.ENODEV, errno.ENXIO, errno.ETIMEDOUT,
}  # fmt: skip


def _has_no_place(problem: OSError) -> bool:
    """Tell whether a file cannot be created, as in /proc, or is gone since it was listed; one of ours is a defect."""
    if problem.errno != errno.ENOENT or not isinstance(problem.filename, str):
        return False
    return Path(__file__).parent.parent not in Path(problem.filename).absolute().parents


def _usage(problem: typer.TyperException) -> Failure:
    context = getattr(problem, "ctx", None)
    path = context.command_path if context is not None else "stationpde"
    option = getattr(problem, "option_name", None)
    key = None if option is None else _key_of(option, path)
    if key is not None:
        return Failure("SPDE-X001", f"no such option: {option}", ExitCode.USAGE, do=f"--set {key}=…")
    message = problem.format_message().rstrip(".")
    return Failure("SPDE-X001", message[:1].lower() + message[1:], ExitCode.USAGE, do=f"{path} --help")


def _key_of(option: str, path: str) -> str | None:
    """Return the key of the configuration that was typed as an option: ``train.epochs`` of ``--epochs``."""
    if path.rpartition(" ")[2] not in ("train", "benchmark", "ablate"):
        return None
    from stationpde.config import Config

    name = option.lstrip("-").replace("-", "_")
    sections = {title: getattr(part.annotation, "model_fields", {}) for title, part in Config.model_fields.items()}
    return next((f"{title}.{name}" for title, keys in sections.items() if name in keys), None)


def _top(problem: ModuleNotFoundError) -> str:
    return (problem.name or "").partition(".")[0]


def _origin(problem: BaseException) -> str | None:
    trace = problem.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return None
    return f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
