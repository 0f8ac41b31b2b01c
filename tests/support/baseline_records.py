"""Small records for tests of baselines: any number of stations, silent ones, none with a barometer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fields.windows.series import StationSeries
from small_network import places, small_config, weather
from stationpde.config.tree import Config
from stationpde.data.window_source import WindowSource

# Names of the baselines that `make` alone makes ready.
READY = ("persistence", "yesterday", "climatology", "ridge", "ridge_nb", "lift", "physics")


def record(kind: str = "usual") -> StationSeries:
    """A made-up network: ``usual``, with one or two stations, with a silent one, or without barometers."""
    if kind == "one station":
        return weather(places(1))
    if kind == "two stations":
        return weather(places(2))
    series = weather(places(5))
    values = series.values.copy()
    if kind == "a silent station":
        values[:, 1] = np.nan
    if kind == "no barometer":
        values[..., 2] = 101325.0 * np.exp(-series.stations.alt / 8400.0)
        return replace(series, values=values, reference=("p",), fingerprint="")
    return replace(series, values=values, fingerprint="")


KINDS = ("usual", "one station", "two stations", "a silent station", "no barometer")


def source_of(series: StationSeries, *overrides: str) -> tuple[Config, WindowSource]:
    """The smallest configuration and the windows of a record: five steps of six hours to two."""
    config = small_config(overrides=overrides)
    return config, WindowSource.of(series, config)


def plain(values: np.ndarray, step: int = 21600) -> StationSeries:
    """A record of given values ``[time, station, channel]``."""
    time = 1_672_531_200 + step * np.arange(len(values), dtype=np.int64)
    return StationSeries(time, values, places(values.shape[1]), step)
