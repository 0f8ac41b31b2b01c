"""Training in several processes: gradients equal to those of one process, and errors that name a lost rank.

A batch is divided over the ranks. Sums inside the loss go through a `Reducer`, gradients are added up in one flat
buffer together with the stop requests of the ranks, so that every rank takes the same decision at the same step.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from itertools import count
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch import Tensor

from stationpde.errors import ResourceError
from stationpde.model import LocalReducer, Reducer

__all__ = ["LocalWorld", "LostRankError", "RankWorld", "World", "in_torchrun", "join_world"]


_RUNS = count()


class LostRankError(ResourceError):
    """Another rank died, or hangs (``hangs``); a rank that died is started again, one that hangs ends the run."""

    code = "SPDE-T072"
    hangs = False


class World(Protocol):
    """All processes of a run, seen from one of them."""

    rank: int
    size: int
    reducer: Reducer

    def combine(self, parameters: Sequence[Tensor], flags: Sequence[float]) -> list[float]:
        """Add up gradients over ranks in place; return the sums of the flags."""
        ...

    def sum(self, tensor: Tensor) -> Tensor:
        """Return the sum over ranks, without gradient."""
        ...

    def publish(self, key: str, text: str) -> None:
        """Publish a text of rank 0 to all ranks, once for each key."""
        ...

    def receive(self, key: str) -> str:
        """Return the text that rank 0 published, waiting for it."""
        ...

    def note_step(self, step: int) -> None:
        """Note the step that begins, for messages about lost ranks."""
        ...


class LocalWorld:
    """World of a single process."""

    rank = 0
    size = 1

    def __init__(self) -> None:
        self.reducer: Reducer = LocalReducer()
        self._texts: dict[str, str] = {}

    def combine(self, parameters: Sequence[Tensor], flags: Sequence[float]) -> list[float]:
        """Return the flags."""
        return list(flags)

    def sum(self, tensor: Tensor) -> Tensor:
        """Return the tensor."""
        return tensor

    def publish(self, key: str, text: str) -> None:
        """Store the text."""
        self._texts[key] = text

    def receive(self, key: str) -> str:
        """Return the stored text."""
        return self._texts[key]

    def note_step(self, step: int) -> None:
        """Do nothing: no-op for one process."""


class _GlobalSum(torch.autograd.Function):
    """Sum over ranks; backward passes the gradient to this rank's part (see `Reducer`)."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor) -> Tensor:
        summed = tensor.detach().clone()
        dist.all_reduce(summed)
        return summed

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        return gradients[0]


class _Share(torch.autograd.Function):
    """The value itself; its gradient counts once over all ranks."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, world: int) -> Tensor:
        ctx.world = world
        return tensor.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return gradients[0] / ctx.world, None


class RankReducer:
    """The reducer of one rank among several."""

    def __init__(self, owner: RankWorld) -> None:
        self.rank, self.world = owner.rank, owner.size
        self._owner = owner

    def sum(self, tensor: Tensor) -> Tensor:
        """Return the sum over ranks."""
        with self._owner.guarded():
            summed: Tensor = _GlobalSum.apply(tensor)
        return summed

    def share(self, tensor: Tensor) -> Tensor:
        """Return a term that every rank computes alike, with a gradient that counts once over all ranks."""
        shared: Tensor = _Share.apply(tensor, self.world)
        return shared


class RankWorld:
    """One of several ranks that torchrun started; made by `join_world`."""

    def __init__(self, store: dist.Store, rank: int, size: int, timeout: timedelta) -> None:
        self.rank, self.size = rank, size
        self.reducer: Reducer = RankReducer(self)
        self._store, self._timeout = store, timeout
        self._step = self._calls = 0

    def combine(self, parameters: Sequence[Tensor], flags: Sequence[float]) -> list[float]:
        """Add up gradients over ranks in place; return the sums of the flags.

        A parameter that had no part in this rank's loss counts as zero. One flat buffer is one message, and its order
        of summation is always the same.
        """
        with self.guarded():
            parts = [p.grad.reshape(-1) if p.grad is not None else p.new_zeros(p.numel()) for p in parameters]
            flat = torch.cat([*parts, parts[0].new_tensor(list(flags))])
            dist.all_reduce(flat)
        place = 0
        for parameter in parameters:
            parameter.grad = flat[place : place + parameter.numel()].view_as(parameter)
            place += parameter.numel()
        return [float(x) for x in flat[place:]]

    def sum(self, tensor: Tensor) -> Tensor:
        """Return the sum over ranks."""
        with self.guarded():
            summed = tensor.clone()
            dist.all_reduce(summed)
        return summed

    def publish(self, key: str, text: str) -> None:
        """Publish a text to all ranks, once for each key."""
        self._store.set(key, text)

    def receive(self, key: str) -> str:
        """Wait for a text of rank 0 and return it."""
        began = time.monotonic()
        try:
            self._store.wait([key], self._timeout)
        except RuntimeError as problem:
            raise self.lost(time.monotonic() - began, str(problem).splitlines()[0]) from problem
        return self._store.get(key).decode()

    def note_step(self, step: int) -> None:
        """Note the step, for messages about lost ranks."""
        self._step = step

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Return a context for a collective: it counts the call and turns a failure into `LostRankError`."""
        self._calls += 1
        began = time.monotonic()
        try:
            self._store.set(f"calls/{self.rank}", str(self._calls))
            yield
        except RuntimeError as problem:
            raise self.lost(time.monotonic() - began, str(problem).splitlines()[0]) from problem

    def lost(self, waited: float, why: str) -> LostRankError:
        """Build the error for a rank that does not answer; ranks that made fewer calls are named."""
        hangs = waited >= 0.9 * self._timeout.total_seconds()
        behind = [str(rank) for rank in range(self.size) if rank != self.rank and self._called(rank) < self._calls]
        who = f"rank {', '.join(behind)}" if behind else "another rank"
        what = f"did not answer for {waited:.0f} s" if hangs else "died"
        error = LostRankError(
            f"{who} {what} in step {self._step + 1:,} (seen by rank {self.rank}: {why[:200]})",
            do="check that process and its machine, then type the same command again: it resumes from the checkpoint",
        )
        error.hangs = hangs
        return error

    def _called(self, rank: int) -> int:
        key = f"calls/{rank}"
        try:
            return int(self._store.get(key)) if self._store.check([key]) else 0
        except RuntimeError:  # the store was on the machine that is lost
            return 0


def in_torchrun() -> bool:
    """Return whether this process is a rank that torchrun (or the like) started."""
    return "RANK" in os.environ and "WORLD_SIZE" in os.environ and "MASTER_ADDR" in os.environ


@contextmanager
def join_world(timeout_seconds: float, device: str = "cpu") -> Iterator[World]:
    """Return a context with the world of this process: all ranks under torchrun, else one process."""
    if not in_torchrun():
        yield LocalWorld()
        return
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    timeout = timedelta(seconds=timeout_seconds)
    is_master = rank == 0 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE", "False") != "True"
    host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    store = dist.TCPStore(host, port, world_size=None, is_master=is_master, timeout=timeout, multi_tenant=True)
    # The launcher's store outlives a restart, and a process may train several runs: each has its own names in it.
    prefix = f"attempt-{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}/run-{next(_RUNS)}"
    backend = "nccl" if device.startswith("cuda") else "gloo"
    dist.init_process_group(
        backend, store=dist.PrefixStore(f"{prefix}/group", store), rank=rank, world_size=size, timeout=timeout
    )
    try:
        yield RankWorld(dist.PrefixStore(f"{prefix}/ours", store), rank, size, timeout)
    finally:
        dist.destroy_process_group()
