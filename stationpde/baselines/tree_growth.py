r"""Boosted regression trees of one target by LightGBM: histograms, random thresholds, an end by validation.

.. math:: \hat y = a\,x_0 + b + \eta \sum_k f_k(x)

with :math:`x_0` the last value at the station, :math:`a, b` by least squares, and trees :math:`f_k` that are grown one
after the other on what remains (Friedman 2001; Ke et al. 2017). Thresholds are drawn at random and the best of them is
taken (Geurts et al. 2006): neighbouring stations and windows are alike, and thresholds that fit each day of training
raise the error of pressure a day ahead on validation.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from stationpde.errors import UsageError

if TYPE_CHECKING:
    from stationpde.baselines.tree_inputs import TreeTable

__all__ = ["GrownTrees", "TreeGrower", "TreeShape", "lightgbm"]

Array = np.ndarray[Any, Any]

# Trees in a row without a lower error on validation after which growing ends.
_PATIENCE = 30
# Trees of a target whose validation has no observation.
_UNTESTED = 50
_BINS = 63
# Rows that a tree is grown on: a fifth, but all of a small network.
_ROW_SHARE, _ENOUGH_ROWS = 0.2, 50_000
_MOST_LEAF_ROWS, _LEAST_LEAF_ROWS = 50, 5
_COLUMN_SHARE = 0.5
# Growing may take up to this multiple of the time that it was planned for, on a busy machine.
_SLACK = 1.25
_TIMED_TREES = 6
_MOST_SEEDS = 2**31


def lightgbm() -> Any:
    """Import LightGBM.

    Raises
    ------
    UsageError
        If the package is not installed.
    """
    try:
        return importlib.import_module("lightgbm")
    except (ImportError, OSError) as problem:
        raise UsageError(
            f"this baseline needs lightgbm, which cannot be imported: {problem}", code="SPDE-T001",
            do="pip install 'stationpde[trees]'",
        ) from None  # fmt: skip


@dataclass(frozen=True, slots=True)
class TreeShape:
    """What is chosen on validation: the most leaves of a tree, and the share η of a tree that is added."""

    leaves: int
    rate: float

    def __str__(self) -> str:
        return f"{self.leaves} leaves at {self.rate:g}"


@dataclass(frozen=True, slots=True, eq=False)
class GrownTrees:
    """Trees of one target, as LightGBM's text; ``""`` where there are none.

    Attributes
    ----------
    slope, offset : a and b of the linear part
    grown : trees that were grown, those after the best included
    curve : mean squared error on validation after each tree, in station standard deviations
    """

    slope: float
    offset: float
    text: str
    grown: int
    curve: tuple[float, ...]

    @property
    def score(self) -> float:
        """The least error on validation; infinite without one."""
        return min(self.curve, default=float("inf"))

    def booster(self) -> Any:
        """Return the trees for `predict`; None where there are none."""
        return lightgbm().Booster(model_str=self.text) if self.text else None


class TreeGrower:
    """Grows the trees of every target on one table, which is binned once.

    Parameters
    ----------
    train, val : rows of training and of validation
    threads, seed : of LightGBM, which gives the same trees for the same seed on one thread
    """

    def __init__(self, train: TreeTable, val: TreeTable, threads: int, seed: int) -> None:
        self._package = lightgbm()
        self._train, self._val = train, val
        rows = len(train.inputs)
        self._settings = {
            "objective": "l2", "verbosity": -1, "num_threads": max(1, threads), "deterministic": True,
            "force_row_wise": True, "seed": seed % _MOST_SEEDS, "max_bin": _BINS, "feature_pre_filter": False,
            "extra_trees": True, "feature_fraction": _COLUMN_SHARE, "bagging_freq": 1,
            "bagging_fraction": float(np.clip(_ENOUGH_ROWS / max(1, rows), _ROW_SHARE, 1.0)),
            "min_data_in_leaf": int(np.clip(rows // 200, _LEAST_LEAF_ROWS, _MOST_LEAF_ROWS)),
        }  # fmt: skip
        data = self._package.Dataset
        self._binned = data(train.inputs, params=self._settings, free_raw_data=False)
        self._binned_val = data(val.inputs, reference=self._binned, params=self._settings, free_raw_data=False)

    def seconds_of_a_tree(self, shape: TreeShape, column: int, group: int, channel: int) -> float:
        """Measure the CPU time of a tree on a few whose result is discarded."""
        clock = [time.process_time()]
        self.grow(shape, column, group, channel, _TIMED_TREES, None, lambda: clock.append(time.process_time()))
        # The first builds the histograms' layout.
        return (clock[-1] - clock[min(1, len(clock) - 1)]) / max(1, len(clock) - 2)

    def grow(
        self, shape: TreeShape, column: int, group: int, channel: int, most_trees: int, seconds: float | None,
        report: Callable[[], None] = lambda: None,
    ) -> GrownTrees:  # fmt: skip
        """Grow the trees of the target ``[group, channel]`` until validation no longer improves.

        Parameters
        ----------
        column : input of the linear part, the last value at the station
        most_trees, seconds : trees, and CPU seconds that are planned for them; growing ends a quarter later
        report : function that is called after every tree, and may raise
        """
        target, last = self._train.targets[:, group, channel], self._train.inputs[:, column]
        slope, offset = _line(last, target)
        if not np.isfinite(target).any():
            return GrownTrees(0.0, 0.0, "", 0, ())
        _set_target(self._binned, target - (slope * last + offset))
        beyond = self._val.targets[:, group, channel] - (slope * self._val.inputs[:, column] + offset)
        tested = bool(np.isfinite(beyond).any())
        if tested:
            _set_target(self._binned_val, beyond)
        curve: list[float] = []
        end = float("inf") if seconds is None else time.process_time() + _SLACK * seconds

        def after_tree(state: Any) -> None:
            report()
            if tested:
                curve.append(float(state.evaluation_result_list[0][2]))
            best = int(np.argmin(curve)) if tested else state.iteration
            if len(curve) - best > _PATIENCE or time.process_time() > end:
                raise self._package.callback.EarlyStopException(best, state.evaluation_result_list)

        settings = {**self._settings, "num_leaves": shape.leaves, "learning_rate": shape.rate}
        booster = self._package.train(
            settings, self._binned, most_trees if tested else min(most_trees, _UNTESTED),
            valid_sets=[self._binned_val] if tested else None, callbacks=[after_tree],
        )  # fmt: skip
        trees = int(np.argmin(curve)) + 1 if tested else booster.current_iteration()
        text = booster.model_to_string(num_iteration=trees)
        return GrownTrees(slope, offset, text, booster.current_iteration(), tuple(curve))


def _set_target(binned: Any, target: Array) -> None:
    """Set a target with gaps: rows without it have no weight."""
    there = np.isfinite(target)
    binned.construct().set_label(np.where(there, target, 0.0).astype(np.float32))
    binned.set_weight(there.astype(np.float32))


def _line(inputs: Array, target: Array) -> tuple[float, float]:
    """Fit slope and offset to the rows in which the target was observed; 0 where the input is the same in all."""
    there = np.isfinite(target)
    if not there.any():
        return 0.0, 0.0
    x, y = inputs[there].astype(np.float64), target[there].astype(np.float64)
    spread = float(x.var())
    slope = float(((x - x.mean()) * (y - y.mean())).mean() / spread) if spread > 1e-6 else 0.0
    return slope, float(y.mean() - slope * x.mean())
