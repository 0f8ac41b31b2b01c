"""What the README and the documentation show as commands runs as typed, page by page."""

from pathlib import Path

import pytest

from cli._console import Globals, console
from cli.main import app
from shell_page import ROOT, SHARED, SHORTER, needs_real_data, preparation, run_page, run_shell, shell_blocks, typed

README = ROOT / "README.md"
PAGES = [README, *(page for page in sorted((ROOT / "docs").rglob("*.md")) if shell_blocks(page))]


def check(page: Path, where: Path) -> None:
    if needs_real_data(page) and not (SHARED / "data").is_dir():
        pytest.skip(f"{page.name} works on real data, and there is no {SHARED.name}/data beside the repository")
    outcome = run_page(page, where)
    assert outcome.returncode == 0, f"{outcome.stdout[-2000:]}\n{outcome.stderr[-3000:]}"


@pytest.mark.timeout(300)
def test_the_commands_of_the_readme_run(tmp_path, monkeypatch, capfd):
    """Run them in this process, which has torch already; the slow test types them into a shell."""
    prepared = run_shell([preparation(README)], tmp_path)
    assert prepared.returncode == 0, prepared.stderr
    monkeypatch.chdir(tmp_path)
    lines = typed(README)
    assert {words[0] for words in lines} == {"stationpde"}
    for _, *words in lines:
        monkeypatch.setattr(console, "settings", Globals())
        with pytest.raises(SystemExit) as ended:
            app([*words, *(SHORTER if words[0] == "train" else [])])
        assert not ended.value.code, f"{words}\n{capfd.readouterr().err[-3000:]}"


def test_a_line_is_read_as_the_shell_reads_it(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```sh\n# first\nstationpde data \\\n  ingest 'a b.csv'   # CSV\n```\n", encoding="utf-8")
    assert typed(page) == [["stationpde", "data", "ingest", "a b.csv"]]


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_commands_of_a_page_run_as_typed(page, tmp_path):
    check(page, tmp_path)


def test_a_command_that_fails_fails_its_page(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```sh\nstationpde no_such_command\necho never\n```\n", encoding="utf-8")
    outcome = run_page(page, tmp_path)
    assert outcome.returncode == 2
    assert "never" not in outcome.stdout
