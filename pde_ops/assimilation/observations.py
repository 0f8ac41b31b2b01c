"""Observations: values with units and errors, and the operators that compute their equivalents in the model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from torch import Tensor

from ..errors import DeclarationError, ObservationError, ShapeError, UnknownNameError
from ..integrators.interpolation import interpolate
from ..parity import product
from ..units import Unit, registry
from .places import Places
from .quantities import Amount, amount_in_si, positive_seconds

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..tendency import Tendency

__all__ = ["AreaMeans", "Function", "Observations", "Points", "What"]

Fields = Mapping[str, Tensor]
What = str | Callable[[Fields], Tensor]
"""A field by name, or a function of all fields ``[y, x]`` by name that returns a map ``[y, x]`` in SI."""


class Observations(ABC):
    """Values at some times: one for each time, ``[time]``, or a row for each, ``[time, place]``.

    Parameters
    ----------
    time : since the beginning of the window, one or ``[time]``; with values ``[place]`` one for all or one for each
    values : with their unit, ``[time, place]`` or ``[place]``
    error : standard deviation of the observation errors, one or as many as values: the instrument's, and what a point
        says of a cell
    covariance : of the errors instead, ``[value, value]``, with the square of the unit
    over : span before each time of which a value is the mean; None for the moment
    missing : ``"refuse"``, or ``"skip"`` values that are NaN
    name : what messages and tables call them
    """

    kind = "observations"

    def __init__(
        self,
        *,
        time: Amount,
        values: Amount,
        error: Amount | None = None,
        covariance: Amount | None = None,
        over: Amount | None = None,
        missing: Literal["refuse", "skip"] = "refuse",
        name: str | None = None,
    ) -> None:
        self.name = name or self.kind
        if (error is None) == (covariance is None):
            raise DeclarationError(f"{self.name}: give either `error` or `covariance`", do="error='0.5 K'")
        if missing not in ("refuse", "skip"):
            raise DeclarationError(f"{self.name}: `missing` is 'refuse' or 'skip', not {missing!r}")
        self.values, self.error, self.covariance, self.missing = values, error, covariance, missing
        self.times = amount_in_si(f"{self.name}: `time`", time, registry.second)[0]
        self.over = None if over is None else positive_seconds(f"{self.name}: `over`", over)

    @abstractmethod
    def prepare(self, tendency: Tendency, like: Tensor) -> tuple[int | None, Unit | None]:
        """Check against the system; return the number of places (None: any) and the unit of the values (None: any)."""

    @abstractmethod
    def sample(self, state: Tensor, places: Tensor) -> Tensor:
        """Return the equivalents of the given places in a state ``[1, field, y, x]``."""


class _OfFields(Observations):
    """Observations of a map: one field, or a function of them."""

    def __init__(self, what: What, **others: Any) -> None:
        if not (isinstance(what, str) or callable(what)):
            raise DeclarationError(f"{self.kind}: `what` is the name of a field or a function of fields, not {what!r}")
        self.what = what
        called = what if isinstance(what, str) else getattr(what, "__name__", "a function")
        others["name"] = others.get("name") or f"{self.kind} of {called}"
        super().__init__(**others)

    def prepare(self, tendency: Tendency, like: Tensor) -> tuple[int | None, Unit | None]:
        self._tendency = tendency
        if not isinstance(self.what, str):
            return None, None
        names = tendency.field_names
        if self.what not in names:
            raise UnknownNameError(
                f"{self.name}: '{tendency.system.name}' has no field '{self.what}'", do=f"it has {', '.join(names)}"
            )
        return None, tendency.fields[names.index(self.what)].unit

    def _map(self, state: Tensor) -> Tensor:
        """Return the map ``[y, x]`` that is observed."""
        names = self._tendency.field_names
        if isinstance(self.what, str):
            return state[0, names.index(self.what)]
        result = self.what(dict(zip(names, state[0], strict=True)))
        if not isinstance(result, Tensor) or result.shape != state.shape[2:]:
            came = list(result.shape) if isinstance(result, Tensor) else type(result).__name__
            raise ShapeError(f"{self.name}: the function must return a map {list(state.shape[2:])}, not {came}")
        return result


class Points(_OfFields):
    """Values at places between the centres of cells, by bilinear sampling.

    Parameters
    ----------
    what : a field, or a function of the fields that returns a map in SI
    places : where; within the outermost cells
    others : see `Observations`
    """

    kind = "points"

    def __init__(self, what: What, places: Places, **others: Any) -> None:
        super().__init__(what, **others)
        if not isinstance(places, Places):
            raise DeclarationError(f"{self.name}: `places` must be Places, not {type(places).__name__}")
        self.places = places

    def prepare(self, tendency: Tendency, like: Tensor) -> tuple[int | None, Unit | None]:
        _, unit = super().prepare(tendency, like)
        self.places.check_inside(self.name, tendency.grid)
        self._points = torch.as_tensor(self.places.tensor()).to(like)
        component = None
        if isinstance(self.what, str):
            component = tendency.fields[tendency.field_names.index(self.what)].component
        self._odd = (product(component or ""),)
        return len(self.places), unit

    def sample(self, state: Tensor, places: Tensor) -> Tensor:
        points = self._points[:, places][None, :, None]
        border = self._tendency.grid.boundary
        return interpolate(self._map(state)[None, None], points, border, odd=self._odd)[0, 0, 0]


class AreaMeans(_OfFields):
    """Means over areas, each cell counted by its size.

    Parameters
    ----------
    what : a field, or a function of the fields that returns a map in SI
    areas : weights ``[area, y, x]`` or ``[y, x]``, 0 or more: a mask, or the share of each cell
    others : see `Observations`
    """

    kind = "area means"

    def __init__(self, what: What, areas: Any, **others: Any) -> None:
        super().__init__(what, **others)
        self.areas = amount_in_si(f"{self.name}: `areas`", (np.asarray(areas, np.float64), "1"), None)[0]

    def prepare(self, tendency: Tendency, like: Tensor) -> tuple[int | None, Unit | None]:
        _, unit = super().prepare(tendency, like)
        shape = (tendency.grid.ny, tendency.grid.nx)
        areas = self.areas[None] if self.areas.ndim == 2 else self.areas
        if areas.ndim != 3 or areas.shape[1:] != shape:
            raise ShapeError(f"{self.name}: `areas` must be [area, {shape[0]}, {shape[1]}], not {list(areas.shape)}")
        weights = areas * tendency.grid.cell_area[:, None]
        totals = weights.sum((1, 2))
        broken = ~(np.isfinite(totals) & (totals > 0.0) & (areas >= 0.0).all((1, 2)))
        if broken.any():
            raise ObservationError(
                f"{self.name}: area {int(np.argmax(broken))} holds no cell, or weights that are negative or not finite"
            )
        self._weights = torch.as_tensor(weights / totals[:, None, None]).to(like)
        return len(areas), unit

    def sample(self, state: Tensor, places: Tensor) -> Tensor:
        return (self._weights[places] * self._map(state)).sum((1, 2))


class Function(Observations):
    """Values that any differentiable function of the fields computes.

    Parameters
    ----------
    function : takes the fields ``[y, x]`` by name, in SI; returns a tensor ``[place]`` in SI
    others : see `Observations`
    """

    kind = "function"

    def __init__(self, function: Callable[[Fields], Tensor], **others: Any) -> None:
        if not callable(function):
            raise DeclarationError(f"{self.kind}: expected a function of the fields, got {type(function).__name__}")
        self.function = function
        super().__init__(**others)

    def prepare(self, tendency: Tendency, like: Tensor) -> tuple[int | None, Unit | None]:
        self._names = tendency.field_names
        return None, None

    def sample(self, state: Tensor, places: Tensor) -> Tensor:
        result = self.function(dict(zip(self._names, state[0], strict=True)))
        if not isinstance(result, Tensor) or result.ndim != 1 or (len(places) and len(result) != self.count):
            came = list(result.shape) if isinstance(result, Tensor) else type(result).__name__
            raise ShapeError(f"{self.name}: the function must return [{self.count}], one for each place, not {came}")
        return result[places]

    count: int = 0  # places of the values, set when they are bound


def flattened(
    owner: str, values: NDArray[np.float64], times: NDArray[np.float64], places: int | None
) -> tuple[NDArray[np.float64], NDArray[np.int64], int]:
    """Return the time and the place of each value, and the number of places.

    Raises
    ------
    ShapeError
        If values, times and places do not fit.
    """
    if values.ndim == 2:
        rows, columns = values.shape
        fits = np.atleast_1d(times).shape == (rows,) and places in (None, columns)
        at, place = np.repeat(np.atleast_1d(times), columns), np.tile(np.arange(columns), rows)
        count = columns
    else:
        size = values.size
        count = size if places is None else places
        fits = values.ndim <= 1 and times.shape in ((), (size,), (1,)) and count == size
        at, place = np.broadcast_to(times, (size,)) if fits else times, np.arange(size)
    if not fits:
        where = "" if places is None else f" at {places} places"
        raise ShapeError(
            f"{owner}: {list(values.shape)} values{where} and {list(times.shape)} times do not fit",
            do="give values [time, place] with times [time], or values [place] with one time",
        )
    return np.array(at, np.float64), place, count
