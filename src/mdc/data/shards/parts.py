"""The job ``mdc corpus-parts``: a source's parts as shards, which all corpora that read it in the same way share.

A complete part is kept: the state records its source, its code and its files, and is valid while these have the same size and
time. So an interrupted job loses at most the parts in progress, and a corpus that grows makes only the new parts.

Part NNNNN becomes ``<split>-NNNNN.jsonl`` for each split, if its images are in one tar below MDC_DATA and keep their bytes, and
``<split>-NNNNN.tar`` otherwise; with ``captions-NNNNN.safetensors`` and, if something was left out, ``skipped-NNNNN.jsonl``. The
bytes do not depend on the other parts, nor on the number of processes.
"""

import multiprocessing
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mdc.data.formats.folders import size_and_time
from mdc.data.formats.samples import skipped_list
from mdc.data.shards.caption_statistics import CaptionStatistics
from mdc.data.shards.index import INDEX
from mdc.data.shards.lines import ENDING, SourceTar, name_below
from mdc.data.shards.offsets import file_entry
from mdc.data.shards.set_job import note, source_of, splits_of
from mdc.data.shards.shard_file import HASHES, new_shard
from mdc.data.shards.writer import left_out_of
from mdc.data.sources.cleaned import InParts
from mdc.data.sources.source import open_corpus
from mdc.plan.config.data import DataRuntime
from mdc.plan.config.problems import checked
from mdc.plan.data_folder import data_folder
from mdc.plan.host import usable_cores
from mdc.plan.jobs.call import Call
from mdc.plan.outputs import checked as checked_file
from mdc.plan.processes.interrupts import end_with_parent
from mdc.plan.processes.lock import locked
from mdc.plan.progress import progress
from mdc.plan.records import UserError, atomic_path, read_json, sha256_json, write_json


def main(call: Call) -> None:
    """Run the job: ``call.job`` is a :class:`mdc.plan.jobs.model.CorpusPartsJob`."""
    job = call.job
    source = open_corpus(source_of(call), data_folder())
    if not isinstance(source, InParts):
        raise UserError(
            f"{job.job}: a source of kind {job.source.kind} has no parts; allowed: pairs, webdataset, parquet with sharded"
        )
    runtime = DataRuntime() if call.runtime is None else checked(DataRuntime, read_json(call.runtime), call.runtime)
    source.threads = max(1, usable_cores() // runtime.processes)
    settings = {name: value for name, value in job.config().items() if name in ("protocol", "fingerprint")}
    # the number of pairs changes which parts there are, but not their content: cut parts are not made here
    settings["source"] = {key: value for key, value in source.config.items() if key != "pairs"}
    splits, context_length = splits_of(source_of(call)), job.protocol.context_length
    writer = PartsWriter(source, splits, call.out, call.state, settings, context_length)
    # waits for a job that a killed Snakemake left running; its parts are then complete
    with locked(call.state, wait=True, doing="is writing these parts"):
        entries = writer.write(runtime.processes)
    write_json(call.out / INDEX, {"kind": "parts", "name": job.name, "source": source.config, "parts": entries})
    note(call)


def write_part(source: InParts, part: int, splits: Sequence[str], folder: Path, context_length: int) -> dict[str, Any]:
    """Write one part into ``folder``; its entry in an index of parts.

    ``splits`` {split: its shard} of the splits with samples, ``skipped`` {reason: count}, and the files ``captions`` and
    ``skipped_list`` (if there is one).
    """
    statistics = {split: CaptionStatistics(context_length) for split in splits}
    left_out = folder / f"skipped-{part:05d}.jsonl"
    tar, ending = None, ".tar"
    if (name := tar_name(source, part)) is not None:
        begun = size_and_time(path := source.data_dir / name)
        tar, ending = SourceTar(name, path.stat().st_size, source.tar_sha256(part)), ENDING
    with skipped_list(left_out) as skipped, ExitStack() as stack:
        shards: dict[str, Any] = {}
        for split, sample in source.samples_in(part, splits, skipped):
            if split not in shards:
                shards[split] = stack.enter_context(new_shard(folder / f"{split}-{part:05d}{ending}", tar))
            statistics[split].add(sample.captions)
            shards[split].add(sample, {"captions": list(sample.captions)})
    if tar is not None and size_and_time(path) != begun:
        raise UserError(f"{path}: changed while it was read; rerun when no other process writes to it")
    return {
        "part": part,
        "splits": {split: shards[split].entry for split in splits if split in shards},
        **left_out_of(skipped, left_out),
        "captions": _write_captions(folder / f"captions-{part:05d}.safetensors", statistics, shards),
    }


def tar_name(source: InParts, part: int) -> str | None:
    """The name of the tar below MDC_DATA that has the images of a part unchanged; None: they must be written."""
    tar = source.tar(part) if source.image_size is None else None
    return None if tar is None else name_below(source.data_dir, tar)


def files_of(entry: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """All files of a part, each as {file, bytes, sha256}."""
    for shard in entry["splits"].values():
        yield shard
        yield shard["offsets"]
    yield entry["captions"]
    if "skipped_list" in entry:
        yield entry["skipped_list"]


def _write_captions(
    path: Path, statistics: Mapping[str, CaptionStatistics], shards: Mapping[str, Any]
) -> dict[str, Any]:
    from safetensors.numpy import save_file

    arrays: dict[str, np.ndarray] = {}
    for split, counted in statistics.items():
        hashes = shards[split].hashes if split in shards else dict.fromkeys(HASHES, b"")
        of_split = counted.arrays() | {kind: np.frombuffer(hashes[kind], dtype=np.uint64) for kind in HASHES}
        arrays |= {f"{split}.{name}": values for name, values in of_split.items()}
    with atomic_path(path) as temporary:
        save_file(arrays, temporary)
    return file_entry(path)


def read_captions(
    folder: Path, entry: Mapping[str, Any], statistics: Mapping[str, CaptionStatistics]
) -> dict[str, dict[str, np.ndarray]]:
    """Append a part's captions to the ``statistics`` of each split; each split's hashes, as of a shard. UserError if the file is
    not the part's."""
    from safetensors.numpy import load

    file = folder / entry["captions"]["file"]
    arrays = load(checked_file(file, entry["captions"]["sha256"], folder / INDEX).read_bytes())
    for split, counted in statistics.items():
        counted.join({name: arrays[f"{split}.{name}"] for name in CaptionStatistics.ARRAYS})
    return {split: {kind: arrays[f"{split}.{kind}"] for kind in HASHES} for split in statistics}


@dataclass(frozen=True)
class PartsWriter:
    """Makes the incomplete parts of ``source`` in ``folder``. ``settings``: everything besides the source's files on which they
    depend; ``state``: the folder that records the complete ones, a file each."""

    source: InParts
    splits: Sequence[str]
    folder: Path
    state: Path
    settings: Mapping[str, Any]
    context_length: int

    def write(self, processes: int = 1) -> list[dict[str, Any]]:
        """The entries of all parts but one of which the source takes only the beginning, which is left to the corpus's own job.
        UserError for a source that cannot be read; complete parts stay."""
        numbers = [number for number in range(self.source.parts) if not self.source.is_partial(number)]
        missing = [number for number in numbers if self._complete(number) is None]
        for path in self.state.glob("[0-9]*.json"):
            if path.stem.isdigit() and int(path.stem) not in numbers:
                self._remove(int(path.stem))
        done, processes = len(numbers) - len(missing), min(processes, len(missing))
        with progress(total=len(numbers), desc=self.folder.name, unit="part", initial=done) as bar:
            for _ in map(self._make, missing) if processes < 2 else self._in_pool(missing, processes):
                bar.update()
        return [read_json(self._file(number))["entry"] for number in numbers]

    def _in_pool(self, parts: Sequence[int], processes: int) -> Iterator[None]:
        # forked, since the source has read what all parts need; the only other thread may be a progress bar's, which holds no
        # lock that the pool needs
        fork = multiprocessing.get_context("fork")
        pool = ProcessPoolExecutor(processes, fork, initializer=end_with_parent)
        try:
            for future in as_completed([pool.submit(self._make, part) for part in parts]):
                yield future.result()
        except BrokenProcessPool:
            raise UserError(
                "a process that wrote shards was killed; out of memory? use fewer processes "
                "(data.runtime.processes); complete parts will be kept"
            ) from None
        finally:  # parts in progress are finished and kept; no other begins
            pool.shutdown(cancel_futures=True)

    def _make(self, part: int) -> None:
        self._remove(part)
        seal = self._seal(part)
        entry = write_part(self.source, part, self.splits, self.folder, self.context_length)
        write_json(self._file(part), {"seal": seal, "entry": entry, "files": self._times(entry)})

    def _complete(self, part: int) -> dict[str, Any] | None:
        """The record of a part made from this source with these settings, whose files have not changed since; otherwise None."""
        seal = self._seal(part)
        try:
            record = read_json(self._file(part))
            return record if record["seal"] == seal and record["files"] == self._times(record["entry"]) else None
        except (UserError, KeyError, TypeError, OSError):
            return None

    def _seal(self, part: int) -> str:
        """Changes with all on which a part depends."""
        return sha256_json([dict(self.settings), self.source.seal(part), tar_name(self.source, part)])

    def _file(self, part: int) -> Path:
        return self.state / f"{part:05d}.json"

    def _times(self, entry: Mapping[str, Any]) -> dict[str, list[int]]:
        return {file["file"]: size_and_time(self.folder / file["file"])[1:] for file in files_of(entry)}

    def _remove(self, part: int) -> None:
        for path in (*self.folder.glob(f"*-{part:05d}.*"), self._file(part)):
            path.unlink(missing_ok=True)
