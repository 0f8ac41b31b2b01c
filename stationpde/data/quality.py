"""Which quality flags count: one setting (``data.quality``) for training, forecasts, scores and reports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import xarray as xr

from fields.qc import GROSS, MASKING, Flag
from fields.store import mask_flagged

__all__ = ["QUALITIES", "Quality", "describe_quality", "mask_by_quality"]

Quality = Literal["full", "gross"]
QUALITIES: tuple[Quality, ...] = ("full", "gross")
# Most tests judge with hindsight, from neighbours and from weeks on both sides; those of `gross` look at the value
# alone, as a forecaster could at the time of issue.
_FLAGS: Mapping[Quality, Flag] = {"full": MASKING, "gross": GROSS}
_WORDS: Mapping[Quality, str] = {"full": "values: all quality tests", "gross": "values: gross errors removed only"}


def mask_by_quality(ds: xr.Dataset, quality: Quality) -> xr.Dataset:
    """Replace values by NaN whose flags count; a dataset without flags stays as it is.

    Parameters
    ----------
    ds : a dataset with ``<name>_flag`` beside its variables, its values as they were observed.
    quality : ``full`` counts all tests, ``gross`` only those for what no sensor can have measured.
    """
    return mask_flagged(ds, _FLAGS[quality])


def describe_quality(quality: Quality) -> str:
    """Return the phrase by which tables and files say which values count."""
    return _WORDS[quality]
