"""Docstrings write formulas as ``.. math::``; the pages are Markdown: translate the one into the other."""

from __future__ import annotations

import re
import textwrap
from typing import Any

import griffe

# The directive's own line may hold the formula, or an indented block after it, or both.
DIRECTIVE = re.compile(r"^( *)\.\. math::[ \t]*(.*)\n((?:(?:\1[ \t]+\S.*)?\n)*(?:\1[ \t]+\S.*\n?)?)", re.MULTILINE)
ROLE = re.compile(r":math:`([^`]+)`")
REFERENCE = re.compile(r":(?:mod|class|func|meth|attr|data):`~?([^`]+)`")


def to_markdown(docstring: str) -> str:
    """The docstring with Sphinx's formulas and references as Markdown."""
    docstring = DIRECTIVE.sub(_formula, docstring + "\n").rstrip("\n")
    return REFERENCE.sub(r"`\1`", ROLE.sub(r"$\1$", docstring))


def _formula(found: re.Match[str]) -> str:
    indent, first, rest = found.groups()
    formula = "\n".join(filter(None, [first.strip(), textwrap.dedent(rest).strip()]))
    return textwrap.indent(f"$$\n{formula}\n$$\n\n", indent)


class DocstringMath(griffe.Extension):
    """Applied by mkdocstrings to every object it reads."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring before it is parsed."""
        if obj.docstring is not None:
            obj.docstring.value = to_markdown(obj.docstring.value)
