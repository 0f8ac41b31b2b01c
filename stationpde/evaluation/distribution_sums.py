r"""Sums of scores of distributions: CRPS, quantile loss, coverage and width of intervals, PIT and Brier scores.

One pass, bounded memory. The CRPS is that of the 50 quantiles in the middle of equal steps of probability, twice the
mean of their quantile losses,

.. math:: \mathrm{CRPS} = \frac{2}{m} \sum_i (1_{y < q_i} - \tau_i)(q_i - y), \qquad \tau_i = (i - \tfrac12) / m

(Bröcker 2012, for an ensemble). Display units: m/s, hPa, K, %.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fields.times import DAY
from stationpde.uncertainty import VARIABLES, energy_score, shown

if TYPE_CHECKING:
    from fields.windows import Batch
    from stationpde.uncertainty import Probabilistic

__all__ = ["COVERED", "CRPS_LEVELS", "EVENTS", "PIT_BINS", "SHOWN_LEVELS", "DistributionSums", "crps_of_quantiles"]

Array = np.ndarray[Any, Any]

CRPS_LEVELS: Array = (np.arange(50) + 0.5) / 50
SHOWN_LEVELS = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95)
COVERED = (0.5, 0.8, 0.9)
PIT_BINS = 10
EVENTS = (("ff", 0.9, True), ("t", 0.05, False), ("t", 0.95, True))
"""Exceedances: variable, level of the climatology of the station, and whether what lies above counts."""
# Rows: count, CRPS, inside and width of each interval, quantile losses, PIT.
ROWS = 2 + 2 * len(COVERED) + len(SHOWN_LEVELS) + PIT_BINS
_INSIDE, _WIDTH = 2, 2 + len(COVERED)
_LOSS = _WIDTH + len(COVERED)
_PIT = _LOSS + len(SHOWN_LEVELS)


def crps_of_quantiles(quantiles: Array, target: Array) -> Array:
    """Return the CRPS ``[...]`` of quantiles ``[..., level]`` at the levels (i − ½)/m."""
    count = quantiles.shape[-1]
    levels = (np.arange(count) + 0.5) / count
    y = target[..., None]
    loss: Array = 2.0 * np.mean(((y < quantiles) - levels) * (quantiles - y), axis=-1)
    return loss


class DistributionSums:
    """Sums of scores of one forecaster of distributions.

    Parameters
    ----------
    stations : station ids
    names : variables
    horizon, step_seconds : number of leads and seconds between them
    days : first and last day of issue, in days since 1970
    thresholds : of each event ``[event, station]``, display units

    Attributes
    ----------
    total : ``[row, group, variable]`` of the groups ``lead``, ``station`` and ``hour``
    daily : counts and CRPS ``[2, day, group, variable]`` of the same groups, for significance
    inside : counts and hits of each interval ``[1 + interval, day, variable]``
    energy : counts of windows and energy scores of joint scenarios ``[2, day, variable]``
    events : counts, Brier scores ``[2, day, event]``
    reliability : counts, probabilities and events ``[3, event, bin]``
    """

    def __init__(
        self, stations: Sequence[str], names: Sequence[str], horizon: int, step_seconds: int, days: tuple[int, int],
        thresholds: Array,
    ) -> None:  # fmt: skip
        self.names = tuple(name for name in VARIABLES if name in names)
        self.stations, self.step_seconds, self.first_day, self.thresholds = stations, step_seconds, days[0], thresholds
        self.lead_hours = tuple((1 + np.arange(horizon)) * step_seconds / 3600.0)
        slots, count, last = DAY // step_seconds, days[1] - days[0] + 1, len(self.names)
        sizes = {"lead": horizon, "station": len(stations), "hour": slots}
        self.total = {group: np.zeros((ROWS, size, last)) for group, size in sizes.items()}
        self.daily = {group: np.zeros((2, count, size, last)) for group, size in sizes.items()}
        self.inside = np.zeros((1 + len(COVERED), count, last))
        self.energy = np.zeros((2, count, last))
        self.events = np.zeros((2, count, len(EVENTS)))
        self.reliability = np.zeros((3, len(EVENTS), PIT_BINS))

    def add(self, distributions: Probabilistic, batch: Batch) -> None:
        """Add the scores of a batch; its future holds the targets."""
        targets = shown(batch.future.numpy())
        issue = batch.issue_time.numpy()
        day = issue // DAY - self.first_day
        ahead = self.step_seconds * (1 + np.arange(targets.shape[1]))
        slot = (issue[:, None] + ahead) % DAY // self.step_seconds
        for c, name in enumerate(self.names):
            rows = _rows(distributions, name, targets[..., VARIABLES.index(name)])
            leads, stations = rows.sum(axis=3), rows.sum(axis=2)
            self.total["lead"][:, :, c] += leads.sum(axis=1)
            self.total["station"][:, :, c] += stations.sum(axis=1)
            for window, number in enumerate(day):
                self.daily["lead"][:, number, :, c] += leads[:2, window]
                self.daily["station"][:, number, :, c] += stations[:2, window]
                self.inside[0, number, c] += leads[0, window].sum()
                self.inside[1:, number, c] += leads[_INSIDE:_WIDTH, window].sum(axis=1)
                for lead, hour in enumerate(slot[window]):
                    self.total["hour"][:, hour, c] += leads[:, window, lead]
                    self.daily["hour"][:, number, hour, c] += leads[:2, window, lead]
        self._add_events(distributions, targets, day)

    def add_scenarios(self, scenarios: Mapping[str, Array], targets: Array, day: int) -> None:
        """Add the energy scores of the scenarios ``[scenario, lead, station]`` of one window.

        Parameters
        ----------
        targets : ``[lead, station, variable]``
        day : days since 1970
        """
        for c, name in enumerate(self.names):
            if name in scenarios:
                members = scenarios[name].reshape(len(scenarios[name]), -1)
                score = energy_score(members, targets[..., VARIABLES.index(name)].ravel())
                if np.isfinite(score):
                    self.energy[:, day - self.first_day, c] += (1.0, score)

    def _add_events(self, distributions: Probabilistic, targets: Array, day: Array) -> None:
        for number, (name, _, is_above) in enumerate(EVENTS):
            if name not in self.names:
                continue
            below = distributions.probability_below(name, self.thresholds[number])
            chance = 1.0 - below if is_above else below
            target = targets[..., VARIABLES.index(name)]
            limit = self.thresholds[number]
            happened = (target > limit) if is_above else (target < limit)
            used = np.isfinite(target) & np.isfinite(limit)
            score = np.where(used, (chance - happened) ** 2, 0.0).sum(axis=(1, 2))
            np.add.at(self.events[0, :, number], day, used.sum(axis=(1, 2)))
            np.add.at(self.events[1, :, number], day, score)
            place = np.minimum((chance[used] * PIT_BINS).astype(int), PIT_BINS - 1)
            for row, values in enumerate((np.ones(len(place)), chance[used], happened[used])):
                self.reliability[row, number] += np.bincount(place, values, minlength=PIT_BINS)

    def scores(self, sums: Array) -> dict[str, Any] | None:
        """Return the scores of sums ``[row]`` of one variable; None without a target."""
        count = sums[0]
        if not count:
            return None
        return {
            "count": int(count),
            "crps": float(sums[1] / count),
            "coverage": _named(COVERED, sums[_INSIDE:_WIDTH] / count),
            "width": _named(COVERED, sums[_WIDTH:_LOSS] / count),
            "quantile_loss": _named(SHOWN_LEVELS, sums[_LOSS:_PIT] / count),
            "pit": (sums[_PIT:] / count).tolist(),
        }

    def event_scores(self) -> dict[str, Any]:
        """Return Brier scores, their skill against the frequency of the event, and reliability, of each event."""
        entries: dict[str, Any] = {}
        for number, (name, level, is_above) in enumerate(EVENTS):
            count, score = self.events[:, :, number].sum(axis=1)
            if not count:
                continue
            bins, chance, happened = self.reliability[:, number]
            base = happened.sum() / count
            variance = base * (1.0 - base)
            entries[f"{name} {'above' if is_above else 'below'} its {100 * level:g}th percentile"] = {
                "count": int(count),
                "brier": float(score / count),
                "frequency": float(base),
                "skill": float(1.0 - score / count / variance) if variance > 0 else None,
                "reliability": [
                    {"count": int(n), "forecast": float(p / n), "observed": float(o / n)}
                    for n, p, o in zip(bins, chance, happened, strict=True)
                    if n
                ],
            }
        return entries


def _rows(distributions: Probabilistic, name: str, target: Array) -> Array:
    """Return every row of one variable ``[row, batch, lead, station]``, zero where nothing was observed."""
    observed = np.isfinite(target)
    y = np.where(observed, target, 0.0)
    rows = np.zeros((ROWS, *target.shape))
    rows[0] = 1.0
    fine = distributions.quantiles(name, CRPS_LEVELS)
    rows[1] = crps_of_quantiles(fine, y)
    quantiles = distributions.quantiles(name, SHOWN_LEVELS)
    for number, covered in enumerate(COVERED):
        low = quantiles[..., SHOWN_LEVELS.index(round(0.5 - covered / 2, 6))]
        high = quantiles[..., SHOWN_LEVELS.index(round(0.5 + covered / 2, 6))]
        rows[_INSIDE + number] = (y >= low) & (y <= high)
        rows[_WIDTH + number] = high - low
    loss = ((y[..., None] < quantiles) - np.array(SHOWN_LEVELS)) * (quantiles - y[..., None])
    rows[_LOSS:_PIT] = np.moveaxis(loss, -1, 0)
    # Where several levels share the value, as in calm air, its middle.
    rank = 0.5 * ((fine < y[..., None]).sum(axis=-1) + (fine <= y[..., None]).sum(axis=-1))
    place = np.minimum((rank * PIT_BINS / len(CRPS_LEVELS)).astype(int), PIT_BINS - 1)
    np.put_along_axis(rows[_PIT:], place[None], 1.0, axis=0)
    return rows * observed


def _named(names: Sequence[float], values: Array) -> Mapping[str, float]:
    return {f"{name:g}": float(value) for name, value in zip(names, values, strict=True)}
