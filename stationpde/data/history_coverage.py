"""How much of a history was observed: what the model sees of the window, and how often stations report in it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np

from fields.variables import STATE_VARIABLES

__all__ = ["HistoryCoverage", "reporting_step"]

Array = np.ndarray[Any, Any]
# Two reports have a distance; only a third one shows whether it is a step.
_FEWEST_REPORTS = 3


@dataclass(frozen=True, slots=True)
class HistoryCoverage:
    """Shares of a history that were observed; substitutes for observations do not count.

    Attributes
    ----------
    present : mean over the variables of ``by_variable``
    by_variable : share of the window's moments that stations report, of those which report the variable at all in it
        and anything at the issue time. A station that fell silent counts in the network, not here
    values : share of all values of the network in the window that were observed
    unseen : variables without a single value in the window
    moments : number of moments in the window
    """

    present: float
    by_variable: dict[str, float]
    values: float
    unseen: tuple[str, ...]
    moments: int

    @classmethod
    def of(cls, values: Array, reference: Collection[str] = (), network: Array | None = None) -> HistoryCoverage:
        """Count the values of a window.

        Parameters
        ----------
        values : ``[time, station, variable]``
        reference : variables that are substitutes for observations
        network : row of each station of the network in ``values``, -1 for one that is not there; all by default
        """
        observed = [name for name in STATE_VARIABLES if name not in reference]
        seen = np.isfinite(values[..., [STATE_VARIABLES.index(name) for name in observed]])
        reporting_now = seen[-1].any(axis=-1)
        shares = {}
        for c, name in enumerate(observed):
            reports = seen[:, reporting_now & seen[..., c].any(axis=0), c]
            if reports.size:
                shares[name] = float(reports.mean())
        unseen = tuple(name for c, name in enumerate(observed) if not seen[..., c].any())
        counted = [*shares.values(), *(0.0 for _ in unseen)]
        rows = np.arange(seen.shape[1]) if network is None else network
        share = np.count_nonzero(seen[:, rows[rows >= 0]]) / max(1, len(rows) * len(seen) * len(observed))
        return cls(float(np.mean(counted)) if counted else 0.0, shares, float(share), unseen, len(values))

    @property
    def thinnest(self) -> str | None:
        """The variable with the smallest share, if any was observed."""
        return min(self.by_variable, key=self.by_variable.__getitem__, default=None)


def reporting_step(seconds: Array, reports: Array) -> int | None:
    """Return the step [s] at which stations report: the median over stations of the step that all their gaps fit.

    Parameters
    ----------
    seconds : times of a record, also those between the steps of a model
    reports : which stations report anything, ``[time, station]``

    Returns
    -------
    None where no station reports often enough to have a step
    """
    steps = []
    for station in range(reports.shape[1]):
        times = seconds[reports[:, station]]
        if times.size >= _FEWEST_REPORTS:
            # A gap in a record of three hours is six, nine … hours long: the common divisor stays three.
            steps.append(int(np.gcd.reduce(np.diff(times))))
    return sorted(steps)[len(steps) // 2] if steps else None
