"""Rebuild tables and figures from their records, several at a time, and compare the bytes."""

import gc
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path

from mdc.checks.place import Broken, Place
from mdc.checks.walk import Walk
from mdc.plan.artefacts import declared
from mdc.plan.host import usable_cores
from mdc.plan.jobs.read import as_job
from mdc.plan.processes.interrupts import end_with_parent, leave_to_parent
from mdc.plan.records import UserError, read_json, sha256_file, versions
from mdc.report.make import make

_DRAWN = (".png", ".svg", ".pdf")


def rebuilt(walk: Walk, artefacts: Sequence[str]) -> Iterator[int]:
    """Rebuild ``artefacts``, whose chains are good; yields for each the number of files that are equal byte for byte.

    Drawings are compared only under the library versions that drew them. Files that hold times are not compared. Raises Broken at
    the first file that differs. A run's log holds times, so no record names its hash; if a file differs, each log is first
    compared with the hash in its host file.
    """
    place = walk.place
    # forked: spawned processes would import everything again
    pool = ProcessPoolExecutor(max(1, min(usable_cores(), len(artefacts))), get_context("fork"), initializer=_worker)
    try:
        begun = {
            name: pool.submit(_rebuild, place.record(name), {other: place.manifest(other) for other in inputs})
            for name in artefacts
            for inputs in [walk.record(name)["inputs"]]
        }
        for name, future in begun.items():
            walk.wanted, record = name, walk.record(name)
            with walk.in_a_line(name):
                try:
                    hashes = future.result()
                except UserError:
                    _logs(walk, record["inputs"])
                    raise
                same = record["versions"] == versions()
                shown = place.shown[name]
                measured = declared(shown.artefact, shown.kind).measured
                compared = [
                    file
                    for file in record["outputs"]
                    if file not in measured and (same or Path(file).suffix not in _DRAWN)
                ]
                for file in compared:
                    if hashes[file] != record["outputs"][file]:
                        _logs(walk, record["inputs"])
                        raise Broken(
                            f"{place.record(name).with_name(file)}: rebuilt from the same records, it differs; to mend: "
                            f"{walk.again(name)}"
                        )
            yield len(compared)
    except BrokenProcessPool:
        raise UserError("a process that rebuilt a table was ended from outside; is the memory full?") from None
    finally:
        pool.shutdown(cancel_futures=True)


def _worker() -> None:
    leave_to_parent()
    end_with_parent()
    gc.set_threshold(100_000)  # a drawing has many objects that live as long as it does


def _rebuild(record: Path, manifests: Mapping[str, Path]) -> dict[str, str]:
    """The sha256 of each file of a rebuilt table or figure. UserError if its inputs are refused."""
    job = as_job(read_json(record)["config"], "make", str(record))
    with tempfile.TemporaryDirectory() as folder:
        make(job, manifests, Path(folder))
        return {path.name: sha256_file(path) for path in Path(folder).iterdir()}


def _logs(walk: Walk, inputs: Mapping[str, str]) -> None:
    """Broken at a run's log that is missing or differs from the hash in its host file."""
    place: Place = walk.place
    for name in (name for name in inputs if place.jobs[name].verb == "pretrain"):
        log, host = place.manifest(name).with_name("log.jsonl"), place.folder.host(name)
        if not log.is_file():
            raise Broken(f"{log}: missing; to mend: {walk.again(name)}")
        expected = read_json(host).get("log_sha256") if host.is_file() else None
        if expected is not None and expected != sha256_file(log):
            raise Broken(f"{log}: not the log that {host} names; to mend: {walk.again(name)}")
