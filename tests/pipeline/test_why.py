"""`mdc why` on a whole small project: the sources of a number, and the messages for a broken chain."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from shown import read_rows
from small_project import MDC, SCALE
from tampering import cell, edit, flip, put, seal

from mdc.app.cli import main
from mdc.checks.why import are_numbers, choose, lines
from mdc.plan.jobs import context as plans
from mdc.plan.jobs.accepted import Edit, write_accepted
from mdc.plan.records import UserError, read_json


def why(capsys: pytest.CaptureFixture[str], row: str, column: str, table: str = "results/table1.csv") -> Any:
    capsys.readouterr()
    code = main(["why", table, "--row", row, "--column", column])
    said = capsys.readouterr()
    assert said.err.count("\n") == (code != 0), said.err
    return code, said.out, said.err


def test_it_prints_what_stands_behind_a_number(r: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = why(capsys, "Alt-text, ViT-T/12, MDC", "Shape")
    assert code == 0, err
    shown = [x for x in lines(r / "table1/table1_long.csv") if x["method"] == "MDC" and x["label"] == "Shape"]
    told = next(x for x in shown if x["dataset"] == "Alt-text")
    for key in ("value", "low", "high", "unit", "interval", "scope", "estimator", "n", "chance", "gain", "control"):
        assert told[key] and f"  {key:<11} {told[key]}\n" in out
    assert "every link holds" in out
    values = []
    for seed in (0, 1):
        id_ = f"alt/ViT-T-12/mdc/s{seed}"
        record = read_json(r / f"probe/{id_}/probe.json")
        values.append(record["probes"]["shape"]["value"])
        assert f"{id_} {values[-1]:.4f}" in out
        for layer in ("runs", "probe"):
            assert read_json(r / f"{layer}/{id_}/host.json")["command"] in out
            assert f"results/{SCALE}/logs/{layer}/{id_}.log" in out
    assert f"  recomputed  {sum(values) / 2:.4f}\n" in out
    run = read_json(r / f"runs/{MDC}/run.json")
    shown_config = out.partition("  config\n")[2].partition("\n\n")[0]
    assert yaml.safe_load(shown_config.partition("\nruns/")[0].partition("\nprobe/")[0]) == run["config"]
    assert out.count("  versions\n") == 1, "once, as long as they are the same"
    assert all(f"  {key:<11} " in out for key in ("seconds", "images_per_second", "device", "processor", "loss"))
    assert "data/probes/shape" in out and "data/probes/colour\n" not in out, "of the probes, its own"


def test_a_difference_has_its_interval_and_verdict(r: Path, capsys: pytest.CaptureFixture[str]) -> None:
    claim = next(row for row in lines(r / "table1/table1_contrasts.csv") if row["direction"])
    sides = f"{claim['first']}, {claim['second']}, {claim['label']}"
    code, out, err = why(capsys, sides, "value", "results/table1_contrasts.csv")
    assert code == 0, err
    assert all(f"  {key:<11} {claim[key]}\n" in out for key in ("value", "low", "high", "unit", "scope", "direction"))


def test_a_number_without_an_interval_is_told_without_one(r: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = lines(r / "table_cost/table_cost_long.csv")[0]
    row = f"{line['dataset']}, {line['backbone']}, {line['method']}"
    code, out, err = why(capsys, row, line["label"], "results/table_cost.csv")
    assert code == 0, err
    assert "value  " in out and "interval  " not in out


@pytest.mark.usefixtures("own_copy")
def test_a_table_can_be_named_with_its_scale(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("Alt-text, ViT-T/12, MDC", "Shape")
    assert why(capsys, *asked, "table1") == (0, why(capsys, *asked, f"results/{SCALE}/table1/table1.csv")[1], "")
    assert main(["why", "results/table1.csv", "--row", asked[0], "--column", asked[1], "--scale", SCALE]) == 0
    Path("scales/other.yaml").write_text("label: Other\ndata: {samples_per_shard: 1}\n")
    assert main(["why", "results/table1.csv", "--row", asked[0], "--column", asked[1], "--scale", "other"]) == 2
    assert f"of scale {SCALE}, and --scale says other" in capsys.readouterr().err


def test_a_line_of_one_seed_rests_on_that_seed_alone(r: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = why(capsys, "Half, MDC, 1, train, 2", "loss", "results/figure_loss.csv")
    assert "runs/half/ViT-T-12/mdc/s1\n" in out and "runs/half/ViT-T-12/mdc/s0\n" not in out


def test_every_file_of_numbers_is_one_that_can_be_asked(r: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its first line, told whole, has a number."""
    numbers = (
        "value",
        "loss",
        "captions",
        "score",
        "vocabulary",
    )
    count = 0
    for path in sorted(r.glob("*/*.csv")):
        if not read_rows(path):
            continue  # a figure may have nothing to compare
        first = lines(path)[0]
        column = next((head for head in numbers if head in first), None)
        if column is None or are_numbers([first]):
            continue  # whose rows are asked by their labels
        code, _, err = why(capsys, ", ".join(first.values()), column, str(path))
        assert code == 0, err
        count += 1
    assert count > 0


@pytest.mark.usefixtures("own_copy")
def test_a_broken_chain_is_told_with_what_is_known(r: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flip(r / "runs" / MDC / "checkpoint.safetensors")
    code, out, err = why(capsys, "Alt-text, MDC", "Shape")
    assert code == 3 and "chain       BROKEN: " in out and "checkpoint.safetensors: not the file that" in err
    assert "command     mdc pretrain" in out
    assert why(capsys, "Alt-text, CLIP", "Shape")[0] == 0, "another number does not rest on it"
    (r / "runs" / MDC / "run.json").unlink()
    code, out, _ = why(capsys, "Alt-text, MDC", "Shape")
    assert code == 3 and "run.json is missing" in out
    for path in (r / "probe/untrained").rglob("probe.json"):
        path.unlink()
    assert why(capsys, "Alt-text, CLIP", "Shape")[0] == 3, "its gain rests on the untrained control"


@pytest.mark.usefixtures("own_copy")
def test_a_number_that_its_records_do_not_give(r: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = r / "table4/table4_long.csv"
    number = f"{float(read_rows(path)[2]['value']) + 0.01:.4f}"
    cell(path, "value", number=number)
    seal(r, r / "table4")
    assert f"is {number}, its records give" in "".join(
        why(capsys, row, "Alt-text", "results/table4.csv")[2] for row in ("MDC", "MDC (w/o t)", "untrained")
    )


@pytest.mark.usefixtures("own_copy")
def test_a_record_that_is_not_the_tables(r: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Equal values, another record: the table was not made from this one."""
    edit(r / "probe" / MDC / "probe.json", lambda p: p["versions"].update(torch="1.0"))
    code, _, err = why(capsys, "Alt-text, MDC", "Shape")
    assert code == 3 and "probe.json: missing, or not the file that" in err and "table1.json names" in err


@pytest.mark.usefixtures("own_copy")
def test_a_number_that_was_made_with_another_seed(capsys: pytest.CaptureFixture[str]) -> None:
    """… as by Snakemake's --config, which no file says."""
    path = Path(f"scales/{SCALE}.yaml")
    values = yaml.safe_load(path.read_text())
    values["pretrain"]["seeds"] = [7]
    path.unlink()
    path.write_text(yaml.safe_dump(values))
    code, _, err = why(capsys, "Alt-text, MDC", "Shape")
    assert code == 3 and f"{MDC} is no job of the present parameters" in err and str(path) in err


@pytest.mark.usefixtures("own_copy")
def test_a_changed_copy(r: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flip(Path("results/table1.csv"))
    code, _, err = why(capsys, "Alt-text, MDC", "Shape")
    assert code == 3 and "results/table1.csv: not the copy of" in err and err.endswith("--forcerun table1\n")


@pytest.mark.usefixtures("own_copy")
@pytest.mark.parametrize("content", ["", "{}", "[1]", "scale,run\ngolden,x\n", '{"config": 1, "record_sha256": 2}'])
def test_no_traceback_for_a_damaged_file(content: str, r: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = ["table1/table1.csv", "table1/table1_long.csv", "table1/table1.json", f"probe/{MDC}/probe.json"]
    files += [f"runs/{MDC}/run.json", f"runs/{MDC}/host.json", "data/probes/shape/made.json"]
    for path in [r / name for name in files]:
        before = path.read_bytes()
        put(path, content)
        code, _, _ = why(capsys, "Alt-text, MDC", "Shape", f"{r}/table1/table1.csv")
        assert code in ((0,) if path.name == "host.json" else (2, 3)), path
        put(path, before)


@pytest.mark.usefixtures("own_copy")
def test_a_host_file_of_another_record_is_not_believed(r: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = r / "runs" / MDC.replace("s0", "s1")
    put(r / "runs" / MDC / "host.json", (other / "host.json").read_bytes())
    code, out, _ = why(capsys, "Alt-text, MDC", "Shape")
    assert code == 0 and "not known: no host file of this record is here" in out


def test_it_imports_no_large_library(r: Path) -> None:
    code = (
        "import sys; from mdc.app.cli import main\n"
        "assert main(['why', 'results/table1.csv', '--row', 'alt-text, mdc', '--column', 'shape']) == 0\n"
        "found = {'torch', 'pandas', 'matplotlib', 'scipy'} & set(sys.modules)\n"
        "assert not found, found"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.usefixtures("own_copy")
def test_accepted_edits_are_shown_and_counted(
    r: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if the code of what runs had been edited twice since."""
    old = read_json(r / f"runs/{MDC}/run.json")["config"]["fingerprint"]
    real = plans.fingerprint
    monkeypatch.setattr(plans, "fingerprint", lambda *m: "2" * 64 if real(*m) == old else real(*m))
    assert why(capsys, "Alt-text, MDC", "Shape")[0] == 3
    told = [(old, "1" * 64, "renamed"), ("1" * 64, "2" * 64, "split a file")]
    write_accepted(Edit(verb="pretrain", old=a, new=b, reason=text, date="2026-01-02") for a, b, text in told)
    code, out, err = why(capsys, "Alt-text, MDC", "Shape")
    assert code == 0, err
    assert "every link holds; accepted edits: 2, of the code of 2 jobs (see accepted_edits.json)" in out
    for a, b, text in told:
        assert f"code {a[:12]}… → {b[:12]}…, accepted on 2026-01-02: {text}" in out


def test_a_run_stands_in_two_rows_by_two_estimators() -> None:
    labels = {
        "value": "1",
        "dataset": "Alt-text",
        "backbone": "ViT-T/12",
        "pooling": "patch_mean",
        "label": "Shape",
        "column": "shape",
        "control": "",
        "method": "MDC",
    }
    probed = labels | {"estimator": "linear probe", "system": "alt/tiny/mdc/finetuned"}
    scored = labels | {"estimator": "zero-shot", "system": "alt/tiny/mdc/finetuned/zero-shot"}
    assert choose([probed, scored], "MDC, zero-shot", "Shape") == (scored, "value")
    with pytest.raises(UserError, match="fit 2 lines"):
        choose([probed, scored], "MDC", "Shape")
    named = scored | {"method": "MDC, scored"}
    assert choose([probed, named], "MDC, scored", "Shape") == (named, "value")
    assert choose([probed, named], "finetuned, linear probe", "shape") == (probed, "value"), "by a part of its key"
