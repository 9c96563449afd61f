"""A process that downloads shards: ``python -m mdc.data.obtain.worker``, started by :mod:`mdc.data.obtain.crew`.

Standard input has one JSON object a line: first the settings, then {"shard": N, "part": {…}, "believe": …} for each
shard. For each it answers one line on standard output: {"shard": N, "trouble": "", "kind": ""} or what went wrong. It
composes img2dataset's parts (Downloader, WebDatasetSampleWriter) with our own opener and our own resizing. It ends when
standard input does, in the middle of a shard too: so it never outlives the process that started it, however that ends.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import queue
import sys
import threading
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from mdc.data.obtain.accounts import Incomplete, Silence, remove_shard, take_account
from mdc.data.obtain.plan import read_part
from mdc.plan.processes.lock import flock

#: what keeps a download from going on at all: full, too large a file, over quota, read-only, not allowed
FATAL = frozenset({errno.ENOSPC, errno.EFBIG, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO})
DISK, NETWORK = "disk", "network"  # kinds of trouble that the next shard would have too
ROBOTS_DIRECTIVES = ["noai", "noimageai", "noindex", "noimageindex"]  # img2dataset's own
_DIGITS = 5  # of a shard's number


def main() -> None:
    """Do what standard input says, until it ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what the packages print is no answer
    orders: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(orders,), daemon=True).start()
    settings = orders.get()
    folder, downloader = _prepare(settings)
    with present(folder, fcntl.LOCK_SH), present(Path(settings["crew"]), fcntl.LOCK_SH):
        _work(folder, downloader, orders, answers)


@contextmanager
def present(folder: Path, how: int) -> Iterator[None]:
    """Hold the workers' lock: shared (LOCK_SH) by each of them, and exclusively to be sure that none is left (LOCK_EX).

    A worker ends with the process that started it, but that takes a moment, in which the next one may have begun.
    """
    with (folder / "workers").open("a+") as handle:
        flock(handle, how, folder)
        yield


def _work(folder: Path, downloader: Any, orders: queue.SimpleQueue[dict[str, Any]], answers: TextIO) -> None:
    while True:
        order = orders.get()
        answer = _shard(folder, downloader, order, answers)
        _say(answers, {"shard": order["shard"], **answer})


def _listen(orders: queue.SimpleQueue[dict[str, Any]]) -> None:
    for line in sys.stdin:
        orders.put(json.loads(line))
    os._exit(0)  # nobody waits for what is half done; an unchecked shard is downloaded again


def _say(answers: TextIO, answer: Mapping[str, Any]) -> None:
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


def _prepare(settings: dict[str, Any]) -> tuple[Path, Any]:
    """The folder to fill, and the function that makes img2dataset's Downloader for a shard's writer."""
    import urllib.request

    from img2dataset.downloader import Downloader

    from mdc.data.obtain.resize import Resize
    from mdc.data.obtain.transfers.addresses import networks
    from mdc.data.obtain.transfers.guard import Limits, Opener

    folder = Path(settings["folder"])
    limits = Limits(
        timeout=settings["timeout"],
        deadline=settings["deadline"],
        max_bytes=settings["max_bytes"],
        retries=settings["retries"],
        exceptions=networks(settings["allow_addresses"]),
        use_proxy=settings["use_proxy"],
    )
    urllib.request.install_opener(Opener(limits))
    resize = Resize(
        image_size=settings["image_size"],
        quality=settings["quality"],
        min_image_size=settings["min_image_size"],
        max_pixels=settings["max_pixels"],
        max_aspect=settings["max_aspect"],
    )

    def downloader(writer: Any, columns: list[str]) -> Any:
        return Downloader(
            sample_writer_class=writer,
            resizer=resize,
            thread_count=settings["threads"],
            save_caption=True,
            extract_exif=False,
            output_folder=str(folder / "shards"),
            column_list=columns,
            timeout=settings["timeout"],
            number_sample_per_shard=settings["rows_per_shard"],
            oom_shard_count=_DIGITS,
            compute_hash="sha256",
            verify_hash_type=None,
            encode_format="jpg",
            retries=0,  # the opener knows what may pass
            user_agent_token=None,
            disallowed_header_directives=ROBOTS_DIRECTIVES if settings["respect_robots"] else None,
        )

    return folder, downloader


def _shard(folder: Path, downloader: Any, order: Mapping[str, Any], answers: TextIO) -> dict[str, Any]:
    """Download a shard and take its account."""
    shard: int = order["shard"]
    rows = folder / "shards" / f".rows-{shard:05d}.arrow"

    def give_up(error: BaseException) -> None:
        """A row that cannot be written is lost, and img2dataset would go on without it to the shard's end."""
        remove_shard(folder, shard)
        rows.unlink(missing_ok=True)
        _say(answers, {"shard": shard, **_trouble(error)})
        os._exit(1)

    try:
        remove_shard(folder, shard)
        columns = _write_arrow(folder, shard, rows)
        downloader(_writer_class(give_up), columns).download_shard((shard, str(rows)))
        take_account(folder, shard, order["part"], order["believe"])
    except Exception as error:
        if not isinstance(error, Incomplete | OSError):
            traceback.print_exc()
        remove_shard(folder, shard)
        return _trouble(error)
    finally:
        rows.unlink(missing_ok=True)
    return {"trouble": "", "kind": ""}


def _trouble(error: BaseException) -> dict[str, Any]:
    number = getattr(error, "errno", None)
    text = os.strerror(number) if number else str(error) or type(error).__name__
    kind = NETWORK if isinstance(error, Silence) else DISK if number in FATAL else ""
    return {"trouble": text[:500], "kind": kind}


def _write_arrow(folder: Path, shard: int, path: Path) -> list[str]:
    """The shard's rows in the format that img2dataset's Downloader reads; it removes the file when it is done. Their columns."""
    import pyarrow

    table = read_part(folder, shard)
    with path.open("wb") as file, pyarrow.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    return list(table.column_names)


def _writer_class(give_up: Any) -> type:
    """img2dataset's webdataset writer, with equal bytes for equal samples, and an end where a write fails."""
    from img2dataset.writer import WebDatasetSampleWriter

    class Writer(WebDatasetSampleWriter):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            self.tarwriter.mtime = 0  # a whole number, or every member gets a header more

        def write(self, *args: Any) -> None:
            try:
                super().write(*args)
            except Exception as error:
                give_up(error)

        def close(self) -> None:
            try:
                super().close()
            except Exception as error:
                give_up(error)

    return Writer


if __name__ == "__main__":
    main()
