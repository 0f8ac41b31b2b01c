"""What holds for every test of the command: it starts with the settings of a fresh process."""

from __future__ import annotations

import pytest

from cli._console import Globals, console


@pytest.fixture(autouse=True)
def _fresh_console(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each test its own settings: ``-q`` of one command must not silence the next in the same worker."""
    monkeypatch.setattr(console, "settings", Globals())
