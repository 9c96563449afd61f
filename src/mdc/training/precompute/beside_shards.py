"""Precomputed arrays of a corpus's images, one for each shard, bound to it by hash. Finished arrays are kept, so a killed job
resumes."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mdc.data.loader.center_crops import corpus_images
from mdc.data.shards.index import read_index
from mdc.models.encoders.tower import Lines, Tower, read_tower
from mdc.plan.config.kinds.backbones import FrozenTokens
from mdc.plan.jobs.call import Call
from mdc.plan.jobs.model import EncodedJob, EncoderJob
from mdc.plan.jobs.read import as_job
from mdc.plan.progress import progress
from mdc.plan.records import atomic_path, clear_leftovers, read_json, sha256_file, sha256_json
from mdc.training.device import choose_device


class BesideShards:
    """One job: ``tower`` encodes the corpus of ``index``."""

    def __init__(self, call: Call) -> None:
        self.job: EncodedJob = call.job
        self.out = call.out
        torch.set_num_threads(self.job.encode.threads)
        self.device = choose_device(self.job.encode.device)
        manifest = call.input(self.job.encoder)
        imported: EncoderJob = as_job(read_json(manifest)["config"], "import-encoder", str(manifest))
        self.entry = imported.entry
        shape = {"image_size": self.entry.image_size, "tokens": self.entry.tokens, "width": self.entry.width}
        expected = FrozenTokens(job=self.job.encoder, config_sha256=self.job.encoder_config_sha256, **shape)
        self.tower: Tower = read_tower(manifest, expected).to(self.device)
        self.corpus = call.input(f"data/corpora/{self.job.corpus}")
        self.index = read_index(self.corpus, verify="auto", kind="corpus")
        self._identity = sha256_json(
            {
                "encoder": sha256_file(manifest),
                "shards": {split: [shard["sha256"] for shard in self._shards(split)] for split in self.job.splits},
                "device": self.device.type,
                **{"encode": self.job.encode.model_dump(mode="json"), "torch": torch.__version__},
                "code": self.job.fingerprint,
            }
        )

    def write(self) -> Lines:
        """Write the arrays of all splits; call :meth:`finished` after writing their record."""
        clear_leftovers(self.out)
        self.out.mkdir(parents=True, exist_ok=True)
        done = _Done(self.out / "done.jsonl", self._identity)
        return {split: self._split(split, done) for split in self.job.splits if self._shards(split)}

    def finished(self) -> None:
        """Remove the list of finished arrays, which a resumed job would use."""
        (self.out / "done.jsonl").unlink(missing_ok=True)

    def _shards(self, split: str) -> Sequence[Mapping[str, Any]]:
        return list(self.index["splits"].get(split, {}).get("shards", []))

    @torch.no_grad()
    def _split(self, split: str, done: "_Done") -> list[dict[str, Any]]:
        arrays_written = []
        start = 0
        shards = self._shards(split)
        bar = progress(total=sum(shard["samples"] for shard in shards), desc=f"{self.job.verb} {split}", unit="image")
        for number, shard in enumerate(shards):
            count = int(shard["samples"])
            path = self.out / f"{split}-{number:06d}.npy"
            known = done.sha256(path)
            if known is None:
                images = corpus_images(
                    self.corpus,
                    split,
                    image_size=self.entry.image_size,
                    batch_size=self.job.encode.batch,
                    start=start,
                    stop=start + count,
                    workers=0 if self.device.type == "cpu" else self.job.encode.threads,
                )
                arrays = [self.tower.stored(self.tower.prepared(part.to(self.device))) for part in images]
                with atomic_path(path) as temporary, temporary.open("wb") as file:
                    np.save(file, np.concatenate(arrays), allow_pickle=False)
                known = done.add(path)
            named = {"file": path.name, "bytes": path.stat().st_size, "sha256": known}
            arrays_written.append({**named, "shard_sha256": shard["sha256"], "samples": count})
            start += count
            bar.update(count)
        bar.close()
        return arrays_written


class _Done:
    """The finished arrays of an unfinished job, with their hashes; those of another job do not count."""

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
        """The hash of an array that exists and is unchanged, else None."""
        known = self.known.get(path.name)
        return known if known is not None and path.is_file() and sha256_file(path) == known else None

    def add(self, path: Path) -> str:
        sha256 = sha256_file(path)
        with self.file.open("a") as file:
            file.write(json.dumps({path.name: sha256}) + "\n")
        return sha256
