"""Fair timing on a shared machine: variants take turns in one process, and CPU time is counted, not wall time.

What a neighbour does to the caches and the memory still shows in CPU time, always as more of it. So the least of many
rounds counts: it is the round that was disturbed least, for every variant alike.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

__all__ = ["interleaved"]

SHORTEST = 5e-3  # s; shorter calls are repeated inside a round, so that the clock's grain does not matter


def interleaved(variants: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Return the least process CPU seconds of a call of each variant.

    Parameters
    ----------
    variants : callables without arguments; each is called once beforehand to warm up
    rounds : how often every variant gets its turn
    """
    repeats = {name: _repeats(call) for name, call in variants.items()}
    durations: dict[str, list[float]] = {name: [] for name in variants}
    for _ in range(rounds):
        for name, call in variants.items():
            started = time.process_time()
            for _ in range(repeats[name]):
                call()
            durations[name].append((time.process_time() - started) / repeats[name])
    return {name: min(seconds) for name, seconds in durations.items()}


def _repeats(call: Callable[[], object]) -> int:
    call()
    call()
    started = time.process_time()
    call()
    return max(1, round(SHORTEST / max(time.process_time() - started, 1e-7)))
