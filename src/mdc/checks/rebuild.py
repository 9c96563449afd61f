"""Tables and figures rebuilt from the records that they were made from, several at a time."""

from __future__ import annotations

import gc
import importlib
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

_DRAWN = (".png", ".svg", ".pdf")


def rebuilt(walk: Walk, artefacts: Sequence[str]) -> Iterator[int]:
    """Rebuild ``artefacts``, whose chains were found good; yields of each how many files are equal to the byte.

    Drawings are compared where the libraries are those that drew them: another version may draw another line. What holds times is
    not compared. Raises Broken at the first file that differs. A run's log holds clocks, so no record names it by hash: if a log
    is not the one that its host file names, it is what differs.
    """
    place = walk.place
    # forked: processes that are started anew would import everything again
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
                kept = [file for file in record["outputs"] if same or Path(file).suffix not in _DRAWN]
                kept = [file for file in kept if file not in measured]
                for file in kept:
                    if hashes[file] != record["outputs"][file]:
                        _logs(walk, record["inputs"])
                        raise Broken(
                            f"{place.record(name).with_name(file)}: rebuilt from the same records, it differs; to mend: "
                            f"{walk.again(name)}"
                        )
            yield len(kept)
    except BrokenProcessPool:
        raise UserError("a process that rebuilt a table was ended from outside; is the memory full?") from None
    finally:
        pool.shutdown(cancel_futures=True)


def _worker() -> None:
    leave_to_parent()
    end_with_parent()
    gc.set_threshold(100_000)  # a drawing is many objects that live as long as it does


def _rebuild(record: Path, given: Mapping[str, Path]) -> dict[str, str]:
    """The sha256 of each file that a table or figure writes now. UserError if it refuses what it is given."""
    job = as_job(read_json(record)["config"], "make", str(record))
    with tempfile.TemporaryDirectory() as folder:
        importlib.import_module(declared(job.artefact, job.kind).module).make(job, given, Path(folder))
        return {path.name: sha256_file(path) for path in Path(folder).iterdir()}


def _logs(walk: Walk, inputs: Mapping[str, str]) -> None:
    """Raises Broken at a run's log that is missing, or that is not the one that its host file names."""
    place: Place = walk.place
    for name in (name for name in inputs if place.jobs[name].verb == "pretrain"):
        log, host = place.manifest(name).with_name("log.jsonl"), place.folder.host(name)
        if not log.is_file():
            raise Broken(f"{log}: missing; to mend: {walk.again(name)}")
        told = read_json(host).get("log_sha256") if host.is_file() else None
        if told is not None and told != sha256_file(log):
            raise Broken(f"{log}: not the log that {host} names; to mend: {walk.again(name)}")
