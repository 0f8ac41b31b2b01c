"""The calibration of a run: distributions of every variable, wider where no station stands; one sealed file."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fields.lift import remoteness
from fields.windows import Stations
from stationpde.errors import CorruptArtefactError
from stationpde.runs import read_sealed, require_own_calibration, write_sealed
from stationpde.uncertainty.copula import Copula
from stationpde.uncertainty.distributions import Distributions
from stationpde.uncertainty.marginal import Marginal
from stationpde.uncertainty.places import Inflation

if TYPE_CHECKING:
    from stationpde.runs import LoadedRun
    from stationpde.uncertainty.signals import Signals

__all__ = ["CALIBRATION", "Calibration", "calibration_of", "write_calibration"]

Array = np.ndarray[Any, Any]

CALIBRATION = "calibration.json"
"""File of the calibration in a run directory."""
_FORMAT = 1


@dataclass(frozen=True, slots=True, eq=False)
class Calibration:
    """Fitted distributions of a forecaster.

    Attributes
    ----------
    marginals : distribution of each variable that was observed
    stations : ids of the stations that it was fitted at
    inflation : widening where no station stands
    copula : dependence of variables, leads and stations
    facts : windows, days and targets that it was fitted on, and the checkpoint that it belongs to
    """

    marginals: Mapping[str, Marginal]
    stations: tuple[str, ...]
    inflation: Inflation
    facts: Mapping[str, Any]
    copula: Copula | None = None

    def distributions(
        self, signals: Signals, stations: Stations, trained: Array | None = None, reporting: Array | None = None
    ) -> Distributions:
        """Return the distributions of forecasts at stations.

        Parameters
        ----------
        signals : of the forecasts at these stations
        stations : where the forecasts are
        trained : mask of the stations that the forecaster was trained at; the others are places to it. None for all
        reporting : mask of the stations that reports come from, to which the distance of a place counts
        """
        number = {name: row for row, name in enumerate(self.stations)}
        rows = np.array([number.get(name, -1) for name in stations.id], dtype=int)
        wider: dict[str, Array] = {}
        if trained is not None and not trained.all() and trained.any():
            rows = np.where(trained, rows, -1)
            network = trained if reporting is None or not (trained & reporting).any() else trained & reporting
            columns = remoteness(stations.take(np.flatnonzero(~trained)), stations.take(np.flatnonzero(network)))
            for name in self.marginals:
                factor = np.ones(len(stations))
                factor[~trained] = self.inflation.at(name, columns)
                wider[name] = factor
        spreads = {name: m.spread(signals, rows, wider.get(name)) for name, m in self.marginals.items()}
        return Distributions(((self.marginals, spreads),))

    def to_dict(self) -> dict[str, Any]:
        """Return the content of the file."""
        return {
            "format": _FORMAT,
            "facts": dict(self.facts),
            "stations": list(self.stations),
            "marginals": [marginal.to_dict() for marginal in self.marginals.values()],
            "places": self.inflation.to_dict(),
            "dependence": None if self.copula is None else self.copula.to_dict(),
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Calibration:
        """Read what `to_dict` returns.

        Raises
        ------
        ValueError, KeyError, TypeError
            If it holds what no calibration writes.
        """
        if content["format"] != _FORMAT:
            raise ValueError(f"its format is {content['format']!r}, this version reads {_FORMAT}")
        stations = tuple(str(name) for name in content["stations"])
        marginals = [Marginal.from_dict(part, len(stations)) for part in content["marginals"]]
        named = {marginal.name: marginal for marginal in marginals}
        dependence = content["dependence"]
        copula = None if dependence is None else Copula.from_dict(dependence)
        return cls(named, stations, Inflation.from_dict(content["places"]), dict(content["facts"]), copula)


def write_calibration(calibration: Calibration, run: Path) -> Path:
    """Write the calibration into its run, whole or not at all."""
    path = run / CALIBRATION
    write_sealed(path, calibration.to_dict())
    return path


def calibration_of(run: LoadedRun) -> Calibration | None:
    """Read the calibration of a run; None where there is none, or that of another checkpoint.

    Raises
    ------
    CorruptArtefactError
        If it is damaged, or of another run.
    """
    path = run.path / CALIBRATION
    if not path.exists():
        return None
    remedy = f"stationpde calibrate {shlex.quote(str(run.path))} --obs STORE"
    try:
        calibration = Calibration.from_dict(read_sealed(path))
    except CorruptArtefactError as problem:
        problem.do = remedy if path.is_file() else f"move {shlex.quote(str(path))} away, then {remedy}"
        raise
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as problem:
        raise CorruptArtefactError(
            f"{CALIBRATION} holds what no calibration writes: {problem}", code="SPDE-Q002", where=str(path), do=remedy
        ) from None
    require_own_calibration({"facts": calibration.facts}, run.record, path, remedy)
    return calibration if calibration.facts.get("checkpoint") == run.checkpoint else None
