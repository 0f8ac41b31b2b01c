"""The model as something to be trained: its loss, its forecast, and what there is to know of it beforehand."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from fields.series import StationSeries
from fields.terrain import Elevation
from fields.torch_data import Batch
from fields.windows import Split
from stationpde.compiling import compile_networks
from stationpde.config import Config
from stationpde.guide_fit import fit_guide
from stationpde.guide_rows import Report
from stationpde.losses import Losses, masked_losses
from stationpde.model import StationPDEModel
from stationpde.shares import ShareSums
from stationpde.state import clipped, to_observed, to_state
from stationpde.statistics import StateStatistics
from stationpde.training.learner import Reducer
from stationpde.training.source import WindowSource

if TYPE_CHECKING:
    from jaxtyping import Bool, Float

__all__ = ["ModelLearner"]

# Switches of parts that the guide, fitted before them, does not meet.
_OF_THE_FIELD = ("pde_branch", "data_branch", "station_head", "closure", "closure_wind", "closure_every")


class ModelLearner:
    """`StationPDEModel` with its losses; draws the stations it does not show from torch's global generator."""

    def __init__(self, model: StationPDEModel) -> None:
        self.model, self.config = model, model.config
        if self.config.train.compile:
            compile_networks(model)

    @classmethod
    def of(
        cls, config: Config, series: StationSeries, split: Split, elevation: Elevation | None = None
    ) -> ModelLearner:
        """A new model on a record, with statistics of its training split; weights from torch's global generator."""
        if elevation is None and config.grid.dem is not None:
            elevation = Elevation.open(config.grid.dem)
        return cls(StationPDEModel.build(config, StateStatistics.of(series, split, config), elevation))

    def prepare(self, source: WindowSource, report: Report) -> None:
        """Fit the guide, if it is not."""
        if self.model.guide is not None and not self.model.guide.fitted:
            fit_guide(self.model, source.series, source.windows.split, report)

    def preparation(self) -> dict[str, Any] | None:
        """All of the configuration that `prepare` may depend on, the record apart; None without a guide.

        What carries the field forward and how it is trained is left out: the guide is fitted before either.
        """
        if self.model.guide is None:
            return None
        tree = self.config.tree()
        kept = {name: tree[name] for name in ("data", "grid", "lift")}
        kept["model"] = {name: value for name, value in tree["model"].items() if name not in _OF_THE_FIELD}
        kept["train"] = {name: tree["train"][name] for name in ("seed", "station_dropout")}
        return kept

    def prepared(self) -> dict[str, Tensor]:
        """What `prepare` has fitted."""
        assert self.model.guide is not None
        return self.model.guide.state_dict()

    def take_prepared(self, fitted: Mapping[str, Tensor]) -> None:
        """Take over what `prepare` of a learner with the same `preparation` has fitted."""
        assert self.model.guide is not None
        self.model.guide.load_state_dict(fitted)

    @property
    def module(self) -> StationPDEModel:
        """The parameters."""
        return self.model

    def losses(self, batch: Batch, reducer: Reducer) -> Losses:
        """The losses of (this rank's part of) a batch."""
        model = self.model
        forecast = model(batch.history, batch.issue_time, batch.future.shape[1], shown=self._shown(batch))
        target_state = to_state(batch.future, model.sites.pressure, self.config.model.saturation)
        courant = self._courant(forecast.state.detach())
        return masked_losses(
            forecast.observed, forecast.state, batch.future, target_state, model.sites.scale, self.config.loss,
            self.config.data, reducer, courant,
        )  # fmt: skip

    def predict(self, batch: Batch) -> Float[Tensor, "batch lead station channel"]:
        """The forecast in observed variables, relative humidity within its range."""
        return clipped(self.model(batch.history, batch.issue_time, batch.future.shape[1] or None).observed)

    @torch.no_grad()
    def calibrate(self, batches: Iterable[Batch], total: Callable[[Tensor], Tensor]) -> None:
        """Set the guide's shares by least squares on windows that nothing was trained on; ``total`` adds up ranks."""
        guide, model = self.model.guide, self.model
        if guide is None or self.config.model.guide_calibration == "none" or not guide.fitted:
            return
        guesses = guide.share.shape[0]
        sums = ShareSums(guesses + 1, guide.horizon, guide.channels)
        for batch in batches:
            found = model(batch.history, batch.issue_time, guide.horizon)
            assert found.guided is not None and found.unguided is not None
            field = to_observed(found.unguided, self.config.model.saturation)
            sums.add((*found.guided, field), batch.future, model.sites.observed_scale)
        sums.sums = total(sums.sums)
        guide.share.copy_(sums.shares()[:guesses])

    def parameter_groups(self, weight_decay: float) -> list[dict[str, Any]]:
        """Coefficients, scales and factors are not decayed."""
        return self.model.parameter_groups(weight_decay)

    def adopt(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Weights of a run on other stations, made to fit: a station's numbers go by its name, new ones get zero."""
        made, own = dict(weights), self.model.embedding
        if own is None or "embedding" not in made or made["embedding"].shape[1:] != own.shape[1:]:
            return made
        prefix = "kept."
        kept = {name.removeprefix(prefix): t for name, t in weights.items() if name.startswith(prefix)}
        row = {name: number for number, name in enumerate(StateStatistics.ids_in(kept))}
        rows = [row.get(name, -1) for name in self.model.statistics.stations.id]
        padded = torch.cat([made["embedding"], torch.zeros_like(made["embedding"][:1])])
        made["embedding"] = padded[torch.tensor(rows)]
        return made

    def describe(self) -> Mapping[str, Any]:
        """Shapes and stability numbers."""
        model, config = self.model, self.config
        grid = model.region.grid
        found: dict[str, Any] = {
            "stations": len(model.statistics.stations),
            "grid": list(grid.shape),
            "cell_km": [round(float(grid.dx.mean()) / 1e3, 2), round(grid.dy / 1e3, 2)],
            "history": [config.data.history, len(model.statistics.stations), 5],
            "horizon": config.data.horizon,
            "substeps": config.substeps,
            "parameters": sum(p.numel() for p in model.parameters()),
        }
        if model.guide is not None:
            networks = config.model.guide_networks
            also = f" and {networks} perceptrons of {config.model.guide_hidden} units" if networks else ""
            about = "the climatology" if model.last_day is None else "the level of the last day"
            found["first_guess"] = f"{model.guide.pooled.shape[0]} predictors{also} about {about}, fitted at the start"
        if model.pde_branch is not None:
            tendency = model.pde_branch.tendency
            wind = config.pde.max_wind
            parts = tendency.limits.substeps if tendency.limits is not None else 1
            found["parts_of_a_substep"] = parts
            found["courant_at_20_m_s"] = round(20.0 * self._per_metre() * config.pde.dt / parts, 3)
            found["largest_wind_m_s"] = wind
            found["diffusion_number"] = config.pde.diffusion_number
            found["backend"] = tendency.backend
        return found

    def _shown(self, batch: Batch) -> Bool[Tensor, "batch station"] | None:
        share = self.config.train.station_dropout
        if not self.model.training or share == 0.0:
            return None
        size = (batch.history.shape[0], batch.history.shape[2])
        return torch.rand(size, device=batch.history.device) >= share

    def _per_metre(self) -> float:
        grid = self.model.region.grid
        return float((grid.dx.min() ** -2 + grid.dy**-2) ** 0.5)

    def _courant(self, state: Tensor) -> Tensor:
        """Largest Courant number of a sub-step at the forecast's stations."""
        branch = self.model.pde_branch
        parts = 1
        if branch is not None and branch.tendency.limits is not None:
            parts = branch.tendency.limits.substeps
        speed = torch.nan_to_num(state[..., :2].norm(dim=-1)).amax()
        return speed * (self._per_metre() * self.config.pde.dt / parts)
