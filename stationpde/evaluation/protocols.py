"""Named protocols: cadence, window, split and strides, which replace keys of the ``data`` section.

Each corresponds to an experiment of the paper, on any network: ``w2k-like`` of the one on Weather2K, ``meteonet-like``
of the one on MeteoNet, with pressure scored.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stationpde.config import Config
from stationpde.errors import UsageError

__all__ = ["PROTOCOLS", "Protocol", "protocol"]


@dataclass(frozen=True, slots=True)
class Protocol:
    """Settings under which models are compared.

    Attributes
    ----------
    data : settings of the ``data`` section
    horizons : hours ahead, those of the paper; the first is the default
    test_stride : steps between test windows; the phase rotates, so that every hour of issue occurs
    """

    name: str
    title: str
    data: Mapping[str, Any]
    horizons: tuple[int, ...]
    test_stride: int = 1

    def steps(self, hours: int) -> int:
        """Convert a horizon in hours to steps.

        Raises
        ------
        UsageError
            If the horizon is no whole number of steps.
        """
        step = int(self.data["step"].removesuffix("h"))
        if hours < 1 or hours % step:
            raise UsageError(
                f"{hours} h is no whole number of steps of {step} h", code="SPDE-B001",
                do=f"--horizons {','.join(map(str, self.horizons))}",
            )  # fmt: skip
        return hours // step

    def over(self, config: Config, hours: int | None = None, overrides: Sequence[str] = ()) -> Config:
        """Apply the protocol to a configuration; ``overrides`` come last, as ``section.key=value``."""
        tree = config.tree()
        tree["data"] = {**tree["data"], **self.data}
        if hours is not None:
            tree["data"]["horizon"] = self.steps(hours)
        return Config.parse(tree, where=f"protocol {self.name}").with_overrides(overrides)


_SHARED = {"split": [0.6, 0.1, 0.3]}
PROTOCOLS: Mapping[str, Protocol] = {
    "w2k-like": Protocol(
        "w2k-like",
        "every third hour, 48 h of history",
        {**_SHARED, "step": "3h", "history": 16, "horizon": 8, "train_stride": 1},
        (24,),
    ),
    "meteonet-like": Protocol(
        "meteonet-like",
        "hourly, 48 h of history",
        {**_SHARED, "step": "1h", "history": 48, "horizon": 24, "train_stride": 3},
        (24, 48, 96),
        test_stride=3,
    ),
}


def protocol(name: str) -> Protocol:
    """Look up a protocol by name; the error for an unknown name suggests the nearest."""
    if name not in PROTOCOLS:
        near = difflib.get_close_matches(name, list(PROTOCOLS), n=1)
        hint = f"did you mean '{near[0]}'?" if near else f"known: {', '.join(PROTOCOLS)}"
        raise UsageError(f"no protocol '{name}'", code="SPDE-B001", do=hint)
    return PROTOCOLS[name]
