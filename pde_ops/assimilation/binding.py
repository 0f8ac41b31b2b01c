"""Observations bound to a system and a window: what is sampled after which step, and how departures are weighed."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from ..errors import DeclarationError, ObservationError
from ..units import Unit, from_si, parse_unit, registry
from .observations import Function, Observations, flattened
from .quantities import amount_in_si
from .whitening import Whitening, whitening_of_covariance, whitening_of_errors
from .window import Window

if TYPE_CHECKING:
    from jaxtyping import Float
    from numpy.typing import NDArray

    from ..tendency import Tendency

__all__ = ["Bound", "bind_all"]


@dataclass(frozen=True, slots=True)
class _Visit:
    """What one step contributes."""

    rows: Tensor
    places: Tensor
    weights: Tensor


class Bound:
    """One set of observations in one window.

    Attributes
    ----------
    values : SI, ``[obs]``
    unit : as they came
    times : s, ``[obs]``
    places : number of the place of each, ``[obs]``
    """

    def __init__(self, source: Observations, tendency: Tendency, window: Window, like: Tensor) -> None:
        source = copy.copy(source)  # what is prepared belongs to this system and window
        self.source, self.name = source, source.name
        places, unit = source.prepare(tendency, like)
        values, self.unit = amount_in_si(f"{self.name}: `values`", source.values, unit)
        times, place, count = flattened(self.name, values, source.times, places)
        if isinstance(source, Function):
            source.count = count
        present = self._present(values.reshape(-1))
        base: Unit = registry.Quantity(1.0, self.unit).to_base_units().units
        self.whitening = self._whitening(base, values.shape, present.reshape(values.shape), like)
        self.times, self.places = times[present], place[present]
        self.values: Float[Tensor, " obs"] = torch.as_tensor(values.reshape(-1)[present]).to(like)
        self.visits = self._visits(window, like)
        if isinstance(source, Function) or not isinstance(getattr(source, "what", ""), str):
            self._try(tendency, like)

    def __len__(self) -> int:
        return int(self.values.shape[0])

    def sample(self, state: Tensor, step: int) -> Tensor | None:
        """Return what a state contributes to the equivalents, None for nothing."""
        visit = self.visits.get(step)
        return None if visit is None else visit.weights * self.source.sample(state, visit.places)

    def in_units(self, values: Tensor) -> NDArray[np.float64]:
        """Return SI values in the unit in which the observations came."""
        plain = values.detach().cpu().double().numpy()
        return np.array([from_si(float(v), self.unit).magnitude for v in plain])

    def _present(self, values: NDArray[np.float64]) -> NDArray[np.bool_]:
        absent, skipped = np.isnan(values), self.source.missing == "skip"
        broken = np.isinf(values) | (absent & (not skipped))
        if broken.any():
            first = int(np.argmax(broken))
            raise ObservationError(
                f"{self.name}: {int(broken.sum())} of {values.size} values are not finite, the first is number "
                f"{first}: {values[first]}",
                do="remove them; missing='skip' leaves out those that are NaN",
            )
        if not (~absent).any():
            raise ObservationError(f"{self.name}: there is no value in it", do="leave this set of observations out")
        return ~absent

    def _whitening(self, base: Unit, shape: tuple[int, ...], present: NDArray[np.bool_], like: Tensor) -> Whitening:
        source = self.source
        if source.covariance is not None:
            matrix, _ = amount_in_si(f"{self.name}: `covariance`", source.covariance, parse_unit(str(base**2)))
            return whitening_of_covariance(self.name, matrix, present, like)
        errors, _ = amount_in_si(f"{self.name}: `error`", source.error, base, difference=True)
        return whitening_of_errors(self.name, errors, shape, present, like)

    def _visits(self, window: Window, like: Tensor) -> dict[int, _Visit]:
        """Return for every step that takes part: which observations, at which places, with which weight."""
        times, inverse = np.unique(self.times, return_inverse=True)
        collected: dict[int, list[tuple[NDArray[np.int64], float]]] = {}
        for number, (steps, weights) in enumerate(window.weights(self.name, times, self.source.over)):
            rows = np.flatnonzero(inverse == number)
            for step, weight in zip(steps.tolist(), weights.tolist(), strict=True):
                collected.setdefault(step, []).append((rows, weight))
        visits = {}
        for step, parts in collected.items():
            rows = np.concatenate([rows for rows, _ in parts])
            weights = np.concatenate([np.full(rows.size, weight) for rows, weight in parts])
            device = like.device
            visits[step] = _Visit(
                torch.as_tensor(rows, device=device),
                torch.as_tensor(self.places[rows], device=device),
                torch.as_tensor(weights).to(like),
            )
        return visits

    def _try(self, tendency: Tendency, like: Tensor) -> None:
        """Call a user's function once, so that its faults are found before anything is integrated."""
        zeros = torch.zeros((1, len(tendency.fields), tendency.grid.ny, tendency.grid.nx)).to(like)
        self.source.sample(zeros, next(iter(self.visits.values())).places)


def bind_all(sources: Sequence[Observations], tendency: Tendency, window: Window, like: Tensor) -> list[Bound]:
    """Bind all observations of a problem.

    Raises
    ------
    ObservationError
        If there are none.
    """
    if isinstance(sources, Observations):
        sources = [sources]
    for source in sources:
        if not isinstance(source, Observations):
            raise DeclarationError(
                f"`observations` holds {type(source).__name__}", do="build Points, AreaMeans or Function"
            )
    if not sources:
        raise ObservationError("there are no observations to assimilate", do="pass observations=[Points(…)]")
    return [Bound(source, tendency, window, like) for source in sources]
