"""The stations met while a table is read: ids to numbers, one position each, moves noticed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..errors import DataError, locate
from .source import Network

__all__ = ["Roster"]

# Services re-survey their stations: the last digits of a position change, the station does not.
_SAME_DEGREES = 0.015
_SAME_ALTITUDE = 15.0
_MOST_STATIONS = 1_000_000
_LONGEST_ID = 200

Array = np.ndarray[Any, Any]


@dataclass(slots=True)
class Roster:
    """Stations in the order in which they were met. ``on_move``: None refuses a move, or ``split``, or ``first``."""

    label: str
    on_move: str | None = None
    ids: list[str] = field(default_factory=list)
    lat: list[float] = field(default_factory=list)
    lon: list[float] = field(default_factory=list)
    alt: list[float] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    moved: int = 0
    command: str = ""
    _code: dict[str, int] = field(default_factory=dict)
    _versions: dict[int, list[int]] = field(default_factory=dict)

    def codes(self, ids: list[str]) -> Array:
        """Numbers of ids; new ones are entered without a position."""
        made = np.empty(len(ids), np.int32)
        for i, name in enumerate(ids):
            code = self._code.get(name)
            made[i] = self._enter(name) if code is None else code
        return made

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
        self._code[name] = code
        return code

    def place(self, codes: Array, lat: Array, lon: Array, alt: Array) -> Array:
        """Hold the positions of rows against those known; returns the rows' codes, changed where a station split."""
        given = (lat, lon, alt)
        if all(np.array_equal(np.asarray(known)[codes], row) for known, row in zip(self._known(), given)):
            return codes  # by far the most common case, and cheap to see
        here = np.asarray(self._known())[:, codes]
        if np.isnan(here).any():
            self._learn(codes, np.isnan(here), lat, lon, alt)
            here = np.asarray(self._known())[:, codes]
        with np.errstate(invalid="ignore"):
            moved = np.abs(lat - here[0]) > _SAME_DEGREES
            moved |= np.abs(lon - here[1]) > _SAME_DEGREES
            moved |= np.abs(alt - here[2]) > _SAME_ALTITUDE
        if not moved.any():
            return codes
        return self._follow(codes, np.flatnonzero(moved), lat, lon, alt)

    def _known(self) -> tuple[list[float], list[float], list[float]]:
        return self.lat, self.lon, self.alt

    def _learn(self, codes: Array, unknown: Array, lat: Array, lon: Array, alt: Array) -> None:
        for kept, flags, values in zip((self.lat, self.lon, self.alt), unknown, (lat, lon, alt)):
            rows = np.flatnonzero(flags & np.isfinite(values))
            found, first = np.unique(codes[rows], return_index=True)
            for code, row in zip(found.tolist(), rows[first].tolist()):
                kept[code] = float(values[row])

    def _follow(self, codes: Array, rows: Array, lat: Array, lon: Array, alt: Array) -> Array:
        self.moved += int(rows.size)
        if self.on_move == "first":
            return codes
        if self.on_move is None:
            who = sorted({self.ids[code] for code in codes[rows[:10_000]].tolist()})
            code, row = int(codes[rows[0]]), int(rows[0])
            raise DataError(
                "stations move or change altitude in time",
                code="SPDE-D023",
                where=locate(self.label, stations=who, out_of=len(self.ids))
                + f"   lat {self.lat[code]:.4f} lon {self.lon[code]:.4f} alt {self.alt[code]:.0f} m, then "
                f"{lat[row]:.4f} {lon[row]:.4f} {alt[row]:.0f} m",
                do=f"{self.command} --on-move split (or: first, to keep the first position)",
            )
        made = codes.copy()
        places = np.round(np.stack([codes[rows].astype(float), lat[rows], lon[rows], alt[rows]]), 4)
        distinct, which = np.unique(places, axis=1, return_inverse=True)
        for i, (code, y, x, z) in enumerate(distinct.T.tolist()):
            made[rows[which.ravel() == i]] = self._version(int(code), y, x, z)
        return made

    def _version(self, code: int, lat: float, lon: float, alt: float) -> int:
        """The entry of a station at another place, made if it is new."""
        versions = self._versions.setdefault(code, [])
        for other in versions:
            near = abs(self.lat[other] - lat) <= _SAME_DEGREES and abs(self.lon[other] - lon) <= _SAME_DEGREES
            if near and abs(self.alt[other] - alt) <= _SAME_ALTITUDE:
                return other
        made = self._enter(f"{self.ids[code]}@{len(versions) + 2}")
        self.lat[made], self.lon[made], self.alt[made], self.names[made] = lat, lon, alt, self.names[code]
        versions.append(made)
        return made

    def network(self) -> Network:
        """The stations as arrays."""
        lat, lon, alt = (np.asarray(x, np.float64) for x in (self.lat, self.lon, self.alt))
        names = np.asarray(self.names, dtype=str) if any(self.names) else None
        return Network(np.asarray(self.ids, dtype=str), lat, lon, alt, names)

    def split(self) -> list[str]:
        """Stations that were made because one moved."""
        return [self.ids[code] for versions in self._versions.values() for code in versions]

    def state(self) -> dict[str, Any]:
        """What a resumed run needs, as JSON knows it."""
        kept = {key: getattr(self, key) for key in ("ids", "names", "moved")}
        places = {key: [None if np.isnan(x) else x for x in getattr(self, key)] for key in ("lat", "lon", "alt")}
        return {**kept, **places, "versions": {str(k): v for k, v in self._versions.items()}}

    def restore(self, state: dict[str, Any]) -> None:
        """Take over the state of a run that was killed."""
        self.ids, self.names, self.moved = list(state["ids"]), list(state["names"]), int(state["moved"])
        self.lat, self.lon, self.alt = (
            [np.nan if x is None else float(x) for x in state[key]] for key in ("lat", "lon", "alt")
        )
        self._code = {name: code for code, name in enumerate(self.ids)}
        self._versions = {int(k): list(v) for k, v in state["versions"].items()}
