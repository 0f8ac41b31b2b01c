r"""How stations become a field: the lift methods by name, and the object that carries one out.

* ``idw``: inverse horizontal distance; a target on a station has its value.
* ``terrain_idw``: the paper's. The ``k`` nearest stations on the map are weighted by the terrain-aware distance

  .. math:: d_{mi}^2 = (R\cos\bar\varphi\,\Delta\lambda_{mi})^2 + (R\,\Delta\varphi_{mi})^2
      + (w_{alt}\,\Delta z_{mi})^2

* ``detrended``: ``idw`` of what altitude and place do not explain (`fields.profiles`), restored at the target.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fields.detrend import Means, detrended_means
from fields.errors import DataError, UsageError
from fields.geometry import LocalMetric, check_places
from fields.neighbors import nearest, usable_neighbours
from fields.profiles import Places
from fields.weights import CoarseStandIn, SparseWeights, inverse_distance_weights

__all__ = ["LIFT_METHODS", "PAPER_W_ALT", "LiftMethod", "LiftSettings", "StationLift", "altitude_weight"]

# paper silent: the unit of w_alt = 5. Only with horizontal distance in kilometres and altitude in metres does it
# have an effect (design decision "w_alt"); in equal units it is 5000.
PAPER_W_ALT = "5 km/m"
_ROWS = 128


@dataclass(frozen=True, slots=True)
class LiftMethod:
    """One way to lift: whether altitude enters the distance, whether a coincident station is exact, and detrending."""

    name: str
    summary: str
    uses_altitude: bool
    exact: bool
    detrends: bool


LIFT_METHODS: Mapping[str, LiftMethod] = MappingProxyType(
    {
        method.name: method
        for method in (
            LiftMethod("idw", "inverse horizontal distance", False, True, False),
            LiftMethod("terrain_idw", "inverse terrain-aware distance, as in the paper", True, False, False),
            LiftMethod("detrended", "inverse distance of anomalies from lapse and hydrostatic law", False, True, True),
        )
    }
)


def altitude_weight(text: str | float) -> float:
    """The weight of altitude in the distance, in equal units, from text with its unit: ``"5 km/m"`` is 5000.

    Raises
    ------
    UsageError
        If the text has no unit, or one that is not a length over a length.
    """
    if not isinstance(text, str):
        return float(text)
    import pint

    registry = pint.get_application_registry()
    wrong = UsageError(
        f"w_alt needs a number with a length over a length as unit, not '{text}'",
        code="SPDE-D076",
        do=f"--w-alt '{PAPER_W_ALT}' (the paper's 5, distance in km and altitude in m) or --w-alt '5 m/m'",
    )
    parts = re.fullmatch(r"\s*(\d+\.?\d*(?:[eE][+-]?\d+)?)\s*([a-zA-Z]+)\s*/\s*([a-zA-Z]+)\s*", text)
    if parts is None:
        raise wrong
    try:
        over, under = (float(registry.Quantity(1.0, unit).to("m").magnitude) for unit in parts.groups()[1:])
    except (pint.PintError, AttributeError):
        raise wrong from None
    return float(parts[1]) * over / under


@dataclass(frozen=True, slots=True)
class LiftSettings:
    """What fixes the weights: method, neighbours, power and ``ε`` of the distance, weight of altitude (equal units)."""

    method: str = "detrended"
    k: int = 10
    power: float = 1.0
    epsilon_m: float = 1.0
    w_alt: float = 5000.0

    def __post_init__(self) -> None:
        if self.method not in LIFT_METHODS:
            from difflib import get_close_matches

            near = get_close_matches(self.method, LIFT_METHODS, n=1)
            raise UsageError(
                f"no lift method '{self.method}'; known: {', '.join(LIFT_METHODS)}",
                code="SPDE-D077",
                do=f"--method {near[0] if near else 'detrended'}",
            )
        if self.k < 1 or self.power <= 0.0 or self.epsilon_m <= 0.0 or self.w_alt < 0.0:
            raise UsageError(
                f"a lift needs k >= 1, power > 0, ε > 0 and w_alt >= 0; got {self.k}, {self.power}, "
                f"{self.epsilon_m}, {self.w_alt}",
                code="SPDE-D078",
            )


@dataclass(frozen=True, slots=True, eq=False)
class StationLift:
    """Weights and places of one lift from stations to targets; the numpy face."""

    settings: LiftSettings
    weights: SparseWeights
    stations: Places
    targets: Places
    altitude_range: tuple[float, float]

    @classmethod
    def between(
        cls,
        stations: tuple[ArrayLike, ArrayLike, ArrayLike],
        targets: tuple[ArrayLike, ArrayLike, ArrayLike],
        settings: LiftSettings | None = None,
        *,
        metric: LocalMetric | None = None,
        excluded: NDArray[np.bool_] | None = None,
    ) -> StationLift:
        """The lift between places given as latitude, longitude [degrees] and altitude [m].

        Parameters
        ----------
        metric : of the region; by default that of the stations
        excluded : ``[target, station]`` pairs that may not be used, for cross-validation
        """
        settings = settings or LiftSettings()
        method = LIFT_METHODS[settings.method]
        lat, lon, alt = (np.atleast_1d(np.asarray(part, dtype=np.float64)) for part in stations)
        check_places(lat, lon)
        if (method.uses_altitude or method.detrends) and not np.isfinite(alt).all():
            lost = int((~np.isfinite(alt)).sum())
            raise DataError(
                f"{lost} of {alt.size} stations have no altitude, which `{method.name}` needs",
                code="SPDE-D092",
                do="leave them out, or --method idw",
            )
        metric = metric or LocalMetric.around(lat, lon)
        here = metric.xy(lat, lon)
        there = metric.xy(*(np.atleast_1d(np.asarray(part, dtype=np.float64)) for part in targets[:2]))
        height = np.broadcast_to(np.asarray(targets[2], dtype=np.float64), there.shape[:1])
        k = usable_neighbours(settings.k, len(lat))
        # paper silent: N(m). "Select a neighbouring set and compute the distance" is read as two steps: nearest on
        # the map first, so that a far summit of the cell's altitude is no neighbour (design decision "neighbours").
        index = nearest(here, there, k, excluded=excluded)
        square = sum((there[:, None, axis] - here[index, axis]) ** 2 for axis in (0, 1))
        if method.uses_altitude:
            square = square + (settings.w_alt * (height[:, None] - alt[index])) ** 2
        distance = np.sqrt(square)
        if excluded is not None:
            distance[np.take_along_axis(excluded, index.astype(np.int64), axis=1)] = np.inf
        weight = inverse_distance_weights(
            distance, epsilon_m=settings.epsilon_m, power=settings.power, exact=method.exact
        )
        weights = SparseWeights(index, weight, len(lat), CoarseStandIn(here, there, excluded))
        low, high = float(np.nanmin(alt)), float(np.nanmax(alt))
        reach = _within_reach(here, there, weights) if method.detrends else there
        return cls(
            settings,
            weights,
            Places(here[:, 0], here[:, 1], alt, alt),
            Places(reach[:, 0], reach[:, 1], height, np.clip(height, low, high)),
            (low, high),
        )

    def to_targets(self, chosen: slice) -> StationLift:
        """The same lift to some of its targets."""
        weights, targets = self.weights, self.targets
        coarse = None if weights.stand_in is None else weights.stand_in.of_targets(chosen)
        some = SparseWeights(weights.index[chosen], weights.weight[chosen], weights.sources, coarse)
        places = Places(targets.x[chosen], targets.y[chosen], targets.z[chosen], targets.known_z[chosen])
        return StationLift(self.settings, some, self.stations, places, self.altitude_range)

    def __call__(self, values: Mapping[str, NDArray[Any]], *, station_pressure: bool = True) -> Means:
        """Lift variables ``[..., station]`` (SI, NaN = missing) to ``[..., target]`` with their coverage."""
        if not LIFT_METHODS[self.settings.method].detrends:
            lifted = {name: self.weights.apply(array) for name, array in values.items()}
            return Means({k: pair[0] for k, pair in lifted.items()}, {k: pair[1] for k, pair in lifted.items()}, {})
        rows = next(iter(values.values())).shape[:-1]
        pieces = [slice(i, i + _ROWS) for i in range(0, max(rows[0], 1), _ROWS)] if rows else [...]
        # Moments are independent: taken a few at a time, what lies between observations and fields stays in the cache.
        return Means.joined(
            [
                detrended_means(
                    {name: array[piece] for name, array in values.items()},
                    self.weights.apply,
                    self.stations,
                    self.targets,
                    xp=np,
                    station_pressure=station_pressure,
                )
                for piece in pieces
            ]
        )


def _within_reach(here: NDArray[np.float64], there: NDArray[np.float64], weights: SparseWeights) -> NDArray[np.float64]:
    """Where a target lies for a plane's horizontal slope: no farther from its neighbours' mean than they are spread.

    Amid its neighbours a target stays where it is. Beyond the network the slope does not go on for ever.
    """
    share = weights.weight[..., None]
    places = here[weights.index]
    centre = (share * places).sum(axis=1)
    spread = np.sqrt((share * (places - centre[:, None, :]) ** 2).sum(axis=(1, 2)))
    away = there - centre
    distance = np.hypot(away[:, 0], away[:, 1])
    return centre + away * np.minimum(1.0, spread / np.maximum(distance, 1e-9))[:, None]
