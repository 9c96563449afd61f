"""The job ``mdc corpus``: a source of captioned images as webdataset shards with an index.

If other jobs have written the corpus's parts, it writes only the index, which refers to their shards: so nested corpora share
their parts. A part of which a corpus takes only the beginning is written by the corpus's own job.
"""

from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mdc.data.formats.samples import skipped_list
from mdc.data.shards.caption_statistics import CaptionStatistics
from mdc.data.shards.corpus import corpus_index, write_corpus
from mdc.data.shards.image_hashes import write_hashes
from mdc.data.shards.index import INDEX, PARTS
from mdc.data.shards.parts import read_captions, read_parts, write_part
from mdc.data.shards.set_job import note, sharding, source_of, splits_of
from mdc.data.shards.writer import SKIPPED, begin, check_unique_keys, finish, repeated_images, split_of
from mdc.data.sources.cleaned import InParts
from mdc.data.sources.source import open_corpus
from mdc.plan.data_folder import data_folder
from mdc.plan.jobs.call import Call
from mdc.plan.records import UserError, write_json


def main(call: Call) -> None:
    """Run the job: ``call.job`` is a :class:`mdc.plan.jobs.model.CorpusJob`."""
    source = open_corpus(source_of(call), data_folder())
    splits, context_length = splits_of(source_of(call)), call.job.protocol.context_length
    if groups := [path for job, path in call.manifests.items() if job.startswith("data/parts/")]:
        if not isinstance(source, InParts):
            raise AssertionError(f"{call.job.job}: a source of this kind has no parts")
        settings: dict[str, Any] = {
            "max_skipped": call.job.max_skipped,
            "context_length": context_length,
            "splits": splits,
        }
        join_parts(call.job.name, source, call.out, groups, **settings)
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
    """Write the index of a corpus (also returned) from the indexes of ``groups`` of parts; errors as ``write_corpus``.

    UserError also if a part is missing, or if the groups are not in the folder of parts beside the corpora.
    """
    begin(out_dir)
    entries = _entries(groups, out_dir)
    statistics = {split: CaptionStatistics(context_length) for split in splits}
    keys, images, looks = ({split: array("Q") for split in splits} for _ in range(3))
    shards: dict[str, list[dict[str, Any]]] = {split: [] for split in splits}
    with skipped_list(out_dir / SKIPPED) as skipped:
        for part in range(source.parts):
            if source.is_partial(part):
                folder, prefix = out_dir, ""
                entry = write_part(source, part, splits, out_dir, context_length)
            elif part in entries:
                folder, entry = entries[part]
                prefix = PARTS + folder.name + "/"
            else:
                raise UserError(f"{name}: part {part} was not written by any job; rerun")
            for split, shard in entry["splits"].items():
                shards[split].append(_placed(shard, prefix))
            skipped.captions += entry.get("captions_left_out", 0)
            read_captions(folder, entry, statistics, keys, images, looks)
            if "skipped_list" in entry:
                with (folder / entry["skipped_list"]["file"]).open(encoding="utf-8") as lines:
                    skipped.join(lines)
    for pattern in ("captions-*.safetensors", "skipped-*.jsonl"):  # of a part written here; the index has their content
        for path in out_dir.glob(pattern):
            path.unlink()
    repeated, before = dict[str, Any](), dict[str, Any]()
    for split, listed in shards.items():
        check_unique_keys(name, split, keys[split], out_dir, listed)
        if found := repeated_images(name, split, images[split], before, out_dir, listed):
            repeated[split] = found
    shard_index = finish(
        name, out_dir, {split: split_of(listed) for split, listed in shards.items()}, skipped, max_skipped
    )
    shard_index["image_hashes"] = write_hashes(out_dir, before, looks)
    index = corpus_index(name, source, shard_index | ({"repeated": repeated} if repeated else {}), statistics)
    write_json(out_dir / INDEX, index)
    return index


def _entries(groups: Sequence[Path], out_dir: Path) -> dict[int, tuple[Path, dict[str, Any]]]:
    """{part: (folder, entry)} of the parts that were written."""
    entries = {}
    for path in groups:
        folder = path.parent.parent
        if folder.resolve() != (out_dir / PARTS / folder.name).resolve():
            raise UserError(f"{path}: lies elsewhere than {out_dir / PARTS}; corpora name their parts from beside them")
        for entry in read_parts(path)["parts"]:
            entries[entry["part"]] = folder, entry
    return entries


def _placed(shard: dict[str, Any], prefix: str) -> dict[str, Any]:
    """A shard's entry with paths relative to the corpus's index."""
    offsets = {**shard["offsets"], "file": prefix + shard["offsets"]["file"]}
    return {**shard, "file": prefix + shard["file"], "offsets": offsets}
