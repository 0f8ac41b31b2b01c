"""``python -m benchmarks.station_bias CELL…``: how much of an error is the constant error of single stations?

.. math:: \\mathrm{MSE} = \\underbrace{\\sum_s w_s\\,b_s^2}_{\\text{constant}} + \\sum_s w_s\\,(\\mathrm{MSE}_s - b_s^2)

with b the mean error of a station over all windows and leads and w its share of the values. Prints for every cell and
variable that share, its correlation with altitude, the stations with the largest, and the MSE by lead.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from stationpde.evaluation import read_cell

_LARGEST = 3


def lines_of(path: Path) -> Iterator[str]:
    """Yield what a cell's sums say, a line for each variable."""
    cell = read_cell(path)
    sums = cell.statistics
    altitude = np.array(cell.about["data"]["altitude_m"])
    yield f"{cell.about['title']} ({path.name})"
    for v, name in enumerate(sums.variables):
        count, squared, _, signed = (np.asarray(row, float)[:, v] for row in sums.station)
        seen = count > 0
        bias = np.divide(signed, count, out=np.zeros_like(signed), where=seen)
        share = float((count * bias**2).sum() / squared.sum())
        with_altitude = float(np.corrcoef(bias[seen], altitude[seen])[0, 1])
        worst = np.argsort(-np.abs(bias))[:_LARGEST]
        stations = ", ".join(f"{sums.stations[s]} {bias[s]:+.2g} ({altitude[s]:.0f} m)" for s in worst)
        by_lead = " ".join(f"{row[v] / n[v]:.3g}" for n, row in zip(*np.asarray(sums.lead, float)[:2], strict=True))
        yield (
            f"  {name:2s} constant {share:4.0%}, correlation with altitude {with_altitude:+.2f}; largest {stations}; "
            f"MSE by lead {by_lead}"
        )


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        print("\n".join(lines_of(Path(argument))))
