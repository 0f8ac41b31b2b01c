"""Style of charts: colours of variables and models as lines and bars, and a sheet that appears whole or not at all.

Colours of maps are in `stationpde.plots.maps.COLOUR_MAPS`; those of the HTML report, the same, in ``report/page.js``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from fields import atomic
from fields.variables import VARIABLES, display_unit
from stationpde.errors import UsageError

__all__ = ["CHANNELS", "COLOURS", "FAINT", "INK", "MODELS", "SYMBOLS", "check_picture", "hour_ticks",
           "label_of", "sheet", "unit_of"]  # fmt: skip

INK, FAINT = "#1d2733", "#51606e"
# Colours of the variables and of the channels of the state; distinct in grey and for colour-blind eyes.
COLOURS = {
    "u": "#0072b2", "v": "#56b4e9", "p": "#7a5195", "t": "#d55e00", "theta": "#d55e00", "rh": "#009e73", "q": "#009e73",
}  # fmt: skip
CHANNELS = {"u": "u", "v": "v", "p": "pressure", "theta": "temperature θ", "q": "humidity q"}
SYMBOLS = {"u": "u", "v": "v", "p": "p", "t": "T", "rh": "RH"}
# Colours of the forecasts that are compared: ours stands out.
MODELS = ("#d55e00", "#8b98a5", "#0072b2", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
FORMATS = (".png", ".svg", ".pdf")

_STYLE = {
    "font.family": "DejaVu Sans", "font.size": 9, "text.color": INK, "axes.labelcolor": INK, "axes.edgecolor": FAINT,
    "axes.linewidth": 0.6, "axes.spines.top": False, "axes.spines.right": False, "axes.titlesize": 10,
    "axes.titlelocation": "left", "xtick.color": FAINT, "ytick.color": FAINT, "legend.frameon": False,
    "legend.fontsize": 8, "axes.grid": True, "grid.color": "#e3e7ea", "grid.linewidth": 0.6, "axes.axisbelow": True,
    "svg.fonttype": "path",
}  # fmt: skip


def check_picture(path: str | os.PathLike[str], force: bool = False) -> Path:
    """Check, before any work, that the ending is known and the path is free.

    Raises
    ------
    UsageError
        If it is not; the advice names the endings, or ``--force``.
    """
    target = Path(path)
    if target.suffix.lower() not in FORMATS:
        raise UsageError(
            f"'{target.name}' has no ending of a picture", code="SPDE-R001",
            do=f"end the name in one of {', '.join(FORMATS)}",
        )  # fmt: skip
    if target.is_dir():
        raise UsageError(f"{target} is a directory", code="SPDE-R002", do="choose another name")
    if target.exists() and not force:
        raise UsageError(f"{target} exists", code="SPDE-R002", do="add --force (in Python: force=True) to replace it")
    atomic.write_probe(target.parent)
    return target


@contextmanager
def sheet(
    output: str | os.PathLike[str],
    rows: int = 1,
    columns: int = 1,
    size: tuple[float, float] = (7.0, 4.0),
    **kwargs: Any,
) -> Iterator[tuple[Any, np.ndarray[Any, Any]]]:
    """Open a figure with its axes ``[row, column]``; it is written when the context ends without an error."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(_STYLE):  # type: ignore[arg-type]
        figure = Figure(figsize=size, dpi=150, layout="constrained")
        yield figure, figure.subplots(rows, columns, squeeze=False, **kwargs)
        _write(figure, Path(output))


def _write(figure: Any, target: Path) -> None:
    atomic.write_probe(target.parent)
    with atomic.machine_faults(target), atomic.staged_file(target) as scratch:
        figure.savefig(scratch, format=target.suffix[1:].lower(), bbox_inches="tight", pad_inches=0.12)


def hour_ticks(axes: Any, most: int = 7) -> None:
    """Set the ticks of an axis of hours at parts of a day, at most about ``most`` of them."""
    from matplotlib.ticker import MultipleLocator

    first, last = axes.get_xlim()
    step = next((hours for hours in (1, 3, 6, 12, 24, 48, 96) if (last - first) / hours < most), 168)
    axes.xaxis.set_major_locator(MultipleLocator(step))


def label_of(variable: str, *, difference: bool = False) -> str:
    """Return the label of a variable: ``Air temperature at 2 m [°C]``."""
    return f"{VARIABLES[variable].long_name} [{unit_of(variable, difference=difference)}]"


def unit_of(variable: str, *, difference: bool = False) -> str:
    """Return the unit that people read: ``°C``."""
    return display_unit(variable, difference=difference).replace("degC", "°C")
