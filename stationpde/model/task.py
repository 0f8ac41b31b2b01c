"""Learner of the model: its loss, its forecast, its guide, and the facts that are shown before training."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from fields.grid import Elevation
from fields.windows import Batch, Split, StationSeries
from stationpde.config import Config
from stationpde.data import WindowSource
from stationpde.guide import SIMPLE, FitCost, Guide, Report, ShareSums, prior_shares, shares_by_days
from stationpde.model.climate import StateStatistics
from stationpde.model.compiling import compile_networks
from stationpde.model.guide_fit import fit_model_guide, guide_cost
from stationpde.model.learner import Reducer
from stationpde.model.losses import Losses, masked_losses, with_residual
from stationpde.model.model import StationPDEModel
from stationpde.model.pde_branch import DIFFUSION_NUMBER
from stationpde.model.saved_statistics import saved_statistics
from stationpde.physics import STATE, WIND, clipped, to_observed, to_state

if TYPE_CHECKING:
    from jaxtyping import Bool, Float

__all__ = ["ModelLearner"]

# Switches of parts that the guide, which is fitted before them, does not depend on.
_FIELD_SWITCHES = ("pde_branch", "data_branch", "station_head", "closure", "closure_wind", "closure_every")


class ModelLearner:
    """`StationPDEModel` with its losses; draws the stations that it hides from torch's global generator."""

    def __init__(self, model: StationPDEModel) -> None:
        self.model, self.config = model, model.config
        if self.config.train.compile is True:
            self.compile()

    @classmethod
    def of(
        cls, config: Config, series: StationSeries, split: Split, elevation: Elevation | None = None
    ) -> ModelLearner:
        """Build a model on a record, with statistics of its training split; weights from torch's global generator."""
        if elevation is None and config.grid.dem is not None:
            elevation = Elevation.open(config.grid.dem)
        return cls(StationPDEModel.build(config, StateStatistics.of(series, split, config), elevation))

    def compile(self) -> None:
        """Compile the networks with torch.compile."""
        compile_networks(self.model)

    def prepare(self, source: WindowSource, report: Report) -> None:
        """Fit the guide, unless it is fitted."""
        if isinstance(self.model.guide, Guide) and not self.model.guide.fitted:
            fit_model_guide(self.model, source.series, source.windows.split, report)

    def preparation_cost(self, source: WindowSource) -> FitCost:
        """Return the cost of `prepare`, from parts of it."""
        return guide_cost(self.model, source.series, source.windows.split)

    def preparation(self) -> dict[str, Any] | None:
        """Return the part of the configuration that `prepare` may depend on; None without a guide.

        Keys of the branches and of their training are left out: the guide is fitted before either.
        """
        if not isinstance(self.model.guide, Guide):
            return None
        tree = self.config.identity()
        part = {name: tree[name] for name in ("data", "grid", "lift")}
        part["model"] = {name: value for name, value in tree["model"].items() if name not in _FIELD_SWITCHES}
        part["train"] = {name: tree["train"][name] for name in ("seed", "station_dropout")}
        return part

    def prepared(self) -> dict[str, Tensor]:
        """Return the tensors that `prepare` has fitted."""
        assert self.model.guide is not None
        return self.model.guide.state_dict()

    def take_prepared(self, fitted: Mapping[str, Tensor]) -> None:
        """Take over the tensors that `prepare` of a learner with the same `preparation` has fitted."""
        assert self.model.guide is not None
        self.model.guide.load_state_dict(fitted)

    @property
    def module(self) -> StationPDEModel:
        """The module with the parameters."""
        return self.model

    def losses(self, batch: Batch, reducer: Reducer) -> Losses:
        """Return the losses of (this rank's part of) a batch."""
        model, weight = self.model, self.config.loss.residual
        residual = model.residual if model.training else None
        forecast = model(
            batch.history, batch.issue_time, batch.future.shape[1], shown=self._shown(batch),
            keep_courses=residual is not None,
        )  # fmt: skip
        target_state = to_state(batch.future, model.sites.pressure)
        courant = self._courant(forecast.state.detach())
        losses = masked_losses(
            forecast.observed, forecast.state, batch.future, target_state, model.sites.scale, self.config.loss,
            self.config.data, reducer, courant,
        )  # fmt: skip
        if residual is None or forecast.courses is None:
            return losses
        return with_residual(losses, residual, forecast.courses, weight, self.config.data, reducer)

    def predict(self, batch: Batch) -> Float[Tensor, "batch lead station channel"]:
        """Return the forecast in observed variables, relative humidity clipped to its range."""
        return clipped(self.model(batch.history, batch.issue_time, batch.future.shape[1] or None).observed)

    def outlook(self, batch: Batch) -> tuple[Tensor, Tensor | None]:
        """Return the forecast as `predict` does, and the guesses that it mixes, whose spread tells of its error."""
        forecast = self.model(batch.history, batch.issue_time, batch.future.shape[1] or None)
        return clipped(forecast.observed), forecast.guesses

    @torch.no_grad()
    def calibrate(self, batches: Iterable[Batch], total: Callable[[Tensor], Tensor]) -> None:
        """Set the shares of guesses and simple forecasts on windows that nothing was trained on.

        ``total`` adds up ranks.
        """
        guide, model = self.model.guide, self.model
        if guide is None or not guide.fitted:
            return
        members = guide.share.shape[0]
        sums = ShareSums(members + 1, guide.horizon, guide.channels)
        for batch in batches:
            forecast = model(batch.history, batch.issue_time, guide.horizon)
            assert forecast.guided is not None and forecast.unguided is not None
            sums.add((*forecast.guided, to_observed(forecast.unguided)), batch.future, model.sites.observed_scale)
            sums.count_days(batch.issue_time)
        sums.sums, sums.windows_of_day = total(sums.sums), total(sums.windows_of_day)
        if self.config.model.shares == "half_way":
            guide.set_shares(sums.shares(), sums.evidence)
            return
        simple = len(SIMPLE) if self.config.model.simple_members else 0
        share, prior = shares_by_days(sums.sums, sums.evidence.days, prior_shares(members - simple, simple))
        guide.set_shares(share, sums.evidence._replace(prior=prior))

    def parameter_groups(self, weight_decay: float) -> list[dict[str, Any]]:
        """Return groups for an optimiser: coefficients, scales and factors are not decayed."""
        return self.model.parameter_groups(weight_decay)

    def adopt(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Adapt weights of a run on other stations: embeddings go by the station's name, new stations get zero."""
        adapted, embedding = dict(weights), self.model.embedding
        if self.model.residual is not None:  # a run without the residual begins it anew
            begun = self.model.state_dict()
            adapted = {**{name: begun[name] for name in begun if name.startswith("residual.")}, **adapted}
        if embedding is None or "embedding" not in adapted or adapted["embedding"].shape[1:] != embedding.shape[1:]:
            return adapted
        row = {name: number for number, name in enumerate(StateStatistics.ids_in(saved_statistics(weights)))}
        rows = [row.get(name, -1) for name in self.model.statistics.stations.id]
        padded = torch.cat([adapted["embedding"], torch.zeros_like(adapted["embedding"][:1])])
        adapted["embedding"] = padded[torch.tensor(rows)]
        return adapted

    def describe(self) -> Mapping[str, Any]:
        """Return shapes and stability numbers."""
        model, config = self.model, self.config
        grid = model.region.grid
        facts: dict[str, Any] = {
            "stations": len(model.statistics.stations),
            "grid": list(grid.shape),
            "cell_km": [round(float(grid.dx.mean()) / 1e3, 2), round(grid.dy / 1e3, 2)],
            "history": [config.data.history, len(model.statistics.stations), len(STATE)],
            "horizon": config.data.horizon,
            "substeps": config.substeps,
            "parameters": sum(p.numel() for p in model.parameters()),
        }
        if model.sites.surroundings is not None:
            facts["surroundings"] = f"{', '.join(f'{km:.0f}' for km in model.region.rings_km)} km{self._beyond()}"
        if isinstance(model.guide, Guide):
            networks = config.model.guide_networks
            also = f" and {networks} perceptrons of {config.model.guide_hidden} units" if networks else ""
            about = "the climatology" if model.first_guess.last_day is None else "the level of the last day"
            facts["first_guess"] = f"{model.guide.pooled.shape[0]} predictors{also} about {about}, fitted at the start"
        if model.pde_branch is not None:
            tendency = model.pde_branch.tendency
            wind = config.pde.max_wind
            parts = tendency.limits.substeps if tendency.limits is not None else 1
            facts["parts_of_a_substep"] = parts
            facts["courant_at_20_m_s"] = round(20.0 * self._per_metre() * config.pde.dt / parts, 3)
            facts["largest_wind_m_s"] = wind
            facts["diffusion_number"] = DIFFUSION_NUMBER
            facts["backend"] = tendency.backend
        return facts

    def _shown(self, batch: Batch) -> Bool[Tensor, "batch station"] | None:
        share = self.config.train.station_dropout
        if not self.model.training or share == 0.0:
            return None
        size = (batch.history.shape[0], batch.history.shape[2])
        return torch.rand(size, device=batch.history.device) >= share

    def _beyond(self) -> str:
        """Say which distances of the surroundings lie beyond the region everywhere, where the border stands in."""
        grid = self.model.region.grid
        reach = max(float(grid.dx.max()) * (grid.width - 1), grid.dy * (grid.height - 1)) / 1e3
        far = [f"{km:.0f}" for km in self.model.region.rings_km if km >= reach]
        return f"; {' and '.join(far)} km lie beyond the region, whose border stands in" if far else ""

    def _per_metre(self) -> float:
        grid = self.model.region.grid
        return float((grid.dx.min() ** -2 + grid.dy**-2) ** 0.5)

    def _courant(self, state: Tensor) -> Tensor:
        """Return the largest Courant number of a sub-step at the forecast's stations."""
        branch = self.model.pde_branch
        parts = 1
        if branch is not None and branch.tendency.limits is not None:
            parts = branch.tendency.limits.substeps
        speed = torch.nan_to_num(state[..., WIND].norm(dim=-1)).amax()
        return speed * (self._per_metre() * self.config.pde.dt / parts)
