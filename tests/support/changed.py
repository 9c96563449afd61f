"""One value of a scale changed or taken away."""

import copy
from collections.abc import Sequence
from typing import Any

GONE: Any = object()  #: in the place of a value: the key is not there


def put(values: dict[str, Any], path: Sequence[str | int] | str, to: Any) -> dict[str, Any]:
    """``values`` itself, with ``to`` at ``path``, which may be written "a.0.b"; None takes the key away."""
    if isinstance(path, str):
        path = [int(step) if step.isdigit() else step for step in path.split(".")]
    place: Any = values
    for step in path[:-1]:
        place = place[step]
    if to is None:
        del place[path[-1]]
    else:
        place[path[-1]] = to
    return values


def with_other(values: dict[str, Any], path: Sequence[str | int], to: Any) -> dict[str, Any]:
    """``values`` with ``to`` at ``path``, or with nothing there: a copy of what lies on the way alone, as one of all is slow."""
    changed = copy.copy(values)
    inner: Any = changed
    for step in path[:-1]:
        inner[step] = copy.copy(inner[step])
        inner = inner[step]
    if to is GONE:
        del inner[path[-1]]
    else:
        inner[path[-1]] = to
    return changed
