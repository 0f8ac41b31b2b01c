"""Fixtures of the tests of the command: fresh settings, and a function that runs a command in this process."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cli._console import Globals, console
from cli.main import app


@pytest.fixture(autouse=True)
def _fresh_console(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each test its own settings: ``-q`` of one command must not silence the next in the same worker."""
    monkeypatch.setattr(console, "settings", Globals())


@pytest.fixture
def stationpde(
    capfd: pytest.CaptureFixture[str], request: pytest.FixtureRequest
) -> Callable[..., tuple[int, str, str]]:
    """Return a function that runs a command in this process and returns exit code, stdout and stderr.

    What the commands printed is shown with the report of a test that fails.
    """

    def run(*words: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            app([str(word) for word in words])
        out, err = capfd.readouterr()
        request.node.add_report_section("call", f"stationpde {words[0] if words else ''}", f"{out}\n{err}")
        return int(ended.value.code or 0), out, err

    return run
