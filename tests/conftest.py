"""What holds for every test: one thread, no network, advice that can be typed, examples that can be repeated."""

from __future__ import annotations

import faulthandler
import importlib.util
import logging
import os
import socket
import sys
from collections.abc import Generator, Iterator
from pathlib import Path

# Before torch is imported, so that its pools start at this size.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Kernels that tests generate stay in the repository, shared by the workers, out of the user's own cache.
os.environ.setdefault("STATIONPDE_CACHE", str(Path(__file__).parents[1] / ".pytest_cache" / "kernels"))

import pytest
import torch
from hypothesis import HealthCheck, settings

from advice_recorder import AdviceRecorder

torch.set_num_threads(1)

# A shared machine stalls for reasons that are not ours: no deadlines. Continuous integration repeats the same
# examples, a desk tries new ones.
settings.register_profile(
    "stationpde", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize="CI" in os.environ
)
settings.load_profile("stationpde")

# A copy, because the output of a test is captured while it runs.
_STDERR = os.fdopen(os.dup(sys.__stderr__.fileno()), "w") if sys.__stderr__ is not None else None
_GRACE = 60  # s beyond the time limit of a test


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """End the process, with the stack of every thread, if a test outlives its time limit by a minute.

    The limit of pytest-timeout is a Python signal handler: a call that blocks in C and keeps the interpreter, or code
    that swallows what the handler raises, would hang the whole run without a word.
    """
    marker = item.get_closest_marker("timeout")
    limit = float(marker.args[0] if marker is not None else item.config.getini("timeout"))
    faulthandler.dump_traceback_later(limit + _GRACE, exit=True, file=_STDERR or sys.stderr)
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse any connection beyond this machine."""
    connect = socket.socket.connect

    def guarded(self: socket.socket, address: object) -> None:
        host = address[0] if isinstance(address, tuple) else None
        if host is not None and host not in ("127.0.0.1", "::1", "localhost"):
            raise AssertionError(f"a test tried to connect to {address!r}")
        connect(self, address)  # type: ignore[arg-type]

    monkeypatch.setattr(socket.socket, "connect", guarded)


@pytest.fixture(autouse=True)
def _loggers_stay() -> Iterator[None]:
    """Put the packages' loggers back: a command run in the test's own process sets their level and handlers."""
    loggers = [logging.getLogger(name) for name in ("pde_ops", "fields", "stationpde")]
    before = [(logger.level, logger.handlers) for logger in loggers]
    yield
    for logger, (level, handlers) in zip(loggers, before, strict=True):
        logger.setLevel(level)
        logger.handlers = handlers


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real observations beside the checkout, or a skip that says so."""
    beside = Path(__file__).parents[2] / "shared"
    folder = Path(os.environ.get("STATIONPDE_SHARED", beside)) / "data"
    if not folder.is_dir():
        pytest.skip(f"no real data at {folder}: set STATIONPDE_SHARED to the folder that holds data/")
    return folder


ADVICE = AdviceRecorder()
if importlib.util.find_spec("cli") is not None:  # tests of the library alone run without the command
    ADVICE.install()


@pytest.fixture(autouse=True)
def _advice_can_be_typed() -> Iterator[None]:
    """Fail the test that met an advice which the real command line does not take."""
    yield
    faults = ADVICE.take_faults()
    assert not faults, "\n".join(faults)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Leave what this process met beside the cache: code, advice and place, one JSON list for each worker."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
    cache = getattr(session.config, "cache", None)  # a run without the plug-in has none
    if ADVICE.met and cache is not None:
        cache.set(f"advice/{worker}", sorted(ADVICE.met))
