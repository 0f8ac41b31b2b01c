"""Networks as learners: histories filled and normalised by station, masked losses, station by station or jointly.

`NetworkLearner` trains any module that maps normalised histories of all stations to normalised forecasts. `PerStation`
turns a network of a single station into such a module, ``[rows, history, channel]`` to ``[rows, lead, channel]``, with
weights that all stations share: the way in which general forecasting models are used on stations.

Windows of neighbouring stations are similar. Such a network learns more from a few stations of many windows than from
all stations of a few: a step takes a random share of its rows and leaves out the share ``train.station_dropout``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn

from fields.windows import Batch
from stationpde.baselines.inputs import StationInputs, horizon_of
from stationpde.config import Config
from stationpde.data import WindowSource
from stationpde.errors import UsageError
from stationpde.model import Reducer
from stationpde.physics import clipped
from stationpde.training import decayed_groups

if TYPE_CHECKING:
    from jaxtyping import Float, Int64

__all__ = [
    "SHORT_EPOCHS", "AllStations", "NetworkLearner", "NetworkLosses", "PerStation", "masked_mean", "per_station",
    "rows_of",
]  # fmt: skip

Kind = Literal["mse", "l1"]
# Rows (windows × stations) that pass through a network at once; a network of 1,866 stations takes several rounds.
ROWS = 4096
# Training settings of a slow network: an epoch takes a tenth of the stations of every window, some 300 rows a step on a
# hundred stations, and is validated on some windows; a run that the cap of time ends has then had many epochs.
SHORT_EPOCHS: Mapping[str, Any] = {
    "batch": 32, "station_dropout": 0.9, "epochs": 100, "patience": 20, "validate_windows": 127
}  # fmt: skip
# Added to the variance of a window, in station standard deviations: a constant window is not amplified.
_EPSILON = 1e-5


class _InRounds(nn.Module):
    """A network that is applied to at most ``rows`` windows of stations at once.

    In training, when there is more than one round, activations are computed again in the backward pass, so that memory
    stays that of one round.
    """

    def __init__(self, network: nn.Module, instance_norm: bool, rows: int) -> None:
        super().__init__()
        self.network, self.instance_norm, self.rows = network, instance_norm, rows

    def penalty(self, sums: Tensor) -> Tensor:
        """Return the term that the network adds to the loss, from its sums over all rows."""
        term: Tensor = self.network.penalty(sums)  # type: ignore[operator]
        return term

    def _in_rounds(self, rounds: Iterable[tuple[Tensor, ...]]) -> tuple[Tensor, Tensor | None]:
        inputs = list(rounds)
        recompute = len(inputs) > 1 and self.training and torch.is_grad_enabled()
        parts = [self._recomputed(*part) if recompute else self._one_round(*part) for part in inputs]
        if isinstance(parts[0], tuple):
            return torch.cat([part[0] for part in parts]), torch.stack([part[1] for part in parts]).sum(dim=0)
        return torch.cat(parts), None

    def _recomputed(self, *inputs: Tensor) -> Any:
        from torch.utils.checkpoint import checkpoint

        return checkpoint(self._one_round, *inputs, use_reentrant=False)

    def _one_round(self, values: Tensor, *rest: Tensor) -> Any:
        """Apply the network to one round; time is the second axis of ``values``."""
        if not self.instance_norm:
            return self.network(values, *rest)
        mean = values.mean(dim=1, keepdim=True)
        spread = (values.var(dim=1, keepdim=True, unbiased=False) + _EPSILON).sqrt()
        output = self.network((values - mean) / spread, *rest)
        if isinstance(output, tuple):
            return output[0] * spread + mean, output[1]
        return output * spread + mean


class PerStation(_InRounds):
    """A network of one station applied to all of them, with the same weights.

    Parameters
    ----------
    network : ``[rows, history, channel]`` to ``[rows, lead, channel]``; or to a pair of that and a vector of sums over
        rows, from which the ``penalty`` of the network computes a term of the loss
    instance_norm : whether to subtract the mean of the window and divide by its spread before the network, and to
        undo both afterwards (RevIN without its learned affine map)
    rows : windows of single stations that pass through the network at once
    """

    takes_rows = True

    def __init__(self, network: nn.Module, instance_norm: bool = False, rows: int = ROWS) -> None:
        super().__init__(network, instance_norm, rows)

    def forward(
        self, history: Float[Tensor, "batch history station channel"], time: Tensor | None = None,
        chosen: Int64[Tensor, " rows"] | None = None,
    ) -> Float[Tensor, "batch lead station channel"] | tuple[Tensor, Tensor]:  # fmt: skip
        """Map normalised histories to normalised forecasts, of ``chosen`` rows or all; ``time`` is not used."""
        batch, stations = history.shape[0], history.shape[2]
        rows = rows_of(history, chosen)
        forecast, sums = self._in_rounds((part,) for part in rows.split(self.rows))
        if chosen is None:
            forecast = forecast.unflatten(0, (batch, stations)).transpose(1, 2)
        return forecast if sums is None else (forecast, sums)


class AllStations(_InRounds):
    """A network of all stations together, applied to some windows at a time.

    Parameters
    ----------
    network : ``[batch, history, station, channel]`` and issue times to ``[batch, lead, station, channel]``; or to a
        pair of that and sums over windows, as for `PerStation`
    instance_norm, rows : as for `PerStation`; at least one window passes through at once
    """

    def __init__(self, network: nn.Module, instance_norm: bool = False, rows: int = ROWS) -> None:
        super().__init__(network, instance_norm, rows)

    def forward(
        self, history: Float[Tensor, "batch history station channel"], time: Int64[Tensor, " batch"]
    ) -> Float[Tensor, "batch lead station channel"] | tuple[Tensor, Tensor]:
        """Map normalised histories to normalised forecasts."""
        windows = max(1, self.rows // history.shape[2])
        forecast, sums = self._in_rounds(zip(history.split(windows), time.split(windows)))
        return forecast if sums is None else (forecast, sums)


def rows_of(
    values: Float[Tensor, "batch time station channel"], chosen: Int64[Tensor, " rows"] | None = None
) -> Float[Tensor, "rows time channel"]:
    """Return windows of single stations, station by station within a window; ``chosen`` ones or all."""
    rows = values.transpose(1, 2).flatten(0, 1)
    return rows if chosen is None else rows[chosen]


@dataclass(frozen=True, slots=True, eq=False)
class NetworkLosses:
    """Loss: ``error`` of the forecast in station standard deviations, and ``penalty``, the term of the network."""

    total: Tensor
    error: Tensor
    penalty: Tensor


def masked_mean(
    forecast: Float[Tensor, "*any channel"],
    target: Float[Tensor, "*any channel"],
    weights: Float[Tensor, " channel"],
    kind: Kind,
    reducer: Reducer,
) -> Tensor:
    """Average the mean error over observed targets by channel ``weights``; missing targets are NaN."""
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
    """Scales and network as one module, so that a checkpoint holds both."""

    def __init__(self, inputs: StationInputs, network: nn.Module) -> None:
        super().__init__()
        self.inputs, self.network = inputs, network


class NetworkLearner:
    """A network of normalised histories with its loss, for the training loop.

    Parameters
    ----------
    config, source : windows, scored variables, and the record whose training split gives the scales
    network : called with normalised histories ``[batch, history, station, channel]`` and issue times; returns
        normalised forecasts ``[batch, lead, station, channel]``, or a pair as in `PerStation`; a network whose
        ``takes_rows`` is true is also called with indices of rows, and is then trained on some rows of each batch
    kind : the error that is minimised
    about : name of the network for `describe`
    """

    def __init__(
        self, config: Config, source: WindowSource, network: nn.Module, *, kind: Kind = "mse", about: str = ""
    ) -> None:
        self.config, self.inputs = config, StationInputs.of(source)
        self.network, self.kind, self.about = network, kind, about
        self.parts = _Parts(self.inputs, network)
        self.share = 1.0 - config.train.station_dropout if getattr(network, "takes_rows", False) else 1.0
        series = source.series
        self.weights = tuple(
            float(seen and name in config.data.scored) for name, seen in zip(series.variables, series.scored)
        )

    @property
    def module(self) -> nn.Module:
        """The parameters, and as buffers the scales."""
        return self.parts

    def leads(self, batch: Batch) -> int:
        """Return the steps to forecast; no more than the network was built for."""
        leads, most = horizon_of(batch, self.config), self.config.data.horizon
        if leads > most:
            raise UsageError(
                f"a network built for {most} steps cannot forecast {leads}",
                code="SPDE-T001",
                do=f"train it again with data.horizon={leads}",
            )
        return leads

    def history(self, batch: Batch) -> Float[Tensor, "batch history station channel"]:
        """Return the normalised history without gaps."""
        return self.inputs.scaled(self.inputs.filled(batch.history, batch.issue_time))

    def forecast(self, batch: Batch) -> tuple[Tensor, Tensor | None]:
        """Return the normalised forecast, and the sums for the penalty of the network, if any."""
        leads = self.leads(batch)
        output = self.network(self.history(batch), batch.issue_time)
        forecast, sums = output if isinstance(output, tuple) else (output, None)
        return forecast[:, :leads], sums

    def losses(self, batch: Batch, reducer: Reducer) -> NetworkLosses:
        """Compute the loss of (this rank's part of) a batch."""
        target = self.inputs.scaled(batch.future)
        if self.share == 1.0 or not self.module.training:
            return self._loss_of(*self.forecast(batch), target, reducer)
        # The loop has seeded the generator for this step: a resumed run takes the same rows.
        count = batch.history.shape[0] * batch.history.shape[2]
        chosen = torch.randperm(count)[: max(1, round(self.share * count))].to(target.device)
        output = self.network(self.history(batch), batch.issue_time, chosen)
        forecast, sums = output if isinstance(output, tuple) else (output, None)
        return self._loss_of(forecast[:, : self.leads(batch)], sums, rows_of(target, chosen), reducer)

    def _loss_of(self, forecast: Tensor, sums: Tensor | None, target: Tensor, reducer: Reducer) -> NetworkLosses:
        """Compute the loss of a normalised forecast against normalised targets."""
        weights = torch.tensor(self.weights, dtype=forecast.dtype, device=forecast.device)
        error = masked_mean(forecast, target, weights, self.kind, reducer)
        if sums is None:
            return NetworkLosses(error, error.detach(), torch.zeros_like(error))
        penalty: Tensor = self.network.penalty(reducer.sum(sums))  # type: ignore[operator]
        return NetworkLosses(error + penalty, error.detach(), penalty.detach())

    def predict(self, batch: Batch) -> Float[Tensor, "batch lead station channel"]:
        """Return the forecast in SI, relative humidity within its range."""
        return clipped(self.inputs.unscaled(self.forecast(batch)[0]))

    def parameter_groups(self, weight_decay: float) -> list[dict[str, Any]]:
        """Return parameter groups: matrices decay, biases and scales do not."""
        return decayed_groups(self.network, weight_decay)

    def describe(self) -> Mapping[str, Any]:
        """Return shapes, loss and number of parameters."""
        stations, channels = self.inputs.mean.shape
        facts: dict[str, Any] = {
            "network": self.about or type(self.network).__name__,
            "stations": stations,
            "history": [self.config.data.history, stations, channels],
            "horizon": self.config.data.horizon,
            "loss": self.kind,
            "parameters": sum(p.numel() for p in self.network.parameters() if p.requires_grad),
        }
        if isinstance(self.network, _InRounds):
            facts |= {"instance_norm": self.network.instance_norm, "rows_at_once": self.network.rows}
        return facts


def per_station(
    config: Config, source: WindowSource, network: nn.Module, *, kind: Kind = "mse", instance_norm: bool = False,
    about: str = "",
) -> NetworkLearner:  # fmt: skip
    """Build a learner from a network of one station, ``[rows, history, channel]`` to ``[rows, lead, channel]``."""
    shared = PerStation(network, instance_norm)
    return NetworkLearner(config, source, shared, kind=kind, about=about or type(network).__name__)
