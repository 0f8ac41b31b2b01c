r"""Lift methods (interpolation from stations to a grid) by name, and `StationLift`, which applies one.

* ``idw``: inverse horizontal distance; a target on a station has its value.
* ``terrain_idw``: the paper's. The ``k`` nearest stations on the map are weighted by the terrain-aware distance

  .. math:: d_{mi}^2 = (R\cos\bar\varphi\,\Delta\lambda_{mi})^2 + (R\,\Delta\varphi_{mi})^2
      + (w_{alt}\,\Delta z_{mi})^2

* ``detrended``: ``idw`` of anomalies from a profile in altitude and position (`fields.lift.profiles`), which is added
  again at the target.

``pinn``, which fits a network to a window of time, is no set of weights: `fields.lift.pinn_lift`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fields.errors import DataError, UsageError, is_finite_number, is_whole
from fields.grid import LocalMetric, check_places
from fields.lift.detrend import Means, detrended_means
from fields.lift.neighbors import nearest, usable_neighbours
from fields.lift.profiles import LocalPositions
from fields.lift.weights import CoarseStandIn, SparseWeights, inverse_distance_weights
from fields.places import PlacesLike, coordinates_of

__all__ = ["LIFT_METHODS", "PAPER_W_ALT", "LiftMethod", "LiftSettings", "StationLift", "altitude_weight"]

# paper silent: the unit of w_alt = 5. Only with horizontal distance in kilometres and altitude in metres does it
# have an effect (design decision "w_alt"); in equal units it is 5000.
PAPER_W_ALT = "5 km/m"
# Moments that are lifted at once: intermediate arrays of so many stay in the processor's cache.
_ROWS = 128
# Metres; the sea floor that relief models hold, and room above the highest summit.
_ALTITUDES = (-11_500.0, 10_000.0)


@dataclass(frozen=True, slots=True)
class LiftMethod:
    """Properties of one lift method.

    Parameters
    ----------
    name, summary : name in settings and one line of description
    uses_altitude : whether altitude enters the distance
    exact : whether a target on a station has the station's value
    detrends : whether profiles are subtracted before averaging
    """

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
    """Convert the weight of altitude in the distance from text with its unit to equal units: ``"5 km/m"`` is 5000.

    Raises
    ------
    UsageError
        If the text has no unit, or one that is not a length over a length.
    """
    if is_finite_number(text) and float(text) >= 0.0:
        return float(text)
    import pint

    registry = pint.get_application_registry()
    wrong = UsageError(
        f"w_alt needs a number with a length over a length as unit, not '{text}'",
        code="SPDE-D076",
        do=f"write it as '{PAPER_W_ALT}' (the paper's 5, distance in km and altitude in m) or as '5 m/m'",
    )
    form = r"\s*(\d+\.?\d*(?:[eE][+-]?\d+)?)\s*([a-zA-Z]+)\s*/\s*([a-zA-Z]+)\s*"
    parts = isinstance(text, str) and re.fullmatch(form, text)
    if not parts:
        raise wrong
    try:
        over, under = (float(registry.Quantity(1.0, unit).to("m").magnitude) for unit in parts.groups()[1:])
    except (pint.PintError, AttributeError):
        raise wrong from None
    return float(parts[1]) * over / under


@dataclass(frozen=True, slots=True)
class LiftSettings:
    """Settings that determine the weights of a lift.

    Parameters
    ----------
    method : name of one of `LIFT_METHODS`
    k : number of neighbours
    power : exponent of the inverse distance; the paper's is 1
    epsilon_m : metres; ``ε``, added to the distance to keep its inverse finite
    w_alt : weight of altitude in the distance, in equal units (`altitude_weight`); used by ``terrain_idw``
    """

    method: str = "detrended"
    k: int = 10
    power: float = 1.0
    epsilon_m: float = 1.0
    w_alt: float = 5000.0

    def __post_init__(self) -> None:
        numbers = (self.power, self.epsilon_m, self.w_alt)
        if not is_whole(self.k) or not all(is_finite_number(number) for number in numbers):
            raise UsageError(
                f"k is a whole number, power, ε and w_alt are finite numbers; got {self.k!r}, {self.power!r}, "
                f"{self.epsilon_m!r}, {self.w_alt!r}",
                code="SPDE-D078",
                do="a weight with units is converted by fields.lift.altitude_weight('5 km/m')",
            )
        if self.method not in LIFT_METHODS:
            from difflib import get_close_matches

            near = get_close_matches(str(self.method), LIFT_METHODS, n=1)
            raise UsageError(
                f"no lift method '{self.method}'; known: {', '.join(LIFT_METHODS)}, and pinn for `stationpde field`",
                code="SPDE-D077",
                do=f"--method {near[0] if near else 'detrended'}",
            )
        if self.k < 1 or self.power <= 0.0 or self.epsilon_m <= 0.0 or self.w_alt < 0.0:
            raise UsageError(
                f"a lift needs k >= 1, power > 0, ε > 0 and w_alt >= 0; got {self.k}, {self.power}, "
                f"{self.epsilon_m}, {self.w_alt}",
                code="SPDE-D078",
                do="LiftSettings(k=10, power=1.0, epsilon_m=1.0, w_alt=5000.0)",
            )


@dataclass(frozen=True, slots=True, eq=False)
class StationLift:
    """One lift from stations to targets, on numpy arrays.

    Parameters
    ----------
    settings : the method and its settings
    weights : weights of the stations at each target
    stations, targets : positions in metres; a target beyond the network is moved for horizontal slopes
    altitude_range : lowest and highest station, m
    """

    settings: LiftSettings
    weights: SparseWeights
    stations: LocalPositions
    targets: LocalPositions
    altitude_range: tuple[float, float]

    @classmethod
    def between(
        cls,
        stations: PlacesLike,
        targets: PlacesLike,
        settings: LiftSettings | None = None,
        *,
        metric: LocalMetric | None = None,
        excluded: NDArray[np.bool_] | None = None,
    ) -> StationLift:
        """Build the lift from stations to targets.

        Parameters
        ----------
        stations, targets : `Places`, or tuples of latitude, longitude [degrees] and altitude [m]
        settings : method and its settings; by default those of `LiftSettings`
        metric : metric of the region; by default that of the stations
        excluded : ``[target, station]`` pairs that may not be used, for cross-validation
        """
        settings = settings or LiftSettings()
        method = LIFT_METHODS[settings.method]
        lat, lon, alt = coordinates_of(stations)
        target_lat, target_lon, target_alt = coordinates_of(targets)
        check_places(lat, lon)
        _require_on_earth(target_lat, target_lon, "targets")
        for altitude, what in ((alt, "stations"), (target_alt, "targets")):
            _require_altitude(altitude, what)
        if (method.uses_altitude or method.detrends) and not np.isfinite(alt).all():
            lost = int((~np.isfinite(alt)).sum())
            raise DataError(
                f"{lost} of {alt.size} stations have no altitude, which `{method.name}` needs",
                code="SPDE-D092",
                do="leave them out, or take the method `idw`",
            )
        metric = metric or LocalMetric.around(lat, lon)
        here, there = metric.xy(lat, lon), metric.xy(target_lat, target_lon)
        k = usable_neighbours(settings.k, len(lat))
        # paper silent: N(m). "Select a neighbouring set and compute the distance" is read as two steps: nearest on
        # the map first, so that a far summit of the cell's altitude is no neighbour (design decision "neighbours").
        index = nearest(here, there, k, excluded=excluded)
        square = sum((there[:, None, axis] - here[index, axis]) ** 2 for axis in (0, 1))
        if method.uses_altitude:
            square = square + (settings.w_alt * (target_alt[:, None] - alt[index])) ** 2
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
            LocalPositions(here[:, 0], here[:, 1], alt, alt),
            LocalPositions.at(reach, target_alt, (low, high)),
            (low, high),
        )

    def to_targets(self, chosen: slice) -> StationLift:
        """Return the same lift to a part of its targets."""
        weights, targets = self.weights, self.targets
        coarse = None if weights.stand_in is None else weights.stand_in.of_targets(chosen)
        part = SparseWeights(weights.index[chosen], weights.weight[chosen], weights.sources, coarse)
        positions = LocalPositions(
            targets.x[chosen], targets.y[chosen], targets.z[chosen], targets.clipped_z[chosen]
        )  # fmt: skip
        return StationLift(self.settings, part, self.stations, positions, self.altitude_range)

    def __call__(self, values: Mapping[str, NDArray[Any]], *, station_pressure: bool = True) -> Means:
        """Lift variables ``[..., station]`` (SI) to ``[..., target]`` with their coverage.

        NaN and infinite values are missing.
        """
        values = {name: _without_infinite(array) for name, array in values.items()}
        if not LIFT_METHODS[self.settings.method].detrends:
            lifted = {name: self.weights.apply(array) for name, array in values.items()}
            return Means({k: pair[0] for k, pair in lifted.items()}, {k: pair[1] for k, pair in lifted.items()}, {})
        rows = next(iter(values.values())).shape[:-1]
        pieces = [slice(i, i + _ROWS) for i in range(0, max(rows[0], 1), _ROWS)] if rows else [...]
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


def _require_on_earth(lat: NDArray[np.float64], lon: NDArray[np.float64], what: str) -> None:
    odd = (np.abs(lat) > 90.0) | (np.abs(lon) > 360.0)
    if odd.any():
        first = int(odd.argmax())
        raise DataError(f"{what} are beyond the globe: {lat[first]:g}, {lon[first]:g}", code="SPDE-D071",
                        do="correct latitude and longitude, in degrees")  # fmt: skip


def _require_altitude(alt: NDArray[np.float64], what: str) -> None:
    low, high = _ALTITUDES
    odd = (alt < low) | (alt > high)
    if odd.any():
        raise DataError(f"{what} have an altitude of {alt[odd][0]:g} m, possible are {low:,.0f} to {high:,.0f}",
                        code="SPDE-D092", do="correct it, or write NaN where it is unknown")  # fmt: skip


def _without_infinite(array: NDArray[Any]) -> NDArray[Any]:
    """Return values with NaN for infinite ones: in the fit of a profile a single one would spoil every target."""
    infinite = np.isinf(array)
    return np.where(infinite, np.array(np.nan, array.dtype), array) if infinite.any() else array


def _within_reach(here: NDArray[np.float64], there: NDArray[np.float64], weights: SparseWeights) -> NDArray[np.float64]:
    """Move targets beyond the network towards it, so that a plane's horizontal slope is not extrapolated far.

    Returns positions [m] ``[target, 2]`` no farther from the weighted mean of the neighbours than their spread. A
    target amid its neighbours stays where it is.
    """
    share = weights.weight[..., None]
    neighbours = here[weights.index]
    centre = (share * neighbours).sum(axis=1)
    spread = np.sqrt((share * (neighbours - centre[:, None, :]) ** 2).sum(axis=(1, 2)))
    away = there - centre
    distance = np.hypot(away[:, 0], away[:, 1])
    return centre + away * np.minimum(1.0, spread / np.maximum(distance, 1e-9))[:, None]
