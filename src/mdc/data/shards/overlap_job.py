"""The job ``mdc overlap``: the images of a test set that are also in a corpus's training split, by their bytes or as photos.

Writes ``overlap.json``: ``images``, their number in the test set, and ``seen``, a row for each that was trained on: its number in
its split, its key, the key of the training image, and the bits in which their difference hashes differ (None: equal bytes).
"""

from mdc.data.shards.image_hashes import find, read_hashes
from mdc.data.shards.index import ShardReader
from mdc.plan.jobs.call import Call, write_made
from mdc.plan.jobs.model import OverlapJob
from mdc.plan.records import write_json

OVERLAP = "overlap.json"
_OPEN = 64  # shards at once


def main(call: Call) -> None:
    """Run the job: ``call.job`` is a :class:`mdc.plan.jobs.model.OverlapJob`."""
    job: OverlapJob = call.job
    named = (f"data/corpora/{job.corpus}", "train"), (job.test, job.split)
    training, test = (ShardReader(call.input(name), split, most=_OPEN) for name, split in named)
    hashed, tested = (
        read_hashes(call.input(name).parent, reader.index, split)
        for (name, split), reader in zip(named, (training, test), strict=True)
    )
    matches = find(hashed, tested, lambda number: training.read(number)[1], lambda number: test.read(number)[1])
    seen = [
        {"number": number, "key": test.read(number)[0], "training": training.read(other)[0], "bits": bits}
        for number, (other, bits) in matches.items()
    ]
    path = call.out / OVERLAP
    write_json(path, {"kind": "overlap", "images": len(test), "seen": seen})
    write_made(call, [path])
