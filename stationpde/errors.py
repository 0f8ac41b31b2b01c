"""Typed errors of the model, its training and its artefacts: what, where, and what to type.

Each has a stable ``code``, an ``exit_code`` for command lines and, where one is known, ``do``. What concerns
observations is raised by ``fields`` (see `fields.errors`), whose errors have the same shape.
"""

from __future__ import annotations

from fields.errors import printable

__all__ = [
    "ConfigError",
    "CorruptArtefactError",
    "DivergedError",
    "Interrupted",
    "LockedError",
    "ResourceError",
    "StaleDataError",
    "StationPDEError",
    "UsageError",
]


class StationPDEError(Exception):
    """Base of every error that ``stationpde`` raises on purpose."""

    code = "SPDE-T000"
    exit_code = 1

    def __init__(
        self, message: str, *, code: str | None = None, where: str | None = None, do: str | None = None
    ) -> None:
        super().__init__(message)
        # The breaks between lines are ours; what stands on a line may come from a file.
        self.message = "\n".join(printable(line) for line in message.splitlines())
        self.where = printable(where) if where else None
        self.do = printable(do) if do else None
        self.code = code or type(self).code

    def __str__(self) -> str:
        return "; ".join(part for part in (self.message, self.where, self.do) if part)

    def __reduce__(self) -> tuple[object, ...]:
        # Errors cross process borders (data-loader workers); keyword arguments would be lost.
        return _revive, (type(self), self.message, self.code, self.where, self.do)


def _revive(kind: type[StationPDEError], message: str, code: str, where: str | None, do: str | None) -> StationPDEError:
    return kind(message, code=code, where=where, do=do)


class UsageError(StationPDEError):
    """The call cannot be carried out as asked."""

    code = "SPDE-T001"
    exit_code = 2


class ConfigError(StationPDEError):
    """A configuration that is unknown, impossible, or other than the run's own."""

    code = "SPDE-C001"
    exit_code = 4


class CorruptArtefactError(StationPDEError):
    """A checkpoint or run is damaged, unfinished, foreign, or does not fit what it is used with."""

    code = "SPDE-T050"
    exit_code = 5


class DivergedError(StationPDEError):
    """Training left the finite numbers and could not be brought back."""

    code = "SPDE-T060"
    exit_code = 6


class ResourceError(StationPDEError):
    """The machine cannot do it: no room, no right to write, no memory, a helper process that died."""

    code = "SPDE-T070"
    exit_code = 7


class LockedError(StationPDEError):
    """Another process is writing the same run."""

    code = "SPDE-T080"
    exit_code = 8


class StaleDataError(StationPDEError):
    """The latest observations are older than was allowed: nothing is wrong that waiting does not mend.

    ``exit_code`` is 75, "try again later", so that a scheduler can tell late data from bad data.
    """

    code = "SPDE-T095"
    exit_code = 75


class Interrupted(StationPDEError):  # noqa: N818 - not a fault: the run was asked to stop and can go on
    """The run was told to stop, saved a checkpoint and goes on when the same command is typed again.

    ``exit_code`` is 75, or 130 after Ctrl-C.
    """

    code = "SPDE-T075"
    exit_code = 75

    @classmethod
    def by_user(cls, message: str, *, where: str | None = None, do: str | None = None) -> Interrupted:
        """The same after Ctrl-C."""
        made = cls(message, code="SPDE-X004", where=where, do=do)
        made.exit_code = 130
        return made
