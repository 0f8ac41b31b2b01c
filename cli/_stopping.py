"""What a batch system's SIGTERM means to a command that can go on later: stop, keep what is done, exit 75.

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
    """The command was told to stop and can go on where it stopped."""

    code = "SPDE-X006"
    exit_code = ExitCode.RESUMABLE
    message = "stopped by SIGTERM; what was finished is kept"
    do = "type the same command again: it goes on where it stopped"


class _TerminatedError(KeyboardInterrupt):
    """SIGTERM on its way through the program; libraries that tidy up after Ctrl-C do so after it too."""


@contextmanager
def resumable() -> Iterator[None]:
    """A context for work that is resumed by the same command.

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
        console.note("what was finished is kept; the same command goes on from there")
        raise
    finally:
        signal.signal(signal.SIGTERM, before)


def _terminate(number: int, frame: Any) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    raise _TerminatedError
