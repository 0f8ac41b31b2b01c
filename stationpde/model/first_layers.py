r"""Networks that see fields and conditions B_t, prepared once for all steps of a forecast.

A first convolution is linear, so its share of each input can be computed when that input changes, and no oftener:

.. math:: W * [X, B] = \underbrace{W_X * [X, \odot]}_{\text{every step}}
          + \underbrace{W_t\,t_{lead}}_{\text{time, lead}} + \underbrace{W_p * \mathrm{place} + b}_{\text{once}}

Place, altitude and slope are the same for all samples and leads. Time and lead are constant over the grid, where a
convolution with a replicated border is a product with the sum of the kernel. The height of the sun is a field.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as nnf

from stationpde.model.convolutions import Convolution
from stationpde.model.network_kernel import apply_network, is_compiled_here
from stationpde.physics import SUN_CHANNEL, TIME_FEATURES, Conditions

if TYPE_CHECKING:
    from jaxtyping import Float, Int64

__all__ = ["Ahead", "LeadConditions", "PreparedNetwork", "conditions_ahead"]


@dataclass(frozen=True, slots=True, eq=False)
class Ahead:
    """What networks are prepared with.

    Attributes
    ----------
    places : fields that never change, border replicated
    passing : time and lead, which are constant over the grid
    fields : B_t of all leads
    sun : whether one of its channels is the height of the sun
    """

    places: Float[Tensor, "1 place y x"]
    passing: Float[Tensor, "lead batch feature"]
    fields: Float[Tensor, "lead batch condition y x"]
    sun: bool

    @property
    def count(self) -> int:
        """Number of channels of B_t."""
        return self.fields.shape[2]


@dataclass(frozen=True, slots=True, eq=False)
class PreparedNetwork:
    """Two convolutions with a SiLU between them, prepared for a forecast; attributes as in `apply_network`.

    ``each`` is that of every lead, and ``each_ahead`` the same in one piece.
    """

    first: Float[Tensor, "hidden tap"]
    each: Sequence[Float[Tensor, "batch hidden"]]
    each_ahead: Float[Tensor, "lead batch hidden"]
    lasting: Float[Tensor, "hidden cell"]
    factor: Float[Tensor, "hidden cell"] | None
    shift: Float[Tensor, "hidden cell"] | None
    last: Float[Tensor, "output hidden 3 3"]
    bias: Float[Tensor, " output"]

    @classmethod
    def of(
        cls,
        first: Convolution,
        last: Convolution,
        ahead: Ahead,
        factor: Tensor | None = None,
        shift: Tensor | None = None,
    ) -> PreparedNetwork:
        """Take apart the weights of a layer that sees fields first and B_t last."""
        weight, bias = first.convolution.weight, cast(Tensor, first.convolution.bias)
        fields, conditions = weight[:, : -ahead.count], weight[:, -ahead.count :]
        changing = [fields, conditions[:, SUN_CHANNEL, None]] if ahead.sun else [fields]
        lasting = nnf.conv2d(ahead.places, conditions[:, : ahead.places.shape[1]], bias)
        each = ahead.passing @ conditions[:, -(TIME_FEATURES + 1) :].sum(dim=(2, 3)).T
        last_bias = cast(Tensor, last.convolution.bias)
        joined = torch.cat(changing, dim=1).flatten(1)
        by_lead = each.unbind(0)
        return cls(joined, by_lead, each, lasting[0].flatten(1), factor, shift, last.convolution.weight, last_bias)

    def __call__(self, conditions: LeadConditions, fields: Tensor, more: Tensor | None = None) -> Tensor:
        """Apply the network to fields, and to as many ``more`` if it sees them."""
        return apply_network(fields, more, conditions.sun, *self.weights(conditions.number))

    def weights(self, number: int) -> tuple[Tensor, Tensor, Tensor, Tensor | None, Tensor | None, Tensor, Tensor]:
        """Return what `apply_network` takes behind the sun, of one lead."""
        return self.first, self.each[number], self.lasting, self.factor, self.shift, self.last, self.bias


class LeadConditions(Tensor):
    """B_t of one lead as fields ``[batch, condition, y, x]``, which also knows what of it is constant.

    Attributes
    ----------
    number : of the lead, from 0
    sun : the height of the sun ``[batch, 1, y, x]``, if B_t has it
    prepared : what modules have prepared for this forecast
    """

    number: int
    sun: Tensor | None
    prepared: Mapping[nn.Module, Any]

    # As of parameters: what is computed from it is a plain tensor.
    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @staticmethod
    def of(fields: Tensor, number: int, sun: bool, prepared: Mapping[nn.Module, Any]) -> LeadConditions:
        """Join fields of B_t with what networks have prepared."""
        joined: LeadConditions = Tensor._make_subclass(LeadConditions, fields)
        joined.number, joined.prepared = number, prepared
        joined.sun = fields[:, SUN_CHANNEL, None].contiguous() if sun else None
        return joined


def conditions_ahead(
    conditions: Conditions,
    valid_time: Int64[Tensor, "lead batch"],
    prepare: Mapping[nn.Module, Callable[[Ahead], Any]],
    join: Callable[[dict[nn.Module, Any]], None] | None = None,
) -> Sequence[Tensor]:
    """Return B_t of every lead, from the first; modules are prepared where the kernel of networks runs.

    ``join`` may add what it computes from all that has been prepared.
    """
    leads, batch = valid_time.shape
    number = torch.arange(1, leads + 1, device=valid_time.device).repeat_interleave(batch)[:, None, None]
    fields = conditions.step(valid_time.flatten(), number)
    by_lead = fields.unflatten(0, (leads, batch))
    # A compiled network is one program from fields to fields.
    if not is_compiled_here(fields) or any(module._compiled_call_impl is not None for module in prepare):
        return by_lead.unbind(0)
    cells = conditions.cells
    places = nnf.pad(cells.fixed.T.reshape(1, -1, *conditions.shape), (1, 1, 1, 1), mode="replicate")
    passing = fields[:, -(TIME_FEATURES + 1) :, 0, 0].unflatten(0, (leads, batch))
    ahead = Ahead(places, passing, by_lead, cells.solar)
    prepared = {module: make(ahead) for module, make in prepare.items()}
    if join is not None:
        join(prepared)
    return [LeadConditions.of(each, n, cells.solar, prepared) for n, each in enumerate(by_lead.unbind(0))]
