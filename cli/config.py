"""`stationpde config`: write, print and check configurations before anything is trained."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli._console import console
from cli._options import Ablate, ConfigFile, Force, Overrides, Preset, Recipe, Variant
from cli._settings import configuration

if TYPE_CHECKING:
    from stationpde.config import Config

__all__ = ["app"]

app = typer.Typer(rich_markup_mode=None, help="Configuration: init, show, validate, schema, page.")


@app.command()
def init(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write.")] = Path("stationpde.toml"),
    preset: Preset = "weather2k",
    variant: Variant = "default",
    recipe: Recipe = "default",
    force: Force = False,
) -> None:
    """Write a whole configuration to start from.

    Example: stationpde config init mine.toml --preset demo
    """
    from fields import atomic

    if path.exists() and not force:
        raise typer.BadParameter(f"{path} exists; add --force to replace it", param_hint="FILE")
    settings = configuration(preset, variant, recipe)
    with atomic.machine_faults(path):
        atomic.write_file(path, settings.to_toml().encode())
    console.text(f"{path}: preset {preset}, variant {variant}; stationpde train … -c {shlex.quote(str(path))}")
    console.result({"file": str(path), "hash": settings.hash()})


@app.command()
def show(
    preset: Preset = "weather2k",
    variant: Variant = "default",
    recipe: Recipe = "default",
    config: ConfigFile = None,
    overrides: Overrides = None,
    ablate: Ablate = None,
) -> None:
    """Print the configuration that these options give, every key of it.

    Example: stationpde config show --preset meteonet --set train.epochs=3
    """
    settings = configuration(preset, variant, recipe, config, overrides, ablate)
    console.text(settings.to_toml().rstrip())
    console.result({"config": settings.tree(), "hash": settings.hash()})


@app.command()
def validate(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="A TOML file.")],
    preset: Preset = "weather2k",
    variant: Variant = "default",
) -> None:
    """Check a file; exit code 4 with everything that is wrong.

    Example: stationpde config validate mine.toml
    """
    base = configuration(preset, variant)
    settings = configuration(preset, variant, config=path)
    _require_equations(settings)
    changes = base.diff(settings)
    console.text(f"{path}: ok, {len(changes)} keys differ from preset {preset}")
    for line in changes:
        console.text(f"  {line}")
    console.result({"file": str(path), "hash": settings.hash(), "changes": changes})


def _require_equations(settings: Config) -> None:
    """Refuse operators to take out that the equations do not have; a grid of any place shows it."""
    import torch

    from pde_ops import Grid2D, PdeOpsError
    from stationpde.errors import ConfigError
    from stationpde.model import system_of

    grid = Grid2D.from_latlon(torch.linspace(45.0, 46.0, 4), torch.linspace(5.0, 6.0, 4), boundary="zero_gradient")
    try:
        system_of(settings, grid)
    except PdeOpsError as problem:
        raise ConfigError(
            f"pde.without: {problem}", code="SPDE-C001", do="stationpde ops show surface   lists them"
        ) from None


@app.command()
def schema() -> None:
    """Print the JSON schema of a configuration, for editors.

    Example: stationpde config schema > stationpde.schema.json
    """
    from stationpde.config import Config

    content = Config.model_json_schema()
    if not console.settings.json:
        console.text(json.dumps(content, indent=2))
    console.result(content)


@app.command()
def page(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="The Markdown file to write, beside the docs.")],
) -> None:
    """Write the page of the documentation that explains every key.

    Example: stationpde config page docs/configuration.md
    """
    from fields import atomic
    from stationpde.config import configuration_page

    if path.is_file() and not path.read_bytes().startswith(b"# Configuration"):
        raise typer.BadParameter(f"{path} exists and is no page that this command wrote", param_hint="FILE")
    decisions = path.with_name("design-decisions.md")
    text = configuration_page(decisions.read_text("utf-8") if decisions.exists() else "")
    with atomic.machine_faults(path):
        atomic.write_file(path, text.encode())
    console.text(f"{path}: {text.count(chr(10))} lines")
    console.result({"file": str(path)})
