"""Coupling of guide and simple forecasts: predictors from a lifted history, members in SI, their mixing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from stationpde.config import Config
from stationpde.guide import (
    SIMPLE,
    Guide,
    GuideNetwork,
    GuidePredictors,
    LastDay,
    Mixture,
    Predictors,
    holds_seasons,
    simple_forecasts,
)
from stationpde.model.analysis import LiftedHistory
from stationpde.model.scaling import Scaling
from stationpde.model.sites import Sites
from stationpde.physics import OBSERVED, View, to_observed, to_state

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int64

__all__ = ["FirstGuess"]

C = len(OBSERVED)


class FirstGuess:
    """Between the model's fields and stations and the guide, which works on scaled departures; has no weights itself.

    Parameters
    ----------
    days : length of the training period; decides whether guesses depart from the climatology or from the last day
    """

    def __init__(self, config: Config, days: float) -> None:
        self.config = config
        season = config.model.guide_season == "auto" and holds_seasons(days)
        self.predictors = Predictors(config.data.step_seconds, config.data.history, config.model.guide_groups, season)
        self.last_day = LastDay.of(config, days)

    def new_mixture(self, stations: int) -> Guide | Mixture | None:
        """Return a guide for so many stations, not yet fitted; else a mixture of the simple forecasts, if any."""
        model, data = self.config.model, self.config.data
        others = len(SIMPLE) if model.simple_members else 0
        keeps_evidence = model.shares == "by_days"
        if not self.config.is_guided:
            share = torch.zeros(others, data.horizon, C)
            return Mixture(share, keeps_evidence=keeps_evidence) if others else None
        network = None
        if model.guide_networks:
            inputs = self.predictors.plain_count(C)
            network = GuideNetwork(inputs, stations, data.horizon * C, model.guide_hidden, model.guide_networks)
        pooled, local = self.predictors.counts(C, data.history)
        return Guide(
            pooled, local, stations, data.horizon, C, network, others, keeps_evidence, local_form=model.guide_local
        )

    def predictors_of(
        self, lifted: LiftedHistory, view: View, issue_time: Int64[Tensor, " batch"], sites: Sites, scaling: Scaling,
        chosen: slice | None = None,
    ) -> GuidePredictors:  # fmt: skip
        """Return guide predictors and their reference, missing values filled from the lifted field.

        With ``chosen``, for these stations alone: predictors are many, and a pass of the fit may need few stations.
        """
        scaled = (lifted.departures - scaling.centre.flatten()) / sites.scale
        filled = torch.where(torch.isfinite(scaled), scaled, view.centre)
        level = None
        if self.last_day is not None:
            base = sites.base(lifted.times)
            level = self.last_day.level(filled * sites.scale, base)
            filled, view = self.last_day.subtract_level(filled, view)
        place, reference = sites.features.position, self.guide_reference(issue_time, sites, level)
        if chosen is not None:
            filled, view, place, reference = (
                filled[:, :, chosen],
                view.of(chosen),
                place[chosen],
                reference[:, :, chosen],
            )
        pooled = self.predictors.pooled(filled, view, issue_time, place)
        local = self.predictors.local(filled, view, issue_time)
        return GuidePredictors(pooled, local, reference)

    def guide_reference(
        self, issue_time: Int64[Tensor, " batch"], sites: Sites, level: Float[Tensor, "batch station channel"] | None
    ) -> Float[Tensor, "batch lead station channel"]:
        """Return the observed variables that guesses depart from, SI: climatology plus ``level`` of the last day."""
        data = self.config.data
        ahead = torch.arange(1, data.horizon + 1, device=issue_time.device) * data.step_seconds
        climatology = to_observed(sites.base(issue_time[:, None] + ahead))
        return climatology if level is None else climatology + level[:, None]

    def guesses(
        self,
        guide: Guide,
        predictors: GuidePredictors,
        issue_time: Int64[Tensor, " batch"],
        sites: Sites,
        shown: Bool[Tensor, "batch station"] | None,
    ) -> Float[Tensor, "guess batch lead station channel"]:
        """Return the guesses of observed variables, SI."""
        place, number = sites.features.position, sites.number
        scaled = guide(predictors.pooled, predictors.local, issue_time, place, number, shown)
        return predictors.reference + scaled * sites.observed_scale

    def simple(
        self, history: Float[Tensor, "batch time station channel"], issue_time: Int64[Tensor, " batch"],
        field: Float[Tensor, "batch time station channel"], sites: Sites,
    ) -> Float[Tensor, "simple batch lead station channel"]:  # fmt: skip
        """Return the simple forecasts, SI; ``field`` is the lifted state at the stations, SI."""
        data = self.config.data
        ahead = torch.arange(1, data.horizon + 1, device=issue_time.device) * data.step_seconds
        climatology = to_observed(sites.climatology(issue_time[:, None] + ahead))
        return simple_forecasts(history, to_observed(field), climatology, data.step_seconds)

    def mix(self, guide: Mixture, guesses: Tensor, state: Tensor, lead: int | Tensor, sites: Sites) -> Tensor:
        """Mix guesses into the state at the stations; observed variables are mixed, as they are scored."""
        if isinstance(lead, int) and lead > guide.horizon:
            return state
        mixed = guide.mix(guesses, to_observed(state), lead)
        return to_state(mixed, sites.pressure)
