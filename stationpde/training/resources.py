"""When memory runs out or a helper dies: an error that says what to do, with the last checkpoint left as it was."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch

from stationpde.errors import ResourceError

if TYPE_CHECKING:
    from stationpde.config import Config

__all__ = ["process_faults", "worker_died"]

_SIGNS = ("can't allocate memory", "not enough memory", "out of memory", "bad_alloc")


@contextmanager
def process_faults(config: Config) -> Iterator[None]:
    """Turn a failed allocation, on the CPU or a GPU, or the death of a worker into a `ResourceError` with a way out."""
    try:
        yield
    except (MemoryError, torch.OutOfMemoryError) as problem:
        raise _out_of_memory(config, problem) from problem
    except RuntimeError as problem:
        # torch has no types of its own for what the CPU allocator refuses and for a worker that died.
        if str(problem).startswith("DataLoader"):
            raise worker_died(problem) from problem
        if not any(sign in str(problem).lower() for sign in _SIGNS):
            raise
        raise _out_of_memory(config, problem) from problem


def worker_died(problem: BaseException) -> ResourceError:
    """The error for a helper process that is gone."""
    said = str(problem).splitlines() or [type(problem).__name__]
    return ResourceError(
        f"a process that gathers batches died: {said[0]}",
        code="SPDE-T071",
        do="type the same command again; if it happens again, --set train.workers=0",
    )


def _out_of_memory(config: Config, problem: BaseException) -> ResourceError:
    train, ways = config.train, []
    if train.batch > 1:
        ways.append(f"--set train.batch={max(1, train.batch // 2)}")
    if not train.recompute:
        ways.append("--set train.recompute=true")
    if config.grid.height > 8:
        ways.append(f"--set grid.height={max(8, config.grid.height // 2)}")
    return ResourceError(
        f"out of memory with batches of {train.batch} on {config.grid.height} grid rows: "
        f"{str(problem).splitlines()[0][:200] if str(problem) else type(problem).__name__}",
        code="SPDE-T073",
        do=f"{', or '.join(ways) or 'a machine with more memory'}; --dry-run states the need beforehand",
    )
