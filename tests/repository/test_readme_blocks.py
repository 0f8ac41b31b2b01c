"""What the README shows as Python runs, and prints what it says it prints."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = ["README.md", "packaging/pde-ops/README.md"]


def blocks(page: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES)
def test_the_python_blocks_of_a_readme_run_in_order(page, tmp_path):
    script = tmp_path / "readme.py"
    script.write_text("\n".join(blocks(page)), encoding="utf-8")
    outcome = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, capture_output=True, encoding="utf-8", check=False
    )
    assert outcome.returncode == 0, outcome.stderr
    promised = re.findall(r"print\(.*\)  # (.*)$", script.read_text(encoding="utf-8"), re.MULTILINE)
    for line in promised:
        assert line in outcome.stdout


def test_links_of_the_readme_lead_to_files():
    prose = re.sub(r"^```.*?^```$", "", (ROOT / "README.md").read_text(encoding="utf-8"), flags=re.M | re.S)
    links = re.findall(r"\]\((?!http)([^)#]+)\)", prose)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []
