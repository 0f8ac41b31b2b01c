"""Collect the stations of a table while it is read: number ids, hold one position each, notice moves."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fields.errors import DataError, locate
from fields.readers.source import Network

__all__ = ["Roster"]

# Services re-survey their stations: the last digits of a position change, the station does not.
_SAME_DEGREES = 0.015
_SAME_ALTITUDE = 15.0
_MOST_STATIONS = 1_000_000
_LONGEST_ID = 200

Array = np.ndarray[Any, Any]


@dataclass(slots=True)
class Roster:
    """Stations in order of first appearance. ``on_move``: None refuses a move; ``split`` or ``first`` settles it."""

    label: str
    on_move: str | None = None
    ids: list[str] = field(default_factory=list)
    lat: list[float] = field(default_factory=list)
    lon: list[float] = field(default_factory=list)
    alt: list[float] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    wigos: list[str] = field(default_factory=list)
    moved: int = 0
    command: str = ""
    _code: dict[str, int] = field(default_factory=dict)
    _versions: dict[int, list[int]] = field(default_factory=dict)

    def codes(self, ids: list[str]) -> Array:
        """Return the numbers of ids; new ones are entered without a position."""
        codes = np.empty(len(ids), np.int32)
        for i, name in enumerate(ids):
            code = self._code.get(name)
            codes[i] = self._enter(name) if code is None else code
        return codes

    def _enter(self, name: str) -> int:
        if len(name) > _LONGEST_ID:
            raise DataError(f"{self.label}: a station id of {len(name):,} characters", code="SPDE-D033")
        if len(self.ids) >= _MOST_STATIONS:
            raise DataError(
                f"{self.label} has more than {_MOST_STATIONS:,} stations; is another column the station id?",
                code="SPDE-D033",
            )
        code = len(self.ids)
        self.ids.append(name)
        self.lat.append(np.nan), self.lon.append(np.nan), self.alt.append(np.nan)  # type: ignore[func-returns-value]
        self.names.append("")
        self.wigos.append("")
        self._code[name] = code
        return code

    def place(self, codes: Array, lat: Array, lon: Array, alt: Array) -> Array:
        """Compare the positions of rows with those on record; return the rows' codes, changed where a station split."""
        rows = (lat, lon, alt)
        if all(np.array_equal(np.asarray(listed)[codes], row) for listed, row in zip(self._positions(), rows)):
            return codes  # by far the most common case, and cheap to see
        here = np.asarray(self._positions())[:, codes]
        if np.isnan(here).any():
            self._fill_positions(codes, np.isnan(here), lat, lon, alt)
            here = np.asarray(self._positions())[:, codes]
        with np.errstate(invalid="ignore"):
            moved = np.abs(lat - here[0]) > _SAME_DEGREES
            moved |= np.abs(lon - here[1]) > _SAME_DEGREES
            moved |= np.abs(alt - here[2]) > _SAME_ALTITUDE
        if not moved.any():
            return codes
        return self._settle_moves(codes, np.flatnonzero(moved), lat, lon, alt)

    def _positions(self) -> tuple[list[float], list[float], list[float]]:
        return self.lat, self.lon, self.alt

    def _fill_positions(self, codes: Array, unknown: Array, lat: Array, lon: Array, alt: Array) -> None:
        """Enter the first position of each station that has none yet."""
        for listed, flags, values in zip((self.lat, self.lon, self.alt), unknown, (lat, lon, alt)):
            rows = np.flatnonzero(flags & np.isfinite(values))
            new, first = np.unique(codes[rows], return_index=True)
            for code, row in zip(new.tolist(), rows[first].tolist()):
                listed[code] = float(values[row])

    def _settle_moves(self, codes: Array, rows: Array, lat: Array, lon: Array, alt: Array) -> Array:
        """Refuse stations that moved, or return the rows' codes as ``on_move`` settles them."""
        self.moved += int(rows.size)
        if self.on_move == "first":
            return codes
        if self.on_move is None:
            moving = sorted({self.ids[code] for code in codes[rows[:10_000]].tolist()})
            code, row = int(codes[rows[0]]), int(rows[0])
            raise DataError(
                "stations move or change altitude in time",
                code="SPDE-D023",
                where=locate(self.label, stations=moving, out_of=len(self.ids))
                + f"   lat {self.lat[code]:.4f} lon {self.lon[code]:.4f} alt {self.alt[code]:.0f} m, then "
                f"{lat[row]:.4f} {lon[row]:.4f} {alt[row]:.0f} m",
                do=f"{self.command} --on-move split   or first, to keep the first position",
            )
        followed = codes.copy()
        places = np.round(np.stack([codes[rows].astype(float), lat[rows], lon[rows], alt[rows]]), 4)
        distinct, which = np.unique(places, axis=1, return_inverse=True)
        for i, (code, y, x, z) in enumerate(distinct.T.tolist()):
            followed[rows[which.ravel() == i]] = self._version(int(code), y, x, z)
        return followed

    def _version(self, code: int, lat: float, lon: float, alt: float) -> int:
        """Return the entry of a station at another place; a new one is made where there is none."""
        versions = self._versions.setdefault(code, [])
        for other in versions:
            near = abs(self.lat[other] - lat) <= _SAME_DEGREES and abs(self.lon[other] - lon) <= _SAME_DEGREES
            if near and abs(self.alt[other] - alt) <= _SAME_ALTITUDE:
                return other
        entry = self._enter(f"{self.ids[code]}@{len(versions) + 2}")
        self.lat[entry], self.lon[entry], self.alt[entry] = lat, lon, alt
        self.names[entry], self.wigos[entry] = self.names[code], self.wigos[code]
        versions.append(entry)
        return entry

    def network(self) -> Network:
        """Return the stations as arrays."""
        lat, lon, alt = (np.asarray(x, np.float64) for x in (self.lat, self.lon, self.alt))
        names, wigos = (np.asarray(texts, dtype=str) if any(texts) else None for texts in (self.names, self.wigos))
        return Network(np.asarray(self.ids, dtype=str), lat, lon, alt, names, wigos)

    def split(self) -> list[str]:
        """List the stations that were added because one moved."""
        return [self.ids[code] for versions in self._versions.values() for code in versions]

    def state(self) -> dict[str, Any]:
        """Return what a resumed run needs, as plain values for JSON."""
        listed = {key: getattr(self, key) for key in ("ids", "names", "wigos", "moved")}
        places = {key: [None if np.isnan(x) else x for x in getattr(self, key)] for key in ("lat", "lon", "alt")}
        return {**listed, **places, "versions": {str(k): v for k, v in self._versions.items()}}

    def restore(self, state: dict[str, Any]) -> None:
        """Restore the state of a run that was killed."""
        self.ids, self.names, self.moved = list(state["ids"]), list(state["names"]), int(state["moved"])
        self.lat, self.lon, self.alt = (
            [np.nan if x is None else float(x) for x in state[key]] for key in ("lat", "lon", "alt")
        )
        self.wigos = list(state.get("wigos") or [""] * len(self.ids))
        self._code = {name: code for code, name in enumerate(self.ids)}
        self._versions = {int(k): list(v) for k, v in state["versions"].items()}
