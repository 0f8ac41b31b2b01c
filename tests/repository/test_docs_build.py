"""The documentation builds without a warning, shows its formulas, and fetches nothing when it is read."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def build(site: Path, config: Path = ROOT / "mkdocs.yml") -> subprocess.CompletedProcess[str]:
    # Not `--quiet`: that silences the warnings before `--strict` can count them.
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", str(config), "-d", str(site)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    where = tmp_path_factory.mktemp("site")
    outcome = build(where)
    assert outcome.returncode == 0, outcome.stderr
    return where


def test_every_page_is_built(site):
    pages = {p.relative_to(ROOT / "docs").with_suffix(".html") for p in (ROOT / "docs").rglob("*.md")}
    assert pages - {p.relative_to(site) for p in site.rglob("*.html")} == set()


def test_formulas_are_mathml_and_no_raw_latex_is_left(site):
    reference = (site / "reference" / "pde_ops.html").read_text(encoding="utf-8")
    assert "<math" in reference
    leftovers = {p.name for p in site.rglob("*.html") if 'class="arithmatex"' in p.read_text(encoding="utf-8")}
    assert leftovers == set()


def test_pages_of_the_gallery_show_their_programs(site):
    pages = [p for p in (site / "gallery").glob("*.html") if p.stem != "index"]
    assert pages
    texts = {p.name: re.sub(r"<[^>]+>", "", p.read_text(encoding="utf-8")) for p in pages}
    assert [name for name, text in texts.items() if "pictures.command" not in text] == []


def test_no_page_loads_anything_from_elsewhere(site):
    loads = re.compile(r'<(?:script|img|iframe|link[^>]+stylesheet)[^>]+(?:src|href)="https?:')
    assert [p.name for p in site.rglob("*.html") if loads.search(p.read_text(encoding="utf-8"))] == []


def test_a_broken_link_fails_the_build(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("[nowhere](missing.md)\n")
    (tmp_path / "mkdocs.yml").write_text("site_name: broken\nvalidation: {links: {not_found: warn}}\n")
    assert build(tmp_path / "site", tmp_path / "mkdocs.yml").returncode != 0
