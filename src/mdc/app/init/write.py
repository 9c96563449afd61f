"""A new scale's file, and the parameter file's choice of it."""

from __future__ import annotations

import re
from pathlib import Path

from mdc.plan.config.layers import is_scale_name, scale_file, scales_of
from mdc.plan.config.read import load
from mdc.plan.records import UserError, write_text


def new_scale(params: str | Path, name: str) -> Path:
    """The file of a scale that is not there yet. UserError if ``name`` is none for it, or if ``params`` is not good as it is."""
    if not is_scale_name(name):  # 12, on, null, 2026-01-01: --config scale=12 would be a number too
        raise UserError(
            f"NAME = {name!r}: no name of a scale; allowed: letters, digits, '_', '.' and '-', nothing that YAML reads as a "
            "number, a date or a truth value"
        )
    load(params)
    file = scale_file(params, name)
    if file.exists():
        raise UserError(f"{file}: already exists; the scales are {', '.join(scales_of(params))}; choose another name")
    return file


def write_scale(params: str | Path, file: Path, text: str) -> None:
    """Write the ``file`` of a scale. UserError if the scale is not good; nothing stays then."""
    write_text(file, text)
    try:
        load(params, file.stem)
    except BaseException:
        file.unlink()
        raise


def choose_scale(params: str | Path, name: str) -> None:
    """Make ``name`` the scale that the parameter file names, and leave every other byte of it."""
    file = Path(params).resolve()  # a link to a file stays one
    old = file.read_bytes().decode("utf-8")
    new, count = re.subn(r"(?m)^(scale:[ \t]*)[^\s#]+", rf"\g<1>{name}", old)
    if count != 1:
        raise UserError(f"{params}: has no line `scale: NAME`; write `scale: {name}` there by hand")
    mode = file.stat().st_mode
    write_text(file, new)
    file.chmod(mode)
