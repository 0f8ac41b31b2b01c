"""What a check of the generic suite reports."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CheckFailure", "CheckResult", "CheckSkipped"]


@dataclass(frozen=True, slots=True)
class CheckResult:
    """Outcome of one check on one operator.

    Attributes
    ----------
    check : name of the check, with the border in brackets where it depends on one
    passed : False only if the operator breaks a promise; a skipped check has passed
    detail : what was found, with numbers; the reason of a failure or of a skip
    skipped : the check could not be run here
    """

    check: str
    passed: bool
    detail: str
    skipped: bool = False

    def __str__(self) -> str:
        mark = "skipped" if self.skipped else "passed" if self.passed else "FAILED"
        return f"{self.check}: {mark} ({self.detail})"


class CheckFailure(AssertionError):  # noqa: N818  # a finding about an operator, not an error of the suite
    """An operator breaks a promise it made."""


class CheckSkipped(Exception):  # noqa: N818  # the absence of an outcome, not an error
    """A check cannot be run here, or does not apply."""
