"""`mdc accept-edit`: after an edit that changes no result nothing reruns."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import small_project
from safetensors.numpy import save_file

from mdc.app.cli import main
from mdc.checks import accept_edit
from mdc.plan.fingerprint import fingerprint
from mdc.plan.jobs import context as plans
from mdc.plan.jobs.accepted import Accepted, Edit, read_accepted, write_accepted
from mdc.plan.jobs.folder import ScaleFolder
from mdc.plan.jobs.model import PretrainJob
from mdc.plan.jobs.plan import Plan
from mdc.plan.records import UserError, write_json
from mdc.training.state import decisive

RUN = "runs/alt/ViT-T-12/mdc/s0"


def edit(old: str, new: str) -> Edit:
    return Edit(verb="pretrain", old=old * 64, new=new * 64, reason="a rename", date="2026-01-02")


def code(monkeypatch: pytest.MonkeyPatch, **changed: str) -> None:
    """From now on the code of jobs with these parts of a module's name has these fingerprints."""

    def other(*modules: str) -> str:
        found = (changed[part] for module in modules for part in module.split(".") if part in changed)
        return next((letter * 64 for letter in found), None) or fingerprint(*modules)

    monkeypatch.setattr(plans, "fingerprint", other)


def done(folder: Path, jobs: Callable[[str], bool] = lambda job: True) -> dict[str, dict[str, object]]:
    """Records of all jobs as they are asked for now; their configurations."""
    plan = small_project.plan()
    small_project.only_records(plan, ScaleFolder(folder), jobs)
    return {name: job.config() for name, job in plan.jobs.items()}


def stale(folder: Path, accepted: Accepted | None = None, *patterns: str) -> tuple[accept_edit.Stale, list[str]]:
    params = small_project.plan().params
    places = ScaleFolder(folder), folder / "state"
    return accept_edit.stale_by_code(params, accepted or Accepted(), *places, patterns or ("*",))


def test_what_rests_on_a_job_follows_in_one_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All code changes: a probe's configuration holds its run's, a table's its probes', and all are found at once."""
    before = done(tmp_path)
    assert stale(tmp_path) == ({}, [])
    monkeypatch.setattr(plans, "fingerprint", lambda *modules: fingerprint(*modules)[::-1])
    found, left = stale(tmp_path)
    assert left == [] and sorted(job for jobs in found.values() for job in jobs) == sorted(before)
    now = Plan(small_project.plan().params, Accepted(tuple(accept_edit._edits(found, Accepted()))))
    assert {name: job.config() for name, job in now.jobs.items()} == before, "so nothing reruns"


def test_only_the_code_of_the_jobs_that_are_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = done(tmp_path)
    write_json(tmp_path / RUN / "run.json", {"config": {**before[RUN], "seed": 9}})  # another value, too
    (tmp_path / "runs/half/ViT-T-12/mdc/s0/run.json").write_text("{")
    code(monkeypatch, masked="b", corpus_job="c", scenes_corpus="c")
    found, _ = stale(tmp_path, None, "data/corpora/*")
    assert [verb for verb, _, _ in found] == ["corpus"]
    (pretrain,) = [jobs for (verb, _, _), jobs in stale(tmp_path)[0].items() if verb == "pretrain"]
    assert RUN not in pretrain and "runs/alt/ViT-T-12/parallel/s0" in pretrain


def test_an_interrupted_run_is_found_by_its_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done(tmp_path, lambda job: job.startswith(("data/", "tokenizers/", "encoders/", "encoded/")))
    begun = small_project.plan().jobs[RUN]
    assert isinstance(begun, PretrainJob)
    state = tmp_path / "state" / RUN / "begun" / "state.safetensors"
    state.parent.mkdir(parents=True)
    told = {"mdc": json.dumps({"owner": {"config": decisive(begun.config()), "inputs": {}}})}
    save_file({"step": np.zeros(1)}, str(state), metadata=told)
    code(monkeypatch, masked="b")
    found, left = stale(tmp_path)
    assert [RUN in jobs for jobs in found.values()] == [True] and left == []
    state.write_bytes(state.read_bytes()[:20])
    assert stale(tmp_path) == ({}, []), "a damaged one says nothing"


def test_edits_are_chained_and_all_are_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code(monkeypatch, masked="a")
    before, accepted = done(tmp_path), Accepted()
    for new in "bcd":
        code(monkeypatch, masked=new)
        found, left = stale(tmp_path, accepted)
        assert left == [] and [key[1:] for key in found] == [("a" * 64, new * 64)]
        accepted = Accepted((*accepted.edits, *accept_edit._edits(found, accepted)))
        plan = Plan(small_project.plan().params, accepted)
        assert plan.jobs[RUN].config() == before[RUN]
        assert plan.edits[RUN] == list(accepted.edits), "the whole chain"
    code(monkeypatch, masked="a")
    assert stale(tmp_path, accepted) == ({}, []), "an edit taken back"
    assert Accepted((edit("a", "b"), edit("b", "a"))).oldest("c" * 64) == "c" * 64, "a circle ends"


@pytest.mark.parametrize("known", [Accepted(), Accepted((edit("a", "b"),))])
def test_records_of_several_codes(known: Accepted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some runs were trained again before the edit was accepted: those of most are kept, the others named."""
    code(monkeypatch, masked="a")
    done(tmp_path)
    code(monkeypatch, masked="c")
    done(tmp_path, lambda job: job == RUN)  # trained again, or by code that nobody accepted
    code(monkeypatch, masked="b")
    found, left = stale(tmp_path, known)
    assert left == [RUN]
    assert {key[1:] for key in found} == (set() if known.edits else {("a" * 64, "b" * 64)})


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"edits": [{}]}', '{"edits": [], "more": 1}', '{"edits": 3}'])
def test_a_damaged_file_ends_in_one_line(content: str, tmp_path: Path) -> None:
    assert read_accepted(tmp_path) == Accepted()
    write_accepted([edit("a", "b"), edit("b", "c")], tmp_path)
    assert read_accepted(tmp_path) == Accepted((edit("a", "b"), edit("b", "c")))
    (tmp_path / "accepted_edits.json").write_text(content)
    with pytest.raises(UserError, match=r"accepted_edits\.json"):
        read_accepted(tmp_path)


@pytest.mark.usefixtures("own_copy")
def test_the_verb(
    refused: Callable[..., str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def told(*words: str) -> str:
        capsys.readouterr()
        assert main([*words]) == 0
        return capsys.readouterr().out

    assert "no edit to accept" in refused("accept-edit", "--reason", "no reason")
    before = json.loads(told("config", RUN))
    code(monkeypatch, masked="b")
    assert json.loads(told("config", RUN)) != before
    assert "--reason is empty" in refused("accept-edit", "--reason", " ")
    assert "no edit to accept" in refused("accept-edit", "data/*", "--reason", "a rename")
    assert not Path("accepted_edits.json").exists()
    out = told("accept-edit", "runs/*", "--reason", "a rename")
    assert out.startswith(f"pretrain: {before['fingerprint'][:12]}… → bbbbbbbbbbbb…, runs/")
    (link,) = read_accepted().edits
    assert (link.verb, link.old, link.reason) == ("pretrain", before["fingerprint"], "a rename")
    assert json.loads(told("config", RUN)) == before, "what is asked for is what was"
