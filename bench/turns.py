"""Time candidates in turns in one process, so that a slowdown of the machine affects all of them."""

import time
from collections.abc import Callable, Mapping
from typing import Any


def in_turns(
    candidates: Mapping[str, Callable[[], object]],
    rounds: int,
    clock: Callable[[], float] = time.perf_counter,
    warm_up: bool = True,
) -> dict[str, list[float]]:
    """Seconds of each candidate in each round, after a warm-up. Each round begins with another candidate."""
    names = list(candidates)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    if warm_up:
        for candidate in candidates.values():
            candidate()
    for number in range(rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            began = clock()
            candidates[name]()
            seconds[name].append(clock() - began)
    return seconds


def answered(candidates: Mapping[str, Callable[[], Any]], rounds: int) -> tuple[dict[str, Any], dict[str, list[float]]]:
    """The last result of each candidate, and its seconds as in ``in_turns``."""
    answers: dict[str, Any] = {}

    def keep(name: str) -> Callable[[], None]:
        return lambda: answers.update({name: candidates[name]()})

    return answers, in_turns({name: keep(name) for name in candidates}, rounds)


def rates(
    candidates: Mapping[str, Callable[[], int]], rounds: int, clock: Callable[[], float]
) -> tuple[dict[str, int], dict[str, list[float]]]:
    """The count that each candidate returns, from a warm-up call; and counts per second in each round."""
    counts = {name: candidate() for name, candidate in candidates.items()}
    times = in_turns(candidates, rounds, clock, warm_up=False)
    return counts, {name: [counts[name] / seconds for seconds in each] for name, each in times.items()}
