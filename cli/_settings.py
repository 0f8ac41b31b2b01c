"""Parse options of the command line into a configuration, spans of time and seeds."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import typer

__all__ = ["cap_seconds", "configuration", "seeds_of", "span_seconds"]

_MOST_SEEDS = 1000


def configuration(
    preset: str, variant: str = "default", recipe: str = "default", config: Path | None = None,
    overrides: Sequence[str] | None = None, ablate: Sequence[str] | None = None,
    missing: Mapping[str, str] | None = None,
) -> Any:  # fmt: skip
    """Build the configuration: preset, then a file, substitutes, ablations and single keys, in this order."""
    from stationpde.config import Config

    settings = Config.preset(preset, variant, recipe)
    if config is not None:
        settings = Config.read(config, base=settings)
    if missing:
        tree = settings.tree()
        tree["data"]["missing"] = {**tree["data"]["missing"], **missing}
        # What stands in for observations is not scored.
        tree["data"]["scored"] = [scored for scored in tree["data"]["scored"] if scored not in missing]
        settings = Config.parse(tree, where="--missing")
    if ablate:
        settings = settings.ablated(*ablate)
    return settings.with_overrides(overrides or [])


def span_seconds(text: str, option: str) -> float:
    """Parse the seconds of ``90s``, ``30m``, ``30min``, ``2h`` or ``1h30m``; ``option`` is named in the error."""
    from fields.errors import UsageError
    from fields.times import parse_duration

    try:
        return parse_duration(text)
    except UsageError as problem:
        raise typer.BadParameter(str(problem), param_hint=option) from None


def cap_seconds(text: str) -> float | None:
    """Parse ``--cap``: a span of CPU time, or ``none`` for no limit."""
    return None if text == "none" else span_seconds(text, "--cap")


def seeds_of(text: str, option: str = "--seeds") -> list[int]:
    """Parse seeds: ``0:5`` is 0 to 4; ``0,3,7`` those three; ``4`` one."""
    if bounds := re.fullmatch(r"(\d{1,9}):(\d{1,9})", text):
        seeds = range(int(bounds[1]), int(bounds[2]))
        if not 0 < len(seeds) <= _MOST_SEEDS:
            raise typer.BadParameter(
                f"'{text}' is {len(seeds)} seeds; 1 to {_MOST_SEEDS} make sense", param_hint=option
            )
        return list(seeds)
    if re.fullmatch(r"\d{1,9}(,\d{1,9})*", text):
        return list(dict.fromkeys(map(int, text.split(","))))
    raise typer.BadParameter(f"'{text}' is not of the form 0:5 or 0,3,7", param_hint=option)
