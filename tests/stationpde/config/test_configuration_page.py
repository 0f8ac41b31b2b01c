"""The page of keys in the documentation against the source that it is written from."""

from pathlib import Path

from stationpde.config.page import configuration_page
from stationpde.config.removed import REMOVED
from stationpde.config.tree import Config

DOCS = Path(__file__).parents[3] / "docs"


def test_the_page_is_what_the_source_says():
    page = (DOCS / "configuration.md").read_text("utf-8")
    decisions = (DOCS / "design-decisions.md").read_text("utf-8")
    assert page == configuration_page(decisions), "run: stationpde config page docs/configuration.md"


def test_every_key_and_every_removed_key_has_a_row():
    page = configuration_page()
    keys = [f"{section}.{key}" for section, part in Config().tree().items() if section != "variant" for key in part]
    assert [key for key in (*keys, *REMOVED) if f"| `{key}` | " not in page] == []


def test_a_key_is_linked_to_the_section_of_the_decisions_that_names_it():
    page = configuration_page("## The model, in short\n\n| state | `model.state`: raw |\n")
    row = next(line for line in page.splitlines() if line.startswith("| `model.state` |"))
    assert row.endswith("| [why](design-decisions.md#the-model-in-short) |")


def test_every_key_leads_to_its_reason():
    decisions = (DOCS / "design-decisions.md").read_text("utf-8")
    page = configuration_page(decisions).partition("## Removed keys")[0]
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    assert [row for row in rows if not row.endswith(") |")] == []


def test_removed_keys_have_their_reason_in_the_decisions():
    section = (DOCS / "design-decisions.md").read_text("utf-8").partition("Switches that became constants\n")[2]
    assert [key for key in REMOVED if f"`{key}`" not in section] == []
