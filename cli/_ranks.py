"""Result and error of a command that runs as several ranks: what each rank reports, and its exit code."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from cli._console import console
from cli._errors import Failure, explain

__all__ = ["as_rank"]


def as_rank(work: Callable[[], Mapping[str, Any]]) -> int:
    """Do the work of one rank, report the outcome to the launcher, and return the exit code of this process.

    Rank 0 reports for all. A rank that lost another to a kill ends with 1, which makes torchrun restart all; a rank
    that waits in vain for one that hangs ends the run, whichever rank it is. Every other error would only repeat: it is
    reported, and the rank ends with 0.
    """
    from stationpde.training import LostRankError, report_outcome, sign_in

    sign_in()
    try:
        result = work()
    except LostRankError as problem:
        if problem.hangs:
            _report(explain(problem))
        console.note(f"rank {os.environ['RANK']}: {problem.message}")
        return 1
    except BaseException as problem:  # noqa: BLE001 - the boundary of a rank, as `Boundary` is of a command
        failure = explain(problem)
        if os.environ["RANK"] == "0":
            if console.settings.debug:
                console.traceback(problem)
            _report(failure)
        elif failure.exit_code == 1:
            console.error(failure.lines())
            return 1
        return 0
    if os.environ["RANK"] == "0":
        report_outcome({"exit_code": 0, "result": dict(result)})
    return 0


def _report(failure: Failure) -> None:
    from stationpde.training import report_outcome

    about = {"code": failure.code, "message": failure.message, "where": failure.where, "do": failure.do}
    report_outcome({"exit_code": int(failure.exit_code), "error": about})
