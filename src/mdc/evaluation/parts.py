"""Long evaluations in parts: each part is kept as soon as it is done, and several processes share them.

A part's file is named by a hash of all that decides it, so a killed job resumes with the parts that are missing, and a
part of another model, other data or other code is never met.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import torch

from mdc.plan.config.caption import Captioning
from mdc.plan.config.score import Scoring
from mdc.plan.jobs.call import Call
from mdc.plan.processes.group import Group, local_rank
from mdc.plan.records import UserError, clear_leftovers, read_json, sha256_json, write_text
from mdc.training.device import choose_device

Part = TypeVar("Part", bound=Sequence[int])


def ranges(count: int, size: int) -> list[range]:
    """The numbers below ``count`` in parts of ``size``; the last can be shorter."""
    return [range(start, min(start + size, count)) for start in range(0, count, size)]


def sharded(
    call: Call,
    group: Group,
    parts: Sequence[Part],
    do: Callable[[Part], Any],
    identity: Mapping[str, Any],
    what: str = "",
) -> list[Any]:
    """``do`` of every part as JSON values, in order; every process of ``group`` does its share and gets all of them.

    ``identity`` with the part's numbers decides its result. ``what`` is shown behind the job's name.
    """
    from mdc.plan.progress import progress

    cache, title = call.cache, f"{call.job.job} {what}".strip()
    keys = [sha256_json({**identity, "what": what, "part": list(part)}) for part in parts]
    files = [cache / key[:2] / f"{key}.json" for key in keys]
    own = range(group.rank, len(parts), group.world)
    for place in progress(own, desc=title, unit="part", disable=group.rank != 0, mininterval=1):
        if _read(files[place]) is None:
            files[place].parent.mkdir(parents=True, exist_ok=True)
            clear_leftovers(files[place].parent, files[place].name)
            write_text(files[place], json.dumps({"part": do(parts[place])}, allow_nan=True))
    group.gather_objects(group.rank)  # all parts are there
    found = [_read(file) for file in files]
    if any(one is None for one in found):
        raise UserError(f"{cache}: a part of {title} is gone; was the folder emptied meanwhile? Start the job again")
    return [one["part"] for one in found if one is not None]


def _read(path: Path) -> dict[str, Any] | None:
    """A part that is complete, None otherwise."""
    try:
        found = read_json(path) if path.is_file() else None
    except UserError:
        return None
    return found if found is not None and "part" in found else None


def device_of(how: Scoring | Captioning) -> torch.device:
    """The device of this process, which computes with as many threads as ``how`` says."""
    torch.set_num_threads(how.threads)
    return choose_device(how.device, local_rank())


def identity_of(fingerprint: str, weights: Any, how: Scoring | Captioning, device: torch.device) -> dict[str, Any]:
    """What decides every part of an evaluation besides its data, however many processes share them."""
    return {
        "code": fingerprint,
        "weights": weights,
        "scoring": how.model_dump(mode="json", exclude={"processes"}),
        "device": device.type,
        "torch": torch.__version__,
    }
