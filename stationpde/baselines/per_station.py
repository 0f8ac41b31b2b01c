"""Networks as learners: histories filled and normalised by station, masked losses, station by station or jointly.

`NetworkLearner` trains any module that maps normalised histories of all stations to normalised forecasts. `PerStation`
makes such a module of one that knows a single station, ``[rows, history, channel]`` to ``[rows, lead, channel]``, with
weights that all stations share: the way in which general forecasting models are used on stations.

Windows of neighbouring stations are much alike. Such a network learns more from a few stations of many windows than
from all stations of a few: a step takes a random share of its rows, ``train.station_dropout`` says how many it leaves.
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

__all__ = [
    "SHORT_EPOCHS", "AllStations", "NetworkLearner", "NetworkLosses", "PerStation", "masked_mean", "per_station",
    "rows_of",
]  # fmt: skip

Kind = Literal["mse", "l1"]
# Rows (windows × stations) that pass through a network at once; a network of 1,866 stations takes several rounds.
ROWS = 4096
# How a slow network is trained: an epoch takes a tenth of the stations of every window, some 300 rows a step on a
# hundred stations, and is validated on some windows; a run that a cap of time ends has then seen many epochs.
SHORT_EPOCHS: Mapping[str, Any] = {
    "batch": 32, "station_dropout": 0.9, "epochs": 100, "patience": 20, "validate_windows": 127
}  # fmt: skip
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

    takes_rows = True

    def __init__(self, network: nn.Module, instance_norm: bool = False, rows: int = ROWS) -> None:
        super().__init__(network, instance_norm, rows)

    def forward(
        self, history: Float[Tensor, "batch history station channel"], time: Tensor | None = None,
        chosen: Int64[Tensor, " rows"] | None = None,
    ) -> Float[Tensor, "batch lead station channel"] | tuple[Tensor, Tensor]:  # fmt: skip
        """Normalised histories to normalised forecasts, of ``chosen`` rows alone where given; ``time`` is not used."""
        batch, stations = history.shape[0], history.shape[2]
        rows = rows_of(history, chosen)
        made, sums = self._all((part,) for part in rows.split(self.rows))
        if chosen is None:
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


def rows_of(
    values: Float[Tensor, "batch time station channel"], chosen: Int64[Tensor, " rows"] | None = None
) -> Float[Tensor, "rows time channel"]:
    """Windows of single stations, station by station within a window; ``chosen`` ones or all."""
    rows = values.transpose(1, 2).flatten(0, 1)
    return rows if chosen is None else rows[chosen]


@dataclass(frozen=True, slots=True, eq=False)
class NetworkLosses:
    """``error`` is of the forecast in station standard deviations, ``penalty`` what the network adds of its own."""

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
        forecasts ``[batch, lead, station, channel]``, or a pair as in `PerStation`; one whose ``takes_rows`` is true is
        also called with numbers of rows, and is then trained on some rows of each batch
    kind : the error that is minimised
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
        target = self.inputs.scaled(batch.future)
        if self.share == 1.0 or not self.module.training:
            return self.scored(*self.forecast(batch), target, reducer)
        # The loop has seeded the generator for this step: a resumed run takes the same rows.
        count = batch.history.shape[0] * batch.history.shape[2]
        chosen = torch.randperm(count)[: max(1, round(self.share * count))].to(target.device)
        found = self.network(self.history(batch), batch.issue_time, chosen)
        made, sums = found if isinstance(found, tuple) else (found, None)
        return self.scored(made[:, : self.leads(batch)], sums, rows_of(target, chosen), reducer)

    def scored(self, made: Tensor, sums: Tensor | None, target: Tensor, reducer: Reducer) -> NetworkLosses:
        """The loss of a normalised forecast against normalised targets."""
        weights = torch.tensor(self.weights, dtype=made.dtype, device=made.device)
        error = masked_mean(made, target, weights, self.kind, reducer)
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
