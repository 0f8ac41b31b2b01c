"""Ψ, the change from observed to physical state, at the stations of Weather2K: torch against MetPy with pint."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from pde_ops import thermo
from pde_ops.benchmarking import interleaved

__all__ = ["measure"]

STATIONS = 1866


def measure(quick: bool) -> dict[str, Any]:
    """Return microseconds of θ and q from T, p and relative humidity, their ratio, and their largest difference."""
    import metpy.calc as mpcalc
    from metpy.units import units

    draw = np.random.default_rng(0)
    T, p = draw.uniform(250.0, 310.0, STATIONS), draw.uniform(7e4, 1.04e5, STATIONS)
    rh = draw.uniform(0.1, 1.0, STATIONS)
    tensors = [torch.from_numpy(a) for a in (T, p, rh)]
    quantities = [T * units.kelvin, p * units.pascal, rh * units.dimensionless]

    def ours() -> tuple[torch.Tensor, torch.Tensor]:
        t, pressure, humidity = tensors
        return thermo.potential_temperature(t, pressure), thermo.specific_humidity(t, pressure, humidity)

    def theirs() -> tuple[Any, Any]:
        t, pressure, humidity = quantities
        mixing = mpcalc.mixing_ratio_from_relative_humidity(pressure, t, humidity)
        return mpcalc.potential_temperature(pressure, t), mpcalc.specific_humidity_from_mixing_ratio(mixing)

    seconds = interleaved({"torch": ours, "metpy": theirs}, rounds=15 if quick else 60)
    gap = [abs(a.numpy() / b.to_base_units().magnitude - 1.0).max() for a, b in zip(ours(), theirs(), strict=True)]
    return {
        "values": STATIONS,
        "psi_vs_metpy": seconds["metpy"] / seconds["torch"],
        "microseconds": {name: 1e6 * value for name, value in seconds.items()},
        "largest_relative_difference": float(max(gap)),
    }
