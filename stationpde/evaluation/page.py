"""A page of results that commands update: each command replaces its section and leaves the others unchanged."""

from __future__ import annotations

import re
from pathlib import Path

from fields import atomic

__all__ = ["slug", "update_page"]

_HEAD = """# Results

What commands printed, word for word; each section names its own.
"""


def slug(section: str) -> str:
    """Turn a section name into a file name: ``w2k-like a_b/c.npz left out 5`` → ``w2k-like-a_b-c-left-out-5``."""
    return re.sub(r"\W+", "-", section.replace(".npz", "").replace(".zarr", "")).strip("-").lower()


def update_page(path: Path, section: str, text: str) -> None:
    """Write a section into a Markdown page, in place of its former text, or at the end."""
    begin, end = f"<!-- {section}: written by the command that it names -->", f"<!-- end of {section} -->"
    block = f"{begin}\n\n{text.strip()}\n\n{end}"
    old = path.read_text("utf-8") if path.exists() else _HEAD
    between = re.compile(re.escape(begin) + r".*?" + re.escape(end), re.DOTALL)
    page = between.sub(lambda _: block, old) if between.search(old) else f"{old.rstrip()}\n\n{block}\n"
    with atomic.machine_faults(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic.write_file(path, page.encode())
