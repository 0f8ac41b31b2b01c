"""Gates of a forecast: what it is refused for, by which threshold, and under which name it may be insisted on.

Each check compares the observations with what a run was trained on and adds its findings to `Gates`, which raises them
together. The thresholds are constants, not keys of the configuration: they judge observations, not a run. What is
normal, and why a threshold stands where it stands, is in ``docs/forecasting.md``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from fields.errors import DataError, Problem, counted, locate, printable
from fields.grid import great_circle
from fields.times import format_span, format_time
from fields.variables import STATE_VARIABLES, variable
from stationpde.data import HistoryCoverage
from stationpde.errors import UsageError
from stationpde.forecasting.acceptance import (
    BEYOND_HORIZON,
    FAR_PLACES,
    FOREIGN_NETWORK,
    THIN_HISTORY,
    accepted_names,
)
from stationpde.physics import to_state

if TYPE_CHECKING:
    from fields.windows import Stations
    from stationpde.model import Region, StateStatistics

__all__ = [
    "Gates", "check_cadence", "check_clamped", "check_history", "check_horizon", "check_network", "check_requested",
    "check_time_of_day", "check_values",
]  # fmt: skip

Array = np.ndarray[Any, Any]

MOST_STEPS = 4096
"""Steps ahead that a forecast may reach, as ``data.horizon`` may: a slip is refused before memory is asked for."""
LEAST_INSIDE = 0.5
"""Share of the reporting stations that lie in the trained region, below which a network is foreign …"""
LEAST_TRAINED = 0.1
"""… unless this share of the trained stations reports from its trained place."""
LONGEST_MOVE_M = 25e3
"""Distance from its trained place beyond which a station is told of; where most are, the network is refused."""
LARGEST_RISE_M = 100.0
"""Difference from its trained altitude, likewise."""
MOST_MOVED = 0.5
"""Share of the trained stations in the observations that may stand elsewhere or higher."""
LARGEST_DEPARTURE = 8.0
"""Median departure of a variable from the climatology of training, in standard deviations, that is refused."""
MOST_CLAMPED = 0.05
"""Share of forecast temperatures and pressures outside what air has, above which a forecast is refused."""
LEAST_HISTORY = 0.5
"""Share of the history that must have been observed, see `HistoryCoverage.present`."""
FEW_REPORTING = 0.5
"""Share of the trained stations below which it is told how few report."""
FARTHEST_PLACE_M = 200e3
"""Distance outside the trained region beyond which a requested place is refused, and an observed station told of."""
FARTHEST_ALTITUDE_M = 1000.0
"""Distance above or below all trained stations beyond which a requested place is told of."""

_FEWEST_VALUES = 20
_MOST_NAMED = 3
_OTHER_DATA = "give observations of the network that the run was trained on"


class Gates:
    """Findings of the checks of one forecast: refused unless accepted by name, or only told.

    Parameters
    ----------
    accept : names of `stationpde.forecasting.acceptance.ACCEPTABLE`
    label : name of the observations in messages
    """

    def __init__(self, accept: str | Iterable[str] | None = (), label: str = "") -> None:
        self.accept, self.label = accepted_names(accept), label
        self._refused: dict[tuple[str, str], Problem] = {}
        self._accepted: dict[str, None] = {}
        self._warnings: dict[str, None] = {}

    def refuse(self, name: str, code: str, what: str, *, why: str = "", where: str = "", do: str = _OTHER_DATA) -> None:
        """Add a finding that is refused, or only told where its name is accepted; the same finding counts once."""
        if name in self.accept:
            self.tell_accepted(name, f"{what} ({why})" if why else what)
            return
        place = locate(self.label, where)
        self._refused.setdefault((code, what), Problem(code, what, place, why, f"{do}, or add --accept {name}"))

    def tell_accepted(self, name: str, sentence: str) -> None:
        """Add a finding that is told because its name is accepted."""
        self._accepted[name] = None
        self.warn(sentence)

    def warn(self, sentence: str) -> None:
        """Add a finding that is told."""
        self._warnings[printable(sentence)] = None

    @property
    def warnings(self) -> list[str]:
        """Sentences to tell, each once."""
        return list(self._warnings)

    @property
    def accepted(self) -> list[str]:
        """Names without which the forecast would have been refused."""
        return list(self._accepted)

    def attributes(self) -> dict[str, list[str]]:
        """Return the attributes of a file: what was accepted and what is told, where there is anything."""
        lists = {"accepted": self.accepted, "warnings": self.warnings}
        return {name: sentences for name, sentences in lists.items() if sentences}

    def close(self) -> None:
        """Raise everything that was refused so far as one `DataError`."""
        if self._refused:
            raise DataError.from_problems(self._refused.values())


def check_horizon(gates: Gates, horizon: int | None, trained: int) -> None:
    """Refuse a horizon beyond that of training.

    Raises
    ------
    UsageError
        At once: no observations can change it.
    """
    if horizon is None:
        return
    if horizon < 1:
        raise UsageError(f"a forecast needs one step ahead at least, not {horizon}", code="SPDE-T111", do="--horizon 1")
    if horizon <= trained:
        return
    if horizon > MOST_STEPS:
        raise UsageError(
            f"{counted(horizon, 'step')} ahead were requested, a forecast has {MOST_STEPS:,} at most", code="SPDE-T111",
            do=f"--horizon {trained}   as trained",
        )  # fmt: skip
    what = f"{counted(horizon, 'step')} ahead were requested, the run was trained for {trained}"
    if BEYOND_HORIZON in gates.accept:
        gates.tell_accepted(BEYOND_HORIZON, f"{what}: the first guesses end there, and values may jump")
        return
    raise UsageError(
        f"{what}; beyond them its first guesses end and nothing was validated", code="SPDE-T111",
        do=f"--horizon {trained}   or train with a longer data.horizon, or add --accept {BEYOND_HORIZON}",
    )  # fmt: skip


def check_network(gates: Gates, trained: Stations, region: Region, observed: Stations, present: Array) -> None:
    """Compare the stations that report with the trained network and its region, and name those that stand elsewhere.

    Parameters
    ----------
    observed : stations that report in the history
    present : which of them report at the issue time
    """
    row = {name: i for i, name in enumerate(trained.id)}
    shared = np.array([name in row for name in observed.id], bool)
    rows = np.array([row[name] for name in observed.id if name in row], int)
    same = observed.take(shared)
    moves = great_circle(same.lat, same.lon, trained.lat[rows], trained.lon[rows])
    moved = moves > LONGEST_MOVE_M
    if moved.sum() > MOST_MOVED * max(1, len(same)):
        where = _move(trained, same, rows, int(np.argmax(moves)), moves)
        gates.refuse(
            FOREIGN_NETWORK, "SPDE-T112",
            f"{moved.sum()} of {counted(len(same), 'station')} that the run was trained on now stand elsewhere",
            why=f"{where}; allowed {LONGEST_MOVE_M / 1e3:.0f} km for half of them", do="mend the coordinates",
        )  # fmt: skip
    else:
        for i in np.flatnonzero(moved).tolist()[:_MOST_NAMED]:
            gates.warn(_move(trained, same, rows, i, moves))
        _check_region(gates, trained, region, observed, int((~moved).sum()))
    _check_altitudes(gates, trained, same, rows, ~moved)
    reporting = np.count_nonzero(shared & present) / max(1, len(trained))
    if reporting < FEW_REPORTING:
        few = f"only {reporting:.0%} of the stations that the run was trained on report"
        gates.warn(few if reporting else "no station that the run was trained on reports")


def _check_region(gates: Gates, trained: Stations, region: Region, observed: Stations, in_place: int) -> None:
    """Refuse a network that mostly lies outside the trained region, and tell of single stations far from it."""
    metres = region.grid.metres_outside(observed.lat, observed.lon)
    inside = np.asarray(region.grid.contains(observed.lat, observed.lon))
    if inside.mean() < LEAST_INSIDE and in_place < LEAST_TRAINED * len(trained):
        grid, nearest = region.grid, int(np.argmin(np.where(inside, np.inf, metres)))
        gates.refuse(
            FOREIGN_NETWORK, "SPDE-T113",
            f"{inside.sum()} of {counted(len(observed), 'station')} that report lie in the region of training, and "
            f"{in_place} of its {len(trained)} stations are among them",
            why=f"the region is {_place(grid.south, grid.west)} to {_place(grid.north, grid.east)}; "
            f"{printable(observed.id[nearest])} is the nearest outside, {metres[nearest] / 1e3:,.0f} km away; "
            f"{LEAST_INSIDE:.0%} must lie inside, or {LEAST_TRAINED:.0%} of the trained ones report",
        )  # fmt: skip
        return
    far = np.flatnonzero(metres > FARTHEST_PLACE_M)
    if far.size:
        named = ", ".join(
            f"{printable(observed.id[i])} at {_place(observed.lat[i], observed.lon[i])}" for i in far[:_MOST_NAMED]
        )
        gates.warn(
            f"{counted(far.size, 'station')} of the observations up to {metres.max() / 1e3:,.0f} km outside the "
            f"trained region: {named}; their forecast is that of the region's border"
        )


def _check_altitudes(gates: Gates, trained: Stations, same: Stations, rows: Array, in_place: Array) -> None:
    """Name stations whose altitude changed; refuse where most did, as if in another unit."""
    rise = np.abs(same.alt - trained.alt[rows])
    odd = np.flatnonzero((rise > LARGEST_RISE_M) & in_place)
    sentences = [
        f"station {printable(same.id[i])} stands at {same.alt[i]:.0f} m, trained at {trained.alt[rows[i]]:.0f} m"
        for i in odd[np.argsort(-rise[odd])]
    ]
    if odd.size > MOST_MOVED * max(1, len(same)):
        gates.refuse(
            FOREIGN_NETWORK, "SPDE-T112",
            f"{odd.size} of {counted(len(same), 'station')} that the run was trained on have another altitude",
            why=f"{sentences[0]}; allowed {LARGEST_RISE_M:.0f} m for half of them", do="mend the altitudes (feet?)",
        )  # fmt: skip
        return
    for sentence in sentences[:_MOST_NAMED]:
        gates.warn(sentence)


def check_requested(gates: Gates, trained: Stations, region: Region, places: Stations | None) -> None:
    """Refuse requested places at an altitude that no ground has, or far outside the trained region; tell of near ones.

    Raises
    ------
    DataError
        At once, for an impossible altitude: the terrain's is taken where none is given.
    """
    if places is None:
        return
    low, high = variable("alt").hard
    lowest, highest = trained.alt.min(), trained.alt.max()
    for name, metres in zip(places.id, places.alt, strict=True):
        if not (np.isnan(metres) or low <= metres <= high):
            raise DataError(
                f"place '{printable(name)}' has the altitude {metres:.6g} m, allowed {low:.0f} to {high:.0f} m",
                code="SPDE-T117", do="correct it in the list of --stations, or leave it empty to take the terrain's",
            )  # fmt: skip
        if not lowest - FARTHEST_ALTITUDE_M <= metres <= highest + FARTHEST_ALTITUDE_M and not np.isnan(metres):
            gates.warn(
                f"place '{printable(name)}' stands at {metres:.0f} m, the trained stations at {lowest:.0f} to "
                f"{highest:.0f} m: no station tells the air there"
            )
    metres = region.grid.metres_outside(places.lat, places.lon)
    for i in np.argsort(-metres, kind="stable").tolist()[:_MOST_NAMED]:
        sentence = (
            f"place '{printable(places.id[i])}' at {_place(places.lat[i], places.lon[i])} lies "
            f"{metres[i] / 1e3:,.0f} km outside the trained region"
        )
        if metres[i] > FARTHEST_PLACE_M:
            why = f"allowed {FARTHEST_PLACE_M / 1e3:.0f} km; what is forecast there is the value of the border"
            gates.refuse(FAR_PLACES, "SPDE-T117", sentence, why=why, do="correct the list of --stations")
        elif metres[i] > 0:
            gates.warn(f"{sentence}: it gets the value of the border")


def check_cadence(gates: Gates, reporting_step: int | None, step: int) -> None:
    """Refuse observations that come less often than the model steps, or between its steps."""
    if reporting_step and step % reporting_step:
        gates.refuse(
            FOREIGN_NETWORK, "SPDE-T114",
            f"the stations report every {format_span(reporting_step)}, the run was trained on steps of "
            f"{format_span(step)}",
            why=f"{format_span(step)} must be a multiple of {format_span(reporting_step)}",
            do=f"give observations of every {format_span(step)}",
        )  # fmt: skip


def check_time_of_day(gates: Gates, issue_time: int, origin: int, step: int) -> None:
    """Tell of an issue time between the steps of training, whose times of day the climatology does not know."""
    late = (issue_time - origin) % step
    if late:
        requested, before = (format_time(moment, "minute")[11:] for moment in (issue_time, issue_time - late))
        gates.warn(
            f"the run was trained on every {format_span(step)} and knows no climatology of {requested} UTC: it takes "
            f"that of {before}, {format_span(late)} earlier, throughout"
        )


def check_history(gates: Gates, coverage: HistoryCoverage, step: int) -> None:
    """Refuse a history of which too little was observed, or one without any value of a variable."""
    length = f"{coverage.moments} moments of {format_span(step)}"
    do = "give a record without these gaps"
    if coverage.unseen:
        gates.refuse(
            THIN_HISTORY, "SPDE-T115", f"the history holds no value at all of {', '.join(coverage.unseen)}",
            why=f"{length}, {coverage.present:.0%} of them observed", do=do,
        )  # fmt: skip
    elif coverage.present < LEAST_HISTORY:
        thinnest = coverage.thinnest
        least = f", least of {thinnest}: {coverage.by_variable[thinnest]:.0%}" if thinnest else ""
        gates.refuse(
            THIN_HISTORY, "SPDE-T115",
            f"only {coverage.present:.0%} of the history was observed by the stations that report at its end",
            why=f"{length}{least}; {LEAST_HISTORY:.0%} is needed", do=do,
        )  # fmt: skip


def check_values(
    gates: Gates, statistics: StateStatistics, stations: Stations, values: Array, times: Array,
    reference: Sequence[str] = (),
) -> None:  # fmt: skip
    """Compare values of trained stations with the climatology of training: another unit, level or network departs.

    Parameters
    ----------
    values : observed variables, SI ``[time, station, variable]``
    times : s since 1970, UTC ``[time]``
    reference : variables that are substitutes for observations
    """
    rows = statistics.matching(stations)
    trained = rows >= 0
    if not trained.any():
        return
    pressure = torch.as_tensor(statistics.pressure[rows[trained]], dtype=torch.float32)
    observed = torch.from_numpy(np.ascontiguousarray(values[:, trained]))
    expected = statistics.climatology.at(times)[:, rows[trained]]
    departures = np.abs(to_state(observed, pressure).numpy() - expected) / statistics.station_std[rows[trained]]
    for c, name in enumerate(STATE_VARIABLES):
        seen = departures[..., c][np.isfinite(departures[..., c])]
        if name in reference or seen.size < _FEWEST_VALUES or np.median(seen) <= LARGEST_DEPARTURE:
            continue
        gates.refuse(
            FOREIGN_NETWORK, "SPDE-T116",
            f"{name} is not what the same stations reported in training",
            why=f"half of the values depart from its climatology by more than {np.median(seen):.1f} standard "
            f"deviations, allowed {LARGEST_DEPARTURE:.0f}",
            do=f"check unit and kind of {name} (pressure reduced to the sea?)",
        )  # fmt: skip


def check_clamped(gates: Gates, clamped: float) -> None:
    """Refuse a forecast too great a share of which is outside what air has."""
    if clamped > MOST_CLAMPED:
        gates.refuse(
            FOREIGN_NETWORK, "SPDE-T118",
            f"{clamped:.0%} of the forecast temperatures and pressures are outside what air has",
            why=f"they were clamped; allowed {MOST_CLAMPED:.0%}",
        )  # fmt: skip


def _move(trained: Stations, same: Stations, rows: Array, i: int, moves: Array) -> str:
    here, there = _place(same.lat[i], same.lon[i]), _place(trained.lat[rows[i]], trained.lon[rows[i]])
    return f"station {printable(same.id[i])} stands at {here}, trained at {there}: {moves[i] / 1e3:,.0f} km away"


def _place(lat: float, lon: float) -> str:
    return f"{lat:.2f}, {(lon + 180.0) % 360.0 - 180.0:.2f}"
