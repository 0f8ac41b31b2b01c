"""The page of operators says what the registry says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pde_ops import operators
from pde_ops.catalogue import entry, operators_page

PAGE = Path(__file__).resolve().parents[2] / "docs" / "operators.md"


def test_the_page_of_operators_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == operators_page(), (
        "docs/operators.md differs from the registry; run: python -m pde_ops.catalogue docs/operators.md"
    )


def test_every_operator_has_its_entry() -> None:
    ours = [name for name in operators.list() if operators[name].owner.startswith("pde_ops.")]
    assert sorted(re.findall(r"^### (\w+)$", operators_page(), re.MULTILINE)) == ours


@pytest.mark.parametrize("name", ["advection", "saturation_humidity", "laplacian_scale"])
def test_an_entry_shows_formula_units_and_reference(name: str) -> None:
    text, record = entry(operators[name]), operators[name]
    assert record.references[0] in text and "$$" in text
    assert all(f"| `{argument}` |" in text for argument in record.inputs)
    assert "{" + next(iter(record.inputs)) + "}" not in text


def test_every_formula_of_the_page_can_be_set() -> None:
    converter = pytest.importorskip("latex2mathml.converter")
    formulas = re.findall(r"^\$\$\n(.*?)\n\$\$$", operators_page(), re.MULTILINE | re.DOTALL)
    assert len(formulas) >= 2 * 30
    for formula in formulas:
        assert "<math" in converter.convert(formula), formula
