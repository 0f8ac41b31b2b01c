"""Errors for exhausted memory that say what to do; the last checkpoint stays intact."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch

from stationpde.errors import ResourceError

if TYPE_CHECKING:
    from stationpde.config import Config

__all__ = ["process_faults"]

_MEMORY_MESSAGES = ("can't allocate memory", "not enough memory", "out of memory", "bad_alloc")


@contextmanager
def process_faults(config: Config) -> Iterator[None]:
    """Return a context that turns a failed allocation (CPU or GPU) into a `ResourceError`."""
    try:
        yield
    except (MemoryError, torch.OutOfMemoryError) as problem:
        raise _out_of_memory(config, problem) from problem
    except RuntimeError as problem:
        # torch raises a plain `RuntimeError` for a failed CPU allocation.
        if not any(sign in str(problem).lower() for sign in _MEMORY_MESSAGES):
            raise
        raise _out_of_memory(config, problem) from problem


def _out_of_memory(config: Config, problem: BaseException) -> ResourceError:
    train, ways = config.train, []
    if train.batch > 1:
        ways.append(f"train.batch={max(1, train.batch // 2)}")
    if not train.recompute:
        ways.append("train.recompute=true")
    if config.grid.height > 8:
        ways.append(f"grid.height={max(8, config.grid.height // 2)}")
    return ResourceError(
        f"out of memory with batches of {train.batch} on {config.grid.height} grid rows: "
        f"{str(problem).splitlines()[0][:200] if str(problem) else type(problem).__name__}",
        code="SPDE-T073",
        do=f"{', or '.join(ways) or 'a machine with more memory'}; `stationpde train --dry-run` states the need",
    )
