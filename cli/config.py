"""`stationpde config`: look at configurations before anything is trained."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from cli._console import console
from cli._settings import assembled

__all__ = ["app"]

app = typer.Typer(rich_markup_mode=None, help="Configuration: init, show, validate, schema.")

Preset = Annotated[str, typer.Option(help="weather2k, meteonet, demo or tiny.")]
Variant = Annotated[str, typer.Option(help="default or paper.")]
Recipe = Annotated[str, typer.Option(help="Optimiser: default or paper.")]
Overrides = Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change one key.")]


@app.command()
def init(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write.")] = Path("stationpde.toml"),
    preset: Preset = "weather2k",
    variant: Variant = "default",
    recipe: Recipe = "default",
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Write a whole configuration to begin from.

    Example: stationpde config init mine.toml --preset demo
    """
    from fields import atomic

    if path.exists() and not force:
        raise typer.BadParameter(f"{path} exists; add --force to replace it", param_hint="FILE")
    made = assembled(preset, variant, recipe)
    with atomic.machine_faults(path):
        atomic.write_file(path, made.to_toml().encode())
    console.text(f"{path}: preset {preset}, variant {variant}; stationpde train … -c {path}")
    console.result({"file": str(path), "hash": made.hash()})


@app.command()
def show(
    preset: Preset = "weather2k",
    variant: Variant = "default",
    recipe: Recipe = "default",
    config: Annotated[Path | None, typer.Option("-c", "--config", metavar="FILE", help="TOML on top.")] = None,
    overrides: Overrides = None,
    ablate: Annotated[list[str] | None, typer.Option(metavar="PART", help="Without a part, e.g. no_pde.")] = None,
) -> None:
    """Print the configuration that these options give, every key of it.

    Example: stationpde config show --preset meteonet --set train.epochs=3
    """
    made = assembled(preset, variant, recipe, config, overrides, ablate)
    console.text(made.to_toml().rstrip())
    console.result({"config": made.tree(), "hash": made.hash()})


@app.command()
def validate(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="A TOML file.")],
    preset: Preset = "weather2k",
    variant: Variant = "default",
) -> None:
    """Check a file; exit code 4 with everything that is wrong.

    Example: stationpde config validate mine.toml
    """
    base = assembled(preset, variant)
    made = assembled(preset, variant, config=path)
    changes = base.diff(made)
    console.text(f"{path}: ok, {len(changes)} keys differ from preset {preset}")
    for line in changes:
        console.text(f"  {line}")
    console.result({"file": str(path), "hash": made.hash(), "changes": changes})


@app.command()
def schema() -> None:
    """Print the JSON schema of a configuration, for editors.

    Example: stationpde config schema > stationpde.schema.json
    """
    from stationpde.config import Config

    made = Config.model_json_schema()
    if not console.settings.json:
        console.text(json.dumps(made, indent=2))
    console.result(made)
