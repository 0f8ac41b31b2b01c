"""StationPDE: wiring only. From a history at stations to forecasts at stations, through a field.

Time index: the initial field X_t is the state at the last observation; the first evolved field is the forecast for one
step later, and its conditions carry that valid time. The field feeds back, the station residual does not.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from fields.series import Stations
from fields.terrain import Elevation
from pde_ops import weight_decay_groups
from stationpde.adapters import Region, Sites
from stationpde.conditions import TIME_FEATURES, Conditions, time_features
from stationpde.config import Config
from stationpde.data_branch import DataBranch
from stationpde.encoder import HistoryEncoder
from stationpde.extended_terms import tendencies_of
from stationpde.guide import Guide
from stationpde.guide_network import GuideNetwork
from stationpde.last_day import LastDay
from stationpde.pde_branch import PDEBranch, has_base
from stationpde.predictors import Given, Predictors
from stationpde.router import Router
from stationpde.state import OBSERVED, STATE, to_observed, to_state
from stationpde.station_head import Anchor, StationHead
from stationpde.statistics import StateStatistics
from stationpde.surroundings import PLACES, View

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int64

__all__ = ["Forecast", "StationPDEModel"]

C = len(STATE)


@dataclass(frozen=True, slots=True, eq=False)
class Forecast:
    """A forecast at stations, SI; with ``keep_fields`` also the fields it was read from.

    ``observed`` and ``state`` are ``[batch, lead, station, channel]``; ``fields`` (full states) and ``router`` (weight
    of the data-driven branch) are ``[batch, lead, channel, y, x]``. Where a guide is mixed in, ``unguided`` is the
    state before that, ``guided`` what it guesses. Training is without it: field, anchor and head learn on their own.
    """

    observed: Float[Tensor, "batch lead station channel"]
    state: Float[Tensor, "batch lead station channel"]
    fields: Float[Tensor, "batch lead channel y x"] | None = None
    router: Float[Tensor, "batch lead channel y x"] | None = None
    unguided: Float[Tensor, "batch lead station channel"] | None = None
    guided: Float[Tensor, "guess batch lead station channel"] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Analysis:
    """What a history amounts to: the initial field (scaled) and what the stations remember."""

    field: Float[Tensor, "batch channel y x"]
    departures: Float[Tensor, "batch time station channel"]
    memory: Float[Tensor, "batch station hidden"] | None
    guided: Float[Tensor, "guess batch lead station channel"] | None = None
    tendencies: Float[Tensor, "batch memory y x"] | None = None


class Scaling(nn.Module):
    """SI to what networks see, field by field: ``(x - centre) / scale``."""

    centre: Tensor
    scale: Tensor

    def __init__(self, centre: Tensor, scale: Tensor) -> None:
        super().__init__()
        self.register_buffer("centre", centre[:, None, None], persistent=False)
        self.register_buffer("scale", scale[:, None, None], persistent=False)

    def forward(self, fields: Float[Tensor, "*batch channel y x"]) -> Float[Tensor, "*batch channel y x"]:
        """Scale."""
        return (fields - self.centre) / self.scale

    def inverse(self, scaled: Float[Tensor, "*batch channel y x"]) -> Float[Tensor, "*batch channel y x"]:
        """Back to SI."""
        return scaled * self.scale + self.centre


class StationPDEModel(nn.Module):
    """The model of the paper on one region; made by `build` or `from_tensors`."""

    def __init__(self, config: Config, statistics: StateStatistics, region: Region) -> None:
        super().__init__()
        self.config, self.statistics, self.region = config, statistics, region
        model, data = config.model, config.data
        self.kept = _Buffers({**statistics.tensors(), "altitude": torch.as_tensor(region.altitude)})
        anomaly = model.state == "anomaly"
        centre = torch.zeros(C) if anomaly else torch.as_tensor(statistics.mean, dtype=torch.float32)
        if not anomaly and model.pressure == "anomaly":
            centre[STATE.index("p")] = 0.0
        scale = torch.as_tensor(statistics.anomaly_std if anomaly else statistics.std, dtype=torch.float32)
        self.scaling = Scaling(centre, scale)
        self.base = region.cell_base(statistics, config) if has_base(config) else None
        self.conditions = Conditions(region.cell_features(config), region.grid.shape, data.horizon)
        self.sites = Sites(statistics.stations, region, statistics, config)
        dilations = (1, 1) if model.encoder == "plain" else model.dilations
        inputs = data.history * (C + 1) + self.conditions.history_count
        self.encoder = HistoryEncoder(
            inputs, C, self.conditions.history_count, model.encoder_hidden, dilations, model.hidden, model.gate_bias
        )
        step = self.conditions.step_count
        self.pde_branch = PDEBranch(config, region.pde_grid, step) if model.pde_branch else None
        self.data_branch = None
        if model.data_branch:
            self.data_branch = DataBranch(
                C, step, model.hidden, gate_bias=model.gate_bias, candidate_scale=model.candidate_scale,
                motion_limit=model.motion_limit,
            )  # fmt: skip
        both = model.pde_branch and model.data_branch
        self.router = Router(C, step, model.hidden, model.router_bias) if both else None
        self.anchor = None
        if model.readout == "anchored":
            self.anchor = Anchor(data.horizon, C, 86400 // data.step_seconds, data.history)
        self.predictors = Predictors(data.step_seconds, data.history, model.guide_groups)
        self.last_day = LastDay.of(config, statistics.days)
        self.guide = self._guide() if config.is_guided else None
        self.head: StationHead | None = None
        self.embedding: nn.Parameter | None = None
        if model.station_head:
            self._add_head(config, statistics)

    def _add_head(self, config: Config, statistics: StateStatistics) -> None:
        model = config.model
        lasting = 2 * C * config.data.history + model.station_embedding
        lasting += model.encoder_hidden if model.head_sees_field else 0
        lasting += 3 * C * PLACES if model.head_sees_surroundings else 0
        passing = self.sites.features.count + TIME_FEATURES + 1
        change = torch.as_tensor(statistics.change_std, dtype=torch.float32)
        self.head = StationHead(lasting, passing, model.head_hidden, change)
        if model.station_embedding:
            self.embedding = nn.Parameter(torch.zeros(len(statistics.stations), model.station_embedding))

    def _guide(self) -> Guide:
        data, sites = self.config.data, self.sites
        example = torch.zeros(1, data.history, len(sites.stations), len(OBSERVED))
        given = self.predictors_of(example, torch.zeros(1, dtype=torch.long))
        model, stations = self.config.model, len(sites.stations)
        network = None
        if model.guide_networks:
            seen = self.predictors.plain_count(C)
            network = GuideNetwork(seen, stations, data.horizon * C, model.guide_hidden, model.guide_networks)
        predictors, own = given.pooled.shape[-1], given.local.shape[-1]
        return Guide(predictors, own, stations, data.horizon, C, model.guide_share, network)

    @classmethod
    def build(cls, config: Config, statistics: StateStatistics, elevation: Elevation | None = None) -> StationPDEModel:
        """A new model for the stations of the statistics."""
        return cls(config, statistics, Region.around(statistics.stations, config, elevation))

    @classmethod
    def from_tensors(cls, config: Config, ids: tuple[str, ...], tensors: Mapping[str, Tensor]) -> StationPDEModel:
        """The model that a checkpoint holds; ``ids`` are the names of its stations."""
        prefix = "kept."
        kept = {name.removeprefix(prefix): t for name, t in tensors.items() if name.startswith(prefix)}
        statistics = StateStatistics.from_tensors(ids, kept)
        region = Region(Region.around(statistics.stations, config).grid, kept["altitude"].cpu().numpy())
        made = cls(config, statistics, region)
        made.load_state_dict(dict(tensors))
        return made

    def at(self, stations: Stations, reporters: int | None = None) -> StationPDEModel:
        """The same model, with the same parameters, for other stations of the region.

        Stations after the first ``reporters`` are places that never report: the field does not wait for them.
        """
        other = copy.copy(self)
        other._modules = dict(self._modules)
        like = self.scaling.scale
        sites = Sites(stations, self.region, self.statistics, self.config, reporters).to(like.device)
        # A model in double precision stays one; altitudes are double in any case.
        other.sites = sites.double() if like.dtype == torch.float64 else sites
        return other

    def forward(
        self,
        history: Float[Tensor, "batch time station channel"],
        issue_time: Int64[Tensor, " batch"],
        horizon: int | None = None,
        *,
        shown: Bool[Tensor, "batch station"] | None = None,
        keep_fields: bool = False,
    ) -> Forecast:
        """Forecast from observations ``u, v, p, t, rh`` (SI, NaN = missing) up to ``issue_time`` (s since 1970, UTC).

        Parameters
        ----------
        horizon : steps; the configured number by default
        shown : stations that the model may see; the others are forecast as if they were new
        keep_fields : return the fields and the router's weights as well
        """
        analysis = self.analyse(history, issue_time, shown)
        field, states, bare, kept, weights = analysis.field, [], [], [], []
        step_seconds = self.config.data.step_seconds
        for lead in range(1, (horizon or self.config.data.horizon) + 1):
            valid = issue_time + lead * step_seconds
            if self.config.train.recompute and torch.is_grad_enabled():
                field, weight = checkpoint(self.step, field, valid, lead, analysis.tendencies, use_reentrant=False)
            else:
                field, weight = self.step(field, valid, lead, analysis.tendencies)
            own = self.read_field(field, analysis, valid, lead)
            bare.append(own)
            states.append(self.guide_to(own, analysis, lead))
            if keep_fields:
                kept.append(self.full_field(field, valid))
                weights.append(weight)
        state = torch.stack(states, dim=1)
        observed = to_observed(state, self.config.model.saturation)
        routed = keep_fields and self.router is not None
        return Forecast(
            observed,
            state,
            torch.stack(kept, dim=1) if keep_fields else None,
            torch.stack(weights, dim=1) if routed else None,
            torch.stack(bare, dim=1) if analysis.guided is not None else None,
            analysis.guided,
        )

    def analyse(
        self, history: Tensor, issue_time: Tensor, shown: Bool[Tensor, "batch station"] | None = None
    ) -> Analysis:
        """Lift the history, encode it, and note what the stations themselves know."""
        if shown is not None:
            history = torch.where(shown[:, None, :, None], history, torch.nan)
        own, scaled, share = self._lifted(history, issue_time)
        conditions = self.conditions.history(issue_time)
        seen = torch.cat([scaled.flatten(1, 2), share.mean(dim=2)], dim=1)
        field, features = self.encoder(seen, scaled[:, -1], conditions)
        read = self.sites.read(scaled)
        departures = torch.nan_to_num(own - self._unscaled(read), nan=0.0)
        view = None if self.sites.surroundings is None else self.sites.surroundings(scaled, read)
        memory = guided = None
        if self.head is not None:
            memory = self.head.remember(self._lasting(own, features, view, shown))
        if self.guide is not None and not self.training:
            assert view is not None
            given, place = self._predictors(own, view, issue_time), self.sites.features.fixed[:, :3]
            guessed = self.guide(given.pooled, given.local, issue_time, place, self.sites.number, shown)
            guided = self._guided(guessed, given.level, issue_time)
        remembers = self.pde_branch is not None and self.pde_branch.extended is not None
        tendencies = tendencies_of(scaled, self.config.data.step_seconds) if remembers else None
        return Analysis(field, departures, memory, guided, tendencies)

    def _lifted(self, history: Tensor, issue_time: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Departures of the stations from their base state, the scaled fields of them, and their coverage."""
        times = self._times(issue_time, history.shape[1])
        own = to_state(history, self.sites.pressure, self.config.model.saturation) - self.sites.base(times)
        lifted, share = self.sites.lifted(history, own)
        if self.sites.detrends and self.base is not None:
            lifted = lifted - self.base(times).movedim(-1, -2).reshape(lifted.shape)
        return own, torch.nan_to_num(self.scaling(lifted), nan=0.0), share

    def _times(self, issue_time: Tensor, steps: int) -> Int64[Tensor, "batch time"]:
        """Times of a history that ends with the issue time."""
        back = torch.arange(1 - steps, 1, device=issue_time.device)
        return issue_time[:, None] + back * self.config.data.step_seconds

    def predictors_of(self, history: Tensor, issue_time: Tensor) -> Given:
        """Predictors of the guide, shared and a station's own, of observed histories."""
        own, scaled, _ = self._lifted(history, issue_time)
        assert self.sites.surroundings is not None
        return self._predictors(own, self.sites.surroundings(scaled, self.sites.read(scaled)), issue_time)

    def _predictors(self, own: Tensor, view: View, issue_time: Tensor) -> Given:
        """Where a station is silent the field speaks for it."""
        scaled = (own - self.scaling.centre.flatten()) / self.sites.scale
        filled = torch.where(torch.isfinite(scaled), scaled, view.centre)
        level = None
        if self.last_day is not None:
            base = self.sites.base(self._times(issue_time, own.shape[1]))
            level = self.last_day.level(filled * self.sites.scale, base, self.config.model.saturation)
            filled, view = self.last_day.taken_off(filled, view)
        pooled = self.predictors.pooled(filled, view, issue_time, self.sites.features.fixed[:, :3])
        return Given(pooled, self.predictors.local(filled, view, issue_time), level)

    def usual(
        self, issue_time: Tensor, leads: int, level: Tensor | None
    ) -> Float[Tensor, "batch lead station channel"]:
        """Observed variables that guesses depart from, SI: the climatology, and the level of the last day if asked."""
        ahead = torch.arange(1, leads + 1, device=issue_time.device) * self.config.data.step_seconds
        found = to_observed(self.sites.base(issue_time[:, None] + ahead), self.config.model.saturation)
        return found if level is None else found + level[:, None]

    def _guided(
        self, guessed: Tensor, level: Tensor | None, issue_time: Tensor
    ) -> Float[Tensor, "guess batch lead station channel"]:
        """The guide's guesses of observed variables, SI."""
        return self.usual(issue_time, guessed.shape[2], level) + guessed * self.sites.observed_scale

    def _unscaled(self, scaled: Float[Tensor, "*batch channel"]) -> Float[Tensor, "*batch channel"]:
        return scaled * self.scaling.scale.flatten() + self.scaling.centre.flatten()

    def _lasting(
        self, own: Tensor, features: Tensor, view: View | None, shown: Tensor | None
    ) -> Float[Tensor, "batch station lasting"]:
        centre, batch, stations = self.scaling.centre.flatten(), own.shape[0], own.shape[2]
        there = torch.isfinite(own)
        values = torch.where(there, (own - centre) / self.sites.scale, torch.zeros_like(own))
        parts = [values, there.to(values.dtype)]
        parts = [part.movedim(1, 2).reshape(batch, stations, -1) for part in parts]
        if self.config.model.head_sees_field:
            parts.append(self.sites.read(features))
        if self.config.model.head_sees_surroundings:
            assert view is not None
            parts += [view.around.flatten(-2), view.change.flatten(-2), view.drift.flatten(-2)]
        if self.embedding is not None:
            known = self.sites.number >= 0
            own_numbers = torch.where(known[:, None], self.embedding[self.sites.number.clamp(min=0)], 0.0)
            given = own_numbers.expand(batch, -1, -1)
            parts.append(given if shown is None else torch.where(shown[..., None], given, 0.0))
        return torch.cat(parts, dim=-1)

    def step(
        self, field: Tensor, valid_time: Tensor, lead: int | Tensor, tendencies: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """The scaled field one forecast interval later, valid at ``valid_time``, and the router's weights."""
        conditions = self.conditions.step(valid_time, lead)
        physics = None
        if self.pde_branch is not None:
            physics = self._physics(field, valid_time, conditions, tendencies, lead)
        data = self.data_branch(field, conditions) if self.data_branch is not None else None
        if self.router is not None:
            found: tuple[Tensor, Tensor] = self.router(data, physics, conditions)
            return found
        only = data if physics is None else physics
        assert only is not None  # the configuration refuses a model without a branch
        return only, None

    def _physics(
        self, field: Tensor, valid_time: Tensor, conditions: Tensor, tendencies: Tensor | None, lead: int | Tensor
    ) -> Tensor:
        assert self.pde_branch is not None
        base = None
        if self.base is not None:
            # paper silent: the base state of the interval is that of its start, where the field comes from.
            start = valid_time - self.config.data.step_seconds
            base = self.base(start).movedim(-1, -2).reshape(-1, *field.shape[1:])
        state = self.scaling.inverse(field)
        return self.scaling(self.pde_branch(state, base, conditions, self.scaling, tendencies, lead))

    def read(self, field: Tensor, analysis: Analysis, valid_time: Tensor, lead: int | Tensor) -> Tensor:
        """The full state at the stations ``[batch, station, channel]``."""
        return self.guide_to(self.read_field(field, analysis, valid_time, lead), analysis, lead)

    def guide_to(self, state: Tensor, analysis: Analysis, lead: int | Tensor) -> Tensor:
        """A state at the stations, mixed with the guide's guess; observed variables are mixed, as they are scored."""
        if self.guide is None or analysis.guided is None:
            return state
        if isinstance(lead, int) and lead > self.guide.horizon:
            return state
        saturation = self.config.model.saturation
        mixed = self.guide.mix(analysis.guided, to_observed(state, saturation), lead)
        return to_state(mixed, self.sites.pressure, saturation)

    def read_field(self, field: Tensor, analysis: Analysis, valid_time: Tensor, lead: int | Tensor) -> Tensor:
        """The full state at the stations from field, anchor and head alone."""
        state = self.sites.read(self.scaling.inverse(field)) + self.sites.base(valid_time)
        if self.anchor is not None:
            state = state + self.anchor(analysis.departures, lead)
        if self.head is not None:
            assert analysis.memory is not None
            places = self.sites.features(valid_time)
            when = time_features(valid_time, places.dtype)[:, None, :].expand(-1, places.shape[1], -1)
            ahead = torch.ones_like(places[..., :1]) * (lead / self.config.data.horizon)
            state = state + self.head(analysis.memory, torch.cat([places, when, ahead], dim=-1))
        return state

    def full_field(self, field: Tensor, valid_time: Tensor) -> Float[Tensor, "batch channel y x"]:
        """The full state on the grid, SI."""
        found = self.scaling.inverse(field)
        if self.base is None:
            return found
        return found + self.base(valid_time).movedim(-1, -2).reshape(found.shape)

    def maps(self, forecast: Forecast, issue_time: Tensor) -> Float[Tensor, "batch lead channel y x"]:
        """Fields of a forecast that agree with it at the stations: what those know beyond the field is lifted into it.

        Without a guide, and under the detrended lift, which knows no increments, the fields as they are.
        """
        fields = forecast.fields
        assert fields is not None, "asked for with keep_fields"
        if self.guide is None or self.base is None or self.sites.detrends:
            return fields
        leads = torch.arange(1, fields.shape[1] + 1, device=fields.device)
        valid = issue_time[:, None] + leads * self.config.data.step_seconds
        carried = self.sites.read(fields - self.base(valid).movedim(-1, -2).reshape(fields.shape))
        known = forecast.state - self.sites.base(valid) - carried
        added, _ = self.sites.lift(known[:, :, : self.sites.reporters])
        return fields + torch.nan_to_num(added)

    def physics(self) -> dict[str, Any]:
        """Learned coefficients with units, and γ; physical rates only under the rules ``none`` and ``limiter``."""
        if self.pde_branch is None:
            return {}
        return {**self.pde_branch.tendency.parameters_in_units(), **self.pde_branch.factors()}

    def parameter_groups(self, weight_decay: float) -> list[dict[str, Any]]:
        """Groups for an optimiser: coefficients, scales and factors are not decayed."""
        return weight_decay_groups(self, weight_decay)


class _Buffers(nn.Module):
    """Statistics and terrain, saved with the weights."""

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        super().__init__()
        for name, tensor in tensors.items():
            self.register_buffer(name, tensor)
