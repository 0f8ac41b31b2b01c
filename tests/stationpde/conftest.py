"""Real training processes for tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from training_processes import Zygote


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
