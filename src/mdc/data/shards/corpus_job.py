"""The job ``mdc corpus``: a source of captioned images as webdataset shards with a manifest.

Of shards that other jobs have written as parts it is the manifest alone, which names them where they lie. Nested corpora share
their parts so. A part of which a corpus takes the beginning alone it writes itself, the largest of them too.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mdc.data.formats.samples import skipped_list
from mdc.data.shards.caption_statistics import CaptionStatistics
from mdc.data.shards.corpus import corpus_index, write_corpus
from mdc.data.shards.index import INDEX, PARTS
from mdc.data.shards.part import read_captions, write_part
from mdc.data.shards.parts import read_parts
from mdc.data.shards.set_job import note, sharding, source_of, splits_of
from mdc.data.shards.writer import SKIPPED, begin, finish, no_key_twice, split_of
from mdc.data.sources.cleaned import InParts
from mdc.data.sources.source import open_corpus
from mdc.plan.data_folder import data_folder
from mdc.plan.jobs.call import Call
from mdc.plan.records import UserError, write_json


def main(call: Call) -> None:
    """Run the job: ``call.job`` is a :class:`mdc.plan.jobs.model.CorpusJob`."""
    source = open_corpus(source_of(call), data_folder())
    splits, context_length = splits_of(source_of(call)), call.job.protocol.context_length
    if groups := [path for job, path in call.given.items() if job.startswith("data/parts/")]:
        if not isinstance(source, InParts):
            raise AssertionError(f"{call.job.job}: a source of this kind has no parts")
        more: dict[str, Any] = {"max_skipped": call.job.max_skipped, "context_length": context_length, "splits": splits}
        join_parts(call.job.name, source, call.out, groups, **more)
    else:
        write_corpus(call.job.name, source, call.out, context_length=context_length, splits=splits, **sharding(call))
    note(call)


def join_parts(
    name: str,
    source: InParts,
    out_dir: Path,
    groups: Sequence[Path],
    *,
    max_skipped: float,
    context_length: int,
    splits: Sequence[str],
) -> dict[str, Any]:
    """Write the index of a corpus (also returned) from those of ``groups`` of parts; errors as ``write_corpus``.

    UserError too if the groups lack a part, or lie elsewhere than beside the corpora.
    """
    older = begin(out_dir)
    there = _entries(groups, out_dir)
    statistics = {split: CaptionStatistics(context_length) for split in splits}
    keys = {split: array("Q") for split in splits}
    shards: dict[str, list[dict[str, Any]]] = {split: [] for split in splits}
    with skipped_list(out_dir / SKIPPED) as skipped:
        for part in range(source.parts):
            if source.is_partial(part):
                folder, prefix = out_dir, ""
                entry = write_part(source, part, splits, out_dir, context_length)
            elif part in there:
                folder, entry = there[part]
                prefix = PARTS + folder.name + "/"
            else:
                raise UserError(f"{name}: part {part} was not written by any job; rerun")
            for split, shard in entry["splits"].items():
                shards[split].append(_placed(shard, prefix))
            read_captions(folder, entry, statistics, keys)
            if "skipped_list" in entry:
                with (folder / entry["skipped_list"]["file"]).open(encoding="utf-8") as lines:
                    skipped.join(lines)
    for pattern in ("captions-*.safetensors", "skipped-*.jsonl"):  # of a part written here; it is in the index now
        for path in out_dir.glob(pattern):
            path.unlink()
    for split, listed in shards.items():
        no_key_twice(name, split, keys[split], out_dir, listed)
    found = finish(
        name, out_dir, {split: split_of(listed) for split, listed in shards.items()}, skipped, max_skipped, older
    )
    index = corpus_index(name, source, found, statistics)
    write_json(out_dir / INDEX, index)
    return index


def _entries(groups: Sequence[Path], out_dir: Path) -> dict[int, tuple[Path, dict[str, Any]]]:
    """Of each part that was written, its folder and entry."""
    found = {}
    for path in groups:
        folder = path.parent.parent
        if folder.resolve() != (out_dir / PARTS / folder.name).resolve():
            raise UserError(f"{path}: lies elsewhere than {out_dir / PARTS}; corpora name their parts from beside them")
        for entry in read_parts(path)["parts"]:
            found[entry["part"]] = folder, entry
    return found


def _placed(shard: dict[str, Any], prefix: str) -> dict[str, Any]:
    """A shard as the corpus's index names it."""
    offsets = {**shard["offsets"], "file": prefix + shard["offsets"]["file"]}
    return {**shard, "file": prefix + shard["file"], "offsets": offsets}
