"""Options and arguments that several commands share: one name, one type, one metavar and one sentence of help.

A command says in its own text what differs there: the default, and how far the option reaches.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from stationpde.evaluation import CAP_SECONDS

__all__ = [
    "DEFAULT_CAP", "Ablate", "Accept", "Against", "At", "Cap", "Cells", "Checkpoint", "ColumnMap", "ConfigFile",
    "DateOrder", "Days", "Dem", "Force", "Jobs", "MaxTime", "Missing", "Neighbours", "Obs", "OutputFolder",
    "Overrides", "Page", "Preset", "Protocol", "Quality", "Reader", "Recipe", "Record", "RequiredObs", "Resume",
    "Run", "Seed", "Seeds", "Start", "StationList", "StationStore", "Stations", "TimeZone", "Unit", "Variable",
    "Variant", "Windows", "choice", "is_typed", "names_in", "pairs", "unrepeated",
]  # fmt: skip

# ---- arguments ---------------------------------------------------------------------------------------------------

Run = Annotated[Path, typer.Argument(metavar="RUN", help="A run directory.")]
StationStore = Annotated[Path, typer.Argument(metavar="STORE", help="A store of stations.")]
Record = Annotated[str, typer.Argument(metavar="STORE", help="A store, raw files, or demo.")]

# ---- observations and how raw files are read ---------------------------------------------------------------------

_OBS = typer.Option("--obs", metavar="PATH", help="Observations: store, table, CF file or folder.")
Obs = Annotated[Path | None, _OBS]
RequiredObs = Annotated[Path, _OBS]
Reader = Annotated[str | None, typer.Option(metavar="NAME", help="Reader of raw files; recognised by default.")]
ColumnMap = Annotated[
    str | None, typer.Option("--map", metavar="F.toml", help="Column map of a table: a file or a shipped name.")
]
StationList = Annotated[
    str | None, typer.Option("--station-list", metavar="F.csv", help="List of stations for a map that needs one.")
]
Unit = Annotated[list[str] | None, typer.Option(metavar="VAR=UNIT", help="Declare a unit, e.g. p=hPa; may repeat.")]
TimeZone = Annotated[
    str | None, typer.Option(metavar="ZONE", help="Clock of the source: UTC, UTC+8, Europe/Paris.")
]
DateOrder = Annotated[
    str | None, typer.Option(metavar="dmy|mdy|ymd", help="Order of dates such as 01/02/2024, where they fit several.")
]
Accept = Annotated[
    list[str] | None,
    typer.Option("--accept", metavar="NAME", help="Do not refuse what the error names (thin-history …); may repeat."),
]
Start = Annotated[str | None, typer.Option(metavar="TIME", help="First time, where the file has none.")]
Missing = Annotated[
    list[str] | None, typer.Option(metavar="VAR=WHAT", help="Stand-in: p=standard-atmosphere, u=calm, rh=dry.")
]
Quality = Annotated[
    str | None,
    typer.Option(metavar="full|gross", help="Flags that count: of all tests, or of gross errors alone."),
]
Stations = Annotated[
    Path | None, typer.Option("--stations", metavar="F.csv", help="Places to forecast: name, lat, lon, alt.")
]
Dem = Annotated[Path | None, typer.Option(metavar="F", help="Elevation model: npz, NetCDF, zarr or GeoTIFF.")]


def unrepeated(words: list[str] | None) -> list[str] | None:
    """Return the words of ``--set`` unless they give a key two values: which of the two counts would be a guess."""
    pairs([word for word in words or () if "=" in word.strip("=")], "--set")
    return words


# ---- settings of a model -----------------------------------------------------------------------------------------

_PRESET = typer.Option(metavar="NAME", help="Settings to start from: weather2k, meteonet, demo or tiny.")
Preset = Annotated[str, _PRESET]
PresetOrNone = Annotated[str | None, _PRESET]
Variant = Annotated[str, typer.Option(metavar="default|field|paper", help="Variant of the model.")]
Recipe = Annotated[str, typer.Option(metavar="default|paper|former", help="Recipe of training.")]
ConfigFile = Annotated[
    Path | None, typer.Option("-c", "--config", metavar="FILE", help="TOML file with keys that differ from the preset.")
]
Overrides = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", callback=unrepeated, help="Change one key, e.g. train.epochs=3; may repeat."
    ),
]
Ablate = Annotated[list[str] | None, typer.Option(metavar="PART", help="Without a part, e.g. no_pde; may repeat.")]
_SEEDS = typer.Option(metavar="0:5", help="Seeds, 0:5 or 0,3,7; each trains a model of its own.")
Seeds = Annotated[str, _SEEDS]
SeedsOrNone = Annotated[str | None, _SEEDS]
Seed = Annotated[int, typer.Option(min=0, metavar="N", help="The same seed gives the same result.")]

# ---- runs, scores and pictures -----------------------------------------------------------------------------------

Checkpoint = Annotated[str, typer.Option(metavar="NAME", help="Weights to use: best, last or step-N.")]
Against = Annotated[str, typer.Option(metavar="A,B", help="References to compare with, e.g. persistence,climatology.")]
_AT = typer.Option(metavar="TIME", help="Time (UTC) of the forecast's issue, or of the field shown.")
At = Annotated[str | None, _AT]
AtOrLatest = Annotated[str, _AT]
Windows = Annotated[
    int, typer.Option(min=0, metavar="N", help="At most N test windows, evenly spaced; 0 takes all.")
]
Variable = Annotated[str, typer.Option(metavar="NAME", help="Variable to draw: u, v, p, t or rh.")]
VariableOrNone = Annotated[str | None, typer.Option(metavar="NAME", help="Variable to draw: u, v, p, t or rh.")]
Neighbours = Annotated[int, typer.Option("--k", min=1, metavar="N", help="Neighbours of each cell.")]
Coriolis = Annotated[
    bool, typer.Option("--coriolis/--no-coriolis", help="The Coriolis term among the equations of pinn.")
]
PinnSteps = Annotated[int, typer.Option("--steps", min=1, metavar="N", help="Steps of training of a pinn network.")]
AltitudeWeight = Annotated[str, typer.Option("--w-alt", metavar="W", help="Weight of altitude, with its unit.")]

# ---- benchmarks --------------------------------------------------------------------------------------------------

Protocol = Annotated[str, typer.Option(metavar="NAME", help="w2k-like (3 h) or meteonet-like (1 h).")]
OutputFolder = Annotated[
    Path | None, typer.Option("-o", "--output", metavar="DIR", help="Folder for runs, cells and tables.")
]
Cells = Annotated[Path | None, typer.Option(metavar="DIR", help="Folder of finished cells; OUTPUT/cells by default.")]
Jobs = Annotated[int, typer.Option(min=1, metavar="N", help="Cells trained at once, one thread each.")]
# Of a comparison; `ablate`, which trains many variants, has another.
DEFAULT_CAP = f"{CAP_SECONDS / 60:g}min"
_CAP = typer.Option(metavar=f"{DEFAULT_CAP}|none", help="CPU time of each model that learns.")
Cap = Annotated[str, _CAP]
CapOrNone = Annotated[str | None, _CAP]
MaxTime = Annotated[str | None, typer.Option(metavar="30min", help="Save what is done and exit 75 after this time.")]
Resume = Annotated[str, typer.Option(metavar="auto|never", help="Resume what the folder holds, or refuse to.")]
Page = Annotated[Path | None, typer.Option(metavar="FILE.md", help="Page whose section is rewritten.")]

# ---- what a command writes, and the synthetic network ------------------------------------------------------------

Force = Annotated[bool, typer.Option("--force", help="Replace what exists.")]
Days = Annotated[int, typer.Option(min=1, max=3660, metavar="N", help="Days of the synthetic record, hourly.")]


def pairs(words: list[str] | None, option: str) -> dict[str, str]:
    """Return ``["p=hPa"]`` as a mapping; a name with two values is refused."""
    mapping: dict[str, str] = {}
    for word in words or []:
        name, sign, value = word.partition("=")
        if not (name and sign and value):
            raise typer.BadParameter(f"'{word}' is not of the form NAME=VALUE", param_hint=option)
        name, value = name.strip(), value.strip()
        if mapping.setdefault(name, value) != value:
            raise typer.BadParameter(f"'{name}' is given as {mapping[name]} and as {value}", param_hint=option)
    return mapping


def choice(word: str | None, option: str, allowed: tuple[str, ...]) -> Any:
    """Return the word, or refuse one that is not allowed; None stays None."""
    if word is not None and word not in allowed:
        raise typer.BadParameter(f"'{word}' is not one of {', '.join(allowed)}", param_hint=option)
    return word


def is_typed(context: typer.Context, parameter: str) -> bool:
    """Return whether a parameter of the running command was typed, and is not its default."""
    source = context.get_parameter_source(parameter)
    return source is not None and source.name == "COMMANDLINE"


def names_in(text: str | None) -> tuple[str, ...]:
    """Return the names of ``A,B``, each once, in order; commas alone, of empty variables of a shell, are refused."""
    names = tuple(dict.fromkeys(filter(None, (part.strip() for part in (text or "").split(",")))))
    if text and not names:
        raise typer.BadParameter(f"'{text}' names nothing; is a variable of the shell unset?")
    return names
