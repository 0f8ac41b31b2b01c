"""Windows of a record: chronological split, no leak, no gap inside, and a training stride that meets every hour.

A window is ``history`` steps that a model sees and ``horizon`` steps that it forecasts; the issue step is the last of
the history. All steps of a window lie inside one split and follow each other without a gap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor, gcd
from typing import Any, Literal

import numpy as np

from .errors import DataError, UsageError
from .series import Stations, StationSeries

__all__ = ["SPLITS", "Split", "SplitName", "StationSeries", "Stations", "WindowSpec", "Windows", "gather"]

Array = np.ndarray[Any, Any]
SplitName = Literal["train", "val", "test"]
SPLITS: tuple[SplitName, ...] = ("train", "val", "test")

_DAY = 86_400


@dataclass(frozen=True, slots=True)
class WindowSpec:
    """Steps of history and horizon; ``stride`` is that of training, validation and test take every window."""

    history: int
    horizon: int
    stride: int = 1

    def __post_init__(self) -> None:
        if self.history < 1 or self.horizon < 0 or self.stride < 1:
            raise UsageError(
                f"no window has {self.history} steps of history, {self.horizon} of horizon and stride {self.stride}",
                code="SPDE-D152", do="history and stride are at least 1, the horizon at least 0",
            )  # fmt: skip

    @property
    def length(self) -> int:
        """Steps of a window."""
        return self.history + self.horizon


@dataclass(frozen=True, slots=True)
class Split:
    """The time axis cut in three: steps before ``val`` train, from ``test`` on they test."""

    val: int
    test: int
    steps: int
    shares: tuple[float, float, float] = (0.6, 0.1, 0.3)

    @classmethod
    def of(cls, steps: int, shares: Sequence[float] = (0.6, 0.1, 0.3)) -> Split:
        """Borders at the floor of the cumulated shares, in exact arithmetic: 0.6 and 0.7 of the steps by default.

        Parameters
        ----------
        steps : length of the axis at the model's cadence
        shares : of training, validation and test; any scale (6:1:3)
        """
        exact = [Fraction(str(share)) for share in shares]
        if len(exact) != 3 or min(exact) < 0 or exact[0] <= 0:
            raise UsageError(f"shares {tuple(shares)} are not those of training, validation and test",
                             code="SPDE-D152", do="three numbers, such as 0.6, 0.1, 0.3")  # fmt: skip
        whole = sum(exact)
        borders = floor(steps * exact[0] / whole), floor(steps * (exact[0] + exact[1]) / whole)
        return cls(*borders, steps, (float(exact[0] / whole), float(exact[1] / whole), float(exact[2] / whole)))

    def bounds(self, name: SplitName) -> tuple[int, int]:
        """First step of a split, and the one after its last."""
        return {"train": (0, self.val), "val": (self.val, self.test), "test": (self.test, self.steps)}[name]

    def slice(self, name: SplitName) -> slice:
        """The steps of a split."""
        return slice(*self.bounds(name))


@dataclass(frozen=True, slots=True, eq=False)
class Windows:
    """First steps of all windows of each split, int64 and in order, and how many were left out."""

    spec: WindowSpec
    split: Split
    train: Array
    val: Array
    test: Array
    without_station: dict[str, int]
    across_gap: dict[str, int]
    steps_of_day: int

    @classmethod
    def of(
        cls, series: StationSeries, spec: WindowSpec, split: Split | None = None, *, require: Sequence[str] = SPLITS
    ) -> Windows:
        """Find the windows of a record.

        Parameters
        ----------
        series, spec : the record and the window
        split : by default 6:1:3
        require : splits that must hold a window

        Raises
        ------
        DataError
            If a required split holds none; the message states the length that is needed.
        """
        split = split or Split.of(len(series))
        observed = np.flatnonzero(series.scored)  # a reference is there when no station is
        present = np.array([np.isfinite(step[:, observed]).any() for step in series.values])
        found: dict[str, Array] = {}
        silent: dict[str, int] = {}
        gaps: dict[str, int] = {}
        for name in SPLITS:
            first, stop = split.bounds(name)
            starts = np.arange(first, max(first, stop - spec.length + 1), dtype=np.int64)
            span = series.time[starts + spec.length - 1] - series.time[starts]
            joined = span == (spec.length - 1) * series.step_seconds
            seen = present[starts + spec.history - 1]
            gaps[name], silent[name] = int((~joined).sum()), int((joined & ~seen).sum())
            found[name] = starts[joined & seen]
            if name in require and found[name].size == 0:
                raise _too_short(series, spec, split, name, starts.size)
        day = max(1, _DAY // series.step_seconds)
        return cls(spec, split, found["train"], found["val"], found["test"], silent, gaps, day)

    def __getitem__(self, name: SplitName) -> Array:
        if name not in SPLITS:
            raise KeyError(f"no split '{name}'; there are {', '.join(SPLITS)}")
        found: Array = getattr(self, name)
        return found

    def counts(self) -> dict[str, int]:
        """Windows of each split."""
        return {name: int(self[name].size) for name in SPLITS}

    def epoch(self, number: int, name: SplitName = "train", stride: int | None = None) -> Array:
        """The windows of one epoch of training: one in ``stride``, others in the next epoch.

        The phase moves on with every day and every epoch. A fixed phase would train on some hours of issue alone and
        be tested on all; here each epoch meets every hour and ``stride`` epochs in a row meet every window once.
        """
        starts, step = self[name], stride or self.spec.stride
        # A stride that has a divisor in common with the day repeats its hours; any other moves through them by itself.
        repeats = gcd(self.steps_of_day, step) > 1
        phase = number + (starts // self.steps_of_day if repeats else 0)
        return starts[(starts - phase) % step == 0]


def _too_short(series: StationSeries, spec: WindowSpec, split: Split, name: SplitName, by_length: int) -> DataError:
    first, stop = split.bounds(name)
    where = f"{name} has {stop - first:,} of {split.steps:,} steps of {series.step_seconds} s"
    if by_length:
        return DataError(
            f"no window of {spec.length} steps in the {name} split has no gap and a station at its issue step",
            code="SPDE-D153", where=where, do="take a record with fewer gaps, or shorter windows",
        )  # fmt: skip
    needed = _needed(spec.length, split)
    days = needed * series.step_seconds / _DAY
    return DataError(
        f"the record is too short: a window takes {spec.history} + {spec.horizon} = {spec.length} steps",
        code="SPDE-D153", where=where, do=f"needed: at least {needed:,} steps ({days:.1f} days), or shorter windows",
    )  # fmt: skip


def _needed(length: int, split: Split) -> int:
    """Steps from which on, whatever the rounding, every split that has a share holds a window."""
    shares = [share for share in split.shares if share > 0]
    # A share s of n steps is more than s n - 1 of them; a few steps less may do as well.
    needed = ceil((length + 1) / min(shares))
    while _holds(length, Split.of(needed - 1, split.shares)):
        needed -= 1
    return needed


def _holds(length: int, split: Split) -> bool:
    sizes = [stop - first for first, stop in map(split.bounds, SPLITS)]
    return all(size >= length for size, share in zip(sizes, split.shares) if share > 0)


def gather(series: StationSeries, starts: Array, spec: WindowSpec) -> tuple[Array, Array, Array]:
    """History ``[B, history, N, C]``, future ``[B, horizon, N, C]`` and issue times ``[B]`` of windows, copied."""
    starts = np.asarray(starts, np.int64)
    steps = starts[:, None] + np.arange(spec.length)
    history, future = steps[:, : spec.history], steps[:, spec.history :]
    return series.values[history], series.values[future], series.time[starts + spec.history - 1]
