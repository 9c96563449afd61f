"""SugarCrepe (Hsieh et al., 2023): a caption of a COCO val2017 image against a fluent, false one.

Format: one JSON object a task, ``{"0": {"filename", "caption", "negative_caption"}, …}``; numbers can be left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mdc.formats.annotations import field
from mdc.formats.folders import NamedImages, dataset_folder, existing_file, existing_folder
from mdc.formats.samples import ChoiceSample, Skipped
from mdc.records import UserError, read_json

Source = Mapping[str, Any]
TASKS = ("add_att", "add_obj", "replace_att", "replace_obj", "replace_rel", "swap_att", "swap_obj")


def samples(source: Source, data_dir: Path, skipped: Skipped) -> Iterator[ChoiceSample]:
    """The items of ``task`` in the order of the file; an item whose image is missing is left out and counted."""
    task = source["task"]
    if task not in TASKS:
        raise UserError(f"task {task!r} is none of SugarCrepe's; allowed: {', '.join(TASKS)}")
    path = dataset_folder(source, data_dir) / f"{task}.json"
    items = read_json(existing_file(path, source["dataset"]))
    images = NamedImages(existing_folder(Path(data_dir) / source["images"], "mscoco"), skipped)
    for number, (name, item) in enumerate(items.items()):
        if not isinstance(item, dict):
            raise UserError(f"{path}, item {name}: is no object; is it the published file?")
        file = field(item, "filename", str, path, name)
        options = tuple(field(item, key, str, path, name) for key in ("caption", "negative_caption"))
        key = f"{number:08d}"
        if (found := images.read(key, file)) is not None:
            yield ChoiceSample(key, *found, options=options, group=task, id=name)
