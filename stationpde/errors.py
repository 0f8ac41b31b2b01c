"""Typed errors of the model, its training and its artefacts: what is wrong, where, and what to type.

All errors of ``fields`` and ``stationpde`` are one family with `fields.errors.FieldsError` as its base: each
has a stable ``code``, an ``exit_code`` for command lines and, where one is known, ``do``. `UsageError`,
`ResourceError` and `LockedError` are those of `fields.errors`; code of ``stationpde`` passes a ``code`` of its own.
"""

from __future__ import annotations

import warnings

from fields.errors import DataError, FieldsError, LockedError, ResourceError, UsageError, printable

__all__ = [
    "ConfigError",
    "CorruptArtefactError",
    "FieldsError",
    "Interrupted",
    "LockedError",
    "ResourceError",
    "StaleDataError",
    "StationPDEError",
    "TrainingDivergedError",
    "UsageError",
    "can_be_waited_out",
]


class StationPDEError(FieldsError):
    """Base of the errors that only ``stationpde`` raises; `FieldsError` is the base of all."""

    code = "SPDE-T000"
    exit_code = 1

    def __init__(
        self, message: str, *, code: str | None = None, where: str | None = None, do: str | None = None
    ) -> None:
        super().__init__(message, code=code, where=where, do=do)
        # Line breaks are written by this package; the text of a line may come from a file.
        self.message = "\n".join(printable(line) for line in message.splitlines())


class ConfigError(StationPDEError):
    """A configuration that is unknown, impossible, or different from that of the run."""

    code = "SPDE-C001"
    exit_code = 4


class CorruptArtefactError(StationPDEError):
    """A checkpoint or run is damaged, unfinished, foreign, or does not fit what it is used with."""

    code = "SPDE-T050"
    exit_code = 5


class TrainingDivergedError(StationPDEError):
    """Training or a forecast left the finite numbers and could not be brought back."""

    code = "SPDE-T060"
    exit_code = 6


class StaleDataError(StationPDEError):
    """The latest observations are older than was allowed; the command succeeds once later ones arrive.

    ``exit_code`` is 75, "try again later", so that a scheduler can tell late data from bad data.
    """

    code = "SPDE-T095"
    exit_code = 75


class Interrupted(StationPDEError):  # noqa: N818 - not a fault: the run was told to stop and can be resumed
    """The run was told to stop and saved a checkpoint; the same command resumes it.

    ``exit_code`` is 75, or 130 after Ctrl-C.
    """

    code = "SPDE-T075"
    exit_code = 75

    @classmethod
    def by_user(cls, message: str, *, where: str | None = None, do: str | None = None) -> Interrupted:
        """Build the error for Ctrl-C: exit code 130."""
        interrupted = cls(message, code="SPDE-X004", where=where, do=do)
        interrupted.exit_code = 130
        return interrupted


def can_be_waited_out(problem: FieldsError) -> bool:
    """Tell whether later observations can mend an error: late data, or a problem of the data.

    The latter are `DataError`, whatever its code (a record that is still too short is ``SPDE-T091``), and all errors
    of reading observations (codes ``SPDE-D…``).
    """
    return isinstance(problem, StaleDataError | DataError) or problem.code.startswith("SPDE-D")


def __getattr__(name: str) -> type[StationPDEError]:
    if name == "DivergedError":
        warnings.warn("stationpde.errors.DivergedError is now TrainingDivergedError", DeprecationWarning, stacklevel=2)
        return TrainingDivergedError
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
