"""The page of the documentation that lists every key: default, what the paper's variant sets, and what it decides.

``stationpde config page docs/configuration.md`` writes it from the docstrings of `stationpde.config.sections`; a test
compares the file with the source.
"""

from __future__ import annotations

import json
import re
from typing import Any

from pydantic import BaseModel

from stationpde.config.layers import leaves
from stationpde.config.removed import REMOVED
from stationpde.config.tree import PRESETS, VARIANTS, Config

__all__ = ["configuration_page"]

_HEAD = """# Configuration

Every key of a configuration, {count} in all. `stationpde config show` prints the values that a preset, a variant and
options give, `stationpde config init mine.toml` writes them to a file to edit, `--set section.key=value` changes one.
Defaults are those of the `weather2k` preset and the `default` variant; *field* and *paper* are what `--variant field`
and `--variant paper` set instead,
*presets* is what other presets set. The last column leads to the reason in [design decisions](design-decisions.md).

This page is written by `stationpde config page docs/configuration.md`.
"""

_TAIL = """
## Removed keys

These keys existed once. Typing one is an error (`SPDE-C005`) that says what happened to it. A run that was saved with
one opens and resumes at the value below and is refused by name at any other (`SPDE-C006`);
[design decisions](design-decisions.md#switches-that-became-constants) have the reasons.

| key | value | what happened |
|---|---|---|
"""


def configuration_page(decisions: str = "") -> str:
    """Write the page as Markdown.

    Parameters
    ----------
    decisions : text of ``design-decisions.md``, whose sections are linked where they name a key
    """
    default, *variants = (Config.preset(variant=name).tree() for name in VARIANTS)
    others = {name: Config.preset(name).tree() for name in PRESETS if name != "weather2k"}
    anchors = _anchors(decisions)
    lines = [_HEAD.format(count=sum(1 for _ in leaves(default)))]
    described = {"": Config} | {name: type(getattr(Config(), name)) for name in default if name != "variant"}
    for section, model in described.items():
        keys = ["variant"] if not section else list(default[section])
        title = f"`{section}`: {_sentence(model.__doc__)}" if section else "The variant"
        lines += [f"\n## {title}\n", f"| key | {' | '.join(VARIANTS)} | presets | what it decides | reason |",
                  "|---" * (len(VARIANTS) + 4) + "|"]  # fmt: skip
        for key in keys:
            name = f"{section}.{key}" if section else key
            value = _at(default, section, key)
            by_preset = {preset: _changed(tree, section, key, value) for preset, tree in others.items()}
            changed = [f"{preset} {shown}" for preset, shown in by_preset.items() if shown]
            by_variant = [_changed(tree, section, key, value) for tree in variants]
            anchor = anchors.get(name)
            reason = f"[why](design-decisions.md#{anchor})" if anchor else ""
            cells = [f"`{name}`", _shown(value), *by_variant, ", ".join(changed), _meaning(model, key), reason]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, _TAIL]).rstrip("\n") + "\n" + "\n".join(_removed_rows(default)) + "\n"


def _removed_rows(tree: dict[str, Any]) -> list[str]:
    return [f"| `{key}` | {_shown(gone.fixed(tree))} | {_escaped(gone.happened)} |" for key, gone in REMOVED.items()]


def _at(tree: dict[str, Any], section: str, key: str) -> Any:
    return tree[section][key] if section else tree[key]


def _changed(tree: dict[str, Any], section: str, key: str, default: Any) -> str:
    """Return the value of a key as it is written, or nothing where it is the default."""
    value = _at(tree, section, key)
    return "" if value == default else _shown(value)


def _meaning(model: type[BaseModel], key: str) -> str:
    """Return the docstring of a key as one cell of a table."""
    text = " ".join((model.model_fields[key].description or "").split())
    return _escaped(text.replace("``", "`"))


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")


def _sentence(text: str | None) -> str:
    """Return a docstring as part of a heading: lower case at the start, no full stop."""
    words = " ".join((text or "").split()).rstrip(".")
    return words[:1].lower() + words[1:]


def _shown(value: Any) -> str:
    """Return a value as it is written in TOML, a rate such as 1/3600 to four digits."""
    if value is None:
        return "none"
    if isinstance(value, float):
        return f"`{value:.4g}`"
    return f"`{_escaped(json.dumps(value, ensure_ascii=False))}`"


def _anchors(decisions: str) -> dict[str, str]:
    """Return the anchor of the first section of a Markdown page that names each key in backticks."""
    anchors: dict[str, str] = {}
    anchor = ""
    for line in decisions.splitlines():
        if heading := re.match(r"#{2,} (.+)", line):
            anchor = re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", heading[1]).strip().lower())
        elif anchor and anchor != "switches-that-became-constants":
            for key in re.findall(r"`((?:(?:data|grid|lift|model|pde|loss|train)\.\w+)|variant)`", line):
                anchors.setdefault(key, anchor)
    return anchors
