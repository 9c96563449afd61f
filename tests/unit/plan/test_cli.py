"""The command line: help everywhere, light to start, mistakes in one line with exit code 2."""

import os
import shlex
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from PIL import Image
from read_table import read_table
from scale_files import ROOT, scale_values, write_params
from scale_plans import plan_of

from mdc.app.cli import main
from mdc.plan.artefacts import ARTEFACTS
from mdc.plan.config.layers import scales_of
from mdc.plan.jobs.call import Call
from mdc.plan.jobs.folder import ScaleFolder
from mdc.plan.jobs.plan import Plan
from mdc.plan.jobs.read import read_job
from mdc.plan.records import UserError, read_json, sha256_file, write_json


@pytest.fixture(scope="module")
def paper() -> Plan:
    return plan_of("paper")


def one_line(capsys: pytest.CaptureFixture[str]) -> str:
    said = capsys.readouterr()
    assert said.out == "" and said.err.count("\n") == 1, said
    return said.err


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["--version"])
    assert left.value.code == 0 and capsys.readouterr().out == f"mdc {metadata.version('mdc')}\n"


def test_help_and_check_import_no_torch() -> None:
    code = (
        "import sys; from mdc.app.cli import main\n"
        "main(['check']); main(['config', 'table1'])\n"
        "assert not {'torch', 'pandas', 'pyarrow', 'matplotlib'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0 and "scales: good" in done.stdout, done.stderr
    done = subprocess.run(
        [sys.executable, "-m", "mdc.app.cli", "check", "--params", "none"], cwd=ROOT, stderr=subprocess.PIPE
    )
    assert done.returncode == 2 and done.stderr.count(b"\n") == 1


def test_config_lists_all_jobs(
    paper: Plan, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    assert main(["config", "list", "--scale", "paper"]) == 0
    assert capsys.readouterr().out.split() == list(paper.jobs)


def test_a_configuration_of_another_job_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_json(tmp_path / "config.json", {"verb": "pretrain"})
    assert main(["corpus", str(tmp_path / "config.json"), "--out", str(tmp_path / "out")]) == 2
    assert "not a configuration of `mdc corpus`" in one_line(capsys)


def test_a_place_that_cannot_be_written_is_told_in_one_line(
    paper: Plan, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_json(tmp_path / "config.json", paper.jobs["data/vocabularies/clip"].config())
    (tmp_path / "file").write_text("not a folder")
    assert main(["vocabulary", str(tmp_path / "config.json"), "--out", str(tmp_path / "file/out")]) == 2
    assert str(tmp_path / "file") in one_line(capsys)


@pytest.mark.parametrize(("arguments", "said"), read_table(__file__, "mistakes"), ids=lambda x: str(x)[:40])
def test_mistakes_end_in_one_line(
    arguments: list[str], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    assert main(arguments) == 2
    assert said in one_line(capsys)


@pytest.mark.parametrize(("typed", "near"), [(["capton"], "caption"), (["data", "lst"], "list")], ids=str)
def test_a_verb_that_is_mistyped(typed: list[str], near: str, capsys: pytest.CaptureFixture[str]) -> None:
    """It is followed by the nearest one, and by none that only Snakemake calls."""
    with pytest.raises(SystemExit) as left:
        main(typed)
    said = capsys.readouterr().err
    assert left.value.code == 2 and f"mean {near}?" in said and "write-captions" not in said


def test_a_corpus_that_is_not_there_names_mdc_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MDC_DATA", raising=False)
    job = plan_of("flickr8k").jobs["data/corpora/single"]
    write_json("config.json", job.config())
    assert main(["corpus", "config.json", "--out", "out"]) == 2
    assert "MDC_DATA" in one_line(capsys) and not Path("out/index.json").exists()


def test_a_configuration_where_the_workflow_writes_it_says_where_everything_lies(
    paper: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MDC_DATA", "/my data")
    folder = ScaleFolder(tmp_path / "results/paper")
    for name in ("data/vocabularies/clip", "table9"):
        job = paper.jobs[name]
        write_json(folder.config(name), job.config())
        assert main([job.verb, str(folder.config(name))]) == 0
        assert folder.manifest(name, job.verb).is_file() and folder.record(name, job.verb).is_file()
        assert read_json(folder.record(name, job.verb))["config"] == job.config()
        told = read_json(folder.host(name))  # of a vocabulary, whose record and manifest are two files, too
        assert told["manifest"] == folder.manifest(name, job.verb).name
        assert told["manifest_sha256"] == sha256_file(folder.manifest(name, job.verb))
        assert shlex.split(told["command"]) == ["MDC_DATA=/my data", "mdc", job.verb, str(folder.config(name))]
    assert {path.name for path in folder.root.iterdir()} == {"configs", "data", "table9"}


def test_folder_and_out_say_other_places(paper: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "data/vocabularies/clip"
    monkeypatch.chdir(tmp_path)
    write_json("config.json", paper.jobs[name].config())
    assert main(["vocabulary", "config.json", "--folder", "there"]) == 0
    assert main(["vocabulary", "config.json", "--out", "alone"]) == 0
    assert main(["vocabulary", "config.json", "--folder", "neither", "--out", "both"]) == 0
    assert main(["vocabulary", "config.json", "--folder", "."]) == 0
    found = sorted(str(path) for path in Path().rglob("vocabulary.json"))
    assert found == [f"{folder}/vocabulary.json" for folder in ("alone", "both", name, f"there/{name}")]
    made = {path.with_name("made.json").read_bytes() for path in map(Path, found)}
    assert len(made) == 1, "where a job's files lie decides nothing"


def test_places_that_cannot_be_guessed_are_asked_for(
    paper: Plan, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "config.json"
    write_json(config, paper.jobs["table1"].config())
    assert main(["make", str(config), "--out", str(tmp_path / "out")]) == 2
    assert "--folder is missing; it says where probe/cc12m/ViT-B-32/clip/s0 " in one_line(capsys)
    write_json(config, paper.jobs["table9"].config())
    assert main(["make", str(config)]) == 2
    assert "--out is missing" in one_line(capsys)
    # a file of the same name elsewhere is no configuration of the workflow's
    write_json(tmp_path / "configs/other.json", paper.jobs["table9"].config())
    assert main(["make", str(tmp_path / "configs/other.json")]) == 2
    assert "--out is missing" in one_line(capsys)
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == ["configs"]


def test_an_input_that_is_not_there_is_named_with_who_needs_it(
    paper: Plan, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = paper.jobs["table1"]
    call = Call(job, ScaleFolder(tmp_path), tmp_path / "out")
    missing = tmp_path / "probe/cc12m/ViT-B-32/clip/s0/probe.json"
    with pytest.raises(UserError, match=f"^{missing}: no such file; table1 is made from it$"):
        call.input("probe/cc12m/ViT-B-32/clip/s0")
    with pytest.raises(UserError, match="table1: its inputs do not name runs/x"):
        call.input("runs/x")
    write_json(tmp_path / "configs/table1.json", job.config())
    assert main(["make", str(tmp_path / "configs/table1.json")]) == 2
    assert f"{missing}: no such file; table1 is made from it" in one_line(capsys)
    missing.parent.mkdir(parents=True)
    missing.write_text("{}")
    assert call.input("probe/cc12m/ViT-B-32/clip/s0") == missing


def test_an_artefact_is_made_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for part in ("params.yaml", "scales"):
        (tmp_path / part).symlink_to(ROOT / part)
    assert main(["make", "table9", "--scale", "paper"]) == 0
    assert main(["make", "table9", "--out", "here"]) == 0
    made, ours = Path("results/paper/table9"), set(ARTEFACTS["table9"].files)
    assert {path.name for path in made.iterdir()} == {path.name for path in Path("here").iterdir()}
    assert {path.name for path in made.iterdir()} == {"table9.json", "host.json", *ours}
    record = read_json(made / "table9.json")
    assert set(record["outputs"]) == ours and record["inputs"] == {} and record["config"]["scale"] == "paper"
    assert read_json("here/table9.json")["config"]["scale"] == "mini"
    # one that is made from others says which is missing, at its scale
    capsys.readouterr()
    assert main(["make", "table1"]) == 2
    assert "results/mini/probe/alt/ViT-T-12/clip/s0/probe.json: no such file; table1 is made" in one_line(capsys)


def test_an_artefact_that_the_scale_does_not_name_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    values = scale_values("mini")
    del values["tables"]["table9"]
    write_params(tmp_path, values)
    assert main(["make", "table9", "--params", str(tmp_path / "params.yaml")]) == 2
    assert "scale mini names no table9; it has table1, table2, table3, table4, " in one_line(capsys)


def test_more_classes_than_a_path_can_have_bytes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = ",".join(f"class number {number}" for number in range(100))
    Image.new("RGB", (8, 8)).save(tmp_path / "a.png")
    assert main(["zero-shot", str(tmp_path / "a.png"), "--classes", names, "--run", "none"]) == 2
    assert "run none: no folder" in one_line(capsys)


def test_only_a_reader_of_ours_may_leave_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in ``mdc data list | head -1``; a worker that is gone is a failure."""
    with pytest.raises(BrokenPipeError), monkeypatch.context() as patched:
        patched.setattr("mdc.app.cli._config", lambda args: os.write(_unread_pipe(), b"a worker's"))
        main(["config", "list"])
    with open(_unread_pipe(), "w") as unread:
        monkeypatch.setattr(sys, "stdout", unread)
        assert main(["config", "list", "--params", str(ROOT / "params.yaml")]) == 0


def _unread_pipe() -> int:
    read, write = os.pipe()
    os.close(read)
    return write


def test_an_editor_s_lock_is_no_scale(tmp_path: Path) -> None:
    (tmp_path / "scales").mkdir()
    for name in ("mini.yaml", ".#mini.yaml", "._mini.yaml"):
        (tmp_path / "scales" / name).touch()
    assert scales_of(tmp_path / "params.yaml") == ["mini"]


def test_check_says_what_a_scale_asks_for(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    for scale in ("mini", "paper"):
        assert main(["check", "--scale", scale]) == 0
        plan = plan_of(scale)
        told = f"{len(plan.jobs)} jobs, {len(plan.runs)} of them trainings"
        scales = len(scales_of(ROOT / "params.yaml"))
        assert capsys.readouterr().out == f"params.yaml and {scales} scales: good; scale {scale}: {told}\n"


@pytest.mark.parametrize("job", ["data/obtained/cc12m", "data/corpora/cc12m", "probe/cc12m/ViT-B-32/mdc/s0", "figure5"])
def test_what_config_prints_is_what_a_verb_reads(
    paper: Plan, job: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["config", job, "--params", str(ROOT / "params.yaml"), "--scale", "paper"]) == 0
    (tmp_path / "config.json").write_text(capsys.readouterr().out)
    assert read_job(tmp_path / "config.json", paper.jobs[job].verb) == paper.jobs[job]


def test_no_two_artefacts_share_a_file() -> None:
    """At results/ they lie side by side."""
    everything = [file for name, artefact in ARTEFACTS.items() for file in (f"{name}.json", *artefact.files)]
    assert len(set(everything)) == len(everything)
