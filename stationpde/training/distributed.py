"""Several processes, one training run: gradients that equal one process's, and an answer to ranks that vanish.

A batch is divided over the ranks. Sums inside the loss go through a `Reducer`, gradients are added up in one flat
buffer together with the ranks' wishes to stop, so that every rank takes the same decision at the same step.
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
from stationpde.training.learner import LocalReducer, Reducer

__all__ = ["LocalWorld", "LostRankError", "RankWorld", "World", "in_torchrun", "join_world"]


_RUNS = count()


class LostRankError(ResourceError):
    """Another rank died, or hangs (``hangs``): one that died is started again, one that hangs ends the run."""

    code = "SPDE-T072"
    hangs = False


class World(Protocol):
    """All processes of a run, seen from one of them."""

    rank: int
    size: int
    reducer: Reducer

    def combine(self, parameters: Sequence[Tensor], flags: Sequence[float]) -> list[float]:
        """Add up gradients over ranks in place; the sums of the flags."""
        ...

    def sum(self, tensor: Tensor) -> Tensor:
        """The sum over ranks, without gradient."""
        ...

    def tell(self, key: str, text: str) -> None:
        """Rank 0 says something once."""
        ...

    def hear(self, key: str) -> str:
        """What rank 0 said."""
        ...

    def beat(self, step: int) -> None:
        """Note the step that begins."""
        ...


class LocalWorld:
    """A single process."""

    rank = 0
    size = 1

    def __init__(self) -> None:
        self.reducer: Reducer = LocalReducer()
        self._told: dict[str, str] = {}

    def combine(self, parameters: Sequence[Tensor], flags: Sequence[float]) -> list[float]:
        """The flags."""
        return list(flags)

    def sum(self, tensor: Tensor) -> Tensor:
        """The tensor."""
        return tensor

    def tell(self, key: str, text: str) -> None:
        """Keep it."""
        self._told[key] = text

    def hear(self, key: str) -> str:
        """What was kept."""
        return self._told[key]

    def beat(self, step: int) -> None:
        """Nobody listens."""


class _GlobalSum(torch.autograd.Function):
    """Sum over ranks; backward hands the gradient to the rank's own part (see `Reducer`)."""

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
        """The sum over ranks."""
        with self._owner.guarded():
            found: Tensor = _GlobalSum.apply(tensor)
        return found

    def share(self, tensor: Tensor) -> Tensor:
        """A term that every rank computes alike."""
        found: Tensor = _Share.apply(tensor, self.world)
        return found


class RankWorld:
    """One of several ranks that torchrun started; made by `join_world`."""

    def __init__(self, store: dist.Store, rank: int, size: int, timeout: timedelta) -> None:
        self.rank, self.size = rank, size
        self.reducer: Reducer = RankReducer(self)
        self._store, self._timeout = store, timeout
        self._step = self._calls = 0

    def combine(self, parameters: Sequence[Tensor], flags: Sequence[float]) -> list[float]:
        """Add up gradients over ranks in place; the sums of the flags.

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
        """The sum over ranks."""
        with self.guarded():
            summed = tensor.clone()
            dist.all_reduce(summed)
        return summed

    def tell(self, key: str, text: str) -> None:
        """Say something to all ranks, once."""
        self._store.set(key, text)

    def hear(self, key: str) -> str:
        """Wait for what rank 0 says."""
        began = time.monotonic()
        try:
            self._store.wait([key], self._timeout)
        except RuntimeError as problem:
            raise self.lost(time.monotonic() - began, str(problem).splitlines()[0]) from problem
        return self._store.get(key).decode()

    def beat(self, step: int) -> None:
        """Note the step, for messages."""
        self._step = step

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Around a collective: says that this rank has come so far, and turns failure into an error with a name."""
        self._calls += 1
        began = time.monotonic()
        try:
            self._store.set(f"calls/{self.rank}", str(self._calls))
            yield
        except RuntimeError as problem:
            raise self.lost(time.monotonic() - began, str(problem).splitlines()[0]) from problem

    def lost(self, waited: float, why: str) -> LostRankError:
        """The error for a rank that does not answer, after a look at who has fallen behind."""
        hangs = waited >= 0.9 * self._timeout.total_seconds()
        behind = [str(rank) for rank in range(self.size) if rank != self.rank and self._called(rank) < self._calls]
        who = f"rank {', '.join(behind)}" if behind else "another rank"
        what = f"did not answer for {waited:.0f} s" if hangs else "died"
        error = LostRankError(
            f"{who} {what} in step {self._step + 1:,} (seen by rank {self.rank}: {why[:200]})",
            do="look at that process and its machine, then type the same command again: it goes on from the checkpoint",
        )
        error.hangs = hangs
        return error

    def _called(self, rank: int) -> int:
        key = f"calls/{rank}"
        try:
            return int(self._store.get(key)) if self._store.check([key]) else 0
        except RuntimeError:  # the store went with the machine that is gone
            return 0


def in_torchrun() -> bool:
    """Whether this process is a rank that torchrun (or the like) started."""
    return "RANK" in os.environ and "WORLD_SIZE" in os.environ and "MASTER_ADDR" in os.environ


@contextmanager
def join_world(timeout_seconds: float, device: str = "cpu") -> Iterator[World]:
    """The world of this process: several ranks under torchrun, else itself alone."""
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
