"""Real training processes, and short runs to forecast with."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from training_processes import Zygote

if TYPE_CHECKING:
    from small_run import SmallRuns


@pytest.fixture(scope="session")
def _zygote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zygote]:
    made = Zygote(tmp_path_factory.mktemp("zygote"))
    yield made
    made.process.stdin.close()
    made.process.wait(timeout=60)


@pytest.fixture
def processes(_zygote: Zygote) -> Zygote:
    """Starts real training processes."""
    return _zygote


@pytest.fixture(scope="session")
def small_runs(tmp_path_factory: pytest.TempPathFactory) -> SmallRuns:
    """Two short runs that differ in their seed, and a store of observations."""
    from small_run import small_runs as made

    return made(tmp_path_factory.mktemp("small"))
