"""`mdc verify` and `mdc why` on a whole small project: good as made, and every planted staleness or tampering found."""

from __future__ import annotations

import csv
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import small_project
import yaml
from small_project import SCALE

from mdc import jobs
from mdc.cli import main
from mdc.config import validate
from mdc.fingerprint import fingerprint
from mdc.jobs import VERBS
from mdc.records import read_json, sha256_file, write_json
from mdc.report.tables.layout import csv_text

MDC, CLIP, PARALLEL = (f"alt/ViT-T-12/{method}/s0" for method in ("mdc", "clip", "parallel"))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    small_project.make(folder, seeds=(0, 1))
    return folder


@pytest.fixture
def r(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The results of a copy of the project, in which the test is; the scale's own folder."""
    shutil.copytree(made, tmp_path / "project")
    monkeypatch.chdir(tmp_path / "project")
    return Path("results") / SCALE


def verify(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    capsys.readouterr()
    code = main(["verify", *arguments])
    said = capsys.readouterr()
    assert "Traceback" not in said.err
    return code, said.out, said.err


#: whose resolved configurations no link looks at: their records hold them
WITHOUT_JOBS = ("figure_loss", "figure_schedules", "figure3", "table9", "recipes")


# --- what tampering needs ---------------------------------------------------------------------------------------------


def edit(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    found = read_json(path)
    change(found)
    write_json(path, found)


def replace(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def flip(path: Path) -> None:
    """Another digit in a text, another bit in the middle of anything else."""
    content = bytearray(path.read_bytes())
    try:
        place = re.search(r"[0-9]", content.decode()).start()  # type: ignore[union-attr]
        content[place : place + 1] = b"7" if content[place : place + 1] != b"7" else b"3"
    except UnicodeDecodeError:
        content[len(content) // 2] ^= 1
    path.write_bytes(content)


def seal(r: Path) -> None:
    """Hide a change: write every hash anew that is written above it, and the copies."""

    def outputs(made: dict[str, Any], folder: Path) -> None:
        made["outputs"] = {name: sha256_file(folder / name) for name in made["outputs"]}

    for path in (r / "runs").rglob("run.json"):
        edit(
            path, lambda run, f=path.parent: run["checkpoint"].update(sha256=sha256_file(f / run["checkpoint"]["file"]))
        )
    for path in (r / "probe").rglob("probe.json"):

        def record(found: dict[str, Any], folder: Path = path.parent) -> None:
            found["items"]["sha256"] = sha256_file(folder / "items.parquet")
            if found["run_sha256"]:
                run = r / "runs" / found["encoder"]["id"] / "run.json"
                found["run_sha256"] = sha256_file(run)
                found["encoder"]["weights_sha256"] = read_json(run)["checkpoint"]["sha256"]

        edit(path, record)
    for name in small_project.RECORDS:
        folder = (r / name).parent
        edit(
            r / name,
            lambda m, f=folder: (outputs(m, f), m.update(inputs={i: sha256_file(r / i) for i in m["inputs"]})),
        )
    small_project.publish(r)


def change_params(change: Callable[[dict[str, Any]], Any]) -> None:
    found = small_project.values((0, 1))
    change(found)
    small_project.write_params(Path(), found)


def other_code(monkeypatch: pytest.MonkeyPatch, verb: str) -> None:
    def changed(module: str) -> str:
        return "0" * 64 if module == VERBS[verb] else fingerprint(module)

    monkeypatch.setattr(jobs, "fingerprint", changed)


# --- the good state ---------------------------------------------------------------------------------------------------


def test_as_made_every_link_holds(r: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = verify(capsys)
    assert code == 0 and err == ""
    counts: dict[str, int] = {}
    for n, title in re.findall(r"^  (\d+) (.*): good$", out, re.M):
        counts.setdefault(title, int(n))  # Table 1 is the first
    for name, files in {"table4": 6, "table5": 6, "figure4": 5, "figure5": 5, "figure_schedules": 4}.items():
        assert re.search(rf"^  {files} files that {name}.json names: good$", out, re.M)
    assert re.findall(r"^  (\d+) loss logs: good$", out, re.M) == ["8", "4"], "of all runs, then of Table 5's"
    assert counts["probe records"] == counts["per-item results"] == 10, "three runs and two poolings, two seeds"
    assert counts["run manifests"] == counts["checkpoints"] == 6
    assert counts["loss logs"] == 8, "of all tables' runs"
    assert counts["shards"] == 11, "64 + 16, 32 + 16, and twice 48 + 32, at most 40 in one"
    assert counts["resolved configurations"] == 10 + 6 + 4 + 1 + 1, "of Table 1: probes, runs, sets, vocabulary, itself"


def test_what_nothing_rests_on_may_be_missing(r: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hosts = list(r.rglob("*host.json"))
    assert len(hosts) == len(jobs.configs(validate(small_project.values((0, 1))))), "one a job"
    for path in hosts:
        path.unlink()
    shutil.rmtree(r / "configs")  # a clone that has pulled has none
    for copy in Path("results").glob("*.*"):
        copy.unlink()
    code, out, err = verify(capsys)
    assert code == 0 and "no copies in results/" in out and "no resolved configurations" in out, err
    assert main(["why", f"{r}/table1.csv", "--row", "Alt-text, MDC", "--column", "Shape"]) == 0
    assert "not known: no host file" in capsys.readouterr().out


def test_copies_of_another_scale_are_left_alone(r: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edit(Path("results/table1.json"), lambda m: m["config"].update(scale="paper"))
    Path("results/table1.csv").write_text("another scale's\n")
    code, out, _ = verify(capsys)
    assert code == 0 and "those there are of scale paper" in out


def test_no_torch_and_no_pandas(r: Path) -> None:
    code = (
        "import sys; from mdc.cli import main\n"
        "assert main(['why', 'results/table1.csv', '--row', 'alt-text, mdc', '--column', 'shape']) == 0\n"
        "assert not {'torch', 'pandas', 'matplotlib', 'scipy'} & set(sys.modules)\n"
        # the intervals of how steadily schedules train need quantiles
        "assert main(['verify']) == 0\n"
        "assert not {'torch', 'pandas', 'matplotlib'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


# --- staleness and tampering ------------------------------------------------------------------------------------------

Change = Callable[[Path], Any]


def _swap_checkpoint(r: Path) -> None:
    other = r / "runs" / MDC.replace("s0", "s1") / "checkpoint.safetensors"
    shutil.copy(other, r / "runs" / MDC / "checkpoint.safetensors")
    seal(r)


def _swap_record(r: Path) -> None:
    shutil.copy(r / "probe" / CLIP / "probe.json", r / "probe" / MDC / "probe.json")


def _swap_items(r: Path) -> None:
    shutil.copy(r / "probe" / CLIP / "items.parquet", r / "probe" / MDC / "items.parquet")


def _edit_cell(name: str, column: str, row: int = 2, number: str = "99.0000") -> Change:
    def change(r: Path) -> None:
        with (r / name).open(newline="") as stream:
            lines = list(csv.DictReader(stream))
        lines[row][column] = number
        (r / name).write_text(csv_text(lines, list(lines[0])))

    return change


def _without_column(name: str, column: str) -> Change:
    def change(r: Path) -> None:
        with (r / name).open(newline="") as stream:
            lines = list(csv.DictReader(stream))
        (r / name).write_text(csv_text(lines, [key for key in lines[0] if key != column]))

    return change


def _first_line(path: Path) -> None:
    path.write_text(path.read_text().splitlines(keepends=True)[0])


def _last_line_twice(path: Path) -> None:
    text = path.read_text()
    path.write_text(text + text.splitlines(keepends=True)[-1])


def _move_index(r: Path) -> None:
    """The index of another source, its shards under their own names; made.json says what it must."""
    alt = r / "data/corpora/alt"
    edit(alt / "index.json", lambda index: index["source"].update(seed=77))
    edit(alt / "made.json", lambda made: made["outputs"].update({"index.json": sha256_file(alt / "index.json")}))


def _old_record(r: Path) -> None:
    for path in (r / "probe").rglob("probe.json"):
        edit(path, lambda record: record.pop("config"))
    seal(r)


def _both(*changes: Change) -> Change:
    return lambda r: [change(r) for change in changes]


TAMPERING: dict[str, tuple[Change, str]] = {
    "a cell": (_edit_cell("table1.csv", "Shape"), "small/table1.csv: its sha256"),
    "a cell, hashes hidden": (
        _both(_edit_cell("table1.csv", "Shape", number="99.0"), seal),
        r"small/table1.csv: Shape of Alt-text, ViT-T/12, MDC is 99.0, the probe records give",
    ),
    "a tidy value, hashes hidden": (
        _both(_edit_cell("table1_long.csv", "value", row=9), seal),
        r"table1_long.csv: Shape of \S+ \S+: value is 99.0000, the probe records give",
    ),
    "a gain, hashes hidden": (_both(_edit_cell("table1_long.csv", "gain", row=9), seal), "gain is 99.0000"),
    "a sample size, hashes hidden": (_both(_edit_cell("table1_long.csv", "n", number="320"), seal), "n is 320"),
    "not a number, hashes hidden": (_both(_edit_cell("table1_long.csv", "value", number="nan"), seal), "value is nan"),
    "a contrast, hashes hidden": (
        _both(_edit_cell("table1_contrasts.csv", "difference"), seal),
        r"table1_contrasts.csv: .* against untrained is 99.0000",
    ),
    "a method's name, hashes hidden": (
        _both(lambda r: replace(r / "table1_long.csv", ",MDC,", ",Ours,"), seal),
        r"table1_long.csv: Shape of .* is called Alt-text, ViT-T/12, Ours",
    ),
    "a row taken out, hashes hidden": (
        _both(lambda r: replace(r / "table1.csv", "Alt-text,ViT-T/12,MDC", "Alt,ViT-T/12,MDC"), seal),
        r"table1.csv: Shape of Alt-text, ViT-T/12, MDC stands there 0 times",
    ),
    "an older copy": (_both(lambda r: flip(r.parent / "table1.csv")), r"results/table1.csv: its sha256"),
    "a copy taken away": (
        lambda r: (r.parent / "table1.md").unlink(),
        r"results/table1.md: missing.*--forcerun results/table1.csv$",
    ),
    "the table's record": (lambda r: (r / "table1.json").write_text("{"), "table1.json: not valid JSON"),
    "no table": (lambda r: (r / "table1.json").unlink(), "table1.json: not there"),
    "the record's configuration": (
        lambda r: edit(r / "table1.json", lambda made: made["config"].update(bootstrap=7)),
        "table1.json: its configuration is",
    ),
    "a probe value": (
        lambda r: edit(r / "probe" / MDC / "probe.json", lambda p: p["probes"]["shape"].update(value=99.0)),
        f"probe/{MDC}/probe.json: its sha256 .*small/table1.json says",
    ),
    "another run's record": (_swap_record, f"probe/{MDC}/probe.json: its sha256"),
    "another run's record, hashes hidden": (
        _both(_swap_record, _swap_items, seal),
        f"probe/{MDC}/probe.json: is the record of probe/{CLIP}",
    ),
    "a record of an older version": (
        _old_record,
        "probe records: one is not as this version writes it .lacks 'config'",
    ),
    "no record": (lambda r: (r / "probe" / MDC / "probe.json").unlink(), f"probe/{MDC}/probe.json: missing"),
    "another run's items": (_swap_items, f"probe/{MDC}/items.parquet: its sha256"),
    "another run's items, hashes hidden": (
        _both(_swap_items, seal),
        f"probe/{MDC}/probe.json: says .* items.parquet gives",
    ),
    "a run's manifest": (
        lambda r: edit(r / "runs" / MDC / "run.json", lambda run: run.update(steps=9)),
        f"runs/{MDC}/run.json: its sha256 .*probe.json says",
    ),
    "a run's configuration, hashes hidden": (
        _both(lambda r: edit(r / "runs" / MDC / "run.json", lambda run: run["config"]["recipe"].update(lr=0.5)), seal),
        f"runs/{MDC}/run.json: its configuration is",
    ),
    "a checkpoint's bytes": (
        lambda r: flip(r / "runs" / MDC / "checkpoint.safetensors"),
        f"runs/{MDC}/checkpoint.safetensors: its sha256",
    ),
    "another seed's checkpoint, hashes hidden": (
        _swap_checkpoint,
        f"runs/{MDC}/checkpoint.safetensors: the configuration it was trained with is",
    ),
    "a checkpoint that is none, hashes hidden": (
        _both(lambda r: (r / "runs" / MDC / "checkpoint.safetensors").write_bytes(b"x" * 99), seal),
        "checkpoint.safetensors: not a weights file of this project",
    ),
    "the vocabulary": (
        lambda r: edit(r / "data/vocabulary.json", lambda v: v["pieces"].pop()),
        "data/vocabulary.json: its sha256 .*run.json says",
    ),
    "the index of another source": (_move_index, "corpora/alt/index.json: its sha256 .*run.json says"),
    "a probe set's index": (
        lambda r: edit(r / "data/probes/shape/index.json", lambda i: i.update(chance=0.5)),
        "probes/shape/index.json: its sha256 .*probe.json says",
    ),
    "a set's own record": (
        lambda r: (r / "data/probes/shape/made.json").unlink(),
        "made.json: no such file.*forcerun .*shape/index.json",
    ),
    "a shard's bytes": (lambda r: flip(r / "data/corpora/alt/train-00001.tar"), "train-00001.tar: the shard's sha256"),
    "a shard cut short": (
        lambda r: (r / "data/probes/shape/test-00000.tar").write_bytes(b"x" * 512),
        "test-00000.tar: the shard has another size",
    ),
    "no shard": (lambda r: (r / "data/corpora/alt/val-00000.tar").unlink(), "val-00000.tar: the shard is missing"),
    "a job's configuration by hand": (
        lambda r: edit(r / f"configs/runs/{MDC}.json", lambda c: c["recipe"].update(lr=0.5)),
        f"configs/runs/{MDC}.json: not what is asked for: of runs/{MDC}, recipe.lr was 0.5 and is now 0.001",
    ),
    "the losses": (
        lambda r: replace(r / "runs" / MDC / "log.jsonl", '"loss": ', '"loss": 1'),
        f"runs/{MDC}/log.jsonl: not the losses that .*figure_loss.csv holds",
    ),
    "the losses shown": (lambda r: flip(r / "figure_loss.csv"), "small/figure_loss.csv: its sha256"),
    "pairs, hashes hidden": (
        _both(_edit_cell("table1_long.csv", "pairs", number="65"), seal),
        "pairs is 65, the probe",
    ),
    "caption lengths": (lambda r: flip(r / "figure3.csv"), "small/figure3.csv: its sha256 .* results/figure3.png"),
    "a corpus that Figure 3 does not know": (
        _both(
            lambda r: edit(r / "figure3.json", lambda made: made["inputs"].update({"data/corpora/x/index.json": "0"})),
            small_project.publish,
        ),
        "figure3.json: data/corpora/x/index.json is none of this scale",
    ),
    "a dataset that the scale has not": (
        lambda r: edit(r / "data/corpora/alt/made.json", lambda made: made["inputs"].update({"data/obtained/x": "0"})),
        "alt/made.json: data/obtained/x is none of this scale",
    ),
    "a point of Figure 4, hashes hidden": (
        _both(_edit_cell("figure4.csv", "value"), seal),
        r"small/figure4.csv: Shape of \S+ \S+: value is 99.0000, the probe records give",
    ),
    "a difference in Figure 4, hashes hidden": (
        _both(_edit_cell("figure4_contrasts.csv", "difference", row=0), seal),
        r"figure4_contrasts.csv: .* is 99.0000",
    ),
    "a comparison of Table 1 called otherwise, hashes hidden": (
        _both(_edit_cell("table1_contrasts.csv", "against", row=0, number="ARC"), seal),
        r"table1_contrasts.csv: Shape of .* against untrained stands there 0 times, must 1 times",
    ),
    "a comparison of corpora, hashes hidden": (
        _both(_edit_cell("table1_contrasts.csv", "difference", row=-1), seal),
        r"table1_contrasts.csv: Average of Alt-text, ViT-T/12, MDC against MDC of Half is 99.0000",
    ),
    "a comparison of other corpora, hashes hidden": (
        _both(_edit_cell("table1_contrasts.csv", "against_dataset", row=-1, number="Alt-text"), seal),
        r"table1_contrasts.csv: Average of Alt-text, ViT-T/12, MDC against MDC of Half stands there 0 times, must 1",
    ),
    "comparisons as an older version wrote them, hashes hidden": (
        _both(_without_column("table4_contrasts.csv", "against_dataset"), seal),
        r"small/table4_contrasts.csv: no column against_dataset; to mend: .*--forcerun results/small/table4.json",
    ),
    "the comparisons of Figure 4 left out, hashes hidden": (
        _both(lambda r: _first_line(r / "figure4_contrasts.csv"), seal),
        r"figure4_contrasts.csv: .* stands there 0 times, must 1 times",
    ),
    "a comparison of Table 4 twice, hashes hidden": (
        _both(lambda r: _last_line_twice(r / "table4_contrasts.csv"), seal),
        r"table4_contrasts.csv: .* stands there 2 times, must 1 times",
    ),
    "a point of Figure 5, hashes hidden": (
        _both(_edit_cell("figure5.csv", "gain"), seal),
        "figure5.csv: .* is 99.0000",
    ),
    "a slope, hashes hidden": (
        _both(_edit_cell("figure5_trend.csv", "slope", row=0), seal),
        "figure5_trend.csv: Shape of MDC: slope is 99.0000, the probe records give",
    ),
    "where a trend starts, hashes hidden": (
        _both(_edit_cell("figure5_trend.csv", "intercept", row=0), seal),
        "figure5_trend.csv: Shape of MDC: intercept is 99.0000",
    ),
    "a trend of another method, hashes hidden": (
        _both(lambda r: replace(r / "figure5_trend.csv", ",MDC,", ",ARC,"), seal),
        "figure5_trend.csv: Shape of ARC is no trend of this figure",
    ),
    "a mask ratio, hashes hidden": (
        _both(_edit_cell("figure4.csv", "mask_ratio_low"), seal),
        "figure4.csv: .*: mask_ratio_low is 99.0000",
    ),
    "a mask ratio of what masks nothing, hashes hidden": (
        _both(_edit_cell("figure4.csv", "mask_ratio_high", row=0), seal),
        "figure4.csv: .*untrained.*: mask_ratio_high is 99.0000, it has none",
    ),
    "samples seen, hashes hidden": (
        _both(_edit_cell("figure5.csv", "samples_seen", number="65"), seal),
        "figure5.csv: .*: samples_seen is 65, the probe record says",
    ),
    "a trend's pairs, hashes hidden": (
        _both(_edit_cell("figure5_trend.csv", "pairs", row=0, number="64 33"), seal),
        "figure5_trend.csv: Shape of MDC: pairs are 64 33",
    ),
    "a scatter about two points, hashes hidden": (
        _both(_edit_cell("figure5_trend.csv", "residual_sd", row=0), seal),
        "figure5_trend.csv: Shape of MDC: residual_sd is 99.0000, two points have none",
    ),
    "no trend, hashes hidden": (
        _both(lambda r: _first_line(r / "figure5_trend.csv"), seal),
        "figure5_trend.csv: Shape of MDC: no line of it",
    ),
    "a drawn figure": (lambda r: flip(r / "figure4.svg"), "small/figure4.svg: its sha256 .* results/figure4.png"),
    "a schedule's steadiness": (
        lambda r: flip(r / "figure_schedules.csv"),
        "small/figure_schedules.csv: its sha256 .* results/figure_schedules.png",
    ),
    "a schedule's steadiness, hashes hidden": (
        _both(_edit_cell("figure_schedules.csv", "value", row=0), seal),
        "small/figure_schedules.csv, line 2: not what the logs give; .*--forcerun .*figure_schedules.json",
    ),
    "a gradient norm, hashes hidden": (
        _both(_edit_cell("figure_schedules_curves.csv", "grad_norm"), seal),
        f"runs/{PARALLEL}/log.jsonl: not the losses that .*figure_schedules_curves.csv holds",
    ),
    "a recipe": (lambda r: flip(r / "recipes/table6.csv"), "recipes/table6.csv: its sha256 .* results/table6.csv"),
    "a licence": (lambda r: flip(r / "table9.csv"), "small/table9.csv: its sha256 .* results/table9.csv"),
}


@pytest.mark.parametrize("name", TAMPERING)
def test_tampering_is_found_at_its_link(name: str, r: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change, said = TAMPERING[name]
    change(r)
    code, out, err = verify(capsys)
    assert code == 3, out
    assert err.count("\n") == 1 and re.search(said, err), err
    assert "snakemake results/" in err, "it says what to do"


def test_what_was_made_since_is_not_thrown_away(r: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A training done anew is what its host file says; one changed by hand is not, and is not to be kept."""
    run = r / "runs" / MDC / "run.json"
    edit(run, lambda found: found["versions"].update(torch="99.0"))
    code, _, err = verify(capsys)
    assert code == 3 and f"to mend: snakemake {run} --cores all --forcerun {run} && snakemake results/table1.csv" in err
    edit(run.with_name("host.json"), lambda host: host.update(record_sha256=sha256_file(run)))
    code, _, err = verify(capsys)
    assert code == 3 and f"{run}: its sha256" in err and "to mend: snakemake results/table1.csv --cores all" in err


def test_a_log_written_since_is_for_the_figure_to_show(r: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Another log_every writes another log of the same training; only a changed log asks for training again."""
    log = r / "runs" / MDC / "log.jsonl"
    log.write_text("".join(log.read_text().splitlines(keepends=True)[1:]))
    code, _, err = verify(capsys)
    assert code == 3 and f"--forcerun {log.with_name('run.json')} && snakemake results/figure_loss.png" in err
    edit(log.with_name("host.json"), lambda host: host.update(log_sha256=sha256_file(log)))
    code, _, err = verify(capsys)
    assert code == 3 and f"--forcerun {r}/figure_loss.json && snakemake results/figure_loss.png" in err


def test_any_changed_file_of_the_chain_is_found(r: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One digit or bit of every file in turn, but for those that nothing rests on."""
    missed, tried = [], 0
    for path in sorted([*r.rglob("*"), *r.parent.glob("*.*")]):
        apart = path.name == "log.jsonl" or "host.json" in path.name or "tensorboard" in path.parts
        if not path.is_file() or apart or (path.parent == r / "configs" and path.stem in WITHOUT_JOBS):
            continue
        before = path.read_bytes()
        flip(path)
        code, _, err = verify(capsys)
        tried += 1
        if code != 3 or err.count("\n") != 1:
            missed.append(path)
        path.write_bytes(before)
    assert missed == [] and tried > 60
    assert verify(capsys)[0] == 0


STALE: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "a method": (
        lambda v: v["methods"]["mdc"].update(t_range=[0.3, 0.9]),
        r"small/table1.json: stale: of runs/alt/ViT-T-12/mdc/s0, method.t_range was \[0.5, 1.0\] and is now \[0.3, 0.9\]",
    ),
    "a probe": (
        lambda v: v["scales"][SCALE]["probe"].update(lr=0.2),
        r"stale: of probe/\S+, recipe.lr was 0.1 and is now 0.2",
    ),
    "a label": (lambda v: v["methods"]["mdc"].update(label="Ours"), "of table1, methods.mdc.label was 'MDC' and is"),
    "a corpus": (
        lambda v: v["scales"][SCALE]["data"]["corpora"]["alt"]["source"].update(seed=9),
        "data/corpora/alt/made.json: stale: of data/corpora/alt, source.seed was 1 and is now 9",
    ),
    "another row": (
        lambda v: v["scales"][SCALE]["tables"]["table1"]["corpora"].update(alt=["mdc", "arc", "clip"]),
        "small/table1.json: stale: of table1, corpora was",
    ),
}


@pytest.mark.parametrize("name", STALE)
def test_a_value_changed_since_is_named(name: str, r: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change, said = STALE[name]
    change_params(change)
    code, _, err = verify(capsys)
    assert code == 3 and re.search(said, err) and err.endswith("to mend: snakemake results/table1.csv --cores all\n"), (
        err
    )


def test_what_decides_nothing_is_no_staleness(r: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change_params(lambda v: v["scales"][SCALE]["pretrain"]["runtime"].update(checkpoint_every=7))
    assert verify(capsys)[0] == 0


@pytest.mark.parametrize(
    "verb",
    [
        *("corpus", "vocabulary", "pretrain", "probe", "table1", "method-table", "mask-ratios", "pair-counts"),
        *("loss-curves", "schedules", "caption-lengths", "table9", "recipes"),
    ],
)
def test_code_changed_since_is_named(
    verb: str, r: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    other_code(monkeypatch, verb)
    code, _, err = verify(capsys)
    assert code == 3 and f"stale: the code of `mdc {verb}` changed" in err, err


def test_an_interval_is_found_by_making_the_table_anew(r: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert verify(capsys, "--rebuild")[0] == 0
    _edit_cell("table1_long.csv", "low", number="0.1234")(r)
    seal(r)
    assert verify(capsys)[0] == 0, "no record holds an interval over seeds"
    code, _, err = verify(capsys, "--rebuild")
    assert code == 3 and "small/table1_long.csv: made anew" in err, err


# --- why --------------------------------------------------------------------------------------------------------------


def why(capsys: pytest.CaptureFixture[str], row: str, column: str, table: str = "results/table1.csv") -> Any:
    capsys.readouterr()
    code = main(["why", table, "--row", row, "--column", column])
    said = capsys.readouterr()
    assert said.err.count("\n") == (code != 0), said.err
    return code, said.out, said.err


def test_why_prints_what_stands_behind_a_number(r: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = why(capsys, "Alt-text, ViT-T/12, MDC", "Shape")
    assert code == 0, err
    with (r / "table1_long.csv").open(newline="") as stream:
        lines = [x for x in csv.DictReader(stream) if x["method"] == "MDC" and x["benchmark"] == "Shape"]
    value, low, high = (f"{float(lines[0][key]):.1f}" for key in ("value", "low", "high"))
    assert f"value       {value} [{low}, {high}] per cent" in out
    assert "mean of 2 seeds" in out and "every link holds" in out
    for seed in (0, 1):
        id_ = f"alt/ViT-T-12/mdc/s{seed}"
        record = read_json(r / f"probe/{id_}/probe.json")
        assert f"{record['probes']['shape']['value']:.1f} ({id_})" in out
        for layer in ("runs", "probe"):
            assert read_json(r / f"{layer}/{id_}/host.json")["command"] in out
            assert f"results/{SCALE}/logs/{layer}/{id_}.log" in out
    assert "config      as the first seed's, but seed 1" in out
    run = read_json(r / f"runs/{MDC}/run.json")
    shown = out.partition("  config\n")[2].partition("\n\n")[0]
    assert yaml.safe_load(shown.partition("\nruns/")[0].partition("\nprobe/")[0]) == run["config"]
    for package, version in run["versions"].items():
        assert f"{package} {version}" in out
    assert out.count("versions  ") == 1, "once, as long as they are the same"
    assert re.search(r"run time    \d+\.\d s, \d+ images/s \(cpu, ", out)


@pytest.mark.parametrize("table", ["results/table1.csv", f"results/{SCALE}/table1.csv", "results/table1_long.csv"])
@pytest.mark.parametrize(
    ("row", "column", "said"),
    [
        ("mdc, alt-text", "shape", "Alt-text, ViT-T/12, MDC: Shape"),
        ("CLIP, alt", "COLOUR", "Alt-text, ViT-T/12, CLIP: Colour"),
        ("alt/ViT-T-12/mdc", "Average", "mean of     Shape"),
        ("none, ViT-T/12, untrained, mean of patches", "Shape", "initial weights, never trained"),
        ("untrained, cls", "Shape", "none, ViT-T/12, untrained, [CLS]: Shape"),
        ("chance", "Shape", "chance on Shape: "),
    ],
)
def test_rows_and_columns_as_a_person_says_them(
    table: str, row: str, column: str, said: str, r: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = why(capsys, row, column, table)
    assert code == 0 and said in out, err


@pytest.mark.parametrize(
    ("row", "column", "said"),
    [
        ("MDD", "Shape", "no row 'MDD'; rows: Half, ViT-T/12, MDC; Alt-text, ViT-T/12, MDC; "),
        ("MDC", "Colours", "no column 'Colours'; columns: Colour, "),
        (
            "Alt-text",
            "Shape",
            "row 'Alt-text' is one of 2: Alt-text, ViT-T/12, MDC; Alt-text, ViT-T/12, CLIP; say more",
        ),
        ("", "Shape", "no row ''"),
    ],
)
def test_a_row_or_column_that_is_none_or_several(
    row: str, column: str, said: str, r: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = why(capsys, row, column)
    assert code == 2 and said in err and out == ""


@pytest.mark.parametrize(
    "table", ["results/none.csv", "results/table1.md", "results/figure_loss.csv", "results/figure4.csv", "params.yaml"]
)
def test_not_a_table(table: str, r: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert why(capsys, "Alt-text, MDC", "Shape", table)[0] == 2


def test_why_tells_a_broken_chain_and_what_it_can(r: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flip(r / "runs" / MDC / "checkpoint.safetensors")
    code, out, err = why(capsys, "Alt-text, MDC", "Shape")
    assert code == 3 and "chain       BROKEN: " in out and "checkpoint.safetensors: its sha256" in err
    assert "command     mdc pretrain" in out
    assert why(capsys, "CLIP", "Shape")[0] == 0, "another number does not rest on it"
    (r / "runs" / MDC / "run.json").unlink()
    code, out, _ = why(capsys, "Alt-text, MDC", "Shape")
    assert code == 3 and "run.json is missing" in out
    for path in (r / "probe/untrained").rglob("probe.json"):
        path.unlink()
    assert why(capsys, "CLIP", "Shape")[0] == 3, "its gain rests on the untrained control"


@pytest.mark.parametrize("content", ["", "{}", "[1]", "scale,run\nsmall,x\n", '{"config": 1, "record_sha256": 2}'])
def test_why_has_no_traceback_for_a_damaged_file(content: str, r: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = ["table1.csv", "table1_long.csv", "table1.json", f"probe/{MDC}/probe.json", f"runs/{MDC}/run.json"]
    for path in [r / name for name in [*files, f"runs/{MDC}/host.json", "data/probes/shape/made.json"]]:
        before = path.read_bytes()
        path.write_text(content)
        code, _, _ = why(capsys, "Alt-text, MDC", "Shape", f"{r}/table1.csv")
        assert code in ((0,) if path.name == "host.json" else (2, 3)), path
        path.write_bytes(before)


def test_a_host_file_of_another_record_is_not_believed(r: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = r / "runs" / MDC.replace("s0", "s1")
    shutil.copy(other / "host.json", r / "runs" / MDC / "host.json")
    code, out, _ = why(capsys, "Alt-text, MDC", "Shape")
    assert code == 0 and "not known: no host file of this record is here" in out
