"""The model written plainly, as a reference: inputs joined, general convolutions, one lead after the other."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as nnf

from fields.lift.torch_lift import WeightedMeans
from stationpde.model.convolutions import Convolution
from stationpde.model.model import StationPDEModel
from stationpde.physics import time_features, to_observed


def plain_convolution(layer: Convolution, fields: Tensor) -> Tensor:
    """Replicate the border and convolve."""
    bordered = nnf.pad(fields, (layer.dilation,) * 4, mode="replicate")
    weight, bias = layer.convolution.weight, layer.convolution.bias
    return nnf.conv2d(bordered, weight, bias, dilation=layer.dilation)


def plain_means(means: WeightedMeans, values: Tensor, valid: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Weight the neighbours with a value one by one; the coarse stand-in where there is none."""
    there = ~torch.isnan(values) if valid is None else ~torch.isnan(values) & valid
    filled, counted = torch.where(there, values, 0.0), there.to(values.dtype)
    total, share = (
        sum(w * part[..., i] for w, i in zip(means.weight.to(values.dtype), means.index, strict=True))
        for part in (filled, counted)
    )
    if means.has_stand_in:
        coarse = means.coarse.to(values.dtype)
        instead = ((filled @ coarse) / (counted @ coarse))[..., means.neighbourhood]
        return torch.where(share > 0, total / share.clamp(min=1e-300), instead), share
    return torch.where(share > 0, total / share.clamp(min=1e-300), torch.nan), share


def use_plain_parts(monkeypatch) -> None:
    """Replace convolutions and weighted means by the formulas above."""
    monkeypatch.setattr(Convolution, "forward", plain_convolution)
    monkeypatch.setattr(WeightedMeans, "forward", plain_means)
    monkeypatch.setattr(WeightedMeans, "complete", lambda means, values: plain_means(means, values)[0])


def advance_once(
    model: StationPDEModel, field: Tensor, valid_time: Tensor, lead: int, tendencies: Tensor | None = None
) -> Tensor:
    """Return the scaled field one forecast interval later, at ``valid_time``."""
    _, base = model.interval_start(field, valid_time)
    return model.advance(field, model.conditions.step(valid_time, lead), base, tendencies, lead)[0]


def plain_forward(model: StationPDEModel, history: Tensor, issue_time: Tensor, horizon: int) -> tuple[Tensor, Tensor]:
    """Return observed variables and state at the stations without guide; parts are those of `use_plain_parts`."""
    analysis, states = model.analyse(history, issue_time), []
    field = analysis.field
    for lead in range(1, horizon + 1):
        valid_time = issue_time + lead * model.config.data.step_seconds
        field = advance_once(model, field, valid_time, lead, analysis.tendencies)
        state = model.sites.read(model.scaling.inverse(field[:, :5])) + model.sites.base(valid_time)
        state = state + _anchored(model, analysis.departures, lead)
        states.append(state + _residual(model, analysis, lead, valid_time))
    state = torch.stack(states, dim=1)
    return to_observed(state), state


def _anchored(model: StationPDEModel, departures: Tensor, lead: int) -> Tensor | float:
    anchor = model.anchor
    if anchor is None:
        return 0.0
    row = min(lead, len(anchor.now)) - 1
    added = anchor.now[row] * departures[:, -1]
    same_hour = departures.shape[1] - 1 + (lead - 1) % anchor.steps_per_day + 1 - anchor.steps_per_day
    if anchor.has_yesterday and same_hour >= 0:
        added = added + anchor.yesterday[row] * departures[:, same_hour]
    return added


def _residual(model: StationPDEModel, analysis, lead: int, valid_time: Tensor) -> Tensor | float:
    if model.head is None:
        return 0.0
    places = model.sites.features(valid_time)
    time = time_features(valid_time, places.dtype)[:, None].expand(-1, places.shape[1], -1)
    ahead = torch.full_like(places[..., :1], lead / model.config.data.horizon)
    return model.head(analysis.memory, torch.cat([places, time, ahead], dim=-1))
