"""What `mdc verify` says of a job that an edit makes stale: the key with both its values, or whose code changed."""

import re
from typing import Any

import pytest
import small_project
from changed import with_other

from mdc.checks.chain import stale
from mdc.plan.config.read import validate
from mdc.plan.fingerprint import fingerprint
from mdc.plan.jobs import context as plans
from mdc.plan.jobs.plan import Plan
from mdc.plan.verbs import VERBS


@pytest.fixture(scope="module")
def before() -> Plan:
    return small_project.plan()


def told(before: Plan, now: Plan) -> dict[str, str]:
    """Of every job that is asked for in another way now, what is said of it."""
    pairs = {name: (job.config(), now.jobs[name].config()) for name, job in before.jobs.items()}
    return {name: stale(name, *configs) for name, configs in pairs.items() if configs[0] != configs[1]}


#: the layer → where the value stands, the value, the key as the job has it, the value before, and a table that shows it
EDITS: dict[str, tuple[tuple[str, ...], Any, str, Any, str | None]] = {
    "data": (("data", "corpora", "alt", "source", "seed"), 9, "source.seed", 1, None),
    "tokenizer": (("tokenizers", "vq", "commitment"), 0.5, "entry.commitment", 0.25, "mcd_table1"),
    "encoder": (("encode", "batch"), 8, "encode.batch", 16, None),
    "pretrain": (("pretrain", "recipe", "lr"), 0.002, "lr", 0.001, "table1"),
    "finetune": (("captions", "finetunings", "tuned", "patience"), 3, "start.patience", 2, "table3"),
    "probe": (("probe", "lr"), 0.2, "recipe.lr", 0.1, "table1"),
    "score": (("score", "samples"), 32, "scoring.samples", 16, "table2"),
    "caption": (("captions", "batch_tokens"), 8192, "captioning.batch_tokens", 4096, "table3"),
    "a way of writing": (
        ("captions", "systems", "arc", "decode", "num_beams"), 3, "policies.arc.decode.num_beams", 2, "figure6"
    ),
    "statistics of a row": (("captions", "systems", "arc", "label"), "Ours", "label", "ARC", "table3"),
}  # fmt: skip


@pytest.mark.parametrize("layer", EDITS)
def test_the_first_job_tells_the_key_and_both_values(layer: str, before: Plan) -> None:
    """It is the one that `mdc verify` names, since a job comes after its inputs; of later ones no hash is shown."""
    path, value, key, was, table = EDITS[layer]
    found = told(before, Plan(validate(with_other(small_project.values(), path, value))))
    assert table is None or table in found
    assert f"{key} was {was!r} and is now {value!r}" in next(iter(found.values()))
    assert not any(re.search("[0-9a-f]{64}", said) for said in found.values())


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb != "make"])
def test_the_first_job_tells_whose_code_changed(verb: str, before: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = {name for name, job in before.jobs.items() if job.verb == verb}

    def changed(*modules: str) -> str:
        return "0" * 64 if modules[-1] == VERBS[verb].module else fingerprint(*modules)

    monkeypatch.setattr(plans, "fingerprint", changed)
    found = told(before, small_project.plan())
    assert mine <= set(found) and bool(mine) == bool(found)
    assert {*[*found.values()][:1]} <= {f"the code of {job} changed" for job in mine}


def test_what_was_done_anew_since_is_told_without_a_hash(before: Plan) -> None:
    """Then no record says any more how it was done before."""
    said = told(before, Plan(validate(with_other(small_project.values(), ("probe", "lr"), 0.2))))["table1"]
    assert said.startswith("expected.probe/") and said.endswith(", an input of table1, has a new configuration")
