"""Windows of an extra variable, cut as those of the state."""

from __future__ import annotations

from dataclasses import replace

from stationpde.data import WindowSource
from stationpde.errors import DataError

__all__ = ["extra_source"]


def extra_source(source: WindowSource, name: str) -> WindowSource:
    """Return the windows of one extra variable of a record, as a record of that variable alone.

    Raises
    ------
    DataError
        If the record was read without it.
    """
    extras = source.series.extras
    if extras is None or name not in extras.variables:
        raise DataError(f"the record was read without {name}", code="SPDE-T122",
                        do="load_series reads the variables of data.extra")  # fmt: skip
    column = extras.variables.index(name)
    alone = replace(extras, values=extras.values[..., [column]], variables=(name,), fingerprint="")
    return WindowSource(alone, source.windows)
