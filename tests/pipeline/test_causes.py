"""What `mdc verify` says of every job that an edit makes stale: the key with both its values, or whose code changed.

No job is done here: of each a record lies there that holds the configuration that was asked before the edit.
"""

from pathlib import Path
from typing import Any

import pytest
import small_project
from changed import with_other

from mdc.checks.differences import what_changed
from mdc.checks.place import Place
from mdc.plan.artefacts import ARTEFACTS
from mdc.plan.config.read import validate
from mdc.plan.fingerprint import fingerprint
from mdc.plan.jobs import context as plans
from mdc.plan.jobs.folder import ScaleFolder
from mdc.plan.jobs.plan import Plan
from mdc.plan.verbs import VERBS


@pytest.fixture(scope="module")
def before() -> Plan:
    return small_project.plan()


@pytest.fixture(scope="module")
def results(before: Plan, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("results")
    small_project.only_records(before, ScaleFolder(root / small_project.SCALE))
    return root


def told(before: Plan, now: Plan, results: Path) -> dict[str, str]:
    """Of every job that is asked for in another way now, what is said of it."""
    place = Place(now, results=results)
    stale = [name for name, job in before.jobs.items() if job.config() != now.jobs[name].config()]
    return {name: what_changed(place, name, before.jobs[name].config()) for name in stale}


#: the layer → where the value stands, the value, the key as the job has it, the value before, and a table that shows it
EDITS: dict[str, tuple[tuple[str, ...], Any, str, Any, str | None]] = {
    "data": (("data", "corpora", "alt", "source", "seed"), 9, "source.seed", 1, None),
    "tokenizer": (("tokenizers", "vq", "commitment"), 0.5, "entry.commitment", 0.25, "mcd_table1"),
    "encoder": (("encode", "batch"), 8, "encode.batch", 16, None),
    "pretrain": (("pretrain", "recipe", "lr"), 0.002, "lr", 0.001, "table1"),
    "finetune": (("finetune", "tuned", "patience"), 3, "start.patience", 2, "table3"),
    "probe": (("probe", "lr"), 0.2, "recipe.lr", 0.1, "table1"),
    "score": (("score", "samples"), 32, "scoring.samples", 16, "table2"),
    "caption": (("caption", "batch_tokens"), 8192, "captioning.batch_tokens", 4096, "table3"),
    "a way of writing": (
        ("tables", "table3", "systems", "arc", "decode", "num_beams"), 3, "policies.arc.decode.num_beams", 2, "figure6"
    ),
    "statistics of a row": (("tables", "table3", "systems", "arc", "label"), "Ours", "label", "ARC", "table3"),
}  # fmt: skip


@pytest.mark.parametrize("layer", EDITS)
def test_every_job_tells_the_key_and_both_values(layer: str, before: Plan, results: Path) -> None:
    path, value, key, was, table = EDITS[layer]
    now = Plan(validate(with_other(small_project.values(), path, value)))
    found = told(before, now, results)
    assert found and (table is None or table in found)
    wrong = {name: said for name, said in found.items() if f"{key} was {was!r} and is now {value!r}" not in said}
    assert not wrong


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb != "make"])
def test_every_job_tells_whose_code_changed(
    verb: str, before: Plan, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = {name for name, job in before.jobs.items() if job.verb == verb}

    def changed(*modules: str) -> str:
        return "0" * 64 if modules[-1] == VERBS[verb].module else fingerprint(*modules)

    monkeypatch.setattr(plans, "fingerprint", changed)
    found = told(before, small_project.plan(), results)
    assert mine <= set(found)
    assert {
        name: said for name, said in found.items() if said not in {f"the code of {one} changed" for one in mine}
    } == {}


def test_what_was_done_anew_since_is_told_without_a_hash(before: Plan, results: Path, tmp_path: Path) -> None:
    """Then no record says any more how it was done before."""
    now = Plan(validate(with_other(small_project.values(), ("probe", "lr"), 0.2)))
    small_project.only_records(now, ScaleFolder(tmp_path / small_project.SCALE), lambda job: job not in ARTEFACTS)
    said = what_changed(Place(now, results=tmp_path), "table1", before.jobs["table1"].config())
    assert said.startswith("probe/") and said.endswith(", behind table1, has a new configuration")
