"""One value of params.yaml changed or taken away."""

from __future__ import annotations

from typing import Any


def put(values: dict[str, Any], path: tuple[str, ...], to: Any) -> dict[str, Any]:
    """``values`` itself, with ``to`` at ``path``; None takes the key away."""
    place = values
    for step in path[:-1]:
        place = place[step]
    if to is None:
        del place[path[-1]]
    else:
        place[path[-1]] = to
    return values
