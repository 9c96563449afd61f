"""Snakemake and DVC together, both real, on a toy scale with a stand-in `mdc` that notes its calls and learns nothing.

One project, in the order of the tests: each leaves it as committed, with nothing to do.
"""

import copy
import fcntl
import json
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from scale_files import ROOT, scale_values, write_params
from toy_project import Project, good
from warm import environment

from mdc.plan import artefacts
from mdc.plan.config.read import validate
from mdc.plan.jobs.plan import Plan
from mdc.plan.records import sha256_file

pytestmark = pytest.mark.slow

#: one of each plan, and one that the scale does not name: each costs every `dvc repro` a Snakemake
ARTEFACTS = {
    name: artefacts.ARTEFACTS[name]
    for name in ("table1", "table2", "table3", "table6", "table9", "figure3", "figure5", "figure_loss")
}
NOT_NAMED = "table9"
# a job's layer is the first part of its name or of its first output below the scale; a layer's stage is
STAGE = {"data": "data", "runs": "pretrain", "probe": "probe", "scores": "score"}
STAGE |= dict.fromkeys(("captions", "metrics"), "caption")
STAGE |= {name: f"artefact@{name}" for name in ARTEFACTS}
#: artefacts by what they are made from
TABLES = [name for name, artefact in ARTEFACTS.items() if "probe" in artefact.load("config").sections]
LOGS, CHOICES, WRITTEN = ["figure_loss"], ["table2"], ["table3"]
METRICS = "results/toy/table1/table1_metrics.json"
TRAINED = {*(f"alt/tiny/{method}/s0" for method in ("clip", "arc", "mdc")), "half/tiny/mdc/s0"}
FINETUNED = "alt/tiny/mdc/s0/ft-tuned"
RUNS = {*TRAINED, FINETUNED}
PROBES = {
    *(f"probe/{run}" for run in TRAINED),
    *(f"probe/untrained/tiny/{pooling}/s0" for pooling in ("cls", "patch_mean")),
}


def _jobs(project: Project) -> list[str]:
    return sorted(Plan(validate(project.values)).jobs)


def _layer(output: str) -> str:
    """Of a file below results/toy/."""
    return output.split("/")[2]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """The project with its remote, in which nothing is made yet."""
    folder = tmp_path_factory.mktemp("trials")
    with environment(folder / "environment") as bin:
        made = Project(folder / "project", bin)
        # the stand-in runs none of the code that Snakemake does not import: there is less to hash
        source = made.folder / "src/mdc"
        for path in source.rglob("*.py"):
            # planning imports what is declared, wherever it lies
            declared = path.name in ("method.py", "kinds.py", "jobs.py", "verbs.py")
            if path.relative_to(source).parts[0] not in ("plan", "report", "data") and not declared:
                shown = artefacts.read_shown(path)
                path.write_text(f"SHOWN = {json.dumps(shown, indent=1)}\n" if shown else "pass\n")
        toy = made.values
        toy["tables"] = {name: table for name, table in toy["tables"].items() if name in ARTEFACTS.keys() - {NOT_NAMED}}
        made.keep_artefacts(list(ARTEFACTS))
        others = {name: {**copy.deepcopy(toy), "scale": name, "label": name} for name in ("other", "lone")}
        others["lone"]["tables"] = {"table1": toy["tables"]["table1"]}
        for values in others.values():
            write_params(made.folder, values)
        made.write()
        made.dvc("remote", "add", "--default", "store", str(folder / "remote"))
        made.commit()
        yield made


def _outs(project: Project) -> dict[str, str]:
    """sha256 of every file that DVC keeps, by its path."""
    return {path: sha256_file(project.folder / path) for path in project.outs()}


def _stages(said: str) -> list[str]:
    """The stages that `dvc repro` or `dvc exp run` says it ran."""
    return [line.split("'")[1] for line in said.splitlines() if line.startswith("Running stage")]


def _stages_of(*layers: str) -> list[str]:
    """The stages of layers, in their order."""
    return list(dict.fromkeys(stage for layer, stage in STAGE.items() if layer in layers))


def _named(project: Project) -> set[str]:
    """The tables and figures that the toy scale makes."""
    return set(project.values["tables"])


def _status(project: Project) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(project.dvc("status", "--json"))
    return found


def _go_back(project: Project) -> None:
    """What the README says for coming back to a commit."""
    project.restore()
    project.dvc("checkout")
    good(project.adopt())


def test_adopt_before_anything_was_made_says_so(project: Project) -> None:
    done = project.adopt()
    assert done.returncode == 1 and done.stderr.count("\n") == 1 and "no dvc.lock" in done.stderr


def test_snakemake_then_dvc_runs_nothing_again(project: Project) -> None:
    project.make("all", "--cores", "2")
    assert project.called() == _jobs(project)
    said = project.dvc("repro")
    assert _stages(said) == [*_stages_of(*STAGE), "index"], (
        "DVC knows nothing yet, so it asks Snakemake for every layer"
    )
    assert project.called() == []
    assert _status(project) == {}
    assert _stages(project.dvc("repro")) == []
    for name in ARTEFACTS:
        found = {path.name for path in (project.folder / "results/toy" / name).iterdir()}
        named = name in _named(project)
        assert found == ({f"{name}.json", *ARTEFACTS[name].files} if named else {"not_named.txt"})
    project.commit()
    project.dvc("push")


def test_an_edited_probe_hyper_parameter_reruns_probes_and_tables(project: Project) -> None:
    before = _outs(project)
    project.edit("probe.lr", 0.2)
    project.make("all", "--cores", "2")
    assert project.called() == sorted({*PROBES, *TABLES})
    # the other tool asks every stage, since each has the scale's file among its deps
    assert _stages(project.dvc("repro")) == [*_stages_of(*STAGE), "index"]
    assert project.called() == []
    assert _status(project) == {}
    after = _outs(project)
    changed = {path for path in after if after[path] != before.get(path)}
    assert {_layer(path) for path in changed} == {"probe", *TABLES}
    # whole: every file of theirs, and the record
    files = {f"results/toy/{name}/{file}" for name in TABLES for file in (f"{name}.json", *ARTEFACTS[name].files)}
    assert {path for path in changed if _layer(path) != "probe"} == files
    assert "alt/tiny/mdc.average" in json.loads(project.dvc("metrics", "diff", "--json"))[METRICS]


def test_an_edited_table_is_neither_copied_nor_certified(project: Project) -> None:
    table, copied = (project.folder / "results" / place for place in ("toy/table1/table1.csv", "table1.csv"))
    table.write_text(table.read_text() + "7")
    said = project.snakemake("results/table1.csv", "--cores", "1")
    (mend,) = re.findall(r"toy/table1/table1.csv: not the file .*; to mend: (.*)", said.stderr)
    assert said.returncode == 1
    copied.write_text(table.read_text())
    done = project.run(project.bin / "dvc", "repro", "artefact@table1")
    assert done.returncode != 0 and mend in done.stderr
    assert "--forcerun make_table1" in mend and project.called() == []
    good(project.shell(mend))
    assert project.called() == ["table1"] and copied.read_text() == table.read_text() != ""
    # an edited copy alone is copied anew
    copied.write_text("7")
    project.dvc("repro", "--force", "--single-item", "artefact@table1")
    assert project.called() == [] and copied.read_text() == table.read_text() and _status(project) == {}


def test_a_copied_project_does_not_run_the_other_ones_code(project: Project) -> None:
    done = project.run(project.bin / "snakemake", "-n", PYTHONPATH=str(ROOT / "src"))
    assert done.returncode == 1 and re.search(r"/src/mdc: not the code that runs, .*`make setup`", done.stdout)


def test_a_call_beside_another_one_is_not_told_to_unlock(project: Project) -> None:
    lock = project.folder / ".snakemake/locks/0.output.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    lock.write_text("results/table1.csv\n")
    with (project.folder / ".snakemake/alive").open("a+") as alive:
        fcntl.flock(alive, fcntl.LOCK_SH)
        beside = project.snakemake("table1", "--cores", "1", "--config", "scale=other")
    killed = project.snakemake("table1", "--cores", "1", "--config", "scale=other")
    lock.unlink()
    assert beside.returncode == killed.returncode == 1
    assert "wait until it ends" in beside.stderr and "--unlock argument" not in beside.stderr
    assert "removed with the --unlock argument" in killed.stderr and "wait until" not in killed.stderr


def test_after_checkout_and_adoption_there_is_no_job(project: Project) -> None:
    project.git("checkout", ".")
    project.dvc("checkout")
    assert project.planned("all"), "DVC brings contents, not what Snakemake knows"
    _go_back(project)
    assert project.planned("all") == {}
    assert project.called() == []
    for name in _named(project):
        for file in (f"{name}.json", *ARTEFACTS[name].files):
            made = project.folder / "results/toy" / name / file
            assert (project.folder / "results" / file).read_bytes() == made.read_bytes()
    assert not (project.folder / "results/not_named.txt").exists()


def test_switching_the_scale_and_back_makes_the_copies_only(project: Project) -> None:
    project.make("all", "--cores", "2", "--config", "scale=other")
    assert project.called() == _jobs(project)
    copies = dict.fromkeys([*_named(project), "index"], 1)
    # one after the other, as after a second `snakemake --config scale=other`
    for scale in ("toy", "other"):
        assert project.planned("all", "--config", f"scale={scale}") == (copies if scale == "toy" else {})
    assert _status(project) == {}, "DVC certifies the scale that params.yaml names"
    # a copy of another scale's table is no longer there after adoption
    good(project.adopt())
    copy_, made = (project.folder / "results" / place for place in ("table1.csv", "toy/table1/table1.csv"))
    assert copy_.read_bytes() == made.read_bytes()
    assert project.planned("all") == {}
    assert project.planned("all", "--config", "scale=other") == copies
    assert project.called() == []


def _copies(project: Project) -> set[str]:
    """The tables and figures that lie at results/."""
    there = {path.name for path in (project.folder / "results").iterdir()}
    found = {name for name in ARTEFACTS if f"{name}.json" in there}
    assert {file for name in found for file in (f"{name}.json", *ARTEFACTS[name].files)} == {
        name for name in there if "." in name and name not in ("README.md", "index.html")
    }
    return found


def _scale(project: Project, name: str) -> str:
    """Of an artefact's copies."""
    return str(json.loads((project.folder / f"results/{name}.json").read_text())["config"]["scale"])


def test_a_scale_makes_what_it_names_and_copies_of_others_stay(project: Project) -> None:
    good(project.adopt())
    assert _copies(project) == _named(project)
    project.make("all", "--cores", "2", "--config", "scale=lone")
    runs = ["runs/alt/tiny/arc/s0", "runs/alt/tiny/clip/s0", "runs/alt/tiny/mdc/s0"]
    controls = [f"untrained/tiny/{pooling}/s0" for pooling in ("cls", "patch_mean")]
    probes = [f"probe/{name}" for name in (*(run.removeprefix("runs/") for run in runs), *controls)]
    called = project.called()
    assert [name for name in called if not name.startswith("data/")] == sorted([*probes, *runs, "table1"])
    assert _copies(project) == _named(project)
    assert (_scale(project, "table1"), _scale(project, "figure3")) == ("lone", "toy")
    page = project.folder / "results/index.html"
    assert "lone" in page.read_text()
    # what the scale does not name fails, also where another scale's copy lies; what DVC calls for it keeps a note
    for target in ("figure3", f"results/{ARTEFACTS['figure3'].target}"):
        done = project.snakemake(target, "--cores", "1", "--config", "scale=lone")
        assert done.returncode == 1 and "scale lone names no figure3" in done.stderr
    done = project.mdc("stage", "figure3", "--scale", "lone")
    assert done.returncode == 0 and (project.folder / "results/lone/figure3/not_named.txt").is_file()
    # each is a target of its own, and the page follows
    project.make("table1", "--cores", "1")
    assert _scale(project, "table1") == "toy" and "lone" not in page.read_text()
    good(project.adopt())
    assert _copies(project) == _named(project)
    assert project.planned("all") == {} and project.called() == []


def test_a_comment_makes_dvc_ask_and_snakemake_do_nothing(project: Project) -> None:
    source = project.folder / "src/mdc/training/run.py"
    source.write_text(source.read_text() + "\n# a comment\n")
    assert set(_status(project)) == {*STAGE.values(), "index"}
    assert project.planned("all") == {}
    done = project.adopt()
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert "modified: src/mdc" in done.stderr and "dvc pull" in done.stderr
    project.git("checkout", ".")


def test_experiment_in_a_folder_of_its_own_changes_the_checkpoints(project: Project) -> None:
    project.dvc("exp", "run", "--temp", "--name", "hot", "--set-param", "scales/toy.yaml:pretrain.recipe.lr=0.002")
    assert "runs/alt/tiny/mdc/s0" in project.called()
    revision = project.git("for-each-ref", "--format=%(objectname)", "refs/exps/*/*/hot").strip()
    before, after = (yaml.safe_load(project.git("show", f"{rev}:dvc.lock"))["stages"] for rev in ("HEAD", revision))
    runs = [
        {out["path"]: out["md5"] for out in lock["pretrain"]["outs"]}["results/toy/runs"] for lock in (before, after)
    ]
    old, new = (_files(project, md5) for md5 in runs)
    assert set(old) == set(new)
    weights = [f"alt/tiny/{method}/s0/checkpoint.safetensors" for method in ("clip", "arc", "mdc")]
    assert all(old[name] != new[name] for name in weights)
    assert before["data"]["outs"] == after["data"]["outs"]
    # the workspace is as it was
    assert project.git("status", "--porcelain") == ""
    assert project.planned("all") == {}
    assert _status(project) == {}


def _files(project: Project, digest: str) -> dict[str, str]:
    """md5 of each file of a folder in DVC's cache."""
    listing = project.folder / ".dvc/cache/files/md5" / digest[:2] / digest[2:]
    return {entry["relpath"]: entry["md5"] for entry in json.loads(listing.read_text())}


@pytest.fixture(scope="module")
def clone(project: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    return Project(tmp_path_factory.mktemp("clone"), project.bin, project)


def test_part_of_what_was_made_can_be_adopted(project: Project, clone: Project) -> None:
    clone.dvc("pull", "data")
    done = clone.adopt()
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert "pretrain (not in cache: results/toy/runs," in done.stderr and "dvc pull" in done.stderr
    done = clone.adopt("trainings")
    assert done.returncode == 1 and "allowed: data, pretrain, probe" in done.stderr
    good(clone.adopt("data"))
    assert clone.planned("data") == {}
    assert clone.planned("all")["pretrain"] == len(RUNS)
    assert project.called() == []


def test_a_second_clone_pulls_everything_and_reruns_nothing(project: Project, clone: Project) -> None:
    clone.dvc("pull")
    good(clone.adopt())
    held = _outs(project)
    assert _outs(clone) == held
    kinds = {Path(path).name for path in held}
    assert {
        "train-00000.tar",
        "train-00000.offsets.npy",
        "checkpoint.safetensors",
        "run.json",
        "probe.json",
        "items.parquet",
        "scores.parquet",
    } <= kinds
    assert {"table1.csv", "table1_metrics.json", "figure_loss.png"} <= kinds
    assert clone.planned("all") == {}
    assert _status(clone) == {}
    assert _stages(clone.dvc("repro")) == []
    assert project.called() == []
    for name in ("table1", "figure_loss"):
        file = ARTEFACTS[name].target
        made = clone.folder / "results/toy" / name / file
        assert (clone.folder / "results" / file).read_bytes() == made.read_bytes()


def test_one_edited_method_one_dying_training(project: Project, clone: Project) -> None:
    """In the clone: the method, its evaluations and what shows it; its training dies, and is gone on with."""
    clone.edit("methods.mdc.t_range", [0.3, 0.9])
    run = "runs/alt/tiny/mdc/s0"
    project.die.write_text(run)
    done = clone.run(clone.bin / "dvc", "repro")
    assert done.returncode != 0 and "failed to reproduce 'pretrain'" in done.stderr
    other = "half/tiny/mdc/s0"  # the same method, which goes well
    assert project.called() == sorted([*[f"{run} died"] * 3, f"runs/{other}"]), "Snakemake tries again twice"
    project.die.unlink()
    before = _outs(clone)
    assert _stages(clone.dvc("repro")) == [*_stages_of(*(layer for layer in STAGE if layer != "data")), "index"]
    evaluated = ["probe/alt/tiny/mdc/s0", f"probe/{other}", "scores/alt/tiny/mdc/s0/last"]
    evaluated += [f"runs/{FINETUNED}", f"captions/{FINETUNED}/best/alt", f"metrics/{FINETUNED}/best/alt"]
    assert project.called() == sorted([*evaluated, f"{run} resumed", *LOGS, *TABLES, *CHOICES, *WRITTEN])
    assert _status(clone) == {}
    after = _outs(clone)
    for method in ("clip", "arc"):
        path = f"results/toy/runs/alt/tiny/{method}/s0/checkpoint.safetensors"
        assert after[path] == before[path]


def test_datasets_are_obtained_before_what_is_made_of_them(project: Project) -> None:
    project.restore()
    data = project.values["data"]
    data["download"] = scale_values("paper")["data"]["download"]
    data["download"]["runtime"]["jobs"] = 2
    data["datasets"] = {name: {"path": name} for name in ("food101", "mscoco", "sugarcrepe")}
    data["datasets"]["mine"] = {"path": "mine", "from": "urls", "list": {"path": "my.csv"}}
    data["corpora"]["mine"] = {"label": "Mine", "source": {"kind": "pairs", "dataset": "mine"}}
    data["probes"]["food"] = {"label": "Food", "source": {"kind": "builder", "dataset": "food101"}}
    choices = {"kind": "sugarcrepe", "dataset": "sugarcrepe", "task": "swap_obj"}
    data["choices"]["swaps"] = {"label": "Swaps", "source": choices}
    data["texts"] = {"list": {"label": "List", "source": {"kind": "caption_list", "path": "my.csv"}}}
    project.write()
    (project.folder / "data").mkdir()
    (project.folder / "data/my.csv").write_text("url,caption\n")
    project.called()
    project.make("data", "--cores", "2")
    called = project.called()
    sets = ["data/choices/swaps", "data/corpora/mine", "data/probes/food", "data/texts/list"]
    parts = next(name for name in called if name.startswith("data/parts/mine-"))
    groups = ["data/plans/mine", "data/downloads/mine/0-of-2", "data/downloads/mine/1-of-2", parts]
    assert called == sorted([*sets, *groups, *(f"data/obtained/{name}" for name in data["datasets"])])
    assert project.planned("data") == project.planned("obtain_food101") == {}
    # one changed: it, and what is made of it
    project.edit("data.datasets.mscoco.parts", ["val2017"])
    assert project.planned("data") == {"obtain": 1, "choice_set": 1}
    project.edit("data.datasets.mscoco", {"path": "mscoco"})
    project.edit("data.download.runtime.threads", 3)
    assert project.planned("data") == {}, "how fast a download goes makes nothing anew"
    (project.folder / "data/my.csv").write_text("url,caption\nhttp://a.example/b,c\n")
    os.utime(project.folder / "data/my.csv", (time.time() + 86400,) * 2)
    done = project.snakemake("data", "-n")
    assert done.returncode == 1 and "to mend: touch data/my.csv\n" in done.stdout, done.stdout
    (project.folder / "data/my.csv").touch()
    found = project.planned("data")
    assert found["obtain"] == found["texts"] == found["corpus"] == 1 and "probe_set" not in found
    project.git("checkout", ".")
