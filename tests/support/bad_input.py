"""Inputs that are wrong in one way each, and what the tests of bad input share."""

import copy
import io
import json
import os
import struct
import tarfile
import zlib
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from data_samples import complete, encoded

from mdc.app.cli import main
from mdc.plan.config.kinds.known import AnyCorpus
from mdc.plan.config.read import load
from mdc.plan.jobs.plan import Plan
from mdc.plan.records import sha256_file, write_json

ROOT = Path(__file__).resolve().parents[2]
#: inputs that are wrong in one way each, by the test that tries them
WRONG = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))


def job_config(job: str, scale: str = "mini", **changes: Any) -> dict[str, Any]:
    """A job's resolved configuration as the workflow writes it, with values replaced."""
    return {**copy.deepcopy(_configs(scale)[job]), **changes}


@cache
def _configs(scale: str) -> dict[str, dict[str, Any]]:
    return {name: job.config() for name, job in Plan(load(ROOT / "params.yaml", scale)).jobs.items()}


def write_config(path: Path, config: dict[str, Any]) -> str:
    path.write_text(json.dumps(config))
    return str(path)


def corpus_config(path: Path, source: dict[str, Any], max_skipped: float = 0.5) -> str:
    """A configuration of ``mdc corpus`` with this source."""
    source = complete(source, AnyCorpus)
    return write_config(path, job_config("data/corpora/alt", name="c", source=source, max_skipped=max_skipped))


def name_weights(run: Path, **more: Any) -> None:
    """The manifest of a run, which names the weights that lie there now."""
    outputs = {"checkpoint.safetensors": sha256_file(run / "checkpoint.safetensors")}
    write_json(run / "run.json", {"kind": "run", "config_sha256": "c", "outputs": outputs, **more})


def told(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """What ``mdc`` says to a mistake: exit code 2, nothing on standard output, one line on standard error."""
    assert main(arguments) == 2
    said = capsys.readouterr()
    lines = [line for line in said.err.splitlines() if line.startswith("mdc ")]
    assert said.out == "" and len(lines) == 1 and "Traceback" not in said.err, said
    return lines[0]


def tar_of(members: list[tuple[str | tarfile.TarInfo, bytes]], form: int = tarfile.GNU_FORMAT) -> bytes:
    """A tar as others write it: time, owner and all."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=form) as tar:
        for member, content in members:
            info = tarfile.TarInfo(member) if isinstance(member, str) else member
            info.size, info.mtime, info.uname = len(content), 1_600_000_000.25, "root"
            tar.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def downloaded(keys: list[str], first: int = 0, **changes: bytes) -> list[tuple[str, bytes]]:
    """Members as img2dataset writes them, one sample a key."""
    members: list[tuple[str, bytes]] = []
    for number, key in enumerate(keys, first):
        record = {"caption": f"raw {number}", "recaption": f"a long text {number}", "url": "x", "status": "success"}
        files = {"jpg": encoded(number, kind="JPEG"), "txt": f"a thing {number}".encode()} | changes
        members += [(f"{key}.{ending}", content) for ending, content in files.items()]
        members.append((f"{key}.json", json.dumps(record).encode()))
    return members


def member(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def png_chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width: int, height: int, *before: bytes, depth: int = 8, colour: int = 2, rows: bytes = b"") -> bytes:
    """A PNG of these rows, with more chunks ``before`` them; its header says anything."""
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    body = b"".join(before) + png_chunk(b"IDAT", zlib.compress(rows, 9))
    return b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR", header) + body + png_chunk(b"IEND", b"")


class Payload:
    """Unpickled, it makes the folder ``target``."""

    def __init__(self, target: Path) -> None:
        self.target = str(target)

    def __reduce__(self) -> Any:
        return (os.mkdir, (self.target,))
