r"""Joint scenarios: which of the possible values occur together, over variables, leads and stations.

A Gaussian copula with the correlations of past errors, in three factors,

.. math:: \operatorname{corr}(z_{vls}, z_{v'l's'}) = C_{vv'} \, L_{ll'} \, \rho(d_{ss'}), \qquad
          \rho(d) = (1 - n) e^{-d/R} \;\; (d > 0),

so that places where no station stands have a part in it. A scenario takes each quantile of every margin once, in the
order of its draw (ensemble copula coupling, Schefzik et al. 2013): together they have the margins exactly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import norm

from fields.grid import LocalMetric
from fields.variables import STATE_VARIABLES
from fields.windows import Stations
from stationpde.errors import UsageError
from stationpde.seeding import generator
from stationpde.uncertainty.distributions import Distributions
from stationpde.uncertainty.levels import LEVELS, level_of
from stationpde.uncertainty.marginal import Marginal
from stationpde.uncertainty.sample import Sample
from stationpde.uncertainty.signals import VARIABLES

__all__ = ["Copula", "coupled", "energy_score", "scenarios"]

Array = np.ndarray[Any, Any]

_MOST_WINDOWS = 120
_MOST_STATIONS = 120
_RANGES = np.geomspace(20.0, 2000.0, 30)  # km
_NUGGETS = np.linspace(0.0, 0.9, 19)
_JITTER = 1e-6
# Places of joint scenarios: their correlation takes 128 MB, and its root seconds.
_MOST_PLACES = 4000
# Numbers of joint scenarios: 400 MB in double precision, some times over.
_MOST_VALUES = 50_000_000


@dataclass(frozen=True, slots=True, eq=False)
class Copula:
    """Correlations of the normal scores of errors: of variables, of leads, and over distance.

    Attributes
    ----------
    names : variables; the speed of the wind follows from its components
    variable, lead : correlation matrices
    range_km, nugget : R and n of the correlation over distance
    """

    names: tuple[str, ...]
    variable: Array
    lead: Array
    range_km: float
    nugget: float

    @classmethod
    def fit(cls, sample: Sample, marginals: Mapping[str, Marginal], stations: Stations) -> Copula | None:
        """Estimate the correlations from a sample; None without a variable."""
        names = tuple(name for name in STATE_VARIABLES if name in marginals)
        if not names:
            return None
        chosen = np.unique(np.linspace(0, len(sample.day) - 1, _MOST_WINDOWS).round().astype(int))
        scores = np.stack([_normal_scores(sample, marginals[name], chosen) for name in names])
        rows = scores.reshape(len(names), -1)
        leads = np.moveaxis(scores, 2, 0).reshape(scores.shape[2], -1)
        range_km, nugget = _over_distance(scores, sample.station[chosen], stations)
        return cls(names, _correlation(rows), _correlation(leads), range_km, nugget)

    def draw(self, stations: Stations, leads: int, count: int, seed: tuple[int | str, ...]) -> Array:
        """Draw normal scores ``[scenario, variable, lead, station]``; the same seed gives the same."""
        rng = generator(0, "scenarios", *seed)
        noise = rng.standard_normal((count, len(self.names), leads, len(stations)))
        place = np.minimum(np.arange(leads), len(self.lead) - 1)
        drawn = noise @ _root(self._spatial(stations)).T
        drawn = np.einsum("kl,nvls->nvks", _root(self.lead[np.ix_(place, place)]), drawn)
        scores: Array = np.einsum("wv,nvls->nwls", _root(self.variable), drawn)
        return scores

    def _spatial(self, stations: Stations) -> Array:
        metric = LocalMetric.around(stations.lat, stations.lon)
        xy = metric.xy(stations.lat, stations.lon) / 1e3
        distance = np.hypot(*(xy[:, None] - xy[None]).transpose(2, 0, 1))
        matrix = (1.0 - self.nugget) * np.exp(-distance / self.range_km)
        np.fill_diagonal(matrix, 1.0)
        return matrix

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers as JSON-ready values."""
        return {
            "names": list(self.names), "variable": self.variable.tolist(), "lead": self.lead.tolist(),
            "range_km": self.range_km, "nugget": self.nugget,
        }  # fmt: skip

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Copula:
        """Read what `to_dict` returns.

        Raises
        ------
        ValueError, KeyError, TypeError
            If the matrices are no correlations.
        """
        names = tuple(str(name) for name in content["names"])
        variable, lead = (np.asarray(content[key], np.float64) for key in ("variable", "lead"))
        range_km, nugget = float(content["range_km"]), float(content["nugget"])
        square = variable.shape == (len(names),) * 2 and lead.ndim == 2 and lead.shape[0] == lead.shape[1] > 0
        if not square or not set(names) <= set(STATE_VARIABLES) or not (range_km > 0 and 0 <= nugget < 1):
            raise ValueError("its dependence has other shapes or numbers than a calibration writes")
        for matrix in (variable, lead):
            if not (np.isfinite(matrix).all() and (np.abs(matrix) <= 1.0 + 1e-9).all()):
                raise ValueError("its dependence holds what is no correlation")
        return cls(names, variable, lead, range_km, nugget)


def scenarios(
    distributions: Distributions, copula: Copula, stations: Stations, count: int, seed: tuple[int | str, ...]
) -> dict[str, Array]:
    """Return joint scenarios ``[scenario, lead, station]`` of each variable of the first window, in display units.

    Raises
    ------
    UsageError
        If there are too many places, or too many numbers.
    """
    _require_bounded(copula, len(distributions.members[0][1][distributions.names[0]].centre[0]), len(stations), count)
    levels = (np.arange(count) + 0.5) / count
    quantiles = {name: distributions.quantiles(name, levels)[0] for name in distributions.names}
    return coupled(quantiles, copula, stations, seed)


def _require_bounded(copula: Copula, leads: int, stations: int, count: int) -> None:
    """Refuse scenarios that need a correlation of too many places, or too many numbers."""
    if stations > _MOST_PLACES:
        raise UsageError(
            f"joint scenarios of {stations:,} stations and places need a correlation of each with each; "
            f"{_MOST_PLACES:,} are possible",
            code="SPDE-Q014", do="give fewer places, or leave out --members: quantiles have no limit",
        )  # fmt: skip
    most = max(2, _MOST_VALUES // (len(copula.names) * leads * stations))
    if count > most:
        raise UsageError(
            f"{count:,} scenarios of {stations:,} stations and places over {leads} steps do not fit in memory",
            code="SPDE-Q014", do=f"--members {most}",
        )  # fmt: skip


def coupled(
    quantiles: Mapping[str, Array], copula: Copula, stations: Stations, seed: tuple[int | str, ...]
) -> dict[str, Array]:
    """Put quantiles ``[lead, station, scenario]`` in the order of a draw: scenarios ``[scenario, lead, station]``."""
    names = [name for name in copula.names if name in quantiles]
    if not names:
        return {}
    leads, _, count = quantiles[names[0]].shape
    scores = copula.draw(stations, leads, count, seed)
    drawn = {name: _in_order(quantiles[name], scores[:, copula.names.index(name)]) for name in names}
    if "ff" in quantiles and {"u", "v"} <= drawn.keys():
        drawn["ff"] = _in_order(quantiles["ff"], np.hypot(drawn["u"], drawn["v"]))
    return drawn


def energy_score(members: Array, target: Array) -> float:
    r"""Return the energy score of scenarios, a CRPS of many dimensions, divided by the root of their number.

    .. math:: \frac{1}{\sqrt D} \left( \frac1m \sum_i \lVert x_i - y \rVert
              - \frac{1}{2 m^2} \sum_{ij} \lVert x_i - x_j \rVert \right)

    (Gneiting and Raftery 2007, Eq. 21). Parts of the target that are not finite do not count.

    Parameters
    ----------
    members : ``[scenario, dimension]``
    target : ``[dimension]``
    """
    used = np.isfinite(target)
    x, y = members[:, used], target[used]
    if not used.any():
        return float("nan")
    square = (x**2).sum(axis=1)
    between = np.sqrt(np.maximum(square[:, None] + square[None] - 2.0 * x @ x.T, 0.0))
    np.fill_diagonal(between, 0.0)
    error = np.sqrt(((x - y) ** 2).sum(axis=1)).mean()
    return float((error - 0.5 * between.mean()) / np.sqrt(len(y)))


def _in_order(quantiles: Array, scores: Array) -> Array:
    """Give each scenario the quantile ``[lead, station, level]`` of the rank of its score ``[scenario, …]``."""
    rank = scores.argsort(axis=0, kind="stable").argsort(axis=0, kind="stable")
    ordered: Array = np.take_along_axis(np.moveaxis(quantiles, -1, 0), rank, axis=0)
    return ordered


def _normal_scores(sample: Sample, marginal: Marginal, windows: Array) -> Array:
    """Return the normal scores of the errors of some windows ``[window, lead, station]``; NaN without a target."""
    scores = np.full((len(windows), *sample.targets.shape[1:3]), np.nan)
    for row, window in enumerate(windows):
        signals = sample.signals.window(int(window))
        values = marginal.quantiles(marginal.spread(signals, sample.station[window]), LEVELS)
        level = level_of(values, sample.targets[[window]][..., VARIABLES.index(marginal.name)])[0]
        scores[row] = norm.ppf(np.clip(level, 1e-3, 1.0 - 1e-3))
    return scores


def _correlation(rows: Array) -> Array:
    """Return the correlations of rows with gaps, as a matrix that is one: no negative eigenvalue."""
    observed = np.isfinite(rows)
    filled = np.where(observed, rows, 0.0)
    both = observed.astype(float) @ observed.T.astype(float)
    matrix = (filled @ filled.T) / np.maximum(both, 1.0)
    size = np.sqrt(np.maximum(np.diag(matrix), 1e-9))
    matrix = np.clip(matrix / np.outer(size, size), -1.0, 1.0)
    values, vectors = np.linalg.eigh(matrix)
    whole = (vectors * np.maximum(values, _JITTER)) @ vectors.T
    size = np.sqrt(np.diag(whole))
    correlations: Array = np.clip(whole / np.outer(size, size), -1.0, 1.0)
    return correlations


def _over_distance(scores: Array, station: Array, stations: Stations) -> tuple[float, float]:
    """Fit range and nugget to the products of scores of pairs of stations at the same time and lead."""
    metric = LocalMetric.around(stations.lat, stations.lon)
    xy = metric.xy(stations.lat, stations.lon) / 1e3
    distances, products, counts = [], [], []
    for window, numbers in enumerate(station):
        few = np.linspace(0, len(numbers) - 1, min(_MOST_STATIONS, len(numbers))).round().astype(int)
        values = np.moveaxis(scores[:, window][..., few], -1, 0).reshape(len(few), -1)
        observed = np.isfinite(values)
        filled = np.where(observed, values, 0.0)
        upper = np.triu_indices(len(few), 1)
        point = xy[numbers[few]]
        distances.append(np.hypot(*(point[:, None] - point[None]).transpose(2, 0, 1))[upper])
        products.append((filled @ filled.T)[upper])
        counts.append((observed.astype(float) @ observed.T.astype(float))[upper])
    apart, product, count = (np.concatenate(parts) for parts in (distances, products, counts))
    variance = float(np.nanmean(scores**2)) if np.isfinite(scores).any() else 1.0
    if not count.sum():
        return float(_RANGES[0]), float(_NUGGETS[-1])
    # Bins of equal numbers of pairs, so that near ones, which are few, have a say.
    edges = np.unique(np.quantile(apart, np.linspace(0.0, 1.0, 21)[1:-1]))
    place = np.searchsorted(edges, apart)
    size = np.bincount(place, count)
    used = size > 0
    observed_correlation = np.bincount(place, product)[used] / size[used] / variance
    middle = (np.bincount(place, apart)[used]) / np.bincount(place)[used]
    error = [
        (((1.0 - nugget) * np.exp(-middle / reach) - observed_correlation) ** 2).sum()
        for reach in _RANGES for nugget in _NUGGETS
    ]  # fmt: skip
    best = int(np.argmin(error))
    return float(_RANGES[best // len(_NUGGETS)]), float(_NUGGETS[best % len(_NUGGETS)])


def _root(matrix: Array) -> Array:
    """Return the Cholesky factor of a correlation matrix, which may be singular but for rounding."""
    return np.linalg.cholesky(matrix + _JITTER * np.eye(len(matrix)))
