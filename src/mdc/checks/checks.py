"""What only a verb knows of its files, as checks that :mod:`mdc.checks.walk` calls for each of its jobs."""

from __future__ import annotations

import importlib
import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mdc.checks.place import Broken
from mdc.checks.walk import Check, Walk
from mdc.data.shards.index import read_index, shard_list, verify_shard
from mdc.data.shards.part import files_of
from mdc.data.shards.parts import read_parts
from mdc.plan.artefacts import declared
from mdc.plan.jobs.read import as_job
from mdc.plan.records import UserError, read_json, sha256_file, versions

_DRAWN = (".png", ".svg", ".pdf")


def shards(walk: Walk, job: str, record: Mapping[str, Any]) -> None:
    """The shards and their offsets are those that the index names; of a set above 4 GiB only their sizes are compared, unless
    asked."""
    index = walk.place.manifest(job)
    listed = shard_list(read_index(index))
    whole = walk.hashes(sum(shard["bytes"] for shard in listed))
    for shard in listed:
        try:
            verify_shard(index.parent, shard, whole)
        except UserError as error:
            raise Broken(f"{str(error).partition(';')[0]}; to mend: {walk.again(job)}") from None
    walk.good["shards"] += len(listed)
    walk.by_size += 0 if whole else 2 * len(listed)


def parts(walk: Walk, job: str, record: Mapping[str, Any]) -> None:
    """The files of a group's parts are those that its index names; above 4 GiB only their sizes are compared, unless asked.

    The corpora that take them look into the shards.
    """
    index = walk.place.manifest(job)
    listed = [
        (index.parent.parent / one["file"], one) for entry in read_parts(index)["parts"] for one in files_of(entry)
    ]
    whole = walk.hashes(sum(one["bytes"] for _, one in listed))
    for path, one in listed:
        good = path.is_file() and path.stat().st_size == one["bytes"]
        if not good or (whole and sha256_file(path) != one["sha256"]):
            raise Broken(f"{path}: not the file that {index} names; to mend: {walk.again(job)}")
    walk.good["parts"] += len(read_parts(index)["parts"])
    walk.by_size += 0 if whole else len(listed)


def tokens(walk: Walk, job: str, record: Mapping[str, Any]) -> None:
    """The arrays of tokens are those that the record names; above 4 GiB only their sizes are compared, unless asked."""
    path = walk.place.record(job)
    listed = [one for some in record["splits"].values() for one in some]
    whole = walk.hashes(sum(one["bytes"] for one in listed))
    for one in listed:
        file = path.parent / one["file"]
        good = file.is_file() and file.stat().st_size == one["bytes"]
        if not good or (whole and sha256_file(file) != one["sha256"]):
            raise Broken(f"{file}: not the array that {path} names; to mend: {walk.again(job)}")
    walk.good["arrays"] += len(listed)
    walk.by_size += 0 if whole else len(listed)


def weights(walk: Walk, job: str, record: Mapping[str, Any]) -> None:
    """The checkpoint says of itself which configuration it was trained with."""
    path = walk.place.record(job)
    for name in (name for name in record["outputs"] if name.endswith(".safetensors")):
        told = _weights_metadata(path.parent / name, walk.again(job)).get("config_sha256", "")
        what = "the configuration it was trained with"
        walk.same(path.parent / name, told, record["config_sha256"], path, job, what)


def probes(walk: Walk, job: str, record: Mapping[str, Any]) -> None:
    """The probe's values follow from its per-item results."""
    from mdc.report.estimates import Estimator
    from mdc.report.items import read_items

    path = walk.place.record(job)
    (name,) = record["outputs"]
    items = read_items(path.parent / name, record["outputs"][name])
    estimator = Estimator()
    for probe, told in record["probes"].items():
        found = 100 * estimator.value(items[probe])
        # not ">": a NaN must not pass
        if told["n"] != items[probe].n or not abs(told["value"] - found) <= 1e-3:
            raise Broken(
                f"{path}: says {told['value']:.3f} over {told['n']} items on {probe}, {name} gives {found:.3f} over "
                f"{items[probe].n}; to mend: {walk.again(job)}"
            )


def made_anew(walk: Walk, job: str) -> None:
    """A table or figure, whose chain was found good, has the same bytes when it is made anew from the same records.

    A run's log holds clocks, so no record names it by hash: if a log is not the one that its host file names, it is what
    differs. Drawings are compared where the libraries are those that drew them: another version may draw another line.
    """
    walk.wanted = job
    with walk.in_a_line(job):
        _made_anew(walk, job, walk.record(job))


def _made_anew(walk: Walk, job: str, record: Mapping[str, Any]) -> None:
    place, path = walk.place, walk.place.record(job)
    asked = as_job(record["config"], "make", str(path))
    given = {name: place.manifest(name) for name in record["inputs"]}
    same = record["versions"] == versions()
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        try:
            importlib.import_module(declared(job, asked.kind).module).make(asked, given, out)
        except UserError:
            _logs(walk, given)
            raise
        for name, sha256 in record["outputs"].items():
            if not same and Path(name).suffix in _DRAWN:
                continue
            if sha256_file(out / name) != sha256:
                _logs(walk, given)
                raise Broken(
                    f"{path.parent / name}: made anew from the same records it differs; to mend: {walk.again(job)}"
                )
            walk.good["files made anew"] += 1


def _logs(walk: Walk, given: Mapping[str, Path]) -> None:
    """Raises Broken at a run's log that is missing, or that is not the one that its host file names."""
    for name in (name for name in given if walk.place.jobs[name].verb == "pretrain"):
        log, host = given[name].with_name("log.jsonl"), walk.place.folder.host(name)
        if not log.is_file():
            raise Broken(f"{log}: missing; to mend: {walk.again(name)}")
        told = read_json(host).get("log_sha256") if host.is_file() else None
        if told is not None and told != sha256_file(log):
            raise Broken(f"{log}: not the log that {host} names; to mend: {walk.again(name)}")


def _weights_metadata(path: Path, again: str) -> dict[str, str]:
    """What a weights file says about itself; its tensors are not read."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(path), framework="numpy") as file:
            return dict(json.loads(file.metadata()["mdc"]))
    except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
        raise Broken(f"{path}: not a weights file of this project ({error}); to mend: {again}") from None


#: verb → what else must hold of its jobs
CHECKS: dict[str, Check] = {
    "corpus": shards,
    "corpus-parts": parts,
    "probe-set": shards,
    "choice-set": shards,
    "tokenizer": weights,
    "import-words": weights,
    "import-encoder": weights,
    "encode-corpus": tokens,
    "image-tokens": tokens,
    "pretrain": weights,
    "probe": probes,
}
