r"""First layers of networks that see fields and conditions B_t, prepared once for all steps of a forecast.

A first convolution is linear, so its share of each input can be computed when that input changes, and no oftener:

.. math:: W * [X, B] = \underbrace{W_X\,\mathrm{neighbours}(X)}_{\text{every step}}
          + \underbrace{W_r\,r_{lead}}_{\text{sun, time, lead}} + \underbrace{W_p * \mathrm{place} + b}_{\text{once}}

Place, altitude and slope are the same for all samples and leads. Time and lead are constant over the grid, where a
convolution with a replicated border is a product with the sum of the kernel. Networks that see the same fields are
one layer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, cast

import torch
from torch import Tensor, nn
from torch.autograd import Function

from stationpde.model.convolutions import Convolution
from stationpde.model.stencils import TAPS, neighbours, run_here, scattered
from stationpde.physics import TIME_FEATURES, Conditions

if TYPE_CHECKING:
    from jaxtyping import Float, Int64

__all__ = ["FirstLayers", "LeadConditions", "PlaceColumns", "conditions_ahead"]


@dataclass(frozen=True, slots=True, eq=False)
class PlaceColumns:
    """Neighbours of the fields that never change; ``count`` is the number of channels of B_t, ``sun`` if it is one."""

    columns: Float[Tensor, "tap cell"]
    count: int
    sun: bool

    @classmethod
    def of(cls, conditions: Conditions) -> PlaceColumns:
        """Take place, altitude and slope of the cells."""
        fixed = conditions.cells.fixed
        fields = fixed.T.reshape(1, -1, *conditions.shape)
        return cls(neighbours(fields), conditions.step_count, conditions.cells.solar)


@dataclass(frozen=True, slots=True, eq=False)
class FirstLayers:
    """First convolutions of one or more networks as one layer, prepared for a forecast.

    Attributes
    ----------
    changing : weights of the neighbours of the fields, then of the sun's neighbours, the time and the lead
    lasting : share of the places, and the bias
    """

    changing: Float[Tensor, "hidden row"]
    lasting: Float[Tensor, "hidden cell"]

    @classmethod
    def of(cls, layers: Sequence[Convolution], channels: slice, places: PlaceColumns) -> FirstLayers:
        """Join layers that see the same ``channels`` of fields first, and B_t last."""
        conditions = torch.cat([layer.convolution.weight[:, -places.count :] for layer in layers])
        fixed = places.columns.shape[0] // TAPS
        changing = [field_weights(layers, channels), conditions[:, -(TIME_FEATURES + 1) :].sum(dim=(2, 3))]
        if places.sun:
            changing.insert(1, conditions[:, fixed].flatten(1))
        bias = torch.cat([cast(Tensor, layer.convolution.bias) for layer in layers])
        lasting = torch.addmm(bias[:, None], conditions[:, :fixed].flatten(1), places.columns)
        return cls(torch.cat(changing, dim=1), lasting)

    def __call__(
        self, fields: Float[Tensor, "batch channel y x"], conditions: LeadConditions
    ) -> Float[Tensor, "hidden cell"]:
        """Apply the layers to fields."""
        outputs: Tensor = _Joined.apply(fields, conditions.rows, self.changing, self.lasting)
        return outputs


def field_weights(layers: Sequence[Convolution], channels: slice) -> Float[Tensor, "hidden tap"]:
    """Return the weights of the neighbours of some input channels, of several layers."""
    return torch.cat([layer.convolution.weight[:, channels] for layer in layers]).flatten(1)


def weighted_neighbours(
    weights: Float[Tensor, "hidden tap"], fields: Float[Tensor, "batch channel y x"]
) -> Float[Tensor, "hidden cell"]:
    """Apply weights of the neighbours of fields alone."""
    outputs: Tensor = _Joined.apply(fields, None, weights, None)
    return outputs


class _Joined(Function):
    """``changing @ [neighbours(fields), rows] + lasting``, the last for every sample; rows are data.

    Neighbours are gathered again on the way back: they would be nine times what is kept now.
    """

    @staticmethod
    def forward(ctx: Any, fields: Tensor, rows: Tensor | None, changing: Tensor, lasting: Tensor | None) -> Tensor:
        ctx.save_for_backward(fields, rows, changing)
        ctx.cells = None if lasting is None else lasting.shape[1]
        outputs = changing @ neighbours(fields, rows)
        if lasting is not None:
            outputs.view(outputs.shape[0], -1, lasting.shape[1]).add_(lasting[:, None])
        return outputs

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        fields, rows, changing = ctx.saved_tensors
        gradient = gradients[0]
        taps = fields.shape[1] * TAPS
        of_fields = scattered(changing[:, :taps].T @ gradient, fields.shape[0], fields.shape[-2:])
        # This way round the product takes three quarters of the time.
        of_changing = (neighbours(fields, rows) @ gradient.T).T
        of_lasting = None if ctx.cells is None else gradient.unflatten(1, (-1, ctx.cells)).sum(dim=1)
        return of_fields, None, of_changing, of_lasting


class Prepared(Protocol):
    """A network with first layers: `prepare` returns whatever it needs of them in a forecast."""

    def prepare(self, places: PlaceColumns) -> Any:
        """Prepare for a forecast."""
        ...


class LeadConditions(Tensor):
    """B_t of one lead as fields ``[batch, condition, y, x]``, which also knows what of it is constant.

    Attributes
    ----------
    rows : the sun's neighbours, time and lead, ``[row, batch * y * x]``
    prepared : first layers of the networks of this forecast
    """

    rows: Tensor
    prepared: Mapping[nn.Module, Any]

    # As of parameters: what is computed from it is a plain tensor.
    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @staticmethod
    def of(fields: Tensor, rows: Tensor, prepared: Mapping[nn.Module, Any]) -> LeadConditions:
        """Join fields of B_t with their rows and with what networks have prepared."""
        joined: LeadConditions = Tensor._make_subclass(LeadConditions, fields)
        joined.rows, joined.prepared = rows, prepared
        return joined


def conditions_ahead(
    conditions: Conditions, valid_time: Int64[Tensor, "lead batch"], networks: Iterable[nn.Module]
) -> Sequence[Tensor]:
    """Return B_t of every lead, from the first; networks are prepared where the compiled loops run."""
    leads, batch = valid_time.shape
    number = torch.arange(1, leads + 1, device=valid_time.device).repeat_interleave(batch)[:, None, None]
    fields = conditions.step(valid_time.flatten(), number)
    by_lead = fields.unflatten(0, (leads, batch)).unbind(0)
    networks = list(networks)
    # A compiled network is one program from fields to fields.
    if not run_here(fields) or any(network._compiled_call_impl is not None for network in networks):
        return by_lead
    places = PlaceColumns.of(conditions)
    prepared = {network: cast(Prepared, network).prepare(places) for network in networks}
    rows = _passing_rows(fields, places.sun, leads)
    return [LeadConditions.of(*each, prepared) for each in zip(by_lead, rows, strict=True)]


def _passing_rows(fields: Tensor, sun: bool, leads: int) -> Sequence[Tensor]:
    whole = fields[:, -(TIME_FEATURES + 1) :].transpose(0, 1).flatten(1)
    if sun:
        first = fields.shape[1] - TIME_FEATURES - 2
        whole = torch.cat([neighbours(fields[:, first : first + 1]), whole])
    return whole.unflatten(1, (leads, -1)).unbind(1)
