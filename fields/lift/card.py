"""Summary and consistency check of a store of lifted fields."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from fields import store
from fields.errors import ProblemReport, printable
from fields.lift.crossval import scattered_times
from fields.lift.record import COVERAGE
from fields.lift.sampling import FieldStore
from fields.times import format_time
from fields.variables import VARIABLES, display_unit, to_display

__all__ = ["FieldCard", "check_fields", "field_card"]

# Moments that ranges are computed from: reading all maps would take long.
_SAMPLED_MOMENTS = 200


@dataclass(frozen=True, slots=True)
class FieldCard:
    """Summary of a store of fields.

    ``ranges`` holds for each variable the lowest, median and highest value of a sample of moments in display units,
    and the mean coverage (share of the network's weight).
    """

    method: str
    terrain: str
    source: str
    stations: int
    times: int
    first: str
    last: str
    grid: dict[str, float]
    spacing_km: float
    ranges: dict[str, tuple[float, float, float, float]]
    fingerprint: str

    def to_dict(self) -> dict[str, Any]:
        """Return the summary for JSON."""
        return asdict(self)

    def lines(self) -> list[str]:
        """Return the summary as lines of text."""
        g = self.grid
        out = [
            f"fields lifted by {self.method} from {self.stations:,} stations",
            f"  source     {printable(self.source)}, relief: {printable(self.terrain)}",
            f"  grid       {g['height']:.0f} x {g['width']:.0f} cells of {self.spacing_km:.1f} km; latitude "
            f"{g['south']:.2f} to {g['north']:.2f}, longitude {g['west']:.2f} to {g['east']:.2f}",
            f"  times      {self.times:,} from {self.first} to {self.last} UTC",
            f"  store      fingerprint {self.fingerprint[:12]}",
            "",
            f"  {'':<6}{'unit':<6}" + "".join(f"{head:>9}" for head in ("lowest", "median", "highest", "coverage")),
        ]
        for name, (low, middle, high, share) in self.ranges.items():
            cells = "".join(f"{value:>9.1f}" for value in (low, middle, high))
            out.append(f"  {name:<6}{display_unit(name):<6}{cells}{share:>9.1%}")
        return out


def field_card(path: str | os.PathLike[str]) -> FieldCard:
    """Describe a field store from a sample of its moments."""
    fields = FieldStore(path)
    ds = fields.ds
    sample = ds.isel(time=scattered_times(ds.sizes["time"], 3600.0, _SAMPLED_MOMENTS))
    ranges = {}
    for name in fields.variables:
        values = to_display(name, sample[name].values.astype(np.float64))
        finite = values[np.isfinite(values)]
        low, middle, high = np.percentile(finite, [0, 50, 100]) if finite.size else (np.nan,) * 3
        share = float(sample[name + COVERAGE].mean()) if name + COVERAGE in ds else np.nan
        ranges[name] = (float(low), float(middle), float(high), share)
    stamps = [format_time(t, "minute") for t in ds["time"].values[[0, -1]]]
    return FieldCard(
        str(ds.attrs.get("method", "")), str(ds.attrs.get("terrain", "")), str(ds.attrs.get("source", "")),
        ds.sizes.get("station", 0), ds.sizes["time"], stamps[0], stamps[1], fields.grid.to_dict(),
        fields.grid.dy / 1e3, ranges, store.fingerprint(path),
    )  # fmt: skip


def check_fields(path: str | os.PathLike[str]) -> ProblemReport:
    """Check that a field store's arrays fit its grid and its values are possible; `verify_store` looks for damage."""
    report = ProblemReport()
    fields = FieldStore(path)
    ds, where = fields.ds, str(path)
    if (ds.sizes["lat"], ds.sizes["lon"]) != fields.grid.shape:
        report.error("SPDE-D030", f"the grid has {fields.grid.shape} cells, the arrays another number", where=where,
                     do=f"lift the stations again: stationpde field lift STORE {where} --force")  # fmt: skip
    for name in fields.variables:
        low, high = VARIABLES[name].hard
        for span in fields.blocks():
            values = ds[name].isel(time=span).values
            outside = int(((values < low) | (values > high)).sum())
            if outside:
                what = f"{outside:,} values of {name} are outside the physical range"
                report.warning("SPDE-D011", what, where=f"{where} › {name}", do="check the stations around them")
                break
    return report
