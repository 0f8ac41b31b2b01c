"""Docstrings write formulas as ``.. math::`` and say what an argument means beside its name; the pages are Markdown
and have the types from the signature: translate the one into the other.
"""

from __future__ import annotations

import re
import textwrap
from typing import Any

import griffe

# The directive's own line may hold the formula, or an indented block after it, or both.
DIRECTIVE = re.compile(r"^( *)\.\. math::[ \t]*(.*)\n((?:(?:\1[ \t]+\S.*)?\n)*(?:\1[ \t]+\S.*\n?)?)", re.MULTILINE)
ROLE = re.compile(r":math:`([^`]+)`")
REFERENCE = re.compile(r":(?:mod|class|func|meth|attr|data):`~?([^`]+)`")
# A section runs to the next title that is underlined, or to the end.
SECTION = re.compile(
    r"^(Parameters|Attributes|Returns)\n-{3,}\n(.*?)(?=^\w[\w ]*\n-{3,}$|\Z)", re.MULTILINE | re.DOTALL
)
ENTRY = re.compile(r"^(\*{0,2}\w[\w, *]*) : (.*)$", re.MULTILINE)


def to_markdown(docstring: str) -> str:
    """The docstring with Sphinx's formulas and references, and our meanings of arguments, as Markdown."""
    docstring = DIRECTIVE.sub(_formula, docstring + "\n").rstrip("\n")
    docstring = SECTION.sub(_section, docstring + "\n").rstrip("\n")
    return REFERENCE.sub(r"`\1`", ROLE.sub(r"$\1$", docstring))


def _formula(found: re.Match[str]) -> str:
    indent, first, rest = found.groups()
    formula = "\n".join(filter(None, [first.strip(), textwrap.dedent(rest).strip()]))
    return textwrap.indent(f"$$\n{formula}\n$$\n\n", indent)


def _section(found: re.Match[str]) -> str:
    title, body = found.groups()
    if title == "Returns":
        # Prose with units; read as NumPy's list of types every line would be one. A colon alone takes the signature's.
        return f"Returns\n-------\n:\n    {' '.join(body.split())}\n\n"
    return f"{title}\n{'-' * len(title)}\n{ENTRY.sub(_entry, body)}"


def _entry(found: re.Match[str]) -> str:
    name, meaning = found.groups()
    return f"{name}\n    {meaning}"


class DocstringMath(griffe.Extension):
    """Applied by mkdocstrings to every object it reads."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring before it is parsed."""
        if obj.docstring is not None:
            obj.docstring.value = to_markdown(obj.docstring.value)
