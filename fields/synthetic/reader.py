"""Read a synthetic network from a recipe: a TOML file of a few lines in place of raw files.

.. code-block:: toml

    [synthetic]
    stations = 64
    days = 90
    seed = 0
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import numpy as np

from fields.errors import UsageError, printable
from fields.readers import Axis, EveryNthStep, Network, Reader, ReadOptions, Source, Workspace, open_binary, shown

__all__ = ["READER"]

_LARGEST = 4096
_LIMITS = {"stations": (1, 5000), "days": (1, 3660), "seed": (0, 2**32 - 1)}
_UNITS = {"u": "m/s", "v": "m/s", "p": "Pa", "t": "K", "rh": "1", "lat": "degrees", "lon": "degrees", "alt": "m"}


class SyntheticSource(Source):
    """A network made in memory when it is opened."""

    def __init__(self, path: Path, options: ReadOptions) -> None:
        from fields.synthetic import make_network

        super().__init__()
        recipe = _recipe(path)
        self._ds = make_network(**recipe)
        self.reader, self.label = "synthetic", shown(path)
        self.about = str(self._ds.attrs["title"])
        seconds = self._ds["time"].values.astype("datetime64[s]").astype(np.int64)
        self.axis = Axis(int(seconds[0]), int(self._ds.attrs["step_seconds"]), seconds.size)
        self.network = Network(
            self._ds["station"].values.astype(str), *(self._ds[c].values for c in ("lat", "lon", "alt"))
        )
        self.units = _UNITS
        if options.units:
            raise UsageError("a synthetic network is in SI by construction", code="SPDE-D001", do="leave --unit out")

    def read(self, start: int, stop: int) -> dict[str, np.ndarray[Any, Any]]:
        """Return the variables for the steps ``start`` to ``stop``."""
        return {str(name): np.asarray(table.values[start:stop]) for name, table in self._ds.data_vars.items()}


def _recipe(path: Path) -> dict[str, Any]:
    table = _table(path)
    if table is None:
        raise UsageError(f"{printable(path)} is no recipe of a synthetic network", code="SPDE-D001",
                         do="write [synthetic] with stations, days and seed")  # fmt: skip
    for key, value in table.items():
        low, high = _LIMITS.get(key, (0, -1))
        if key not in _LIMITS or isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            limits = ", ".join(f"{name} ({a} to {b})" for name, (a, b) in _LIMITS.items())
            raise UsageError(f"{shown(path)}: `{printable(key)}` = {printable(value)[:40]} cannot be used",
                             code="SPDE-D001", do=f"allowed are {limits}, whole numbers")  # fmt: skip
    return table


def _table(path: Path) -> dict[str, Any] | None:
    if path.is_dir():
        return None
    with open_binary(path) as file:
        raw = file.read(_LARGEST + 1)
    if len(raw) > _LARGEST or b"[synthetic]" not in raw:
        return None
    try:
        table = tomllib.loads(raw.decode()).get("synthetic")
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError):
        return None
    return table if isinstance(table, dict) else None


def _recognises(path: Path) -> int:
    return 3 if path.suffix.lower() == ".toml" and _table(path) is not None else 0


def open_synthetic(path: Path, options: ReadOptions, work: Workspace) -> Source:
    """Open a recipe as a source of observations."""
    source = SyntheticSource(path, options)
    return EveryNthStep(source, options.every) if options.every > 1 else source


READER = Reader("synthetic", "a made-up network on real relief, from a recipe in TOML", _recognises, open_synthetic)
