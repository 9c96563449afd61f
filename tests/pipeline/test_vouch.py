"""`mdc vouch`: an edit that changes no result reruns nothing; the golden case tells one that does."""

from __future__ import annotations

import datetime
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import small_project
from safetensors.numpy import save_file
from small_project import SCALE

from mdc import golden, vouch
from mdc.artefacts import ARTEFACTS
from mdc.fingerprint import fingerprint
from mdc.jobs import plan as plans
from mdc.jobs.folder import ScaleFolder
from mdc.jobs.model import PretrainJob
from mdc.jobs.plan import Plan
from mdc.jobs.vouched import Link, Vouched, read_vouched, write_vouched
from mdc.records import UserError, read_json, write_json
from mdc.training.state import decisive
from mdc.verbs import VERBS

ROOT = Path(__file__).resolve().parents[2]
RUN = "runs/alt/ViT-T-12/mdc/s0"
WORDS = "data/vocabularies/words"

pytestmark = pytest.mark.slow


# --- which jobs -------------------------------------------------------------------------------------------------------


def link(old: str, new: str, verb: str = "pretrain") -> Link:
    return Link(verb=verb, old=old * 64, new=new * 64, reason="a rename", date="2026-01-02", evidence="equal")


def code(monkeypatch: pytest.MonkeyPatch, **changed: str) -> None:
    """From now on the code of jobs with these last parts of a module's name has these fingerprints."""

    def other(*modules: str) -> str:
        for module in modules:
            if (found := changed.get(module.rpartition(".")[2])) is not None:
                return found * 64
        return fingerprint(*modules)

    monkeypatch.setattr(plans, "fingerprint", other)


def done(folder: Path, jobs: Callable[[str], bool] = lambda job: True) -> dict[str, dict[str, object]]:
    """Records, as far as they matter here, of all jobs as they are asked for now; their configurations."""
    plan = small_project.plan()
    for name, job in plan.jobs.items():
        if jobs(name):
            write_json(ScaleFolder(folder).record(name, job.verb), {"config": job.config()})
    return {name: job.config() for name, job in plan.jobs.items()}


def stale(folder: Path, vouched: Vouched | None = None, *patterns: str) -> tuple[vouch.Stale, list[str]]:
    params = small_project.plan().params
    return vouch.stale_by_code(params, vouched or Vouched(), ScaleFolder(folder), folder / "state", patterns or ("*",))


def test_what_rests_on_a_job_follows_in_one_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All code changes: a probe's configuration holds its run's, a table's its probes', and all are found at once."""
    before = done(tmp_path)
    assert stale(tmp_path) == ({}, [])
    monkeypatch.setattr(plans, "fingerprint", lambda *modules: fingerprint(*modules)[::-1])
    found, left = stale(tmp_path)
    assert left == [] and sorted(job for jobs in found.values() for job in jobs) == sorted(before)
    assert {verb for verb, _, _ in found} == set(VERBS) - set(vouch._NO_CASE)
    links = [Link(verb=v, old=o, new=n, reason="r", date="2026-01-02", evidence="-") for v, o, n in found]
    now = Plan(small_project.plan().params, Vouched(tuple(links)))
    assert {name: job.config() for name, job in now.jobs.items()} == before, "so nothing reruns"


def test_a_changed_value_is_nothing_to_vouch_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = done(tmp_path)
    changed = {**before[RUN], "seed": 9}
    write_json(tmp_path / RUN / "run.json", {"config": changed})
    code(monkeypatch, masked="b")
    found, _ = stale(tmp_path)
    assert [RUN in jobs for jobs in found.values()] == [False]


def test_only_the_jobs_that_are_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done(tmp_path)
    code(monkeypatch, masked="b", corpus_job="c", scenes_corpus="c")
    found, _ = stale(tmp_path, None, "data/corpora/*")
    assert [verb for verb, _, _ in found] == ["corpus"]


@pytest.mark.parametrize("content", ["{", "{}", '{"config": 1}', '{"config": [1]}'])
def test_a_damaged_record_is_passed_over(content: str, tmp_path: Path) -> None:
    done(tmp_path)
    (tmp_path / RUN / "run.json").write_text(content)
    assert stale(tmp_path) == ({}, [])


def test_a_killed_run_is_found_by_its_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done(
        tmp_path,
        lambda job: (
            not job.startswith(("runs/", "scores/", "retrieval/", "positions/", "captions/", "metrics/", "judged/"))
        ),
    )
    begun = small_project.plan().jobs[RUN]
    assert isinstance(begun, PretrainJob)
    state = tmp_path / "state" / RUN / "state.safetensors"
    state.parent.mkdir(parents=True)
    told = {"mdc": json.dumps({"owner": {"config": decisive(begun.config()), "inputs": {}}})}
    save_file({"step": np.zeros(1)}, str(state), metadata=told)
    assert stale(tmp_path) == ({}, [])
    code(monkeypatch, masked="b")
    found, left = stale(tmp_path)
    assert [RUN in jobs for jobs in found.values()] == [True] and left == []
    state.write_bytes(state.read_bytes()[:20])
    assert stale(tmp_path) == ({}, []), "a damaged one says nothing"


def test_evidence_is_of_the_jobs_that_run_the_code(tmp_path: Path) -> None:
    def case(**jobs: tuple[str, str, str]) -> dict[str, Any]:
        return {
            name: {"verb": "corpus", "fingerprint": code * 64, "outputs": {"index.json": file}, "told": told}
            for name, (code, file, told) in jobs.items()
        }

    def evidence(old: dict[str, Any], new: dict[str, Any], *known: Link) -> tuple[bool | None, str]:
        return vouch._compare(("corpus", "a" * 64, "b" * 64), old, new, "abc123", Vouched(known))

    before, after = case(one=("a", "f", "t"), other=("c", "g", "t")), case(one=("b", "f", "t"), other=("d", "x", "y"))
    assert evidence(before, after) == (True, "golden case of corpus: 1 files of 1 jobs equal to those of abc123")
    assert evidence(before, case(other=("d", "g", "t")))[0] is None, "no golden job runs this code"
    agrees, said = evidence(after, after)
    assert agrees is False and "made by other code than that of abc123" in said, "two times the code after the edit"
    assert evidence(case(one=("e", "f", "t")), after, link("a", "e"))[0] is True, "code that was vouched for"
    agrees, said = evidence(before, case(one=("b", "other", "t")))
    assert agrees is False and "1 of 1 files differ, as one/index.json" in said
    agrees, said = evidence(before, case(one=("b", "f", "other")))
    assert agrees is False and "the record of one tells something else" in said


def test_edits_are_chained_and_all_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code(monkeypatch, masked="a")
    before = done(tmp_path)
    vouched = Vouched()
    for new in "bcd":
        code(monkeypatch, masked=new)
        found, left = stale(tmp_path, vouched)
        assert left == [] and [key[1:] for key in found] == [("a" * 64, new * 64)]
        vouched = Vouched((*vouched.links, *vouch._links(found, vouched)))
        plan = Plan(small_project.plan().params, vouched)
        assert plan.jobs[RUN].config() == before[RUN]
        assert plan.links[RUN] == list(vouched.links), "the whole chain"
    code(monkeypatch, masked="a")
    assert stale(tmp_path, vouched) == ({}, []), "an edit taken back"


@pytest.mark.parametrize("known", [Vouched(), Vouched((link("a", "b"),))])
def test_records_of_several_codes(known: Vouched, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some runs were trained again before the edit was vouched for: those of most are kept, the others named."""
    code(monkeypatch, masked="a")
    done(tmp_path)
    code(monkeypatch, masked="c")
    done(tmp_path, lambda job: job == RUN)  # trained again, or by code that nobody vouched for
    code(monkeypatch, masked="b")
    found, left = stale(tmp_path, known)
    asked = {key[1:] for key in found}
    assert left == [RUN]
    assert asked == (set() if known.links else {("a" * 64, "b" * 64)})
    code(monkeypatch, masked="c")
    found, left = stale(tmp_path)
    assert {key[1:] for key in found} == {("a" * 64, "c" * 64)} and left == [RUN], "it would be asked for as before"


# --- the file ---------------------------------------------------------------------------------------------------------


def test_chains() -> None:
    vouched = Vouched((link("a", "b"), link("b", "c"), link("d", "e")))
    for one in "abc":
        assert vouched.oldest(one * 64) == "a" * 64 and vouched.newest(one * 64) == "c" * 64
    assert vouched.newest("d" * 64) == "e" * 64 and vouched.oldest("f" * 64) == vouched.newest("f" * 64) == "f" * 64
    assert vouched.behind("c" * 64) == [link("a", "b"), link("b", "c")] and vouched.behind("a" * 64) == []


def test_a_circle_ends() -> None:
    vouched = Vouched((link("a", "b"), link("b", "a")))
    assert vouched.oldest("a" * 64) == "b" * 64 and len(vouched.behind("a" * 64)) == 1


def test_the_file_is_read_back(tmp_path: Path) -> None:
    assert read_vouched(tmp_path) == Vouched()
    links = [link("a", "b"), link("b", "c")]
    write_vouched(links, tmp_path)
    assert read_vouched(tmp_path) == Vouched(tuple(links))


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"links": [{}]}', '{"links": [], "more": 1}', '{"links": 3}'])
def test_a_damaged_file_ends_in_one_line(content: str, tmp_path: Path) -> None:
    (tmp_path / "vouched.json").write_text(content)
    with pytest.raises(UserError, match=r"vouched\.json"):
        read_vouched(tmp_path)


# --- the whole verb, on a copy of the package under git -----------------------------------------------------------------


class House:
    """A repository with a copy of the package, and results that its code made."""

    def __init__(self, made: Path, folder: Path) -> None:
        """``made``: the results, of which no table and figure is taken."""
        self.folder = folder
        shutil.copytree(made, folder, copy_function=os.link, ignore=lambda _, names: ARTEFACTS.keys() & set(names))
        for copy in (folder / "results").glob("*.*"):
            copy.unlink()
        shutil.copytree(ROOT / "src/mdc", folder / "src/mdc", ignore=shutil.ignore_patterns("__pycache__"))
        self.git("init", "--quiet")
        self.commit("as it was")

    def git(self, *words: str) -> None:
        who = ("-c", "user.name=Somebody", "-c", "user.email=somebody@example.org")
        subprocess.run(["git", *who, *words], cwd=self.folder, check=True, capture_output=True)

    def commit(self, message: str) -> None:
        self.git("add", "src")
        self.git("commit", "--quiet", "-m", message)

    def python(self, *words: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PYTHONPATH": str(self.folder / "src")}
        return subprocess.run(
            [sys.executable, *words], cwd=self.folder, env=environment, capture_output=True, text=True
        )

    def mdc(self, *words: str) -> tuple[int, str, str]:
        done = self.python("-m", "mdc.cli", *words)
        assert "Traceback" not in done.stderr, done.stderr
        return done.returncode, done.stdout, done.stderr

    def dry_run(self) -> None:
        """What a dry run of the workflow leaves: today's configurations."""
        write = (
            "from pathlib import Path\n"
            "from mdc.config import load\nfrom mdc.jobs.folder import ScaleFolder\nfrom mdc.jobs.plan import Plan\n"
            "from mdc.records import json_text, write_text_if_changed\n"
            f"place = ScaleFolder(Path('results/{SCALE}'))\n"
            "for name, job in Plan(load('params.yaml')).jobs.items():\n"
            "    write_text_if_changed(place.config(name), json_text(job.config()))\n"
        )
        done = self.python("-c", write)
        assert done.returncode == 0, done.stderr

    def edit(self, module: str, old: str, new: str) -> None:
        path = self.folder / "src/mdc" / module
        text = path.read_text()
        assert text.count(old) == 1
        path.write_text(text.replace(old, new))

    @property
    def links(self) -> list[dict[str, str]]:
        path = self.folder / "vouched.json"
        return list(read_json(path)["links"]) if path.is_file() else []

    def config(self, job: str) -> dict[str, object]:
        return dict(json.loads(self.mdc("config", job)[1]))


def test_an_edit_is_vouched_for_with_evidence_and_reruns_nothing(made: Path, tmp_path: Path) -> None:
    house = House(made, tmp_path / "house")
    module = "shards/vocabulary_job.py"
    assert house.mdc("verify")[0] == 0
    assert house.mdc("vouch", "--reason", "no reason") == (
        2,
        "",
        "mdc vouch: no job's record differs from what is asked now by its code alone; nothing to vouch for (`mdc verify` "
        "says what is stale)\n",
    )

    fingerprint_before = house.config(WORDS)["fingerprint"]
    house.edit(module, "path = call.out / VOCABULARY\n", "path = call.out.joinpath(VOCABULARY)\n")
    status, _, err = house.mdc("verify")
    assert status == 3 and f"stale: the code of {WORDS} changed" in err

    for words, said in (
        (("--reason", " "), "--reason is empty"),
        (("--reason", "r", "--against", "nowhere"), "nowhere: git cannot give its code"),
        (("nothing/*", "--reason", "r"), "nothing to vouch for"),
    ):
        status, _, err = house.mdc("vouch", *words)
        assert status == 2 and err.count("\n") == 1 and said in err and house.links == []

    house.dry_run()
    assert house.config(WORDS)["fingerprint"] != fingerprint_before
    status, out, err = house.mdc("vouch", "--reason", "joinpath is /")
    assert status == 0, err
    (first,) = house.links
    assert out.startswith(
        f"vocabulary: {first['old'][:12]}… → {first['new'][:12]}…, {WORDS}; golden case of vocabulary: 1"
    )
    assert first["old"] == house.config(WORDS)["fingerprint"] != first["new"]
    assert first["reason"] == "joinpath is /" and first["date"] == datetime.date.today().isoformat()
    assert first["evidence"].startswith("golden case of vocabulary: 1 files of 1 jobs equal to those of ")

    status, out, _ = house.mdc("config", WORDS)
    assert status == 0 and house.config(WORDS) == json.loads(out), "what is asked for is what was"
    status, out, err = house.mdc("verify")
    assert status == 0 and "every link holds; 1 link behind 1 job vouched for (vouched.json says why)" in out, err

    # a second edit, on the first, which is committed by now
    house.commit("joinpath")
    house.edit(
        module, "    path = call.out.joinpath(VOCABULARY)\n", "    where = call.out\n    path = where / VOCABULARY\n"
    )
    assert house.mdc("verify")[0] == 3
    status, _, err = house.mdc("vouch", "--reason", "a name")
    assert status == 0, err
    assert house.links[0] == first and house.links[1]["old"] == first["new"]
    assert "equal to those of" in house.links[1]["evidence"], "the records are of code that was vouched for"
    status, out, err = house.mdc("verify")
    assert status == 0 and "2 links behind 1 job vouched for" in out, err

    # against a revision that has the edit already
    house.edit(module, "    where = call.out\n    path = where /", "    path = call.out /")
    house.commit("as at first")
    status, _, err = house.mdc("vouch", "--reason", "as at first", "--against", "HEAD")
    assert status == 2 and err.count("\n") == 1 and len(house.links) == 2
    assert "nothing to vouch for" in err, "its code is the first link's old one"
    house.edit(module, "    path = call.out /", "    where = call.out\n    path = where /")
    house.edit(module, "    where = call.out\n", "    where = call.out.joinpath()\n")
    house.commit("an edit that nobody vouched for")
    status, _, err = house.mdc("vouch", "--reason", "too late")
    assert status == 2 and err.count("\n") == 1 and len(house.links) == 2
    assert "made by other code than that of" in err and "--against names the revision before" in err
    assert house.mdc("vouch", "--reason", "in time", "--against", "HEAD~2")[0] == 0

    # an edit that changes what comes out
    house.edit(
        module, "vocabulary.to_json()", '{**vocabulary.to_json(), "pieces": vocabulary.to_json()["pieces"][::-1]}'
    )
    status, out, err = house.mdc("vouch", "--reason", "I believe")
    assert status == 2 and err.count("\n") == 1 and len(house.links) == 3
    assert "golden case of vocabulary: results change: 1 of 1 files differ, as data/vocabularies/words/" in err
    assert house.mdc("vouch", "--reason", "I believe", "--anyway")[0] == 0
    assert len(house.links) == 4 and "1 of 1 files differ" in house.links[3]["evidence"]

    # code that does not run
    house.edit(module, "    where = call.out.joinpath()\n", "    where = call.nowhere\n")
    status, _, err = house.mdc("vouch", "--reason", "r")
    assert status == 2 and "it failed with the code after the edit" in err and len(house.links) == 4


def test_without_git_it_is_said_and_can_be_vouched_for_anyway(made: Path, tmp_path: Path) -> None:
    house = House(made, tmp_path / "house")
    shutil.rmtree(house.folder / ".git")
    house.edit("shards/vocabulary_job.py", "path = call.out / VOCABULARY\n", "path = call.out.joinpath(VOCABULARY)\n")
    status, _, err = house.mdc("vouch", "--reason", "joinpath is /")
    assert status == 2 and err.count("\n") == 1 and "HEAD: git cannot give its code" in err and "--anyway" in err
    status, _, err = house.mdc("vouch", "--reason", "joinpath is /", "--anyway")
    assert status == 0 and house.links[0]["evidence"].startswith("no golden case: HEAD: git cannot give"), err


#: of the training's code: module, what stands there, what is to stand there
HARMLESS = ("training/optimizer.py", "    progress = (step - warmup) /", "    progress: float = (step - warmup) /")
HARMFUL = ("training/optimizer.py", "return base * (step + 1) / warmup", "return base * (step + 2) / warmup")


def test_a_training_is_vouched_for_and_a_changed_learning_rate_is_refused(made: Path, tmp_path: Path) -> None:
    house = House(made, tmp_path / "house")
    runs = len(list(house.folder.rglob("run.json")))
    house.edit(*HARMLESS)
    status, _, err = house.mdc("vouch", "runs/*", "--reason", "a name")
    assert status == 0, err
    assert {one["verb"] for one in house.links} == {"pretrain"} and len(house.links) == 5, "one an objective"
    assert all("equal to those of" in one["evidence"] for one in house.links)
    status, out, err = house.mdc("verify")
    assert status == 0 and f"5 links behind {runs} jobs vouched for" in out, out[-200:] + err
    house.commit("a name")
    house.edit(*HARMFUL)
    status, _, err = house.mdc("vouch", "--reason", "about the same")
    assert status == 2 and "golden case of pretrain: results change: " in err and len(house.links) == 5


# --- the golden case --------------------------------------------------------------------------------------------------


def test_the_golden_case_is_the_same_anywhere(tmp_path: Path) -> None:
    """What it tells depends on neither the folder nor the call."""
    small_project.write_params(tmp_path, small_project.values())
    told = []
    for folder in ("a", "another/folder, far"):
        done = subprocess.run(
            [sys.executable, "-m", "mdc.golden", "params.yaml", folder, "vocabulary", "probe-set", "corpus"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        told.append(done.stdout.splitlines()[-1])
    assert told[0] == told[1]
    found = json.loads(told[0])
    corpora = {f"data/corpora/{name}" for name in ("alt", "half", "described")}
    assert set(found) == {*corpora, "data/probes/shape", "data/probes/colour", WORDS}
    plan = small_project.plan()
    assert WORDS in plan.jobs  # which makes them
    assert found[WORDS]["fingerprint"] == plan.code[WORDS], "the code's own, whatever it was done as"
    assert read_json(tmp_path / f"a/results/{SCALE}/{WORDS}/made.json")["config"]["fingerprint"] == golden.CODE


def test_the_golden_case_has_a_job_of_every_verb_that_it_can_show() -> None:
    there = {job.verb for job in small_project.plan().jobs.values()}
    assert there == set(VERBS) - set(vouch._NO_CASE)
