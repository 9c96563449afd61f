"""Several ways of one task, measured in turns in one process, so that whatever slows the machine down slows all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping


def in_turns(
    ways: Mapping[str, Callable[[], object]],
    rounds: int,
    clock: Callable[[], float] = time.perf_counter,
    warm_up: bool = True,
) -> dict[str, list[float]]:
    """Seconds of each way in each of ``rounds`` rounds. Each round begins with another way; one before them warms up."""
    names = list(ways)
    found: dict[str, list[float]] = {name: [] for name in names}
    if warm_up:
        for way in ways.values():
            way()
    for number in range(rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            began = clock()
            ways[name]()
            found[name].append(clock() - began)
    return found
