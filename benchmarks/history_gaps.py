"""``python -m benchmarks.history_gaps RUN STORE``: what is a normal history, and what does a thin one cost?

Prints the share of the history that was observed over the windows of a store (`HistoryCoverage.present`), the largest
departure of a window from the climatology of training, and the errors of a run's forecasts from histories and networks
with gaps. ``docs/forecasting.md`` quotes them beside the thresholds of ``stationpde/forecasting/gates.py``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np
import torch

from fields.windows import Split, StationSeries
from stationpde.config import Config
from stationpde.data import HistoryCoverage, load_series
from stationpde.model import StateStatistics
from stationpde.physics import clipped, to_state
from stationpde.runs import LoadedRun, load_run

Array = np.ndarray

_MOST_WINDOWS, _ISSUES, _SEED = 3000, 20, 0
_MONTH = 30 * 86_400
_SHARES, _NETWORKS = (1.0, 0.75, 0.5, 0.25, 0.0), (0.5, 0.2)


def normal(run: LoadedRun, series: StationSeries) -> Iterator[str]:
    """Yield the least and median share of the history, and the largest departures from climatologies of training."""
    config = run.model.config
    shares = [
        HistoryCoverage.of(values, series.reference).present
        for values, _ in _windows(series, config.data.history)
        if np.isfinite(values[-1]).any()
    ]
    yield f"{len(shares)} windows: history {min(shares):.0%} at least, {np.median(shares):.0%} in the median"
    month = Split.of(len(series), (share := _MONTH / np.ptp(series.time), (1 - share) / 2, (1 - share) / 2))
    climates = {"of training": run.model.statistics, "of the first 30 days": StateStatistics.of(series, month, config)}
    for name, statistics in climates.items():
        rows = statistics.matching(series.stations)
        chosen = np.flatnonzero(rows >= 0)
        if chosen.size:
            yield f"departure from the climatology {name}: {_departure(statistics, rows, chosen, series, config):.1f}"


def _departure(statistics: StateStatistics, rows: Array, chosen: Array, series: StationSeries, config: Config) -> float:
    """Return the largest median departure of a variable in a window, in standard deviations."""
    pressure = torch.as_tensor(statistics.pressure[rows[chosen]], dtype=torch.float32)
    largest = 0.0
    for values, times in _windows(series, config.data.history):
        state = to_state(torch.from_numpy(values[:, chosen]), pressure).numpy()
        size = np.abs(state - statistics.climatology.at(times)[:, rows[chosen]]) / statistics.station_std[rows[chosen]]
        if np.isfinite(size).any(axis=(0, 1)).all():
            largest = max(largest, float(np.nanmedian(size, axis=(0, 1)).max()))
    return largest


def _windows(series: StationSeries, history: int) -> Iterator[tuple[Array, Array]]:
    for end in range(history, len(series), max(1, len(series) // _MOST_WINDOWS)):
        yield series.values[end - history : end], series.time[end - history : end]


def errors(run: LoadedRun, series: StationSeries) -> Iterator[str]:
    """Yield the root mean square errors of t and p from histories, and from networks, of which a share is there."""
    generator = np.random.default_rng(_SEED)
    data = run.model.config.data
    model = run.model.at(series.stations)
    ends = np.linspace(0.75 * len(series), len(series) - data.horizon - 1, _ISSUES).astype(int)
    cases = [("moments", share) for share in _SHARES] + [("stations", share) for share in _NETWORKS]
    for what, share in cases:
        squares = []
        for end in ends:
            values = series.values[end - data.history : end].copy()
            if what == "moments":
                values[:-1][generator.random(data.history - 1) >= share] = np.nan
            else:
                values[:, generator.random(len(series.stations)) >= share] = np.nan
            with torch.inference_mode():
                output = model(torch.from_numpy(values)[None], torch.tensor([int(series.time[end - 1])]))
            truth = series.values[end : end + data.horizon]
            squares.append((clipped(output.observed)[0].numpy() - truth) ** 2)
        size = np.sqrt(np.nanmean(squares, axis=(0, 1, 2)))
        yield f"{share:.0%} of the {what}: t {size[3]:.2f} K, p {size[2] / 100:.2f} hPa"


if __name__ == "__main__":
    trained = load_run(sys.argv[1])
    record = load_series(sys.argv[2], trained.model.config.data)
    for line in (*normal(trained, record), *errors(trained, record)):
        print(line)
