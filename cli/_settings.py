"""From options of the command line to a configuration, spans of time and seeds."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import typer

__all__ = ["assembled", "seeds_of", "span_seconds"]

_MOST_SEEDS = 1000


def assembled(
    preset: str, variant: str = "default", recipe: str = "default", config: Path | None = None,
    overrides: Sequence[str] | None = None, ablate: Sequence[str] | None = None,
    missing: Mapping[str, str] | None = None,
) -> Any:  # fmt: skip
    """The configuration of a preset, a file on top of it, substitutes, ablations and single keys, in this order."""
    from stationpde.config import Config

    made = Config.preset(preset, variant, recipe)
    if config is not None:
        made = Config.read(config, base=made)
    for name, what in (missing or {}).items():
        tree = made.tree()
        tree["data"]["missing"] = {**tree["data"]["missing"], name: what}
        # What stands in for observations is not scored.
        tree["data"]["scored"] = [scored for scored in tree["data"]["scored"] if scored != name]
        made = Config.parse(tree, where="--missing")
    if ablate:
        made = made.ablated(*ablate)
    return made.with_overrides(overrides or [])


def span_seconds(text: str, option: str) -> float:
    """Seconds of ``90s``, ``30m``, ``30min``, ``2h`` or ``1h30m``."""
    parts = re.findall(r"(\d+(?:\.\d+)?)\s*(min|[smhd])", text)
    if not parts or re.sub(r"(\d+(?:\.\d+)?)\s*(min|[smhd])|\s", "", text):
        raise typer.BadParameter(f"'{text}' is no span of time such as 90s, 30min or 2h", param_hint=option)
    sizes = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
    return sum(float(number) * sizes[unit] for number, unit in parts)


def seeds_of(text: str, option: str = "--seeds") -> list[int]:
    """``0:5`` is 0 to 4; ``0,3,7`` those; ``4`` one."""
    if found := re.fullmatch(r"(\d{1,9}):(\d{1,9})", text):
        seeds = range(int(found[1]), int(found[2]))
        if not 0 < len(seeds) <= _MOST_SEEDS:
            raise typer.BadParameter(
                f"'{text}' is {len(seeds)} seeds; 1 to {_MOST_SEEDS} make sense", param_hint=option
            )
        return list(seeds)
    if re.fullmatch(r"\d{1,9}(,\d{1,9})*", text):
        return list(dict.fromkeys(map(int, text.split(","))))
    raise typer.BadParameter(f"'{text}' is not of the form 0:5 or 0,3,7", param_hint=option)
