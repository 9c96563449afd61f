"""The processes that download: started, fed with shards, watched, and ended with everything that ends us."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from mdc.data.obtain import worker

_LAST_LINES = 30  # of what a worker said, shown if it died


class Answer(NamedTuple):
    """A shard that was tried: ``trouble`` is empty if it is whole; ``kind`` (disk, network) if others would share it."""

    shard: int
    trouble: str
    kind: str = ""


def download(
    settings: Mapping[str, Any], shards: Iterable[tuple[int, Mapping[str, Any]]], believe: bool = False
) -> Iterator[Answer]:
    """Download shards, given with their parts of the plan, in ``settings["processes"]`` processes; yield each as it ends.

    ``believe``: a shard whose rows met no server is taken for what it is (see ``accounts.take_account``).

    Whatever ends the iteration ends the processes. A process that dies gives its shard back as trouble, and ends with it.
    """
    waiting: queue.SimpleQueue[tuple[int, Mapping[str, Any]]] = queue.SimpleQueue()
    count = 0
    for order in shards:
        waiting.put(order)
        count += 1
    answers: queue.SimpleQueue[Answer | None] = queue.SimpleQueue()
    crew: list[subprocess.Popen[str]] = []
    # the packages make temporary folders when they are imported, which a process that is killed cannot remove
    with tempfile.TemporaryDirectory(prefix="mdc-download-", ignore_cleanup_errors=True) as scratch:
        try:
            for _ in range(min(settings["processes"], count)):
                crew.append(_start(scratch))
                work = (crew[-1], settings, waiting, answers, believe)
                threading.Thread(target=_feed, args=work, daemon=True).start()
            idle = 0
            while idle < len(crew):
                answer = answers.get()
                if answer is None:
                    idle += 1
                else:
                    yield answer
        finally:
            for process in crew:
                process.kill()
            for process in crew:
                process.wait()


def _start(scratch: str) -> subprocess.Popen[str]:
    environment = {
        # img2dataset imports packages that ask home whether they are the newest; who wants that sets it
        "NO_ALBUMENTATIONS_UPDATE": "1",
        "WANDB_MODE": "disabled",
        # seconds that a look-up of a name may take; the C library knows no other way
        "RES_OPTIONS": "timeout:5 attempts:2",
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "TMPDIR": scratch,
    }
    return subprocess.Popen(
        [sys.executable, "-P", "-m", worker.__name__],  # -P: nothing is imported from the current folder
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        errors="replace",
        env=environment,
        start_new_session=True,  # a Ctrl-C is ours to pass on
    )


def _feed(
    process: subprocess.Popen[str],
    settings: Mapping[str, Any],
    waiting: queue.SimpleQueue[tuple[int, Mapping[str, Any]]],
    answers: queue.SimpleQueue[Answer | None],
    believe: bool,
) -> None:
    """Hand one process shard after shard; None when it is done or dead."""
    assert process.stdin and process.stdout
    said: deque[str] = deque(maxlen=_LAST_LINES)
    listener = threading.Thread(target=_listen, args=(process, said), daemon=True)
    listener.start()
    try:
        _order(process, settings)
        while True:
            try:
                shard, part = waiting.get_nowait()
            except queue.Empty:
                return
            _order(process, {"shard": shard, "part": part, "believe": believe})
            line = process.stdout.readline()
            if not line:
                process.wait()
                listener.join(1)
                answers.put(Answer(shard, _last_words(process.returncode, said)))
                return
            answer = json.loads(line)
            answers.put(Answer(shard, answer["trouble"], answer["kind"]))
            if answer["kind"] == worker.DISK:
                return
    finally:
        answers.put(None)


def _order(process: subprocess.Popen[str], what: Mapping[str, Any]) -> None:
    assert process.stdin
    with suppress(BrokenPipeError):  # it is dead; its answer, the end of its output, says so
        process.stdin.write(json.dumps(dict(what)) + "\n")
        process.stdin.flush()


def _listen(process: subprocess.Popen[str], said: deque[str]) -> None:
    assert process.stderr
    with suppress(ValueError):  # closed
        said.extend(process.stderr)


def _last_words(code: int, said: Iterable[str]) -> str:
    if code < 0:
        return f"a process was killed by signal {-code}; out of memory? use fewer download.processes"
    sys.stderr.writelines(said)
    return f"a process ended with exit code {code}; see its output above"
