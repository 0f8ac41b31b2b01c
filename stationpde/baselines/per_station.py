"""Networks as learners: histories filled and normalised by station, masked losses, station by station or jointly.

`NetworkLearner` trains any module that maps normalised histories of all stations to normalised forecasts. `PerStation`
makes such a module of one that knows a single station, ``[rows, history, channel]`` to ``[rows, lead, channel]``, with
weights that all stations share: the way in which general forecasting models are used on stations.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn

from fields.torch_data import Batch
from stationpde.baselines.inputs import StationInputs, horizon_of
from stationpde.config import Config
from stationpde.errors import UsageError
from stationpde.state import clipped
from stationpde.training.learner import Reducer
from stationpde.training.optimiser import decayed_groups
from stationpde.training.source import WindowSource

if TYPE_CHECKING:
    from jaxtyping import Float, Int64

__all__ = ["AllStations", "NetworkLearner", "NetworkLosses", "PerStation", "masked_mean", "per_station"]

Kind = Literal["mse", "l1"]
# Rows (windows × stations) that pass through a network at once; a network of 1,866 stations takes several rounds.
ROWS = 4096
# Added to the variance of a window, in station standard deviations: an unchanging window is not blown up.
_EPSILON = 1e-5


class _InRounds(nn.Module):
    """A network that sees at most ``rows`` windows of stations at once.

    In training, when there is more than one round, activations are computed again in the backward pass, so that memory
    stays that of one round.
    """

    def __init__(self, network: nn.Module, instance_norm: bool, rows: int) -> None:
        super().__init__()
        self.network, self.instance_norm, self.rows = network, instance_norm, rows

    def penalty(self, sums: Tensor) -> Tensor:
        """The network's own term of the loss, from its sums over all rows."""
        made: Tensor = self.network.penalty(sums)  # type: ignore[operator]
        return made

    def _all(self, rounds: Iterable[tuple[Tensor, ...]]) -> tuple[Tensor, Tensor | None]:
        inputs = list(rounds)
        again = len(inputs) > 1 and self.training and torch.is_grad_enabled()
        parts = [self._again(*part) if again else self._one(*part) for part in inputs]
        if isinstance(parts[0], tuple):
            return torch.cat([part[0] for part in parts]), torch.stack([part[1] for part in parts]).sum(dim=0)
        return torch.cat(parts), None

    def _again(self, *inputs: Tensor) -> Any:
        from torch.utils.checkpoint import checkpoint

        return checkpoint(self._one, *inputs, use_reentrant=False)

    def _one(self, values: Tensor, *rest: Tensor) -> Any:
        """The network on one round; time is the second axis of ``values``."""
        if not self.instance_norm:
            return self.network(values, *rest)
        mean = values.mean(dim=1, keepdim=True)
        spread = (values.var(dim=1, keepdim=True, unbiased=False) + _EPSILON).sqrt()
        found = self.network((values - mean) / spread, *rest)
        if isinstance(found, tuple):
            return found[0] * spread + mean, found[1]
        return found * spread + mean


class PerStation(_InRounds):
    """A network of one station applied to all of them, with the same weights.

    Parameters
    ----------
    network : ``[rows, history, channel]`` to ``[rows, lead, channel]``; or to a pair of that and a vector of sums over
        rows, from which the network's ``penalty`` makes a term of the loss
    instance_norm : give the network departures from the window's own mean in the window's own spread, and put both
        back afterwards (RevIN without its learned affine map)
    rows : windows of single stations that pass through the network at once
    """

    def __init__(self, network: nn.Module, instance_norm: bool = False, rows: int = ROWS) -> None:
        super().__init__(network, instance_norm, rows)

    def forward(
        self, history: Float[Tensor, "batch history station channel"], time: Tensor | None = None
    ) -> Float[Tensor, "batch lead station channel"] | tuple[Tensor, Tensor]:
        """Normalised histories to normalised forecasts; ``time`` is not used."""
        batch, steps, stations, channels = history.shape
        rows = history.transpose(1, 2).reshape(batch * stations, steps, channels)
        made, sums = self._all((part,) for part in rows.split(self.rows))
        made = made.unflatten(0, (batch, stations)).transpose(1, 2)
        return made if sums is None else (made, sums)


class AllStations(_InRounds):
    """A network of all stations together, some windows at a time.

    Parameters
    ----------
    network : ``[batch, history, station, channel]`` and issue times to ``[batch, lead, station, channel]``
    instance_norm, rows : as for `PerStation`; one window is the least that passes through at once
    """

    def __init__(self, network: nn.Module, instance_norm: bool = False, rows: int = ROWS) -> None:
        super().__init__(network, instance_norm, rows)

    def forward(
        self, history: Float[Tensor, "batch history station channel"], time: Int64[Tensor, " batch"]
    ) -> Float[Tensor, "batch lead station channel"]:
        """Normalised histories to normalised forecasts."""
        windows = max(1, self.rows // history.shape[2])
        return self._all(zip(history.split(windows), time.split(windows)))[0]


@dataclass(frozen=True, slots=True, eq=False)
class NetworkLosses:
    """``error`` is of the forecast in station standard deviations, ``penalty`` what the network adds of its own."""

    total: Tensor
    error: Tensor
    penalty: Tensor


def masked_mean(
    forecast: Float[Tensor, "batch lead station channel"],
    target: Float[Tensor, "batch lead station channel"],
    weights: Float[Tensor, " channel"],
    kind: Kind,
    reducer: Reducer,
) -> Tensor:
    """Mean over channels, by ``weights``, of the mean error over what was observed; targets are NaN elsewhere."""
    there = torch.isfinite(target)
    # Replaced before anything is subtracted: NaN times zero is NaN, in the loss and in its gradient.
    error = forecast - torch.where(there, target, forecast.detach())
    size = error.square() if kind == "mse" else error.abs()
    dims = tuple(range(size.ndim - 1))
    total = reducer.sum(torch.where(there, size, torch.zeros_like(size)).sum(dims))
    count = reducer.sum(there.sum(dims).to(size.dtype))
    seen = (count > 0).to(size.dtype) * weights
    return (seen * total / count.clamp(min=1.0)).sum() / seen.sum().clamp(min=torch.finfo(size.dtype).tiny)


class _Parts(nn.Module):
    """Scales and network as one module: a checkpoint of it is a whole model."""

    def __init__(self, inputs: StationInputs, network: nn.Module) -> None:
        super().__init__()
        self.inputs, self.network = inputs, network


class NetworkLearner:
    """A network of normalised histories with its loss, for the training loop.

    Parameters
    ----------
    config, source : windows, scored variables, and the record whose training split gives the scales
    network : called with normalised histories ``[batch, history, station, channel]`` and issue times; gives normalised
        forecasts ``[batch, lead, station, channel]``, or a pair as in `PerStation`
    kind : the error that is minimised
    """

    def __init__(
        self, config: Config, source: WindowSource, network: nn.Module, *, kind: Kind = "mse", about: str = ""
    ) -> None:
        self.config, self.inputs = config, StationInputs.of(source)
        self.network, self.kind, self.about = network, kind, about
        self.parts = _Parts(self.inputs, network)
        series = source.series
        self.weights = tuple(
            float(seen and name in config.data.scored) for name, seen in zip(series.variables, series.scored)
        )

    @property
    def module(self) -> nn.Module:
        """The parameters, and as buffers the scales."""
        return self.parts

    def leads(self, batch: Batch) -> int:
        """Steps to forecast; no more than the network was made for."""
        leads, most = horizon_of(batch, self.config), self.config.data.horizon
        if leads > most:
            raise UsageError(
                f"a network made for {most} steps was asked for {leads}",
                do=f"--set data.horizon={leads} and train it again",
            )
        return leads

    def history(self, batch: Batch) -> Float[Tensor, "batch history station channel"]:
        """The normalised history without gaps."""
        return self.inputs.scaled(self.inputs.filled(batch.history, batch.issue_time))

    def forecast(self, batch: Batch) -> tuple[Tensor, Tensor | None]:
        """The normalised forecast, and what the network wants to be penalised for."""
        leads = self.leads(batch)
        found = self.network(self.history(batch), batch.issue_time)
        made, sums = found if isinstance(found, tuple) else (found, None)
        return made[:, :leads], sums

    def losses(self, batch: Batch, reducer: Reducer) -> NetworkLosses:
        """The loss of (this rank's part of) a batch."""
        made, sums = self.forecast(batch)
        return self.scored(made, sums, batch, reducer)

    def scored(self, made: Tensor, sums: Tensor | None, batch: Batch, reducer: Reducer) -> NetworkLosses:
        """The loss of a normalised forecast."""
        weights = torch.tensor(self.weights, dtype=made.dtype, device=made.device)
        error = masked_mean(made, self.inputs.scaled(batch.future), weights, self.kind, reducer)
        if sums is None:
            return NetworkLosses(error, error.detach(), torch.zeros_like(error))
        penalty: Tensor = self.network.penalty(reducer.sum(sums))  # type: ignore[operator]
        return NetworkLosses(error + penalty, error.detach(), penalty.detach())

    def predict(self, batch: Batch) -> Float[Tensor, "batch lead station channel"]:
        """The forecast in SI, relative humidity within its range."""
        return clipped(self.inputs.unscaled(self.forecast(batch)[0]))

    def parameter_groups(self, weight_decay: float) -> list[dict[str, Any]]:
        """Matrices decay, biases and scales do not."""
        return decayed_groups(self.network, weight_decay)

    def describe(self) -> Mapping[str, Any]:
        """Shapes."""
        stations, channels = self.inputs.mean.shape
        found: dict[str, Any] = {
            "network": self.about or type(self.network).__name__,
            "stations": stations,
            "history": [self.config.data.history, stations, channels],
            "horizon": self.config.data.horizon,
            "loss": self.kind,
            "parameters": sum(p.numel() for p in self.network.parameters() if p.requires_grad),
        }
        if isinstance(self.network, _InRounds):
            found |= {"instance_norm": self.network.instance_norm, "rows_at_once": self.network.rows}
        return found


def per_station(
    config: Config, source: WindowSource, network: nn.Module, *, kind: Kind = "mse", instance_norm: bool = False,
    about: str = "",
) -> NetworkLearner:  # fmt: skip
    """A learner of a network of one station, ``[rows, history, channel]`` to ``[rows, lead, channel]``."""
    shared = PerStation(network, instance_norm)
    return NetworkLearner(config, source, shared, kind=kind, about=about or type(network).__name__)
