"""Long evaluations in parts: each part is kept as soon as it is done, and several processes share them.

A part's file is named by a hash of all inputs, so a killed job resumes with the missing parts, and never reads a part of
another model, other data or other code.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import torch

from mdc.plan.config.decoding import Captioning
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
    label: str = "",
) -> list[Any]:
    """``do`` of every part as JSON values, in order; every process of ``group`` does its share and gets all of them.

    A result depends on ``identity`` and the part's numbers alone. ``label`` follows the job's name in the progress bar.
    """
    from mdc.plan.progress import progress

    cache, title = call.cache, f"{call.job.job} {label}".strip()
    keys = [sha256_json({**identity, "what": label, "part": list(part)}) for part in parts]
    files = [cache / key[:2] / f"{key}.json" for key in keys]
    own = range(group.rank, len(parts), group.world)
    for place in progress(own, desc=title, unit="part", disable=group.rank != 0, mininterval=1):
        if _read(files[place]) is None:
            files[place].parent.mkdir(parents=True, exist_ok=True)
            clear_leftovers(files[place].parent, files[place].name)
            write_text(files[place], json.dumps({"part": do(parts[place])}, allow_nan=True))
    group.gather_objects(group.rank)  # wait for all parts
    results = [_read(file) for file in files]
    if any(result is None for result in results):
        raise UserError(f"{cache}: a part of {title} is gone; was the folder emptied meanwhile? Start the job again")
    return [result["part"] for result in results if result is not None]


def _read(path: Path) -> dict[str, Any] | None:
    """The content of a complete part, else None."""
    try:
        content = read_json(path) if path.is_file() else None
    except UserError:
        return None
    return content if content is not None and "part" in content else None


def device_of(config: Scoring | Captioning) -> torch.device:
    """The device of this process; sets the number of threads."""
    torch.set_num_threads(config.threads)
    return choose_device(config.device, local_rank())


def identity_of(fingerprint: str, weights: Any, config: Scoring | Captioning, device: torch.device) -> dict[str, Any]:
    """All that results depend on besides the data; not the number of processes."""
    return {
        "code": fingerprint,
        "weights": weights,
        "scoring": config.model_dump(mode="json", exclude={"processes"}),
        "device": device.type,
        "torch": torch.__version__,
    }
