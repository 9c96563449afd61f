"""Where a scale's jobs keep their things, and what each job's configuration is now."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from mdc import jobs
from mdc.config import Params
from mdc.records import UserError, beside, read_json, sha256_file

RESULTS = Path("results")
TABLE, LOSS, SCHEDULES = "table1", "figure_loss", "figure_schedules"
LENGTHS, LICENCES, RECIPES = "figure3", "table9", "recipes"
#: the file of ``results/`` to ask the workflow for
TARGETS = {name: f"{name}.csv" for name in (*jobs.TABLES, LICENCES)}
TARGETS |= {name: f"{name}.png" for name in (LOSS, SCHEDULES, LENGTHS, "figure4", "figure5")}
TARGETS |= {RECIPES: "table6.csv"}


def target_of(job: str) -> str:
    """The table or figure that a job is for: itself, or Table 1."""
    return job if job in TARGETS else TABLE


class Broken(UserError):
    """A link in the chain behind a number does not hold."""

    exit_code = 3


@dataclass(frozen=True)
class Place:
    """``params``: of the scale looked at. ``elsewhere``: it is another one than params.yaml names by itself."""

    params: Params
    elsewhere: bool = False
    results: Path = RESULTS

    @property
    def folder(self) -> Path:
        """The scale's folder."""
        return self.results / self.params.scale

    @cached_property
    def configs(self) -> dict[str, dict[str, Any]]:
        """What params.yaml and the code now ask of every job of the scale, by its name."""
        return jobs.configs(self.params)

    def record(self, job: str) -> Path:
        return self.folder / jobs.record_file(self.configs[job])

    def made(self, job: str) -> Path:
        """Where a job's configuration, inputs and outputs stand: for a data set beside its record."""
        return beside(self.record(job), "made") if job.startswith("data/") else self.record(job)

    def host(self, job: str) -> Path:
        return beside(self.record(job), "host")

    def config(self, job: str) -> Path:
        return self.folder / "configs" / f"{job}.json"

    def log(self, job: str) -> Path:
        """The file that the workflow sends a job's messages to."""
        return self.folder / "logs" / f"{job}.log"

    def snakemake(self, table: str) -> str:
        """The command that brings a table or figure up to date."""
        return self._call(RESULTS / TARGETS[table])

    def again(self, table: str, damaged: Path) -> str:
        """The command that makes a damaged file's job anew, then what rests on it if it came out differently.

        Snakemake takes what is there for what it made, and makes nothing that is missing between two good ends: so it
        is told to. In two calls, because in one it would also make anew all that rests on an equal file.
        """
        anew = f"{self._call(damaged)} --forcerun {shlex.quote(str(damaged))}"
        return anew if damaged == RESULTS / TARGETS[table] else f"{anew} && {self.snakemake(table)}"

    def _call(self, target: Path) -> str:
        scale = f" --config scale={self.params.scale}" if self.elsewhere else ""
        return f"snakemake {shlex.quote(str(target))} --cores all{scale}"

    def mend(self, table: str, job: str) -> str:
        """The command for a record that is not the one named above it.

        Where its host file says that its job wrote it so, it was made since, and what rests on it is stale; otherwise
        it was changed.
        """
        record = self.record(job)
        try:
            as_made = read_json(self.host(job)).get("record_sha256") == sha256_file(record)
        except UserError:
            as_made = False
        return self.snakemake(table) if as_made else self.again(table, record)
