"""Estimate the memory and the disk that a lifted record takes, before anything is computed."""

from __future__ import annotations

import logging
import math
import shutil
from pathlib import Path

from fields.errors import ResourceError
from fields.grid import GridSpec

__all__ = ["require_capacity"]

logger = logging.getLogger(__name__)

# Bytes that search and weights take for each neighbour, measured on 0.7 million cells with 8 neighbours.
_BYTES_OF_NEIGHBOUR = 80
# Bytes of a value and of its share of weight; packed, fields take at best so much of them.
_BYTES_OF_VALUE, _PACKED = 8, 0.1
# From here on the user is warned.
_LARGE = 1 << 30


def require_capacity(target: Path, grid: GridSpec, k: int, counts: tuple[int, int, int]) -> bool:
    """Refuse a grid that memory or disk cannot hold, with the largest that they can; warn of one that takes long.

    Parameters
    ----------
    target : store to be written
    k : neighbours of a cell
    counts : numbers of moments, of variables and of stations

    Returns
    -------
    Whether it takes so much that the user was warned
    """
    import psutil

    moments, variables, stations = counts
    memory = grid.size * min(k, stations) * _BYTES_OF_NEIGHBOUR
    disk = int(grid.size * moments * variables * _BYTES_OF_VALUE * _PACKED)
    folder = next(place for place in (target.resolve().parent, *target.resolve().parents) if place.is_dir())
    for resource, needed, free in (
        ("memory", memory, int(psutil.virtual_memory().available)),
        ("disk", disk, shutil.disk_usage(folder).free),
    ):
        if needed > free:
            fitting = max(4, int(grid.height * math.sqrt(0.5 * free / needed)))
            raise ResourceError(
                f"{grid.size:,} cells need about {needed / 1e9:,.1f} GB of {resource}; {free / 1e9:,.1f} GB are free",
                where=f"{grid.height:,} rows, {grid.width:,} columns, {moments:,} times", code="SPDE-D067",
                do=f"--height {fitting}",
            )  # fmt: skip
    is_large = memory > _LARGE
    if is_large:
        logger.warning("%s cells take about %.1f GB of memory and %.1f GB of disk or more, and their time",
                       f"{grid.size:,}", memory / 1e9, disk / 1e9)  # fmt: skip
    return is_large
