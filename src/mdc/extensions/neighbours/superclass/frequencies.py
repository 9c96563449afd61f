"""The job ``mdc frequencies``: in how many training captions of a corpus each token occurs (its document frequency).

Writes ``frequencies.json``: ``captions``, their number, and ``pieces`` {CLIP token id: captions}, of truncated captions.
Captions are read one by one, so a corpus may be larger than memory.
"""

from collections import Counter
from pathlib import Path
from typing import Any

from mdc.data.shards.index import ShardReader
from mdc.models.text import clip_pieces
from mdc.plan.jobs.call import Call, write_made
from mdc.plan.progress import progress
from mdc.plan.records import write_json

FREQUENCIES = "frequencies.json"


def main(call: Call) -> None:
    """Run the job: ``call.job`` is a :class:`mdc.extensions.neighbours.jobs.FrequenciesJob`."""
    (corpus,) = call.manifests.values()
    path = call.out / FREQUENCIES
    write_json(path, document_frequencies(corpus, call.job.protocol.context_length))
    write_made(call, [path])


def document_frequencies(corpus: Path, context_length: int) -> dict[str, Any]:
    """The content of ``frequencies.json`` for the corpus whose index is ``corpus``."""
    reader, most = ShardReader(corpus, "train"), context_length - 2
    captions, frequencies = 0, Counter[int]()
    for number in progress(range(len(reader)), desc="captions counted", unit="samples"):
        _, _, record = reader.read(number)
        captions += len(record["captions"])
        for caption in record["captions"]:
            frequencies.update(set(clip_pieces(caption)[:most]))
    return {"captions": captions, "pieces": {str(piece): frequencies[piece] for piece in sorted(frequencies)}}
