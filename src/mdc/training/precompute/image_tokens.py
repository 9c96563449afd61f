"""The job ``mdc image-tokens``: the codes that a tokenizer makes of a corpus's images, computed once.

Writes an array (N, M) uint16 for each shard, ``codebook.npy`` (K, E) float16, the vector of each code, and last
``image_tokens.json``, which binds each array to its shard by hash and says how often codes occur.
"""

from typing import Any

import numpy as np

from mdc.models.tokenizers.vq_vae import perplexity
from mdc.plan.jobs.call import Call, record
from mdc.plan.records import atomic_path, write_json
from mdc.training.precompute.beside_shards import BesideShards

CODEBOOK = "codebook.npy"


def main(call: Call) -> None:
    """Run the job. ``call.job``: a :class:`mdc.plan.jobs.model.ImageTokensJob`."""
    work = BesideShards(call)
    tower: Any = work.tower
    lines = work.write(lambda images: tower.codes(images).cpu().numpy().astype(np.uint16))
    codebook = call.out / CODEBOOK
    with atomic_path(codebook) as temporary, temporary.open("wb") as file:
        np.save(file, tower.tokenizer.codebook.half().cpu().numpy(), allow_pickle=False)
    counted = np.zeros(len(tower.tokenizer.codebook), dtype=np.int64)
    for line in lines.get("train", []):
        counted += np.bincount(np.load(call.out / line["file"]).ravel(), minlength=len(counted))
    statistics = {
        **{"tokens": work.entry.tokens, "width": work.entry.width, "codes": len(counted)},
        **{"used": int((counted > 0).sum()), "perplexity": perplexity(counted)},
    }
    write_json(
        call.out / "image_tokens.json", record(call, "image-tokens", [codebook]) | statistics | {"splits": lines}
    )
    work.finished()
