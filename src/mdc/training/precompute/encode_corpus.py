"""The job ``mdc encode-corpus``: the tokens that a frozen encoder makes of a corpus's images, computed once.

Writes an array (N, M, E) float16 for each shard, for an encoder with codes
(N, M) uint16 and the codebook, and last ``encoded.json``, which binds each to its shard by hash.
"""

from mdc.plan.jobs.call import Call, record
from mdc.plan.records import write_json
from mdc.training.precompute.beside_shards import BesideShards


def main(call: Call) -> None:
    """Run the job. ``call.job``: a :class:`mdc.plan.jobs.model.EncodedJob`."""
    work = BesideShards(call)
    lines = work.write()
    # arrays are listed under splits, not outputs: a corpus can have thousands
    files, facts = work.tower.finish(call.out, lines)
    facts = {"tokens": work.entry.tokens, "width": work.entry.width, **facts}
    write_json(call.out / "encoded.json", record(call, "encoded", files) | facts | {"splits": lines})
    work.finished()
