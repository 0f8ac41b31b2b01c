"""StationPDE: wiring only. From a history at stations to forecasts at stations, through a field.

Time index: the initial field X_t is the state at the last observation; the first evolved field is the forecast for one
step later, and its conditions carry that valid time. The field feeds back, the station residual does not.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from fields.grid import Elevation
from fields.windows import Stations
from pde_ops import weight_decay_groups
from stationpde.config import Config
from stationpde.guide import Guide, GuidePredictors
from stationpde.model.analysis import Analysis, LiftedHistory, lift_history
from stationpde.model.climate import StateStatistics
from stationpde.model.data_branch import DataBranch
from stationpde.model.encoder import HistoryEncoder
from stationpde.model.extended_terms import tendencies_of
from stationpde.model.first_guess import FirstGuess
from stationpde.model.first_layers import Ahead, LeadConditions, conditions_ahead
from stationpde.model.forecast import Forecast
from stationpde.model.lead_kernel import LeadProgram
from stationpde.model.maps import lift_station_increments
from stationpde.model.pde_branch import PDEBranch, has_base, residual_of
from stationpde.model.region import Region
from stationpde.model.residual import Course, PhysicsResidual, course_of
from stationpde.model.router import Router
from stationpde.model.saved_statistics import SavedStatistics, saved_statistics
from stationpde.model.scaling import Scaling
from stationpde.model.sites import Sites
from stationpde.model.station_head import (
    STATION_NUMBERS,
    Anchor,
    StationHead,
    history_inputs,
    lead_inputs,
    station_numbers,
)
from stationpde.model.upper_air import ColumnEncoder
from stationpde.physics import STATE, Conditions, View, to_observed

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int64

__all__ = ["StationPDEModel"]


class StationPDEModel(nn.Module):
    """The model of the paper on one region; constructed by `build` or `from_tensors`."""

    def __init__(self, config: Config, statistics: StateStatistics, region: Region) -> None:
        super().__init__()
        self.config, self.statistics, self.region = config, statistics, region
        model = config.model
        # The saved statistics: `SAVED_STATISTICS` names this attribute, as checkpoints of all versions do.
        self.kept = SavedStatistics(
            statistics, region.altitude, region.rings_km if model.surroundings == "network" else None
        )
        self.scaling = Scaling.of(config, statistics)
        self.base = region.cell_base(statistics, config) if has_base(config) else None
        self.conditions = Conditions(region.cell_features(config), region.grid.shape, config.data.horizon)
        self.sites = Sites(statistics.stations, region, statistics, config)
        self.encoder = HistoryEncoder.of(config, self.conditions.history_count)
        step_count = self.conditions.step_count
        self.pde_branch = PDEBranch(config, region.pde_grid, step_count) if model.pde_branch else None
        self.data_branch = DataBranch.of(config, step_count) if model.data_branch else None
        both = model.pde_branch and model.data_branch
        self.router = Router(len(STATE), step_count, model.hidden) if both else None
        self.anchor = Anchor.of(config) if "departure" in model.inputs else None
        self.first_guess = FirstGuess(config, statistics.days)
        self.guide = self.first_guess.new_mixture(len(statistics.stations))
        self.head: StationHead | None = None
        self.embedding: nn.Parameter | None = None
        if model.station_head:
            self.head = StationHead.of(config, statistics, self.sites.features.count)
            if "station" in model.inputs:
                self.embedding = nn.Parameter(torch.zeros(len(statistics.stations), STATION_NUMBERS))
        self.residual: PhysicsResidual | None = None
        if config.loss.residual > 0.0:
            self.residual = residual_of(config, region.pde_grid, self.scaling, region.grid.lon)
        # What evolves is the state, and last the column of an upper layer where there is one. It comes last here as
        # well: with one seed, all other weights begin as without it.
        self.column: ColumnEncoder | None = None
        self.carried = self.scaling
        if self.pde_branch is not None and self.pde_branch.aloft is not None:
            self.column = ColumnEncoder(model.encoder_hidden, config.data.step_seconds, config.data.history)
            self.carried = self.scaling.with_column()

    @classmethod
    def build(cls, config: Config, statistics: StateStatistics, elevation: Elevation | None = None) -> StationPDEModel:
        """Build a new model for the stations of the statistics."""
        return cls(config, statistics, Region.around(statistics.stations, config, elevation))

    @classmethod
    def from_tensors(cls, config: Config, ids: tuple[str, ...], tensors: Mapping[str, Tensor]) -> StationPDEModel:
        """Rebuild the model of a checkpoint; ``ids`` are the names of its stations."""
        saved = saved_statistics(tensors)
        statistics = StateStatistics.from_tensors(ids, saved)
        region = Region.around(statistics.stations, config)
        # A later version may choose other distances; the weights are of these.
        rings = tuple(saved["rings_km"].tolist()) if "rings_km" in saved else region.rings_km
        region = replace(region, altitude=saved["altitude"].cpu().numpy(), rings_km=rings)
        model = cls(config, statistics, region)
        model.load_state_dict(dict(tensors))
        return model

    def at(self, stations: Stations, reporters: int | None = None) -> StationPDEModel:
        """Return the same model, with the same parameters, for other stations of the region.

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
        keep_courses: bool = False,
    ) -> Forecast:
        """Compute a forecast from observations ``u, v, p, t, rh`` up to an issue time.

        Parameters
        ----------
        history : observed variables, SI; NaN = missing
        issue_time : time of the last step, seconds since 1970, UTC
        horizon : number of steps; by default that of the configuration
        shown : stations that the model may see; the others are forecast as if they were new
        keep_fields : return the fields and the router's weights as well
        keep_courses : return what a residual of the equations is computed of as well
        """
        analysis = self.analyse(history, issue_time, shown)
        field, fields, weights = analysis.field, [], []
        leads = torch.arange(1, (horizon or self.config.data.horizon) + 1, device=issue_time.device)
        valid_time = self.valid_time(issue_time[:, None], leads)
        recompute = self.config.train.recompute and torch.is_grad_enabled()
        for lead, (conditions, base) in enumerate(self.conditions_ahead(valid_time, analysis.tendencies), 1):
            if recompute:
                tendencies = analysis.tendencies
                field, weight = checkpoint(self.advance, field, conditions, base, tendencies, lead, use_reentrant=False)
            else:
                field, weight = self.advance(field, conditions, base, analysis.tendencies, lead)
            fields.append(field)
            weights.append(weight)
        steps = self._surface(torch.stack(fields, dim=1))
        unguided = self.read_fields(steps, analysis, valid_time, leads)
        state = self._mix_guides(unguided, analysis)
        return Forecast(
            to_observed(state),
            state,
            self.full_field(steps, valid_time) if keep_fields else None,
            torch.stack(weights, dim=1) if keep_fields and self.router is not None else None,
            unguided if analysis.guided is not None else None,
            analysis.guided,
            self._courses(analysis, steps, issue_time, valid_time) if keep_courses else None,
        )

    def _courses(
        self, analysis: Analysis, steps: Tensor, issue_time: Tensor, valid_time: Tensor
    ) -> tuple[Course, Course]:
        """Return the evolving field from the analysis on, and the lifted history."""
        lifted = analysis.lifted
        assert lifted is not None  # a model with a residual keeps it
        fields = torch.cat([self._surface(analysis.field)[:, None], steps], dim=1)
        times = torch.cat([issue_time[:, None], valid_time], dim=1)
        return (
            course_of(fields, times, self.scaling, self.base),
            course_of(lifted.fields, lifted.times, self.scaling, self.base, lifted.coverage),
        )

    def conditions_ahead(
        self, valid_time: Int64[Tensor, "batch lead"], tendencies: Tensor | None
    ) -> Iterator[tuple[Tensor, Tensor | None]]:
        """Return for every lead B_t and, for the equations, the base state at the start of its interval, SI."""
        times, branch = valid_time.mT.contiguous(), self.pde_branch
        networks = (self.data_branch, None if branch is None else branch.closure, self.router)
        prepare: dict[nn.Module, Callable[[Ahead], Any]] = {
            network: network.prepare for network in networks if network is not None
        }
        if branch is not None:
            bases = None
            if self.base is not None:
                shape = (*times.shape, len(STATE), *self.region.grid.shape)
                bases = self._start_base(times, torch.Size(shape))
            prepare[branch] = partial(branch.prepare, scaling=self.carried, tendencies=tendencies, bases=bases)
            by_lead: Iterable[Tensor | None] = repeat(None) if bases is None else bases.unbind(0)
        else:
            by_lead = repeat(None)
        return zip(conditions_ahead(self.conditions, times, prepare, self._join_prepared), by_lead, strict=False)

    def _join_prepared(self, prepared: dict[nn.Module, Any]) -> None:
        """Add what equations and router need of all that modules have prepared, where they are one function."""
        branch, router = self.pde_branch, self.router
        if router is None or branch is None or (drive := prepared[branch]) is None:
            return
        closure = None if branch.closure is None else prepared[branch.closure]
        prepared[self] = LeadProgram.of(drive, closure, prepared[router])

    def analyse(
        self, history: Tensor, issue_time: Tensor, shown: Bool[Tensor, "batch station"] | None = None
    ) -> Analysis:
        """Lift and encode a history, and compute what the stations contribute beside the field."""
        if shown is not None:
            history = torch.where(shown[:, None, :, None], history, torch.nan)
        lifted = lift_history(history, issue_time, self.sites, self.base, self.scaling, self.config)
        conditions = self.conditions.history(issue_time)
        inputs = torch.cat([lifted.fields.flatten(1, 2), lifted.coverage.mean(dim=2)], dim=1)
        field, features = self.encoder(inputs, lifted.fields[:, -1], conditions)
        if self.column is not None:
            field = torch.cat([field, self.column(lifted.fields, features)], dim=1)
        read = self.sites.read(lifted.fields)
        departures = torch.nan_to_num(lifted.departures - self.scaling.inverse_at_stations(read), nan=0.0)
        view = None if self.sites.surroundings is None else self.sites.surroundings(lifted.fields, read)
        memory = guided = None
        if self.head is not None:
            memory = self.head.remember(self._history_inputs(lifted, features, view, shown))
        if self.guide is not None and not self.training:
            guided = self._members(history, lifted, read, view, issue_time, shown)
        needs_past = self.pde_branch is not None and self.pde_branch.extended is not None
        tendencies = tendencies_of(lifted.fields, self.config.data.step_seconds) if needs_past else None
        history_of_fields = lifted if self.residual is not None else None
        return Analysis(field, departures, memory, guided, tendencies, history_of_fields)

    def _members(
        self, history: Tensor, lifted: LiftedHistory, read: Tensor, view: View | None, issue_time: Tensor,
        shown: Tensor | None,
    ) -> Float[Tensor, "member batch lead station channel"]:  # fmt: skip
        """Return what is mixed with the field at the stations: the guesses, then simple forecasts."""
        members = []
        if isinstance(self.guide, Guide):
            predictors = self._predictors(lifted, view, issue_time)
            members.append(self.first_guess.guesses(self.guide, predictors, issue_time, self.sites, shown))
        if self.config.model.simple_members:
            field = self.scaling.inverse_at_stations(read) + self.sites.base(lifted.times)
            members.append(self.first_guess.simple(history, issue_time, field, self.sites))
        return members[0] if len(members) == 1 else torch.cat(members)

    def _history_inputs(
        self, lifted: LiftedHistory, features: Tensor, view: View | None, shown: Tensor | None
    ) -> Float[Tensor, "batch station lasting"]:
        """Return the inputs of the station head that belong to a history."""
        inputs, sites, departures = self.config.model.inputs, self.sites, lifted.departures
        read = sites.read(features) if "encoder" in inputs else None
        seen = view if "surroundings" in inputs else None
        numbers = station_numbers(self.embedding, sites.number, departures.shape[0], shown)
        return history_inputs(departures - self.scaling.centre.flatten(), sites.scale, read, seen, numbers)

    def predictors_of(self, history: Tensor, issue_time: Tensor, chosen: slice | None = None) -> GuidePredictors:
        """Return predictors and reference of the guide for observed histories, at all or at ``chosen`` stations."""
        lifted = lift_history(history, issue_time, self.sites, self.base, self.scaling, self.config)
        assert self.sites.surroundings is not None
        view = self.sites.surroundings(lifted.fields, self.sites.read(lifted.fields))
        return self._predictors(lifted, view, issue_time, chosen)

    def _predictors(
        self, lifted: LiftedHistory, view: View | None, issue_time: Tensor, chosen: slice | None = None
    ) -> GuidePredictors:
        assert view is not None  # a model with a guide reads surroundings
        return self.first_guess.predictors_of(lifted, view, issue_time, self.sites, self.scaling, chosen)

    def valid_time(self, issue_time: Int64[Tensor, " batch"], lead: int | Tensor) -> Int64[Tensor, " batch"]:
        """Return the time of a lead, seconds since 1970, UTC."""
        return issue_time + lead * self.config.data.step_seconds

    def advance(
        self, field: Tensor, conditions: Tensor, base: Tensor | None, tendencies: Tensor | None, lead: int | Tensor
    ) -> tuple[Tensor, Tensor | None]:
        """Advance the scaled field by one interval, from B_t of its end and the base state of its start."""
        physics = None
        if isinstance(conditions, LeadConditions):
            program: LeadProgram | None = conditions.prepared.get(self)
            if program is not None and self.data_branch is not None and program.takes(field):
                return program(field, self.data_branch(field, conditions), conditions)
        if self.pde_branch is not None:
            physics = self.pde_branch(field, base, conditions, self.carried, tendencies, lead)
        return self.interval_end(field, physics, conditions)

    def interval_start(self, field: Tensor, valid_time: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return field and base state in SI at the start of the forecast interval that ends at ``valid_time``."""
        base = None if self.base is None else self._start_base(valid_time, self._surface(field).shape)
        return self.carried.inverse(field), base

    def _start_base(self, valid_time: Tensor, shape: torch.Size) -> Tensor:
        assert self.base is not None
        # paper silent: the base state of the interval is that of its start, where the field comes from.
        return self.base.on_grid(valid_time - self.config.data.step_seconds, shape)

    def interval_end(self, field: Tensor, physics: Tensor | None, conditions: Tensor) -> tuple[Tensor, Tensor | None]:
        """Apply the data-driven branch to ``field`` and join it with the next field of the equations, both scaled."""
        data = self.data_branch(self._surface(field), conditions) if self.data_branch is not None else None
        if self.router is not None:
            assert physics is not None  # a router joins two branches
            later, weight = self.router(data, self._surface(physics), conditions)
            if self.column is not None:  # the equations alone move it
                later = torch.cat([later, physics[:, len(STATE) :]], dim=1)
            return later, weight
        only = data if physics is None else physics
        return (field if only is None else only), None  # without a branch it stays, and the guide forecasts

    def _surface(self, fields: Float[Tensor, "*batch channel y x"]) -> Float[Tensor, "*batch channel y x"]:
        """Return fields of the state without the column of the upper layer."""
        return fields if self.column is None else fields[..., : len(STATE), :, :]

    def read(self, field: Tensor, analysis: Analysis, valid_time: Tensor, lead: int | Tensor) -> Tensor:
        """Return the full state at the stations ``[batch, station, channel]``, guesses mixed in."""
        return self.mix_guide(self.read_field(field, analysis, valid_time, lead), analysis, lead)

    def read_field(self, field: Tensor, analysis: Analysis, valid_time: Tensor, lead: int | Tensor) -> Tensor:
        """Return the full state at the stations from field, anchor and head alone."""
        leads = torch.as_tensor(lead, device=valid_time.device).reshape(1)
        return self.read_fields(self._surface(field)[:, None], analysis, valid_time[:, None], leads)[:, 0]

    def read_fields(
        self,
        fields: Float[Tensor, "batch lead channel y x"],
        analysis: Analysis,
        valid_time: Int64[Tensor, "batch lead"],
        leads: Int64[Tensor, " lead"],
    ) -> Float[Tensor, "batch lead station channel"]:
        """Return the full states at the stations from fields of several leads, anchor and head."""
        state = self.sites.read(self.scaling.inverse(fields)) + self.sites.base(valid_time)
        if self.anchor is not None:
            state = state + self.anchor(analysis.departures, leads)
        if self.head is not None:
            assert analysis.memory is not None
            ahead = leads.to(fields.dtype) / self.config.data.horizon
            inputs = lead_inputs(self.sites.features(valid_time), valid_time, ahead)
            state = state + self.head(analysis.memory[:, None], inputs)
        return state

    def mix_guide(self, state: Tensor, analysis: Analysis, lead: int | Tensor) -> Tensor:
        """Mix the guesses of the guide, if there are any, into a state at the stations."""
        if self.guide is None or analysis.guided is None:
            return state
        return self.first_guess.mix(self.guide, analysis.guided, state, lead, self.sites)

    def _mix_guides(self, states: Tensor, analysis: Analysis) -> Tensor:
        """Mix the guesses into the states of all leads."""
        if self.guide is None or analysis.guided is None:
            return states
        mixed = [self.mix_guide(state, analysis, lead) for lead, state in enumerate(states.unbind(1), 1)]
        return torch.stack(mixed, dim=1)

    def full_field(self, field: Tensor, valid_time: Tensor) -> Float[Tensor, "*batch channel y x"]:
        """Return the full state on the grid, SI."""
        departures = self.scaling.inverse(field)
        return departures if self.base is None else departures + self.base.on_grid(valid_time, departures.shape)

    def maps(self, forecast: Forecast, issue_time: Tensor) -> Float[Tensor, "batch lead channel y x"]:
        """Return fields of a forecast that agree with it at the stations, whose differences are lifted into them.

        Without a guide, and under the detrended lift, which lifts no increments, the fields as they are.
        """
        fields = forecast.fields
        assert fields is not None, "maps need a forecast with keep_fields"
        if self.guide is None or self.base is None or self.sites.detrends:
            return fields
        leads = torch.arange(1, fields.shape[1] + 1, device=fields.device)
        valid_time = self.valid_time(issue_time[:, None], leads)
        return lift_station_increments(fields, forecast.state, valid_time, self.sites, self.base)

    def physics(self) -> dict[str, Any]:
        """Return learned coefficients with units, and γ; rates are physical under the rules ``none``, ``limiter``.

        With a residual in the loss, its λ and the size of its forces as well.
        """
        residual = {} if self.residual is None else self.residual.physics()
        if self.pde_branch is None:
            return residual
        branch = self.pde_branch
        aloft = {} if branch.aloft is None else branch.aloft.physics()
        return {**branch.tendency.parameters_in_units(), **aloft, **branch.factors(), **residual}

    def parameter_groups(self, weight_decay: float) -> list[dict[str, Any]]:
        """Return groups for an optimiser: coefficients, scales and factors are not decayed."""
        groups = weight_decay_groups(self, weight_decay)
        if self.residual is None:
            return groups
        apart = {id(parameter) for parameter in self.residual.parameters()}
        others = [{**group, "params": [p for p in group["params"] if id(p) not in apart]} for group in groups]
        return [*others, self.residual.parameter_group()]
