"""Typed errors: each has a stable code, an exit code for command lines, and, where one is known, the mend."""

from __future__ import annotations


class PdeOpsError(Exception):
    """Base of every error this library raises on purpose.

    ``code`` is stable and documented; ``exit_code`` is what a command line returns; ``do`` says what to type or
    change, as one sentence.
    """

    code = "SPDE-P000"
    exit_code = 4

    def __init__(self, message: str, *, do: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.do = do

    def __str__(self) -> str:
        return f"{self.message}; {self.do}" if self.do else self.message


class UnitError(PdeOpsError):
    """Two quantities meet whose units do not fit, or a unit is unknown or not allowed here."""

    code = "SPDE-U001"


class PlausibilityError(PdeOpsError):
    """The declared unit is formally right but the values cannot be what it says."""

    code = "SPDE-U002"
    exit_code = 3


class DeclarationError(PdeOpsError):
    """An operator, symbol or system is declared in a way that cannot work."""

    code = "SPDE-P001"


class UnknownNameError(PdeOpsError, KeyError):
    """A look-up by a name that nobody registered."""

    code = "SPDE-P002"
    exit_code = 2


class DuplicateNameError(PdeOpsError):
    """Two owners claim the same registered name."""

    code = "SPDE-P003"


class ShapeError(PdeOpsError):
    """A tensor does not have the shape, dtype or device that the compiled system needs."""

    code = "SPDE-P004"


class GridError(PdeOpsError):
    """The grid cannot carry what is asked of it."""

    code = "SPDE-P005"


class StabilityError(PdeOpsError):
    """The time step cannot be made stable within the allowed number of sub-steps."""

    code = "SPDE-P006"


class BackendError(PdeOpsError):
    """A backend cannot run this system here."""

    code = "SPDE-P007"


class DivergedError(PdeOpsError):
    """An integration left the finite numbers."""

    code = "SPDE-P008"
    exit_code = 6


class ObservationError(PdeOpsError):
    """Observations cannot be assimilated: there are none, or their places, times, values or errors do not allow it."""

    code = "SPDE-P009"
    exit_code = 3
