"""Heed what CF attributes say about a variable beyond its unit: another quantity, valid values, flags, statistics.

A variable may be called ``t`` and hold the temperature of the soil: where its standard name says so, the name does not
count. Values outside ``valid_range`` are missing (CF 2.5.1).
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

import numpy as np
import xarray as xr

from fields.errors import DataError, ProblemReport, printable

__all__ = ["check_packing", "is_other_quantity", "report_attributes", "require_upward", "valid_bounds"]

# Words of CF standard names that make another quantity of the one that stations report.
_TELLING = frozenset({
    "anomaly", "bulb", "canopy", "deviation", "dew", "equivalent", "geopotential", "gust", "maximum", "minimum",
    "potential", "radiative", "sea", "skin", "soil", "specific", "tendency", "to", "virtual", "water", "wet",
})  # fmt: skip
_STATISTIC = re.compile(r"\btime:\s*(maximum|minimum|sum|range|standard_deviation|variance)\b")
_ROUNDING = 1e-6


def is_other_quantity(array: xr.DataArray, standards: Collection[str]) -> bool:
    """Return whether the standard name of a variable tells of another quantity than the ones in ``standards``."""
    words = set(re.split(r"[\s_]+", str(array.attrs.get("standard_name", "")).lower()))
    expected = {word for standard in standards for word in standard.split("_")}
    return bool(words & _TELLING - expected)


def check_packing(array: xr.DataArray, label: str) -> None:
    """Refuse a scale or an offset that makes no numbers of what is packed."""
    for key in ("scale_factor", "add_offset"):
        number = array.encoding.get(key, 1.0)
        if isinstance(number, (int, float, np.number)) and (not np.isfinite(number) or (key[0] == "s" and number == 0)):
            raise DataError(f"{label} has the {key} {number}, which unpacks to nothing", code="SPDE-D103",
                            do="write the file again with the numbers that belong to it")  # fmt: skip


def require_upward(altitude: xr.DataArray, label: str) -> None:
    """Refuse altitudes that count downwards (CF attribute ``positive``): as numbers alone they look like others."""
    if str(altitude.attrs.get("positive", "")).strip().lower() == "down":
        raise DataError(
            f"{label} counts downwards: its attribute positive is down", code="SPDE-D015",
            do="change the attribute to up, and the sign of the numbers unless they are altitudes",
        )  # fmt: skip


def valid_bounds(array: xr.DataArray) -> tuple[float, float]:
    """Return the least and the largest valid value, in the unit of the unpacked values; infinite where none is named.

    Bounds of the packed integers are unpacked with the values.
    """
    attrs, encoding = array.attrs, array.encoding
    whole = _numbers(attrs.get("valid_range"), 2)
    low, high = whole if whole is not None else (-np.inf, np.inf)
    for key, is_low in (("valid_min", True), ("valid_max", False)):
        bound = _numbers(attrs.get(key), 1)
        if bound is not None:
            low, high = (bound[0], high) if is_low else (low, bound[0])
    named = [np.asarray(attrs[key]) for key in ("valid_range", "valid_min", "valid_max") if key in attrs]
    if named and all(value.dtype.kind in "iu" for value in named) and {"scale_factor", "add_offset"} & encoding.keys():
        scale, offset = float(encoding.get("scale_factor", 1.0)), float(encoding.get("add_offset", 0.0))
        low, high = sorted((low * scale + offset, high * scale + offset))
    slack = _ROUNDING * max([1.0, *(abs(bound) for bound in (low, high) if np.isfinite(bound))])
    return (low - slack, high + slack) if low < high else (-np.inf, np.inf)


def report_attributes(report: ProblemReport, ds: xr.Dataset, var: str, name: str, label: str) -> None:
    """Tell of quality flags that are not read, and of values that are extremes or sums over time."""
    attrs = ds[var].attrs
    flags = [word for word in str(attrs.get("ancillary_variables", "")).split() if _is_flag(ds, word)]
    if flags:
        report.warning(
            "SPDE-D145", f"the quality flags of {name} are not read: {', '.join(map(printable, flags[:4]))}",
            where=label, do=f"blank out what they reject: values of {name} count, whatever the flags say",
        )  # fmt: skip
    statistic = _STATISTIC.search(str(attrs.get("cell_methods", "")))
    if statistic and name != "precip":
        report.warning(
            "SPDE-D145", f"{name} is a {statistic[1].replace('_', ' ')} over time, and is read as if of a moment",
            where=label, do="leave it out unless that is meant",
        )  # fmt: skip


def _is_flag(ds: xr.Dataset, var: str) -> bool:
    if var not in ds.variables:
        return False
    attrs = ds[var].attrs
    return "flag_values" in attrs or "flag_masks" in attrs or str(attrs.get("standard_name", "")).endswith("_flag")


def _numbers(value: Any, count: int) -> tuple[float, ...] | None:
    try:
        plain = np.asarray(value, np.float64).ravel()
    except (TypeError, ValueError):
        return None
    return tuple(plain.tolist()) if plain.size == count and np.isfinite(plain).all() else None
