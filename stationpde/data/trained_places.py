"""Places of observed stations, completed by those of training: a position that is missing or impossible now was known.

An altitude that no station has (9999, -999) is a code of the file for a missing one; one that differs by hundreds of
metres where the station stands as before is a slip. Both are told and not used: they would move the station out of its
air, and its neighbours' field with it. Where most stations differ, it is no slip, and left to the gates of a forecast.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from fields.errors import printable
from fields.grid import great_circle
from fields.variables import variable
from fields.windows import Stations

__all__ = ["complete_places"]

Array = np.ndarray[Any, Any]

_MOST_NAMED = 3
# A station that was re-sited within this distance did not rise by more than that [m].
_SAME_PLACE_M, _LARGEST_RISE_M = 1000.0, 300.0
_MOST_SLIPS = 0.5


def complete_places(ds: xr.Dataset, trained: Stations) -> tuple[xr.Dataset, tuple[str, ...]]:
    """Complete the places of a dataset's stations by those of training with the same name.

    Returns
    -------
    The dataset and a sentence for everything that was replaced. The altitude of a station that training did not have
    stays missing.
    """
    columns = {name: np.array(ds[name].values, np.float64) for name in ("lat", "lon", "alt")}
    ids = [str(name) for name in ds["station"].values]
    row = {name: i for i, name in enumerate(trained.id)}
    rows = np.array([row.get(name, -1) for name in ids])
    low, high = variable("alt").hard
    notes, changed = [], False
    altitude = columns["alt"]
    odd = ~np.isnan(altitude) & ~((altitude >= low) & (altitude <= high))
    for s in np.flatnonzero(odd).tolist():
        stead = f"the {trained.alt[rows[s]]:.0f} m of training" if rows[s] >= 0 else "the altitude of the terrain"
        notes.append(f"station {printable(ids[s])} has the altitude {altitude[s]:.6g} m: {stead} takes its place")
    altitude[odd] = np.nan
    slips = _slips(columns, rows, trained)
    for s in np.flatnonzero(slips).tolist():
        before = f"{trained.alt[rows[s]]:.0f} m"
        notes.append(
            f"station {printable(ids[s])} has the altitude {altitude[s]:.0f} m where it stood at {before} in training: "
            f"{before} is kept"
        )
    altitude[slips] = trained.alt[rows[slips]]
    changed |= bool(odd.any() or slips.any())
    for name, values in columns.items():
        lost = np.isnan(values) & (rows >= 0)
        values[lost] = getattr(trained, name)[rows[lost]]
        changed |= bool(lost.any())
        named = [printable(ids[s]) for s in np.flatnonzero(lost & ~odd).tolist()]
        if named:
            more = f" and {len(named) - _MOST_NAMED} more" if len(named) > _MOST_NAMED else ""
            listed = ", ".join(named[:_MOST_NAMED])
            notes.append(f"no {name} is given for {listed}{more}: that of training is kept")
    if not changed:
        return ds, ()
    return ds.assign_coords({name: (ds[name].dims, v, ds[name].attrs) for name, v in columns.items()}), tuple(notes)


def _slips(columns: dict[str, Array], rows: Array, trained: Stations) -> Array:
    """Mark the trained stations that stand where they stood, at an altitude that this place does not have."""
    row = np.maximum(rows, 0)
    moved = great_circle(columns["lat"], columns["lon"], trained.lat[row], trained.lon[row])
    slips = (rows >= 0) & (moved <= _SAME_PLACE_M) & (np.abs(columns["alt"] - trained.alt[row]) > _LARGEST_RISE_M)
    return slips & (slips.sum() <= _MOST_SLIPS * max(1, int((rows >= 0).sum())))
