"""What the README and the documentation show as commands runs as typed, page by page."""

from pathlib import Path

import pytest
from shell_page import ROOT, SHARED, needs_real_data, run_page, shell_blocks

PAGES = [page for page in sorted((ROOT / "docs").rglob("*.md")) if shell_blocks(page)]


def check(page: Path, where: Path) -> None:
    if needs_real_data(page) and not (SHARED / "data").is_dir():
        pytest.skip(f"{page.name} works on real data, and there is no {SHARED.name}/data beside the repository")
    outcome = run_page(page, where)
    assert outcome.returncode == 0, f"{outcome.stdout[-2000:]}\n{outcome.stderr[-3000:]}"


@pytest.mark.timeout(300)
def test_the_commands_of_the_readme_run_as_typed(tmp_path):
    assert shell_blocks(ROOT / "README.md")
    check(ROOT / "README.md", tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_commands_of_a_page_run_as_typed(page, tmp_path):
    check(page, tmp_path)


def test_a_command_that_fails_fails_its_page(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```sh\nstationpde ops show no_such_operator\necho never\n```\n", encoding="utf-8")
    outcome = run_page(page, tmp_path)
    assert outcome.returncode == 2
    assert "never" not in outcome.stdout
