import hashlib
import json
import os
import random
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from mdc.plan import records
from mdc.plan.records import UserError


def test_atomic_path_replaces_only_on_success(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "table.csv"
    with records.atomic_path(target) as temporary:
        assert temporary.parent == target.parent and temporary.suffix == ".csv"
        temporary.write_text("old")
        assert not target.exists()
    with target.open() as reader:  # the new file replaces the name, not the content under a reader
        records.write_text(target, "new")
        assert reader.read() == "old"
    with pytest.raises(RuntimeError, match="boom"), records.atomic_path(target) as temporary:
        temporary.write_text("half")
        raise RuntimeError("boom")
    with pytest.raises(FileNotFoundError), records.atomic_path(target):
        pass
    assert target.read_text() == "new"
    assert [path.name for path in target.parent.iterdir()] == ["table.csv"]


@pytest.mark.parametrize("umask", [0o002, 0o077])
def test_every_writer_leaves_files_to_whom_the_umask_lets(umask: int, tmp_path: Path) -> None:
    """Also safetensors, which makes a private file of its own and renames it."""
    code = (
        "import numpy as np; from safetensors.numpy import save_file\n"
        "from mdc.plan import records\n"
        "records.write_text('text', 'x'); records.write_json('json', {})\n"
        "with records.atomic_path('tensors') as path: save_file({'x': np.zeros(1)}, path)\n"
        "with records.atomic_path('array') as path, path.open('wb') as file: np.save(file, np.zeros(1))"
    )
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, umask=umask, check=True)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert modes == dict.fromkeys(("text", "json", "tensors", "array"), 0o666 & ~umask)


def test_a_reader_never_sees_half_a_file(tmp_path: Path) -> None:
    """A process killed while it writes leaves the old content."""
    target = tmp_path / "state.json"
    records.write_json(target, {"step": 1})
    code = (
        "import os, sys; from mdc.plan import records\n"
        f"with records.atomic_path({str(target)!r}) as path:\n"
        "    path.write_text('{\"step\": '); os.kill(os.getpid(), 9)\n"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == -9
    assert records.read_json(target) == {"step": 1}


def test_write_text_keeps_line_ends_and_skips_equal_content(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    assert records.write_text_if_changed(path, "ω\r\nb\n")
    assert path.read_bytes() == "ω\r\nb\n".encode()
    os.utime(path, ns=(1, 1))
    assert not records.write_text_if_changed(path, "ω\r\nb\n")
    assert path.stat().st_mtime_ns == 1
    assert records.write_text_if_changed(path, "ω\nb\n")
    assert path.read_bytes() == "ω\nb\n".encode()


def test_json_bytes_do_not_depend_on_insertion_order(tmp_path: Path) -> None:
    items = [(f"key{i}", {"z": i, "a": [i / 3, None, True, "é"]}) for i in range(20)]
    shuffled = items[:]
    random.Random(0).shuffle(shuffled)
    records.write_json(tmp_path / "a.json", dict(items))
    records.write_json(tmp_path / "b.json", dict(shuffled))
    content = (tmp_path / "a.json").read_bytes()
    assert content == (tmp_path / "b.json").read_bytes()
    assert content.endswith(b"}\n") and "é".encode() in content
    assert records.read_json(tmp_path / "a.json") == dict(items)
    assert records.sha256_json(dict(items)) == records.sha256_json(dict(shuffled))
    assert records.sha256_json(dict(items)) != records.sha256_json(dict(items[1:]))


def test_not_a_number_is_never_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError):
        records.write_json(tmp_path / "a.json", {"x": float("nan")})
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ValueError):
        records.sha256_json([float("inf")])


NO_OBJECTS = [b"", b"{", b"[1]", b"\xff{}", b'{"a": NaN}', b"7", b'{"a": 1, "a": 2}', b"[" * 200_000]


@pytest.mark.parametrize("content", [*NO_OBJECTS, b'{"a": ' + b"9" * 5_000 + b"}"], ids=lambda c: repr(c[:20]))
def test_read_json_names_the_file_in_one_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "bad.json"
    path.write_bytes(content)
    with pytest.raises(UserError) as caught:
        records.read_json(path)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


def test_missing_files_are_user_errors(tmp_path: Path) -> None:
    for function in (records.read_json, records.sha256_file):
        with pytest.raises(UserError, match="no such file"):
            function(tmp_path / "none")
        with pytest.raises(UserError, match="cannot be read"):
            function(tmp_path)


def test_hashes_are_the_standard_ones(tmp_path: Path) -> None:
    data = random.Random(1).randbytes(3_000_001)
    (tmp_path / "blob").write_bytes(data)
    assert records.sha256_file(tmp_path / "blob") == hashlib.sha256(data).hexdigest()
    assert records.sha256_text("aω") == hashlib.sha256(b"a\xcf\x89").hexdigest()
    assert records.sha256_json({"b": 1, "a": "ω"}) == hashlib.sha256(b'{"a":"\\u03c9","b":1}').hexdigest()


def test_versions_import_nothing_heavy() -> None:
    code = (
        "import sys, json; from mdc.plan import records; v = records.versions()\n"
        "heavy = {'torch', 'numpy', 'pandas', 'PIL'} & set(sys.modules)\n"
        "print(json.dumps([v, sorted(heavy)]))"
    )
    found, heavy = json.loads(subprocess.check_output([sys.executable, "-c", code]))
    import numpy

    assert heavy == []
    assert found["numpy"] == numpy.__version__
    assert found["python"] == ".".join(map(str, sys.version_info[:3]))


def test_leftovers_of_killed_writers_are_cleared_and_nothing_else(tmp_path: Path) -> None:
    with pytest.raises(KeyError), records.atomic_path(tmp_path / "state.safetensors") as temporary:
        left = temporary
        raise KeyError
    others = [".gitignore", "state.safetensors", ".state.safetensors", "a.tmp", ".tmp", ".tmpfiles.conf"]
    for name in others:
        (tmp_path / name).touch()
    theirs = tmp_path / ".tmpA1b2C3"  # safetensors' own
    for path in (left, theirs):
        path.touch()
    records.clear_leftovers(tmp_path, "other.safetensors")
    assert left.exists() and theirs.exists()
    records.clear_leftovers(tmp_path, "state.safetensors")
    assert not left.exists() and theirs.exists()
    left.touch()
    records.clear_leftovers(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(others)
