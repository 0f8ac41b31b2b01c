"""Small convolutional networks: the one building block of gates, router, closure and the data branch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as nnf

from stationpde.model.stencils import neighbours, run_here, summed

__all__ = ["Convolution", "Gate", "Network", "zero_"]

# Channels up to which a matrix product is faster than a general convolution.
_FEW = 8


class Convolution(nn.Module):
    """A 3 × 3 convolution that keeps the grid's size; the border is replicated."""

    def __init__(self, inputs: int, outputs: int, dilation: int = 1) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(inputs, outputs, 3, dilation=dilation)
        self.dilation = dilation

    def forward(self, fields: Tensor) -> Tensor:
        """Convolve fields ``[batch, channel, y, x]``."""
        weight, (batch, _, *grid) = self.convolution.weight, fields.shape
        bias = cast(Tensor, self.convolution.bias)
        if self.dilation == 1 and run_here(fields):
            if weight.shape[0] <= _FEW:
                by_tap = weight.permute(0, 2, 3, 1).flatten(0, 2)
                products = by_tap @ fields.transpose(0, 1).flatten(1)
                return summed(products, batch, torch.Size(grid)) + bias[:, None, None]
            if weight.shape[1] <= _FEW:
                outputs = torch.addmm(bias[:, None], weight.flatten(1), neighbours(fields))
                return outputs.unflatten(1, (batch, *grid)).transpose(0, 1)
        convolved: Tensor = self.convolution(_with_border(fields, self.dilation))
        return convolved


def _with_border(fields: Tensor, width: int) -> Tensor:
    if not torch.compiler.is_compiling():
        return nnf.pad(fields, (width, width, width, width), mode="replicate")
    # Replicate padding compiled together with convolutions fails in its backward pass: edges are joined.
    rows, columns = (-1, -1, width, -1), (-1, -1, -1, width)
    fields = torch.cat([fields[..., :1, :].expand(rows), fields, fields[..., -1:, :].expand(rows)], dim=-2)
    return torch.cat([fields[..., :1].expand(columns), fields, fields[..., -1:].expand(columns)], dim=-1)


class Network(nn.Module):
    """Two 3 × 3 convolutions with a SiLU between them: inputs → hidden → outputs."""

    def __init__(self, inputs: int, hidden: int, outputs: int) -> None:
        super().__init__()
        self.first = Convolution(inputs, hidden)
        self.last = Convolution(hidden, outputs)

    def forward(self, *fields: Tensor) -> Tensor:
        """Apply the network to fields joined along their channels."""
        outputs: Tensor = self.last(nnf.silu(self.first(torch.cat(fields, dim=1))))
        return outputs


# σ(−2) = 0.12: a gate starts nearly closed and opens where that lowers the loss.
GATE_BIAS = -2.0


class Gate(nn.Module):
    """A `Network` with a sigmoid, whose output starts near σ(bias) everywhere."""

    def __init__(self, inputs: int, hidden: int, outputs: int, bias: float) -> None:
        super().__init__()
        self.network = Network(inputs, hidden, outputs)
        # Small, not zero: with zeros the first layer would see no gradient in the first step.
        with torch.no_grad():
            self.network.last.convolution.weight.mul_(0.1)
            self.network.last.convolution.bias.fill_(bias)  # type: ignore[union-attr]

    def forward(self, *fields: Tensor) -> Tensor:
        """Return weights in (0, 1)."""
        return torch.sigmoid(self.network(*fields))


def zero_(layers: Sequence[nn.Module] | nn.Module) -> None:
    """Set weights and biases to zero, so that a correction starts as zero."""
    for layer in layers if isinstance(layers, Sequence) else [layers]:
        for parameter in layer.parameters():
            nn.init.zeros_(parameter)
