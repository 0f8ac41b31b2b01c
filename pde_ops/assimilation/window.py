"""The window of an assimilation: its steps, and what an observation at a time weighs of each of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..arguments import check_count
from ..errors import DeclarationError, ObservationError
from .quantities import positive_seconds

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Window", "steps_of"]

ROUND_OFF = 1e-6  # of a step: a time that far from a step is that step


def steps_of(owner: str, span: Any, dt: float) -> int:
    """Return a number of steps, given as such or as a span of time that is a multiple of the step."""
    if isinstance(span, int | np.integer) and not isinstance(span, bool):
        check_count(owner, "steps", span, 1)
        return int(span)
    seconds = positive_seconds(owner, span)
    count = round(seconds / dt)
    if count < 1 or abs(seconds / dt - count) > ROUND_OFF * max(count, 1):
        raise DeclarationError(f"{owner} of {seconds:g} s is no multiple of the time step of {dt:g} s")
    return count


@dataclass(frozen=True, slots=True)
class Window:
    """Some steps of a model, from time 0 on.

    Attributes
    ----------
    dt : s
    steps : how many; the window is closed on both sides
    """

    dt: float
    steps: int

    @property
    def length(self) -> float:
        """Length of the window, s."""
        return self.dt * self.steps

    def weights(
        self, owner: str, times: NDArray[np.float64], over: float | None
    ) -> list[tuple[NDArray[np.int64], NDArray[np.float64]]]:
        """Return, for each time, the steps that take part and their weights, whose sum is 1.

        Between two steps the model is linear in time. `over` gives the mean over so many seconds before each time.

        Raises
        ------
        ObservationError
            If a time, or the beginning of its mean, is not finite or lies outside the window.
        """
        ends = times / self.dt
        starts = ends if over is None else (times - over) / self.dt
        outside = ~((starts >= -ROUND_OFF) & (ends <= self.steps + ROUND_OFF))
        if outside.any():
            first = int(np.argmax(outside))
            what = "times" if over is None else f"means over {over:g} s"
            raise ObservationError(
                f"{owner}: {int(outside.sum())} of {times.size} {what} lie outside the window of 0 to {self.length:g} "
                f"s, the first is number {first}, at {times[first]:g} s",
                do="leave them out, or take a longer window",
            )
        pairs = zip(np.clip(starts, 0, self.steps), np.clip(ends, 0, self.steps), strict=True)
        if over is None:
            return [self._at(end) for _, end in pairs]
        return [self._mean(start, end) for start, end in pairs]

    def _at(self, position: float) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        below = min(int(position + ROUND_OFF), self.steps)
        share = position - below
        if abs(share) <= ROUND_OFF:
            return np.array([below]), np.array([1.0])
        return np.array([below, below + 1]), np.array([1.0 - share, share])

    def _mean(self, start: float, end: float) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Integrate the two straight pieces of every step between start and end."""
        first, last = int(start), min(int(np.ceil(end)), self.steps)
        total = np.zeros(last - first + 1)
        for step in range(first, last):
            low, high = max(start - step, 0.0), min(end - step, 1.0)
            rising = 0.5 * (high**2 - low**2)
            total[step - first] += (high - low) - rising
            total[step - first + 1] += rising
        weights = total / (end - start)
        present = np.flatnonzero(weights > 0.0)
        return first + present, weights[present]
