"""In words: how the configuration that a job was done with differs from what is asked of it now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from mdc.provenance.place import Place
from mdc.records import UserError, read_json

_ABSENT = object()


def leaves(old: Any, new: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """(path, old value, new value) of every leaf that differs; a missing one is ``_ABSENT``. Lists are leaves."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in [*old, *(key for key in new if key not in old)]:
            yield from leaves(old.get(key, _ABSENT), new.get(key, _ABSENT), f"{path}.{key}" if path else str(key))
    elif old != new:
        yield path, old, new


def what_changed(place: Place, job: str, done_with: Mapping[str, Any]) -> str:
    """The first value that differs, or that the code does; where only a hash differs, what is behind the hash.

    ``done_with``: the configuration that the job's record holds.
    """
    changed = list(leaves(done_with, place.jobs[job].config()))
    for path, _, _ in changed:  # what is behind a hash comes first: it was the cause
        other = _behind(done_with, path)
        if other is not None and other in place.jobs:
            found = _of_record(place, other)
            if found is not None:
                return found
    values = [leaf for leaf in changed if leaf[0] != "fingerprint" and _behind(done_with, leaf[0]) is None]
    if values:
        path, old, new = values[0]
        more = f" (and {len(values) - 1} more)" if len(values) > 1 else ""
        return f"of {job}, {path} was {_shown(old)} and is now {_shown(new)}{more}"
    if any(path == "fingerprint" for path, _, _ in changed):
        return f"the code of {job} changed"
    return f"the configuration of {job} changed" + (f" ({changed[0][0]})" if changed else "")


def _of_record(place: Place, job: str) -> str | None:
    try:
        config = read_json(place.record(job))["config"]
    except (UserError, KeyError):
        return None
    return None if config == place.jobs[job].config() else what_changed(place, job, config)


def _behind(config: Mapping[str, Any], path: str) -> str | None:
    """The job whose configuration a value of ``config`` is the hash of."""
    if path == "run_config_sha256":
        return config.get("run")
    return path.removeprefix("expected.") if path.startswith("expected.") else None


def _shown(value: Any) -> str:
    text = "absent" if value is _ABSENT else repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
