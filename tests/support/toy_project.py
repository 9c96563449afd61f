"""The project at a toy scale, in a folder and a git repository of its own."""

from __future__ import annotations

import copy
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from scale_files import ROOT, read_params, scale_values, write_params

from mdc.plan.config.read import read_yaml

BIN = Path(sys.executable).parent
#: what of the project takes part in the pipeline
PARTS = (
    ".dvc/.gitignore",
    ".dvc/config",
    ".dvcignore",
    ".gitignore",
    "Snakefile",
    "dvc.yaml",
    "profiles",
    "scales",
    "workflow",
    "src/mdc",
    "results/README.md",
)
WHO = {f"GIT_{role}_{what}": "test@localhost" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}


def toy() -> dict[str, Any]:
    """Scale mini made as small as it goes: one backbone, a corpus and its half, three methods, two probes, a choice set,
    and a table or figure of each kind."""
    values = scale_values("mini")
    for section in ("tokenizers", "encoders", "encode", "mc_diffusion", "claims"):
        del values[section]
    values |= {"scale": "toy", "label": "toy"}
    values["protocol"]["statistics"]["bootstrap"] = 250
    data, pretrain = values["data"], values["pretrain"]
    data["vocabularies"] = {"words": ["alt", "half", "relation"]}
    alt = {**data["corpora"]["alt"]["source"], "train": 192, "val": 32, "test": 6}
    data["corpora"] = {
        "alt": {"label": "Alt-text", "source": alt},
        "half": {"label": "Half", "source": {**alt, "train": 96}},
    }
    data["probes"] = {name: data["probes"][name] for name in ("shape", "digits")}
    data["probes"]["shape"]["source"] |= {"train": 96, "test": 64}
    data["choices"] = {"relation": data["choices"]["relation"]}
    data["choices"]["relation"]["source"] |= {"items": 12}
    backbone = {**pretrain["backbones"]["ViT-T-12"], "width": 32, "layers": 1, "heads": 2, "embed_dim": 16}
    pretrain["backbones"] = {"tiny": {**backbone, "decoder": {"width": 32, "layers": 1, "heads": 2}}}
    pretrain |= {"overrides": [], "variants": {}}
    pretrain["recipe"] |= {"epochs": 1, "batch_size": 32, "warmup_steps": 2, "validate_every": 4}
    pretrain["runtime"]["log_every"] = 1
    values["probe"]["epochs"] = 2
    values["score"]["processes"] = 1
    values["finetune"] = {"tuned": {"corpus": "half", "patience": 1, "recipe": copy.deepcopy(pretrain["recipe"])}}
    dataset = {
        "label": "Alt",
        "corpus": "alt",
        "images": 6,
        "pretrained": "alt",
        "tuned": {"plain": "tuned"},
        "training": "half",
    }
    system = {"label": "MDC", "method": "mdc", "tuned": "plain", "write": {"kind": "unmask", "lengths": [4]}}
    values["tables"] = {
        "table1": {"corpora": {"alt": ["clip", "arc", "mdc"]}, "probes": ["shape", "digits"]},
        "figure5": {"corpora": ["alt", "half"], "methods": ["mdc"], "trends": ["mdc"]},
        "table6": {"backbone": "tiny"},
        "table9": {},
        "figure3": {"corpora": ["alt"]},
        "table2": {
            "corpora": {"alt": ["clip", "mdc"]},
            "alphas": [0.0, 1.0],
            "columns": {"relation": {"label": "Relation", "sets": ["relation"]}},
        },
        "table3": {"datasets": {"alt": dataset}, "systems": {"mdc_4": system}, "left_out": ["METEOR", "SPICE"]},
        "figure6": {},
        "figure_loss": {},
    }
    return values


class Project:
    """A copy of the project in ``folder``, or a clone of another such copy, and its tools from the folder ``bin``."""

    def __init__(self, folder: Path, bin: Path = BIN, source: Project | None = None, **variables: str) -> None:
        self.folder = folder
        self.bin = bin
        self.environment = {**os.environ, "PYTHONPATH": str(folder / "src"), **WHO, **variables}
        # as an activated environment has it
        self.environment["PATH"] = f"{bin}{os.pathsep}{self.environment['PATH']}"
        if source is not None:
            self.git("clone", "--quiet", str(source.folder), ".")
            self.values = read_params(folder)
            return
        for part in PARTS:
            (folder / part).parent.mkdir(parents=True, exist_ok=True)
            if (ROOT / part).is_symlink():
                (folder / part).symlink_to((ROOT / part).readlink())
            elif (ROOT / part).is_dir():
                shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(ROOT / part, folder / part)
        self.values = toy()
        self.write()
        self.git("init", "--quiet")
        self.commit()

    def write(self) -> None:
        """Write ``values`` to the two files, beside what other scales need."""
        write_params(self.folder, self.values, shared=read_yaml(ROOT / "params.yaml")["shared"])

    def keep_artefacts(self, names: Sequence[str]) -> None:
        """Leave DVC the stages of these tables and figures alone: each costs every `dvc repro` a Snakemake."""
        assert set(names) <= set(self.values["artefacts"])
        self.values["artefacts"] = [name for name in self.values["artefacts"] if name in names]
        self.write()

    def run(self, tool: str | Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [tool, *arguments],
            cwd=self.folder,
            capture_output=True,
            text=True,
            env={**self.environment, **variables},
        )

    def git(self, *arguments: str) -> str:
        done = self.run("git", "-c", "init.defaultBranch=main", *arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def commit(self) -> None:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "state")

    def snakemake(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.run(self.bin / "snakemake", *arguments)

    def mdc(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.run(self.bin / "mdc", *arguments)

    def shell(self, command: str) -> subprocess.CompletedProcess[str]:
        return self.run("/bin/sh", "-c", command)

    def dvc(self, *arguments: str) -> str:
        """Standard output of a DVC call that must do well."""
        done = self.run(self.bin / "dvc", *arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def adopt(self, *stages: str) -> subprocess.CompletedProcess[str]:
        """What `make adopt` calls."""
        return self.run(self.bin / "python", "workflow/adopt.py", *stages)

    def planned(self, *arguments: str) -> dict[str, int]:
        """Jobs that a dry run would do, by rule; of Table 1 unless other targets are given first."""
        return {rule: len(jobs) for rule, jobs in self.planned_jobs(*arguments).items()}

    def planned_jobs(self, *arguments: str) -> dict[str, list[str]]:
        """Jobs that a dry run would do: by rule, their first outputs."""
        targets = arguments if arguments and not arguments[0].startswith("-") else ("results/table1.csv", *arguments)
        done = self.snakemake(*targets, "-n")
        text = done.stdout + done.stderr
        assert done.returncode == 0, text
        # without its profile, Snakemake would stop at what a killed one left incomplete
        assert "Using workflow specific profile profiles/default" in text
        found: dict[str, list[str]] = {}
        for rule, body in re.findall(r"^(?:local)?rule (\w+):\n((?:    .*\n)*)", text, re.M):
            output = re.search(r"^    output: ([^,\n]+)", body, re.M)
            if output:
                found.setdefault(rule, []).append(output[1])
        assert found or "Nothing to be done" in text, text
        return found

    def outs(self) -> list[str]:
        """Every file that DVC keeps, by its path in the project."""
        stages = yaml.safe_load((self.folder / "dvc.lock").read_text())["stages"].values()
        places = [self.folder / out["path"] for stage in stages for out in stage.get("outs", [])]
        files = [path for place in places for path in (place, *place.rglob("*")) if path.is_file()]
        return [str(path.relative_to(self.folder)) for path in files]
