"""Windows of a record: chronological split, no leak, no gap inside, and a training stride that covers every hour.

A window is ``history`` steps that a model reads and ``horizon`` steps that it forecasts; the issue step is the last of
the history. All steps of a window lie inside one split and follow each other without a gap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor, gcd
from typing import Any, Literal

import numpy as np

from fields.errors import DataError, UsageError, is_whole
from fields.times import DAY
from fields.windows.series import StationSeries

__all__ = ["SPLITS", "Split", "SplitName", "StationSeries", "WindowSpec", "Windows"]

Array = np.ndarray[Any, Any]
SplitName = Literal["train", "val", "test"]
SPLITS: tuple[SplitName, ...] = ("train", "val", "test")



@dataclass(frozen=True, slots=True)
class WindowSpec:
    """Length of a window in steps of history and horizon.

    ``stride`` thins the windows of training; validation and test use every window.
    """

    history: int
    horizon: int
    stride: int = 1

    def __post_init__(self) -> None:
        if not all(is_whole(number) for number in (self.history, self.horizon, self.stride)):
            raise UsageError(
                f"a window is counted in whole steps, not history {self.history!r}, horizon {self.horizon!r}, stride "
                f"{self.stride!r}", code="SPDE-D152", do="WindowSpec(history=16, horizon=8)",
            )  # fmt: skip
        if self.history < 1 or self.horizon < 0 or self.stride < 1:
            raise UsageError(
                f"history {self.history}, horizon {self.horizon} and stride {self.stride} give no window",
                code="SPDE-D152", do="history and stride are at least 1, the horizon at least 0",
            )  # fmt: skip

    @property
    def length(self) -> int:
        """Number of steps of a window."""
        return self.history + self.horizon


@dataclass(frozen=True, slots=True)
class Split:
    """Division of the time axis in three: training before step ``val``, validation before ``test``, then test.

    ``steps`` is the length of the axis, ``shares`` the shares it was divided by.
    """

    val: int
    test: int
    steps: int
    shares: tuple[float, float, float] = (0.6, 0.1, 0.3)

    @classmethod
    def of(cls, steps: int, shares: Sequence[float] = (0.6, 0.1, 0.3)) -> Split:
        """Set the borders at the floor of the cumulated shares, in exact arithmetic; 0.6 and 0.7 by default.

        Parameters
        ----------
        steps : length of the axis at the model's cadence
        shares : parts of training, validation and test; any scale (6:1:3)
        """
        exact = [Fraction(str(share)) for share in shares]
        if len(exact) != 3 or min(exact) < 0 or exact[0] <= 0:
            raise UsageError(f"shares {tuple(shares)} are not those of training, validation and test",
                             code="SPDE-D152", do="three numbers, such as 0.6, 0.1, 0.3")  # fmt: skip
        whole = sum(exact)
        borders = floor(steps * exact[0] / whole), floor(steps * (exact[0] + exact[1]) / whole)
        return cls(*borders, steps, (float(exact[0] / whole), float(exact[1] / whole), float(exact[2] / whole)))

    def bounds(self, name: SplitName) -> tuple[int, int]:
        """Return the first step of a split, and the one after its last."""
        return {"train": (0, self.val), "val": (self.val, self.test), "test": (self.test, self.steps)}[name]

    def slice(self, name: SplitName) -> slice:
        """Return the steps of a split."""
        return slice(*self.bounds(name))


@dataclass(frozen=True, slots=True, eq=False)
class Windows:
    """Windows of each split.

    Parameters
    ----------
    spec, split : length of the windows, and the division of the time axis
    train, val, test : first steps of the windows, int64 and in order
    without_station, across_gap : number of windows left out of each split because no station reports at the issue
        step, or because of a gap
    steps_of_day : number of steps in a day
    """

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
        series : the record
        spec : length of the windows
        split : division of the time axis; 6:1:3 by default
        require : splits that must hold a window

        Raises
        ------
        DataError
            If a required split holds no window; the message states the length that is needed.
        """
        split = split or Split.of(len(series))
        observed = np.flatnonzero(series.scored)  # a reference has values even when no station reports
        present = np.array([np.isfinite(step[:, observed]).any() for step in series.values])
        windows: dict[str, Array] = {}
        silent: dict[str, int] = {}
        gaps: dict[str, int] = {}
        for name in SPLITS:
            first, stop = split.bounds(name)
            starts = np.arange(first, max(first, stop - spec.length + 1), dtype=np.int64)
            span = series.time[starts + spec.length - 1] - series.time[starts]
            joined = span == (spec.length - 1) * series.step_seconds
            seen = present[starts + spec.history - 1]
            gaps[name], silent[name] = int((~joined).sum()), int((joined & ~seen).sum())
            windows[name] = starts[joined & seen]
            if name in require and windows[name].size == 0:
                raise _too_short(series, spec, split, name, starts.size)
        day = max(1, DAY // series.step_seconds)
        return cls(spec, split, windows["train"], windows["val"], windows["test"], silent, gaps, day)

    def __getitem__(self, name: SplitName) -> Array:
        if name not in SPLITS:
            raise KeyError(f"no split '{name}'; there are {', '.join(SPLITS)}")
        starts: Array = getattr(self, name)
        return starts

    def counts(self) -> dict[str, int]:
        """Return the number of windows of each split."""
        return {name: int(self[name].size) for name in SPLITS}

    def epoch(self, number: int, name: SplitName = "train", stride: int | None = None) -> Array:
        """Select the windows of one epoch of training: one in ``stride``, others in the next epoch.

        The phase advances with every day and every epoch. A fixed phase would train on a few hours of issue and be
        tested on all; here each epoch covers every hour, and ``stride`` epochs in a row use every window once.
        """
        starts, step = self[name], stride or self.spec.stride
        # A stride with a divisor in common with the day repeats the same hours; any other covers all of them.
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
    days = needed * series.step_seconds / DAY
    return DataError(
        f"the record is too short: a window takes {spec.history} + {spec.horizon} = {spec.length} steps",
        code="SPDE-D153", where=where, do=f"needed: at least {needed:,} steps ({days:.1f} days), or shorter windows",
    )  # fmt: skip


def _needed(length: int, split: Split) -> int:
    """Return the least number of steps from which on every split with a share holds a window, whatever the rounding."""
    shares = [share for share in split.shares if share > 0]
    # A share s of n steps is more than s n - 1 of them; a few steps less may do as well.
    needed = ceil((length + 1) / min(shares))
    while _holds(length, Split.of(needed - 1, split.shares)):
        needed -= 1
    return needed


def _holds(length: int, split: Split) -> bool:
    sizes = [stop - first for first, stop in map(split.bounds, SPLITS)]
    return all(size >= length for size, share in zip(sizes, split.shares) if share > 0)
