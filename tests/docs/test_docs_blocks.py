"""What the documentation shows as Python runs, page by page, and prints what it says it prints."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def blocks(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


PAGES = [page for page in sorted(DOCS.rglob("*.md")) if blocks(page)]
SLOW = {"write-an-operator.md", "publish-a-plugin.md"}  # they run the whole generic suite


def marked(page: Path):
    return pytest.param(page, id=page.name, marks=[pytest.mark.slow] if page.name in SLOW else [])


def test_there_are_pages_with_programs():
    assert {"write-a-model.md", "write-an-operator.md"} <= {page.name for page in PAGES}


@pytest.mark.parametrize("page", [marked(page) for page in PAGES])
def test_the_python_blocks_of_a_page_run_in_order(page, tmp_path):
    script = tmp_path / "page.py"
    script.write_text("\n".join(blocks(page)), encoding="utf-8")
    outcome = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, capture_output=True, encoding="utf-8", check=False
    )
    assert outcome.returncode == 0, outcome.stderr
    promised = re.findall(r"print\(.*\)  # (.*)$", script.read_text(encoding="utf-8"), re.MULTILINE)
    for line in promised:
        assert line in outcome.stdout


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: str(page.relative_to(DOCS)))
def test_links_between_pages_lead_to_files(page):
    prose = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    links = re.findall(r"\]\((?!https?:|#)([^)#\s]+)", prose)
    assert [link for link in links if not (page.parent / link).exists()] == []
