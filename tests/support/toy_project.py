"""The project at a toy scale, in a folder and a git repository of its own."""

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
from changed import put
from scale_files import ROOT, read_params, scale_values, write_params

from mdc.plan.config.decoding import Captioning
from mdc.plan.config.yaml_core import read_yaml

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
    for section in ("tokenizers", "encoders", "encode"):
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
    dataset = {
        "label": "Alt",
        "corpus": "alt",
        "images": 6,
        "pretrained": "alt",
        "tuned": {"plain": "tuned"},
        "training": "half",
        "skip_metrics": ["METEOR", "SPICE"],
    }
    system = {"label": "MDC", "method": "mdc", "tuned": "plain", "decode": {"kind": "unmask", "lengths": [4]}}
    values["captions"] = {
        **{key: value for key, value in values["captions"].items() if key in Captioning.model_fields},
        "finetunings": {"tuned": {"corpus": "half", "patience": 1, "recipe": copy.deepcopy(pretrain["recipe"])}},
        "datasets": {"alt": dataset},
        "systems": {"mdc_4": system},
    }
    values["tables"] = {
        "table1": {"corpora": {"alt": ["clip", "arc", "mdc"]}, "probes": ["shape", "digits"]},
        "figure5": {"corpora": ["alt", "half"], "methods": ["mdc"], "trends": ["mdc"]},
        "table6": {"backbone": "tiny"},
        "table9": {},
        "figure3": {"corpora": ["alt"]},
        "table2": {
            "corpora": {"alt": ["clip", "mdc"]},
            "language_prior_weights": [0.0, 1.0],
            "columns": {"relation": {"label": "Relation", "sets": ["relation"]}},
        },
        "table3": {"datasets": ["alt"], "systems": ["mdc_4"]},
        "figure6": {"datasets": ["alt"], "systems": ["mdc_4"]},
        "figure_loss": {},
    }
    return values


def good(done: subprocess.CompletedProcess[str]) -> str:
    """Standard output of a call that must have done well."""
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


class Project:
    """A copy of the project in ``folder``, or a clone of another such copy, and its tools from the folder ``bin``.

    ``calls`` and ``die`` are the files of the stand-in for `mdc`, if that is among the tools.
    """

    def __init__(self, folder: Path, bin: Path = BIN, source: "Project | None" = None, **variables: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.bin, self._seen = folder, bin, 0
        self.calls, self.die = ((source or self).folder.parent / name for name in ("calls", "die"))
        # as an activated environment has it
        path = f"{bin}{os.pathsep}{os.environ['PATH']}"
        own = {"PYTHONPATH": str(folder / "src"), "PATH": path, "CALLS": str(self.calls), "DIE": str(self.die)}
        self.environment = {**os.environ, **own, **WHO, **variables}
        if source is not None:
            self.git("clone", "--quiet", str(source.folder), ".")
            self.restore()
            return
        for part in PARTS:
            (folder / part).parent.mkdir(parents=True, exist_ok=True)
            if (ROOT / part).is_dir() and not (ROOT / part).is_symlink():
                shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(ROOT / part, folder / part, follow_symlinks=False)
        self.values = toy()
        self.write()
        self.git("init", "--quiet")
        self.commit()

    def write(self) -> None:
        """Write ``values`` to the two files, beside what other scales need."""
        write_params(self.folder, self.values, shared=read_yaml(ROOT / "params.yaml")["shared"])

    def edit(self, key: str, to: Any) -> None:
        """Write ``values`` with another one at ``key`` ("probe.lr")."""
        put(self.values, key, to)
        self.write()

    def restore(self) -> None:
        """The files, and ``values``, as they were committed."""
        self.git("checkout", ".")
        self.values = read_params(self.folder)

    def called(self) -> list[str]:
        """The jobs that the stand-in was called for since this was last asked, sorted."""
        lines = self.calls.read_text().splitlines() if self.calls.exists() else []
        found, self._seen = lines[self._seen :], len(lines)
        return sorted(found)

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
        return good(self.run("git", "-c", "init.defaultBranch=main", *arguments))

    def commit(self) -> None:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "state")

    def make(self, *arguments: str) -> None:
        """A call of Snakemake that must do well."""
        good(self.snakemake(*arguments))

    def snakemake(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.run(self.bin / "snakemake", *arguments)

    def mdc(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.run(self.bin / "mdc", *arguments)

    def shell(self, command: str) -> subprocess.CompletedProcess[str]:
        return self.run("/bin/sh", "-c", command)

    def dvc(self, *arguments: str) -> str:
        """Standard output of a DVC call that must do well."""
        return good(self.run(self.bin / "dvc", *arguments))

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
