r"""The blend of a linear and a non-linear forecast, weighted on validation.

.. math:: \hat y = w\,\hat y_{ridge} + (1 - w)\,\hat y_{mlp}, \qquad 0 \le w \le 1

with the :math:`w` of each variable and lead that has the least squared error over the validation windows of all
stations, in their standard deviations. A short validation determines the weight of a single lead poorly: it is shrunk
towards that of the variable.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from fields.windows import Batch
from stationpde.baselines.inputs import StationInputs, horizon_of, window_batches
from stationpde.baselines.registry import Baseline, Predictor
from stationpde.config import Config
from stationpde.data import WindowSource
from stationpde.errors import UsageError
from stationpde.guide import ShareSums

if TYPE_CHECKING:
    from jaxtyping import Float

__all__ = ["BASELINE", "Blend"]

_MEMBERS = ("ridge_nb", "mlp_nb")


@dataclass(frozen=True, slots=True, eq=False)
class Blend:
    """Two forecasters, and the weights ``[lead, channel]`` of the first."""

    config: Config
    members: tuple[Predictor, Predictor]
    weights: Float[Tensor, "lead channel"]

    def predict(self, batch: Batch) -> Float[Tensor, "batch lead station channel"]:
        """Return the weighted mean of both forecasts."""
        return self.outlook(batch)[0]

    def outlook(
        self, batch: Batch
    ) -> tuple[Float[Tensor, "batch lead station channel"], Float[Tensor, "guess batch lead station channel"]]:
        """Return the weighted mean, and both forecasts: how far they disagree says something of the error."""
        first, second = (member.predict(batch) for member in self.members)
        share = self.weights[: horizon_of(batch, self.config), None].to(first)
        return second + share * (first - second), torch.stack([first, second])


def _make(config: Config, source: WindowSource, members: Mapping[str, Predictor] | None = None) -> Blend:
    """Find the weights of members that are fitted or trained already."""
    absent = [name for name in _MEMBERS if name not in (members or {})]
    if members is None or absent:
        raise UsageError(
            f"a blend needs its members: {', '.join(absent)}", code="SPDE-B021",
            do="make and train them first and pass them by name as `members`",
        )  # fmt: skip
    first, second = (members[name] for name in _MEMBERS)
    inputs = StationInputs.of(source)
    sums = ShareSums(len(_MEMBERS), source.windows.spec.horizon, len(source.series.variables))
    with torch.no_grad():
        for batch in window_batches(source, "val"):
            sums.add((first.predict(batch), second.predict(batch)), batch.future, inputs.std)
    return Blend(config, (first, second), sums.shares()[0].float())


BASELINE = Baseline(
    name="blend",
    title="Blend of ridge and MLP with neighbours",
    reference="weights from validation",
    kind="closed_form",
    make=_make,
    members=_MEMBERS,
)
