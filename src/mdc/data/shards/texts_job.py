"""The job ``mdc texts``: the lengths of a list's captions, without any image. Writes ``index.json``.

The captions are cleaned as for a corpus, so that a list and the corpus made of it have the same statistics. Rows that are left
out are in ``skipped.jsonl``, one per line.
"""

from pathlib import Path
from typing import Any

from mdc.data.formats.captions import clean_captions
from mdc.data.formats.samples import Skipped, skipped_list
from mdc.data.shards.caption_statistics import UNIT, CaptionLengths
from mdc.data.shards.index import INDEX
from mdc.data.shards.set_job import note, source_of
from mdc.data.shards.writer import SKIPPED, begin, left_out_of
from mdc.data.sources.source import Source, open_texts
from mdc.models.text import clip_pieces
from mdc.plan.data_folder import data_folder
from mdc.plan.jobs.call import Call
from mdc.plan.progress import progress
from mdc.plan.records import UserError, write_json

SPLIT = "all"


def main(call: Call) -> None:
    """Run the job: ``call.job`` is a :class:`mdc.plan.jobs.model.TextsJob`."""
    source = open_texts(source_of(call), data_folder())
    write_texts(call.job.name, source, call.out, call.job.protocol.context_length)
    note(call)


def write_texts(name: str, source: Source[list[str]], out_dir: str | Path, context_length: int) -> dict[str, Any]:
    """Count the captions of ``source``, write the index into ``out_dir`` and return it.

    The index has ``captions`` like a corpus's, with one split "all" (histogram of CLIP tokens, without SOT and EOT).
    UserError if there is no caption at all.
    """
    out = Path(out_dir)
    begin(out)
    with skipped_list(out / SKIPPED) as skipped:
        lengths = _count_lengths(source, context_length, skipped)
    summary = lengths.summary()
    if not summary["count"]:
        raise UserError(f"{name}: {source.config['path']} has no caption ({skipped or 'no row was left out'})")
    index: dict[str, Any] = {"kind": "texts", "name": name, "source": source.config}
    index["captions"] = {"unit": UNIT, "per_split": {SPLIT: summary}}
    index |= left_out_of(skipped, out / SKIPPED)
    write_json(out / INDEX, index)
    return index


def _count_lengths(source: Source[list[str]], context_length: int, skipped: Skipped) -> CaptionLengths:
    """The lengths of a source's captions in CLIP tokens; a row without a caption is added to ``skipped``."""
    lengths = CaptionLengths(context_length)
    mode, most = source.config["caption_mode"], source.config["max_pieces"]
    rows = progress(source.samples(SPLIT, skipped), desc=f"{source.config['path']}", unit=" rows")
    for number, texts in enumerate(rows):
        counts = [len(clip_pieces(text)) for text in clean_captions(texts, mode, most, skipped)]
        lengths.lengths.update(counts)
        if not counts:
            skipped.add("no caption", f"row {number}", detail=repr(texts[0]) if texts else "")
    return lengths
