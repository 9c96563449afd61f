"""In words: how the configuration that a job was done with differs from what is asked of it now."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from mdc.checks.place import Place, read

_ABSENT = object()


def leaves(old: Any, new: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """(path, old value, new value) of every leaf that differs; a missing one is ``_ABSENT``. Lists of values are leaves, and so
    are lists of parts of which there are now more or fewer."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in [*old, *(key for key in new if key not in old)]:
            yield from leaves(old.get(key, _ABSENT), new.get(key, _ABSENT), f"{path}.{key}" if path else str(key))
    elif _parts(old) and _parts(new) and len(old) == len(new):
        for number, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from leaves(one, other, f"{path}[{number}]")
    elif old != new:
        yield path, old, new


def what_changed(place: Place, job: str, done_with: Mapping[str, Any]) -> str:
    """The first value that differs, or that the code does; where a hash differs, what is behind the hash.

    ``done_with``: the configuration that the job's record holds.
    """
    changed = list(leaves(done_with, place.jobs[job].config()))
    asked = {one.sha256: name for name, one in place.jobs.items()}
    behind = [asked[new] for _, _, new in changed if isinstance(new, str) and new in asked]
    for other in behind:  # it was the cause
        if (found := _of_record(place, other)) is not None:
            return found
    values = [leaf for leaf in changed if leaf[0] != "fingerprint" and not _hashes(*leaf[1:])]
    if values:
        path, old, new = values[0]
        more = f" (and {len(values) - 1} more)" if len(values) > 1 else ""
        return f"of {job}, {path} was {_shown(old)} and is now {_shown(new)}{more}"
    if any(path == "fingerprint" for path, _, _ in changed):
        return f"the code of {job} changed"
    # done anew since, so that nothing tells any more how it was done before
    return (
        f"{behind[0]}, behind {job}, is asked for in another way" if behind else f"the configuration of {job} changed"
    )


def _of_record(place: Place, job: str) -> str | None:
    config = read(place.record(job)).get("config")
    return None if config in (None, place.jobs[job].config()) else what_changed(place, job, config)


def _parts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, Mapping) for one in value)


def _hashes(*values: Any) -> bool:
    """Whether a value was, and is, the hash of something, or is not there."""
    return all(one is _ABSENT or (isinstance(one, str) and re.fullmatch("[0-9a-f]{64}", one)) for one in values)


def _shown(value: Any) -> str:
    text = "absent" if value is _ABSENT else repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
