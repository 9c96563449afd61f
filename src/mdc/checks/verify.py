"""The verb ``mdc verify``: check every link between the records, then rebuild tables and figures and compare the bytes."""

import argparse
import gc
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path

from mdc.checks.chain import Broken, Chain
from mdc.plan.artefacts import declared
from mdc.plan.host import usable_cores
from mdc.plan.jobs.read import as_job
from mdc.plan.outputs import again
from mdc.plan.processes.interrupts import end_with_parent, leave_to_parent
from mdc.plan.records import NOT_OURS, UserError, read_json, sha256_file, versions
from mdc.report.index_page import copied_scale
from mdc.report.make import make

_DRAWN = (".png", ".svg", ".pdf")


def main(args: argparse.Namespace) -> None:
    """``args``: params (file), scale (name or None), deep. Raises Broken at the first broken link."""
    from mdc.plan.progress import progress

    chain = Chain(args.params, args.scale, args.deep)
    print(f"{chain.folder.root}:")
    good = sum(1 for _ in progress(chain.check(chain.jobs), desc="checked", unit=" files", leave=False))
    artefacts = [name for name in chain.linked if name in chain.shown]
    copies = sum(check_copies(chain, name) for name in artefacts)
    # last, because it takes longer
    equal = sum(progress(rebuilt(chain, artefacts), total=len(artefacts), desc="rebuilt", unit=" tables", leave=False))
    for name in artefacts:
        if (scale := copied_scale(chain.results, name)) not in (None, chain.scale):
            print(f"  {name}: its copies at {chain.results} are of scale {scale}")
    print(f"  {len(chain.linked)} records: good")
    print(f"  {good} files that these name: good")
    print(f"  {equal} files of tables and figures rebuilt from the records, equal to the byte: good")
    print(f"  {copies} copies at {chain.results}: good")
    print(f"  {chain.summary()}" if chain.linked else "  nothing is made yet")


def check_copies(chain: Chain, artefact: str) -> int:
    """The number of good copies at ``results/``; copies of another scale are skipped. Raises Broken at one that differs."""
    scale = copied_scale(chain.results, artefact)
    names = (*chain.shown[artefact].files, f"{artefact}.json") if scale in (None, chain.scale) else ()
    pairs = [(chain.results / name, chain.record(artefact).with_name(name)) for name in names]
    for copy, own in (pairs := [pair for pair in pairs if scale or pair[0].exists()]):
        if not copy.is_file() or sha256_file(copy) != sha256_file(own):
            said = "not the copy of" if copy.is_file() else "missing; it is a copy of"
            raise Broken(f"{copy}: {said} {own}; to mend: {chain.update(artefact)} --forcerun {artefact}")
    return len(pairs)


def rebuilt(chain: Chain, artefacts: Sequence[str]) -> Iterator[int]:
    """Rebuild ``artefacts``, whose links hold; yields for each the number of files that are equal byte for byte.

    Drawings are compared only under the library versions that drew them. Files that hold times are not compared. Raises Broken at
    the first file that differs.
    """
    # forked: spawned processes would import everything again
    pool = ProcessPoolExecutor(max(1, min(usable_cores(), len(artefacts))), get_context("fork"), initializer=_worker)
    inputs = [{job: chain.manifest(job) for job in chain.jobs[name].inputs} for name in artefacts]
    try:
        yield from pool.map(_rebuild, map(chain.record, artefacts), inputs)
    except BrokenProcessPool:
        raise UserError("a process that rebuilt a table was ended from outside; is the memory full?") from None
    finally:
        pool.shutdown(cancel_futures=True)


def _worker() -> None:
    leave_to_parent()
    end_with_parent()
    gc.set_threshold(100_000)  # a drawing has many objects that live as long as it does


def _rebuild(path: Path, manifests: Mapping[str, Path]) -> int:
    """The number of files of a rebuilt table or figure that are compared. Broken if one differs or an input is refused."""
    record = read_json(path)
    job = as_job(record["config"], "make", str(path))
    apart = {*declared(job.artefact, job.kind).measured}
    if record["versions"] != versions():
        apart |= {file for file in record["outputs"] if file.endswith(_DRAWN)}
    with tempfile.TemporaryDirectory() as folder:
        try:
            make(job, manifests, Path(folder))
        except UserError as error:
            raise Broken(str(error) if "; to mend: " in str(error) else f"{error}; {again(path)}") from None
        except NOT_OURS as error:
            raise Broken(f"{path}: not as this version writes it ({error!r}); {again(path)}") from None
        compared = [file for file in record["outputs"] if file not in apart]
        for file in compared:
            if sha256_file(Path(folder, file)) != record["outputs"][file]:
                raise Broken(f"{path.with_name(file)}: rebuilt from the same records, it differs; {again(path)}")
        return len(compared)
