"""Formulas become MathML while the pages are built, so that reading them needs no script and no network."""

from __future__ import annotations

import html
import re
from typing import Any

from latex2mathml.converter import convert

# What pymdownx.arithmatex leaves in the page: \( … \) in a span, \[ … \] in a div.
INLINE = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>', re.DOTALL)
BLOCK = re.compile(r'<div class="arithmatex">\s*\\\[(.*?)\\\]\s*</div>', re.DOTALL)


def on_page_content(content: str, /, **_: Any) -> str:
    """Called by mkdocs with the HTML of every page."""
    content = BLOCK.sub(lambda found: f"<div>{_mathml(found[1], 'block')}</div>", content)
    return INLINE.sub(lambda found: _mathml(found[1], "inline"), content)


def _mathml(latex: str, display: str) -> str:
    return str(convert(html.unescape(latex).strip(), display=display))
