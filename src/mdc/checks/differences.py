"""How the configuration in a job's record differs from its current one, in words."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from mdc.checks.place import Place, read

_ABSENT = object()


def leaves(old: Any, new: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """(path, old value, new value) of every leaf that differs; a missing one is ``_ABSENT``. A list of values is a leaf; so is a
    list of mappings whose length changed."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in [*old, *(key for key in new if key not in old)]:
            yield from leaves(old.get(key, _ABSENT), new.get(key, _ABSENT), f"{path}.{key}" if path else str(key))
    elif _parts(old) and _parts(new) and len(old) == len(new):
        for number, (old_part, new_part) in enumerate(zip(old, new, strict=True)):
            yield from leaves(old_part, new_part, f"{path}[{number}]")
    elif old != new:
        yield path, old, new


def what_changed(place: Place, job: str, done_with: Mapping[str, Any]) -> str:
    """The first value that differs, or the code; where the hash of an input job differs, what changed in that job.

    ``done_with``: the configuration in the job's record.
    """
    changed = list(leaves(done_with, place.jobs[job].config()))
    jobs_by_hash = {job_now.sha256: name for name, job_now in place.jobs.items()}
    inputs = [jobs_by_hash[new] for _, _, new in changed if isinstance(new, str) and new in jobs_by_hash]
    for input_job in inputs:
        if (cause := _of_record(place, input_job)) is not None:
            return cause
    values = [leaf for leaf in changed if leaf[0] != "fingerprint" and not _hashes(*leaf[1:])]
    if values:
        path, old, new = values[0]
        more = f" (and {len(values) - 1} more)" if len(values) > 1 else ""
        return f"of {job}, {path} was {_shown(old)} and is now {_shown(new)}{more}"
    if any(path == "fingerprint" for path, _, _ in changed):
        return f"the code of {job} changed"
    # the input was rerun since, so its old configuration is lost
    return f"{inputs[0]}, behind {job}, has a new configuration" if inputs else f"the configuration of {job} changed"


def _of_record(place: Place, job: str) -> str | None:
    config = read(place.record(job)).get("config")
    return None if config in (None, place.jobs[job].config()) else what_changed(place, job, config)


def _parts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(part, Mapping) for part in value)


def _hashes(*values: Any) -> bool:
    """Whether each value is a sha256 or absent."""
    return all(value is _ABSENT or (isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value)) for value in values)


def _shown(value: Any) -> str:
    text = "absent" if value is _ABSENT else repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
