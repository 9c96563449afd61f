"""The fingerprint: code changes change it, comments do not, and it covers what a job really imports."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import mdc.fingerprint as fp
from mdc.jobs import VERBS


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "__init__.py").write_text("")
    (tmp_path / "a.py").write_text('"""Doc."""\nfrom mdc.b import f\n\ndef g():\n    """Doc."""\n    return f() + 1\n')
    (tmp_path / "b.py").write_text("def f():\n    import mdc.c\n    return 1\n")
    (tmp_path / "c.py").write_text("X = 1\n")
    (tmp_path / "unused.py").write_text("Y = 1\n")
    monkeypatch.setattr(fp, "ROOT", tmp_path)
    return tmp_path


def _print(module: str) -> str:
    for cached in (fp.fingerprint, fp.imports, fp._tree):
        cached.cache_clear()
    return fp.fingerprint(module)


@pytest.fixture(autouse=True)
def _clean() -> Iterator[None]:
    yield
    for cached in (fp.fingerprint, fp.imports, fp._tree):
        cached.cache_clear()


def test_what_changes_it(package: Path) -> None:
    before = _print("mdc.a")
    assert fp.closure("mdc.a") == ["mdc", "mdc.a", "mdc.b", "mdc.c"]
    a = package / "a.py"
    a.write_text('"""Other doc."""\nfrom mdc.b import f  # a comment\n\n\ndef g():\n    return (f() + 1)\n')
    assert _print("mdc.a") == before, "comments, docstrings and line breaks rerun nothing"
    (package / "unused.py").write_text("Y = 2\n")
    assert _print("mdc.a") == before
    (package / "c.py").write_text("X = 2\n")
    assert _print("mdc.a") != before, "a module imported inside a function counts"


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_covers_what_importing_the_job_really_loads(verb: str) -> None:
    module = VERBS[verb]
    code = (
        f"import sys, {module}\n"
        "print(*sorted(m for m in sys.modules if m == 'mdc' or m.startswith('mdc.') and '._open_clip' not in m))"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    # the registry is loaded by mdc.config, which asks it whether a dataset is known; who reads it imports it himself
    known = set(fp.closure(module)) | {name for name in loaded if name.split(".")[1:2] == ["registry"]}
    assert {name for name in loaded if not fp.left_out(name)} <= known
    assert module in loaded


@pytest.mark.parametrize("verb", ["obtain", "table9"])
def test_who_reads_the_registry_is_made_anew_when_it_changes(verb: str) -> None:
    assert "mdc.registry.probes" in fp.closure(VERBS[verb])
