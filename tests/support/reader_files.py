"""Write files of a small synthetic network in the ways that real archives write them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from fields.readers import ReadOptions, Source, Workspace, detect, reader

START = np.datetime64("2021-03-01T00:00", "s")


class Weather:
    """Plausible hourly values [time, station]: u, v m/s, p hPa, t degC, rh %, from relief, sun and a passing wave."""

    def __init__(self, stations: int = 8, steps: int = 240, hours: float = 1.0, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.ids = [f"S{i:03d}" for i in range(stations)]
        self.lat = np.round(rng.uniform(44, 48, stations), 4)
        self.lon = np.round(rng.uniform(-4, 6, stations), 4)
        self.alt = np.round(np.linspace(10, 1500, stations), 1)
        self.time = START + (np.arange(steps) * hours * 3600).astype("timedelta64[s]")
        hour = np.arange(steps)[:, None] * hours
        noise = rng.normal(size=(5, steps, stations))
        day = np.cos(2 * np.pi * ((hour + self.lon / 15) / 24 - 14 / 24))
        wave = np.sin(2 * np.pi * (hour / 80 + self.lon / 30))
        self.p = np.round(1013.25 * (1 - 2.25577e-5 * self.alt) ** 5.2559 + 5 * wave + 0.2 * noise[0], 1)
        self.t = np.round(14 - 0.0065 * self.alt + 5 * day + 2 * wave + 0.3 * noise[1], 1)
        self.rh = np.round(np.clip(65 - 12 * day + 8 * wave + 2 * noise[2], 5, 99), 1)
        self.u = np.round(2 * wave + 0.8 * noise[3], 2)
        self.v = np.round(1 - wave + 0.8 * noise[4], 2)

    def columns(self, t: int, s: int) -> dict[str, Any]:
        """Return one row of a tidy table."""
        values = {name: getattr(self, name)[t, s] for name in ("u", "v", "p", "t", "rh")}
        place = {"lat": self.lat[s], "lon": self.lon[s], "alt": self.alt[s]}
        return {"station": self.ids[s], "time": str(self.time[t]), **place, **values}

    def rows(self) -> list[dict[str, Any]]:
        """Return all rows of a tidy table, in time order."""
        return [self.columns(t, s) for t in range(len(self.time)) for s in range(len(self.ids))]


def write_rows(path: Path, rows: list[dict[str, Any]], separator: str = ",", decimal: str = ".", end: str = "\n",
               encoding: str = "utf-8", bom: bool = False) -> Path:  # fmt: skip
    """Write rows as text in a dialect."""

    def cell(value: Any) -> str:
        if isinstance(value, float | np.floating):
            return "" if np.isnan(value) else str(value).replace(".", decimal)
        return str(value)

    lines = [separator.join(rows[0]), *(separator.join(cell(v) for v in row.values()) for row in rows)]
    raw = (end.join(lines) + end).encode(encoding)
    path.write_bytes(b"\xef\xbb\xbf" + raw if bom else raw)
    return path


def write_npz(path: Path, weather: Weather, **changes: Any) -> Path:
    """Write an archive for the `arrays` reader."""
    obs = np.stack([weather.u, weather.v, weather.p, weather.t, weather.rh], axis=-1).astype(np.float32)
    parts = {
        "obs": obs, "variables": np.array(["u", "v", "p", "t", "rh"]), "time": weather.time,
        "station_id": np.array(weather.ids), "lat": weather.lat, "lon": weather.lon, "alt_m": weather.alt,
    }  # fmt: skip
    np.savez_compressed(path, **{**parts, **changes})
    return path


def open_source(path: Path, scratch: Path, name: str | None = None, **options: Any) -> Source:
    """Open a source as ingest does."""
    chosen = reader(name) if name else detect(path)
    return chosen.open(path, ReadOptions(**options), Workspace(scratch / "work"))


def read_all(source: Source) -> dict[str, np.ndarray[Any, Any]]:
    """Read all steps of a source."""
    return source.read(0, source.axis.count)
