"""SIGTERM of a batch system, for a command that can be resumed: stop, keep what is done, exit 75.

The signal becomes an interrupt like Ctrl-C, so that everything on the way out (locks, clusters, finished blocks) is
left in order; the difference is the exit code, which tells a queue to start the same command again. A second SIGTERM
ends the process at once, which costs no more than any kill.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from cli._console import console
from cli._errors import ExitCode

__all__ = ["StoppedError", "resumable"]


class StoppedError(Exception):
    """The command was stopped by SIGTERM; the same command resumes it."""

    code = "SPDE-X006"
    exit_code = ExitCode.RESUMABLE
    message = "stopped by SIGTERM; what was finished is kept"
    do = "type the same command again: it resumes where it stopped"


class _TerminatedError(KeyboardInterrupt):
    """SIGTERM as an exception; libraries that clean up after Ctrl-C do so after it, too."""


@contextmanager
def resumable() -> Iterator[None]:
    """Run work that the same command resumes after a signal.

    Raises
    ------
    StoppedError
        After SIGTERM. Ctrl-C stays `KeyboardInterrupt`, with a note that nothing is lost.
    """
    if threading.current_thread() is not threading.main_thread():  # only there may handlers be set
        yield
        return
    before = signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    except _TerminatedError:
        raise StoppedError(StoppedError.message) from None
    except KeyboardInterrupt:
        console.note("what was finished is kept; the same command resumes from there")
        raise
    finally:
        signal.signal(signal.SIGTERM, before)


def _terminate(number: int, frame: Any) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    raise _TerminatedError
