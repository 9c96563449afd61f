"""The job ``mdc encode-corpus``: the tokens that a frozen encoder makes of a corpus's images, computed once.

Writes an array (N, M, E) float16 for each shard, and last ``encoded.json``, which binds each to its shard by hash. Arrays that
are there are kept, so a killed job resumes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

from mdc.config import FrozenTokens
from mdc.encoders.tower import Tower
from mdc.jobs.call import Call, record
from mdc.jobs.encoder_model import EncodedJob, EncoderJob
from mdc.jobs.read import as_job
from mdc.loader.batches import corpus_images
from mdc.predictors.towers import read_tower
from mdc.records import atomic_path, clear_leftovers, read_json, sha256_file, sha256_json, write_json
from mdc.shards.index import read_index
from mdc.training.device import choose_device


def main(call: Call) -> None:
    """Run the job. ``call.job``: a :class:`mdc.jobs.encoder_model.EncodedJob`."""
    job: EncodedJob = call.job
    torch.set_num_threads(job.encode.threads)
    device = choose_device(job.encode.device)
    made = call.input(job.encoder)
    brought: EncoderJob = as_job(read_json(made)["config"], "import-encoder", str(made))
    entry = brought.entry
    asked = FrozenTokens(
        job=job.encoder,
        config_sha256=job.encoder_config_sha256,
        image_size=entry.image_size,
        tokens=entry.tokens,
        width=entry.width,
    )
    tower = read_tower(made, asked).to(device)
    corpus = call.input(f"data/corpora/{job.corpus}")
    index = read_index(corpus, verify="auto", kind="corpus")
    identity = sha256_json(
        {
            "encoder": sha256_file(made),
            "shards": {split: [one["sha256"] for one in _shards(index, split)] for split in job.splits},
            "device": device.type,
            **{"encode": job.encode.model_dump(mode="json"), "torch": torch.__version__, "code": job.fingerprint},
        }
    )
    clear_leftovers(call.out)
    call.out.mkdir(parents=True, exist_ok=True)
    done = _Done(call.out / "done.jsonl", identity)
    splits = {
        split: _encode(tower, corpus, index, split, entry.image_size, job.encode.batch, device, done)
        for split in job.splits
        if _shards(index, split)
    }
    # the arrays stand under splits, with their shards: a corpus can have thousands
    shape = {"tokens": entry.tokens, "width": entry.width}
    write_json(call.out / "encoded.json", record(call, "encoded", []) | shape | {"splits": splits})
    done.file.unlink(missing_ok=True)


class _Done:
    """The arrays of an unfinished job that are whole, with their hashes; those of another job do not count."""

    def __init__(self, file: Path, identity: str) -> None:
        self.file, self.identity = file, identity
        self.known: dict[str, str] = {}
        lines = file.read_text().splitlines() if file.exists() else []
        if lines and lines[0] == identity:
            for line in lines[1:]:
                try:
                    self.known |= json.loads(line)
                except ValueError:  # cut short when the job was killed
                    break
        else:
            file.write_text(identity + "\n")

    def sha256(self, path: Path) -> str | None:
        """The hash of an array that is there as it was written."""
        known = self.known.get(path.name)
        return known if known is not None and path.is_file() and sha256_file(path) == known else None

    def add(self, path: Path) -> str:
        found = sha256_file(path)
        with self.file.open("a") as file:
            file.write(json.dumps({path.name: found}) + "\n")
        return found


def _shards(index: Mapping[str, Any], split: str) -> list[Any]:
    return list(index["splits"].get(split, {}).get("shards", []))


@torch.no_grad()
def _encode(
    tower: Tower,
    corpus: Path,
    index: Mapping[str, Any],
    split: str,
    image_size: int,
    batch: int,
    device: torch.device,
    done: _Done,
) -> list[dict[str, Any]]:
    """The arrays of a split, a line each."""
    found = []
    start = 0
    shards = _shards(index, split)
    bar = tqdm(total=sum(shard["samples"] for shard in shards), desc=f"encode {split}", unit="image")
    for number, shard in enumerate(shards):
        count = int(shard["samples"])
        path = done.file.parent / f"{split}-{number:06d}.npy"
        known = done.sha256(path)
        if known is None:
            images = corpus_images(
                corpus, split, image_size=image_size, batch_size=batch, start=start, stop=start + count
            )
            arrays = [_tokens(tower, part.to(device)) for part in images]
            with atomic_path(path) as temporary, temporary.open("wb") as file:
                np.save(file, np.concatenate(arrays), allow_pickle=False)
            known = done.add(path)
        named = {"file": path.name, "bytes": path.stat().st_size, "sha256": known}
        found.append({**named, "shard_sha256": shard["sha256"], "samples": count})
        start += count
        bar.update(count)
    bar.close()
    return found


def _tokens(tower: Tower, images: torch.Tensor) -> np.ndarray:
    _, tokens = tower(tower.prepared(images))
    found: np.ndarray = tokens.half().cpu().numpy()
    return found
