"""Several ways of one task, measured in turns in one process, so that whatever slows the machine down slows all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any


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


def answered(ways: Mapping[str, Callable[[], Any]], rounds: int) -> tuple[dict[str, Any], dict[str, list[float]]]:
    """What each way found last, and its seconds as ``in_turns`` has them."""
    found: dict[str, Any] = {}

    def kept(name: str) -> Callable[[], None]:
        return lambda: found.update({name: ways[name]()})

    return found, in_turns({name: kept(name) for name in ways}, rounds)


def rates(
    ways: Mapping[str, Callable[[], int]], rounds: int, clock: Callable[[], float]
) -> tuple[dict[str, int], dict[str, list[float]]]:
    """How many things each way does, as its first call, which warms up, says; and things a second in each round."""
    counts = {name: way() for name, way in ways.items()}
    found = in_turns(ways, rounds, clock, warm_up=False)
    return counts, {name: [counts[name] / seconds for seconds in each] for name, each in found.items()}
