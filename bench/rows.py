"""The rows of the one table of speed: what was measured beside which peer, how often, and on which machine.

Each bench hands its rows to ``write``, which keeps them in ``results/bench/rows/<bench>.json``; bench/table.py shows all files
in one table. A row is measured, or says why it is not and which command would measure it.
"""

import argparse
import os
import shlex
import statistics
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from mdc.plan.config.problems import first_problem
from mdc.plan.host import _processor
from mdc.plan.records import UserError, read_json, versions, write_json

FOLDER = Path(__file__).resolve().parents[1] / "results/bench"
#: unit → whether more of it is better; of seconds and of scatter less is
UNITS = {
    "images/s": True,
    "images/processor s": True,
    "rows/s": True,
    "captions/s": True,
    "s": False,
    "processor s": False,
    "processor s/million samples": False,
    "processor µs/sample": False,
    "MB": False,
    "ms": False,
    "ms/pass": False,
    "nats²": False,
}
#: beside those of every record: whatever a peer is
_PEERS = ("webdataset", "img2dataset", "diffusers", "clip-benchmark", "open_clip_torch")
Text = Annotated[str, Field(min_length=1)]
Number = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Row(BaseModel):
    """``ours`` and ``theirs`` are medians in ``unit``; ``ratio`` says how many times as good ours is, so above 1 ours wins.

    Each of the ``repeats`` rounds measures both and gives a ratio; ``ratio`` is their median, ``low`` and ``high`` the least and
    the greatest of them. Without a ``peer`` (""), it is a measurement of ours alone. ``missing``: why nothing was measured.
    ``machine`` tells the rows of several machines apart; ``load``: its load average when the bench wrote its rows.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    what: Text
    peer: str
    unit: str = ""
    ours: Number | None = None
    theirs: Number | None = None
    ratio: Number | None = None
    low: Number | None = None
    high: Number | None = None
    repeats: Annotated[int, Field(ge=0)] = 0
    setting: str = ""
    missing: str = ""
    machine: Text
    load: Annotated[float, Field(ge=0)]
    measured: Text
    command: Text
    versions: dict[str, str]

    @model_validator(mode="after")
    def _whole(self) -> Self:
        compared = (self.theirs, self.ratio, self.low, self.high)
        if self.missing:
            if self.repeats or self.unit or any(value is not None for value in (self.ours, *compared)):
                raise ValueError("a row that says why nothing was measured has no numbers")
            return self
        if self.unit not in UNITS:
            raise ValueError(f"unit {self.unit!r}: allowed are {', '.join(UNITS)}")
        if self.ours is None or not self.repeats:
            raise ValueError("a measured row needs ours and repeats")
        if any((value is None) == bool(self.peer) for value in compared):
            raise ValueError("theirs, ratio, low and high belong to a peer, all or none")
        if self.peer and not (self.low or 0) <= (self.ratio or 0) <= (self.high or 0):
            raise ValueError("low ≤ ratio ≤ high must hold")
        return self

    @property
    def key(self) -> tuple[str, str, str]:
        """A row that is measured again takes the place of the one with this key."""
        return self.what, self.peer, self.machine


# --- making rows ------------------------------------------------------------------------------------------------------


def compared(
    what: str,
    peer: str,
    unit: str,
    ours: Sequence[float],
    theirs: Sequence[float],
    setting: str = "",
    device: str = "cpu",
) -> Row:
    """The row of a comparison; ``ours`` and ``theirs`` hold a number a round, in ``unit``, of the same rounds."""
    if len(ours) != len(theirs) or not ours:
        raise UserError(f"{what}: {len(ours)} rounds of ours and {len(theirs)} of {peer}; as many of each are needed")
    pairs = zip(ours, theirs, strict=True)
    ratios = [mine / other if UNITS.get(unit) else other / mine for mine, other in pairs]
    return _row(
        device,
        what=what,
        peer=peer,
        unit=unit,
        ours=statistics.median(ours),
        theirs=statistics.median(theirs),
        ratio=statistics.median(ratios),
        low=min(ratios),
        high=max(ratios),
        repeats=len(ours),
        setting=setting,
    )


def alone(what: str, unit: str, ours: Sequence[float], setting: str = "", device: str = "cpu") -> Row:
    """The row of something that has no peer."""
    return _row(device, what=what, peer="", unit=unit, ours=statistics.median(ours), repeats=len(ours), setting=setting)


def missing(what: str, peer: str, reason: str) -> Row:
    """The row of a comparison that could not be made here; ``reason`` names the command that would make it possible."""
    return _row("cpu", what=what, peer=peer, missing=reason)


def _row(device: str, **values: Any) -> Row:
    now = datetime.now(UTC).isoformat(timespec="seconds")
    context = {"measured": now, "command": command(), "versions": installed()}
    return checked(
        {**values, **context, "machine": machine(device), "load": round(os.getloadavg()[0], 1)}, values["what"]
    )


def checked(values: Mapping[str, Any], source: str) -> Row:
    """UserError, in one line, if these are no row."""
    try:
        return Row.model_validate(values)
    except ValidationError as error:
        raise UserError(f"{source}: {first_problem(error)}") from None


def machine(device: str = "cpu") -> str:
    """What tells this machine from another one: its GPU if that computes, else its processor and number of cores."""
    if device.startswith("cuda"):
        import torch

        return torch.cuda.get_device_name(torch.device(device))
    return f"{_processor()}, {os.cpu_count()} cores"


def command() -> str:
    """This process's call, as a line for a shell in the project's folder."""
    return shlex.join(["python", f"bench/{Path(sys.argv[0]).name}", *sys.argv[1:]])


def installed() -> dict[str, str]:
    """The versions of Python, of what computes here, and of the peers."""
    from importlib import metadata

    packages = versions()
    for name in _PEERS:
        try:
            packages[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return packages


def threads(count: int) -> str:
    """So many threads, in words."""
    return "1 thread" if count == 1 else f"{count} threads"


def processes(count: int) -> str:
    """So many processes, in words."""
    return "1 process" if count == 1 else f"{count} processes"


# --- files ------------------------------------------------------------------------------------------------------------


def write(bench: str, rows: Sequence[Row], folder: Path = FOLDER) -> None:
    """Add rows to those of ``bench``; a row that is there with the same key, or that says that the bench failed, goes."""
    path = folder / f"rows/{bench}.json"
    keys = {row.key for row in rows} | {failure(bench).key}
    kept = [row for row in read(path) if row.key not in keys] if path.exists() else []
    write_json(path, {"rows": [row.model_dump() for row in (*kept, *rows)]})
    for row in rows:
        print(f"→ {line(row)}", flush=True)


def read(path: Path) -> list[Row]:
    """The rows of a bench; UserError names the first that is none."""
    rows = read_json(path).get("rows")
    if not isinstance(rows, list):
        raise UserError(f"{path}: a list of rows is needed; run the bench again")
    return [checked(row, f"{path}, row {place}") for place, row in enumerate(rows, start=1)]


def failure(bench: str, reason: str = "it was never run") -> Row:
    """The row of a bench that broke down before it could measure anything."""
    return missing(f"bench/{bench}.py", "", reason)


def line(row: Row) -> str:
    """A row in one line."""
    if row.missing:
        return f"{row.what}{f', against {row.peer}' if row.peer else ''}: not measured: {row.missing}"
    if not row.peer:
        return f"{row.what}: {row.ours:.4g} {row.unit}"
    ratio = f"{row.ratio:.2f} [{row.low:.2f}, {row.high:.2f}] times as good"
    return f"{row.what}: {row.ours:.4g} {row.unit}, {row.peer} {row.theirs:.4g}: {ratio}, {row.repeats} rounds"


# --- the command line -------------------------------------------------------------------------------------------------


def parser(about: str | None, **numbers: int) -> argparse.ArgumentParser:
    """The command line of a bench that is ``about`` this; ``numbers``: options that take whole numbers, and their defaults."""
    command_line = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in numbers.items():
        command_line.add_argument(f"--{name.replace('_', '-')}", type=int, default=default)
    return command_line


def arguments(parser: argparse.ArgumentParser, **quick: Any) -> argparse.Namespace:
    """The command line of a bench, with what all have: ``--quick``, which takes other defaults, and ``--results``."""
    parser.add_argument("--quick", action="store_true", help="the smallest sensible sizes, to see that all works")
    parser.add_argument("--results", type=Path, default=FOLDER, help="where rows are kept; default: results/bench")
    if parser.parse_known_args()[0].quick:
        parser.set_defaults(**quick)
    return parser.parse_args()
