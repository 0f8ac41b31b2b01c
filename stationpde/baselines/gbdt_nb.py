"""Gradient-boosted trees with the inputs of `mlp_nb`, for each variable and lead, shared by all stations.

Shapes of trees are tried at the middle lead of each variable, each grown to its end, and the best on validation grows
the other leads. Trees that were planned and not grown, because validation ended earlier, are added to later targets.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from fields import atomic
from stationpde.baselines.inputs import horizon_of
from stationpde.baselines.registry import Baseline
from stationpde.baselines.tree_growth import GrownTrees, TreeGrower, TreeShape
from stationpde.baselines.tree_inputs import TreeInputs
from stationpde.errors import CorruptArtefactError, UsageError
from stationpde.physics import clipped
from stationpde.runs import read_sealed, write_sealed

if TYPE_CHECKING:
    from jaxtyping import Float

    from fields.windows import Batch
    from stationpde.config import Config
    from stationpde.data import WindowSource

__all__ = ["BASELINE", "SHAPES", "BoostedTrees"]

_NEIGHBOURS = 8
# The first is the costliest: the number of trees is planned with it.
SHAPES = (TreeShape(127, 0.1), TreeShape(63, 0.1), TreeShape(63, 0.05), TreeShape(31, 0.05))
_MOST_ROWS, _MOST_VALIDATION_ROWS = 400_000, 100_000
# Trees of a target without a limit of time, and at least.
_MOST_TREES, _LEAST_TREES = 400, 5
# A curve is flat when the last quarter of its trees gained less than this share of the error; as for networks.
_FLAT = 0.005


class BoostedTrees:
    """Trees of every variable and group of leads; `fit` grows them.

    Parameters
    ----------
    config, source : windows and seed, and the record whose training split gives the scales
    shapes : shapes of trees that are tried on validation
    """

    def __init__(self, config: Config, source: WindowSource, shapes: tuple[TreeShape, ...] = SHAPES) -> None:
        self.config, self.shapes = config, shapes
        self.inputs = TreeInputs.of(source, _NEIGHBOURS)
        self.channels = len(source.series.variables)
        self.names = source.series.variables
        self.trees: dict[tuple[int, int], GrownTrees] = {}
        self._boosters: dict[tuple[int, int], Any] = {}

    def fit(
        self, source: WindowSource, folder: Path | None = None, seconds_left: Callable[[], float] | None = None,
        report: Callable[[str, int, int], None] = lambda what, done, total: None,
    ) -> Mapping[str, Any]:  # fmt: skip
        """Grow the trees of every target, and return what was chosen.

        Parameters
        ----------
        folder : folder for the trees of each finished target; those that are there are not grown again
        seconds_left : function that returns the CPU seconds that are left to all of it; None without a limit
        report : function that is called after every tree, and may raise
        """
        config = self.config
        train = self.inputs.table(source, "train", _MOST_ROWS, config.train.seed)
        val = self.inputs.table(source, "val", _MOST_VALIDATION_ROWS, config.train.seed)
        grower = TreeGrower(train, val, config.train.threads or 1, config.train.seed)
        targets = [(group, channel) for channel in range(self.channels) for group in self._middle_first()]
        fits = len(targets) + self.channels * (len(self.shapes) - 1)
        planned, pace = self._planned(grower, folder, fits, seconds_left)
        shapes, trees_left, done = dict.fromkeys(range(self.channels), self.shapes), planned * fits, 0
        for group, channel in targets:
            tried: list[tuple[TreeShape, GrownTrees]] = []
            for shape in shapes[channel]:
                most = min(_MOST_TREES, max(_LEAST_TREES, trees_left // (fits - done)))
                path = folder and folder / f"{self.names[channel]}-{group}-{shape.leaves}-{shape.rate:g}.json"
                seconds = None if pace is None else most * pace
                column = self.inputs.last_column(channel, config.data.history)

                def report_fit(progress: int = done) -> None:
                    report("trees", progress, fits)

                trees = _read(path)
                if trees is None:
                    trees = grower.grow(shape, column, group, channel, most, seconds, report_fit)
                    _write(path, trees)
                tried.append((shape, trees))
                done, trees_left = done + 1, trees_left - trees.grown
            best = min(tried, key=lambda one: one[1].score)
            shapes[channel], self.trees[group, channel] = (best[0],), best[1]
            self._boosters[group, channel] = best[1].booster()
        return self._facts({channel: one[0] for channel, one in shapes.items()})

    def predict(self, batch: Batch) -> Float[Tensor, "batch lead station channel"]:
        """Return the forecast in SI, relative humidity within its range."""
        leads, most = horizon_of(batch, self.config), self.inputs.groups.leads
        if leads > most or not self.trees:
            raise UsageError(
                f"trees of {most if self.trees else 0} steps cannot forecast {leads}", code="SPDE-T001",
                do=f"fit them with data.horizon={leads}",
            )  # fmt: skip
        rows = self.inputs.rows(batch)
        forecast = np.empty((len(rows), leads, self.channels), np.float32)
        for lead in range(leads):
            group, rows[:, -1] = self.inputs.groups.place(lead)
            for channel in range(self.channels):
                forecast[:, lead, channel] = self._one(rows, group, channel)
        by_station = torch.from_numpy(forecast).unflatten(0, (len(batch), -1)).transpose(1, 2)
        return clipped(self.inputs.scales.unscaled(by_station))

    def _one(self, rows: Any, group: int, channel: int) -> Any:
        trees, booster = self.trees[group, channel], self._boosters[group, channel]
        linear = trees.slope * rows[:, self.inputs.last_column(channel, self.config.data.history)] + trees.offset
        return linear if booster is None else linear + booster.predict(rows, num_threads=self.config.train.threads or 1)

    def _middle_first(self) -> list[int]:
        count = len(self.inputs.groups)
        return sorted(range(count), key=lambda group: (group != count // 2, group))

    def _planned(
        self, grower: TreeGrower, folder: Path | None, fits: int, seconds_left: Callable[[], float] | None
    ) -> tuple[int, float | None]:
        """Return the trees of a fit and the CPU seconds of a tree: as many as the time allows, as an earlier start."""
        if seconds_left is None:
            return _MOST_TREES, None
        path = folder and folder / "plan.json"
        saved = atomic.read_json(path) if path else None
        if isinstance(saved, dict) and set(saved) == {"trees", "pace"}:
            return int(saved["trees"]), float(saved["pace"])
        column, group = self.inputs.last_column(0, self.config.data.history), self._middle_first()[0]
        pace = max(1e-6, grower.seconds_of_a_tree(self.shapes[0], column, group, 0))
        trees = max(_LEAST_TREES, min(_MOST_TREES, int(seconds_left() / fits / pace)))
        if path is not None:
            with atomic.machine_faults(path):
                path.parent.mkdir(parents=True, exist_ok=True)
                atomic.write_file(path, json.dumps({"trees": trees, "pace": pace}).encode())
        return trees, pace

    def _facts(self, shapes: Mapping[int, TreeShape]) -> dict[str, Any]:
        curves = [trees.curve for trees in self.trees.values() if trees.curve]
        return {
            "chosen": {self.names[channel]: str(shape) for channel, shape in shapes.items()},
            "trees": sum(booster.num_trees() for booster in self._boosters.values() if booster is not None),
            "flattened": all(_is_flat(curve) for curve in curves),
            "validation_score": float(np.mean([min(curve) for curve in curves])) if curves else None,
        }


def _is_flat(curve: tuple[float, ...]) -> bool:
    """Return whether the last quarter of the trees gained less than 0.5 % of the error."""
    late = max(1, len(curve) // 4)
    before, best = min(curve[:-late], default=0.0), min(curve)
    return len(curve) >= 4 and before - best <= _FLAT * before


def _read(path: Path | None) -> GrownTrees | None:
    """Read the trees of a finished target; None if there are none or the file is damaged."""
    if path is None or not path.exists():
        return None
    try:
        content = read_sealed(path)
        return GrownTrees(**{**content, "curve": tuple(content["curve"])})
    except (CorruptArtefactError, TypeError, KeyError):
        return None


def _write(path: Path | None, trees: GrownTrees) -> None:
    if path is None:
        return
    content = {name: getattr(trees, name) for name in GrownTrees.__dataclass_fields__}
    with atomic.machine_faults(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    write_sealed(path, {**content, "curve": list(trees.curve)})


BASELINE = Baseline(
    name="gbdt_nb",
    title="Boosted trees with neighbours",
    reference="Friedman (2001), LightGBM (Ke et al. 2017), shared by all stations, with eight nearest",
    kind="iterated",
    make=BoostedTrees,
    needs="lightgbm",
    extra="trees",
)
