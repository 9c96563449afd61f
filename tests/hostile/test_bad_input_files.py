"""Whole files and places that are wrong: parquet, labels and splits, checkpoints, configurations, disks, permissions."""

import ctypes
import json
import pickle
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
import toy
from bad_input import ROOT, WRONG, Payload, corpus_config, job_config, name_weights, told, write_config
from confined import full_disk, without_root_powers
from data_samples import complete, encoded, iter_corpus, probe_of, write_corpus, write_parquet, write_probe
from probing_world import ProbingWorld
from safetensors.torch import save_file

from mdc.evaluation.predictors.encode import trained_encoder
from mdc.models.runs import read_run
from mdc.models.text import Vocabulary
from mdc.models.weights import load_weights, save_weights
from mdc.plan.config.kinds.known import AnyProbe
from mdc.plan.config.yaml_core import read_yaml
from mdc.plan.records import UserError, read_json_lines, sha256_file, write_json
from mdc.training.state import LATEST, Position, copied
from mdc.training.trainer import build_optimizer

# --- parquet ----------------------------------------------------------------------------------------------------------

IMAGES = [encoded(i) for i in range(4)]
GOOD = {"image": IMAGES, "caption": ["a b"] * 4, "split": ["train"] * 4, "label": [0, 1, 0, 1]}
NO_ROWS = {"image": pa.array([], pa.binary()), "caption": [], "split": [], "label": []}


@pytest.mark.parametrize("name", [*WRONG["columns"], "no rows"])
def test_a_parquet_with_wrong_columns_or_types(tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    changes, said = WRONG["columns"].get(name, (NO_ROWS, "has no samples"))
    columns = {key: value for key, value in {**GOOD, **changes}.items() if value is not None}
    write_parquet(tmp_path / "c.parquet", columns)
    config = corpus_config(tmp_path / "c.json", {"kind": "parquet", "path": str(tmp_path / "c.parquet")})
    line = told(["corpus", config, "--out", str(tmp_path / "out")], capsys)
    assert said in line, line
    assert not (tmp_path / "out/index.json").exists()


def test_texts_in_a_parquet_that_are_no_utf_8(tmp_path: Path) -> None:
    buffers = [None, pa.py_buffer(b"\0\0\0\0\2\0\0\0"), pa.py_buffer(b"\xff\xfe")]
    column = pa.Array.from_buffers(pa.string(), 1, buffers)
    pq.write_table(pa.table({"image": IMAGES[:1], "caption": column, "split": ["train"]}), tmp_path / "c.parquet")
    with pytest.raises(UserError, match=r"c\.parquet: row group 0 cannot be read"):
        list(iter_corpus({"kind": "parquet", "path": "c.parquet"}, "train", tmp_path))


# --- labels and splits ------------------------------------------------------------------------------------------------


def told_of_probes(source: dict[str, Any], folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    config = write_config(folder / "c.json", job_config("data/probes/digits", source=complete(source, AnyProbe)))
    line = told(["probe-set", config, "--out", str(folder / "out")], capsys)
    assert not (folder / "out/index.json").exists()
    return line


@pytest.mark.parametrize("name", WRONG["labels"])
def test_labels_that_no_probe_can_use(tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    labels, said = WRONG["labels"][name]
    columns = {"image": [encoded(i) for i in range(6)], "split": ["train"] * 3 + ["test"] * 3, "label": labels}
    write_parquet(tmp_path / "c.parquet", columns)
    line = told_of_probes({"kind": "parquet", "path": str(tmp_path / "c.parquet")}, tmp_path, capsys)
    assert any(part in line for part in said.split("|")), line


def test_labels_of_two_types_in_two_files(tmp_path: Path) -> None:
    for name, labels in (("a", [0, 1]), ("b", ["x", "y"])):
        columns = {"image": IMAGES[:2], "split": ["train"] * 2, "label": labels}
        write_parquet(tmp_path / f"set/{name}.parquet", columns)
    with pytest.raises(UserError, match="numbers in one file and texts in another"):
        probe_of({"kind": "parquet", "path": "set"}, tmp_path)


def class_folders(folder: Path, found: dict[str, str]) -> None:
    for split, classes in found.items():
        (folder / split).mkdir(parents=True)
        for number, name in enumerate(classes):
            (folder / split / name).mkdir()
            (folder / split / name / "a.png").write_bytes(encoded(number))


@pytest.mark.parametrize("name", WRONG["folders"])
def test_class_folders_that_no_probe_can_use(tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    found, said = WRONG["folders"][name]
    class_folders(tmp_path / "p", found)
    assert said in told_of_probes({"kind": "class_folder", "path": str(tmp_path / "p")}, tmp_path, capsys)


def test_a_class_without_a_usable_image_in_one_split(tmp_path: Path) -> None:
    class_folders(tmp_path / "p", {"train": "ab", "test": "ab"})
    (tmp_path / "p/test/b/a.png").write_bytes(b"broken")
    source = {"kind": "class_folder", "path": "p"}
    with pytest.raises(UserError, match="split test has no image of 1 classes that another has: b"):
        write_probe("p", source, tmp_path / "out", tmp_path, max_skipped=1.0)


# --- checkpoints ------------------------------------------------------------------------------------------------------


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run's folder with a checkpoint and the manifest that names it."""
    folder = tmp_path / "run"
    save_weights(folder / "checkpoint.safetensors", toy.model("arc"), {"format": "mdc-weights-1"})
    name_weights(folder)
    return folder


def test_pickled_code_is_not_run(run: Path, tmp_path: Path) -> None:
    path = run / "checkpoint.safetensors"
    for dump in (torch.save, lambda obj, to: Path(to).write_bytes(pickle.dumps(obj))):
        dump({"encoder.x": Payload(tmp_path / "evil")}, path)
        name_weights(run)
        checkpoint, _ = read_run(run)
        with pytest.raises(UserError, match=r"checkpoint\.safetensors: not a readable safetensors"):
            trained_encoder(checkpoint, toy.BACKBONE)
        assert not (tmp_path / "evil").exists()
    # the payload works where pickles are loaded
    torch.save({"x": Payload(tmp_path / "evil")}, tmp_path / "weights.pt")
    torch.load(tmp_path / "weights.pt", weights_only=False)
    assert (tmp_path / "evil").exists()


def test_pickled_code_as_a_runs_state_is_not_run(tmp_path: Path) -> None:
    model = toy.model("arc")
    torch.save({"x": Payload(tmp_path / "evil")}, tmp_path / LATEST)
    states = toy.states(tmp_path, toy.job(toy.METHODS["arc"], toy.recipe()))
    assert states.load(model, build_optimizer(model, toy.recipe(), toy.PROTOCOL)) is None
    assert not (tmp_path / "evil").exists()


@pytest.mark.parametrize("metadata", [None, {}, {"mdc": "{"}, {"mdc": "[]"}, {"mdc": '{"format": "mdc-weights-0"}'}])
def test_a_checkpoint_of_an_older_format(run: Path, metadata: dict[str, str] | None) -> None:
    save_file({"encoder.x": torch.zeros(2)}, run / "checkpoint.safetensors", metadata=metadata)
    said = r"a checkpoint of format '(unknown|mdc-weights-0)'; this version reads mdc-weights-1"
    with pytest.raises(UserError, match=said):
        load_weights(run / "checkpoint.safetensors")


@pytest.mark.parametrize("length", [0, 7, 8, 100, 5_000, -1])
def test_a_checkpoint_cut_short(run: Path, length: int) -> None:
    path = run / "checkpoint.safetensors"
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(UserError, match=r"not the file that .* names"):
        read_run(run)
    with pytest.raises(UserError, match="not a readable safetensors"):
        load_weights(path)


def test_a_checkpoint_of_another_run(run: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="none: no such checkpoint"):
        load_weights(tmp_path / "none")
    other = toy.BACKBONE.model_copy(update={"width": 64})
    with pytest.raises(UserError, match="does not fit the model"):
        trained_encoder(run / "checkpoint.safetensors", other)
    save_weights(run / "checkpoint.safetensors", toy.model("arc", 1), {"format": "mdc-weights-1"})
    with pytest.raises(UserError, match="not the file that"):
        read_run(run)
    sha256 = sha256_file(run / "checkpoint.safetensors")
    for outputs in ({"../run/checkpoint.safetensors": sha256}, {}, [], None, "checkpoint.safetensors"):
        write_json(run / "run.json", {"outputs": outputs})
        with pytest.raises(UserError, match=r"not a run manifest \(its outputs name no checkpoint.safetensors\)"):
            read_run(run)


def test_a_state_of_another_model_is_passed_over_and_changes_nothing(tmp_path: Path) -> None:
    models = [toy.model("arc"), toy.model("clip", 1)]
    optimizers = [build_optimizer(model, toy.recipe(), toy.PROTOCOL) for model in models]
    states = toy.states(tmp_path, toy.job(toy.METHODS["arc"], toy.recipe()))
    states.write(copied(models[0], optimizers[0]), Position(3))
    before = {name: tensor.clone() for name, tensor in models[1].state_dict().items()}
    assert states.load(models[1], optimizers[1]) is None
    assert all(torch.equal(before[name], tensor) for name, tensor in models[1].state_dict().items())
    states.write(copied(models[0], optimizers[0]), Position(3))
    assert states.load(models[0], optimizers[0]) == Position(3)


# --- small files ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", WRONG["vocabularies"], ids=str)
def test_a_vocabulary_that_is_none_names_its_file(tmp_path: Path, content: dict[str, Any]) -> None:
    (tmp_path / "vocabulary.json").write_text(json.dumps(content))
    with pytest.raises(UserError, match=r"vocabulary\.json: not a vocabulary"):
        Vocabulary.read(tmp_path / "vocabulary.json")


@pytest.mark.parametrize("key", WRONG["probe_records"])
def test_a_probe_record_that_is_none(tmp_path: Path, key: str, capsys: pytest.CaptureFixture[str]) -> None:
    value, said = WRONG["probe_records"][key]
    world = ProbingWorld({"alt": ["mdc"]}, lambda *_: 0.5, n=20)
    path = world.write(tmp_path)["probe/alt/B/mdc/s0"]
    path.write_text(json.dumps({**json.loads(path.read_text()), key: value}))
    config = write_config(tmp_path / "c.json", world.job.config())
    line = told(["make", config, "--folder", str(tmp_path)], capsys)
    assert "probe.json" in line and said in line, line
    assert not (tmp_path / "table1").exists() or not list((tmp_path / "table1").iterdir()), "nothing half-written"


LEVELS = "".join(f"{chr(i + 1)}: &{chr(i + 1)} [{','.join(['*' + chr(i)] * 9)}]\n" for i in range(97, 121))
YAML = WRONG["documents"] | {
    "a bomb of aliases": f"a: &a [x,x,x,x,x,x,x,x,x]\n{LEVELS}",
    "nested too deeply": "a: " + "[" * 5_000,
    "no text": "a: \udcff\n",
}


@pytest.mark.parametrize("name", YAML)
def test_yaml_that_would_hang_or_run_code(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.yaml").write_bytes(YAML[name].encode("utf-8", errors="surrogateescape"))
    with pytest.raises(UserError, match=r"p\.yaml:(\d+:)? not valid YAML"):
        read_yaml("p.yaml")
    assert not (tmp_path / "evil").exists()


# --- disks and permissions --------------------------------------------------------------------------------------------


def test_no_space_for_shards(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_parquet(tmp_path / "c.parquet", {**GOOD, "image": [encoded(i, 80, 80) for i in range(4)]})
    config = corpus_config(tmp_path / "c.json", {"kind": "parquet", "path": str(tmp_path / "c.parquet")})
    with full_disk(20_000):
        line = told(["corpus", config, "--out", str(tmp_path / "out")], capsys)
    assert "train-00000.tar: File too large" in line
    assert list((tmp_path / "out").iterdir()) == []


def test_no_permission_to_read_and_to_write(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_parquet(tmp_path / "c.parquet", GOOD).chmod(0)
    config = corpus_config(tmp_path / "c.json", {"kind": "parquet", "path": str(tmp_path / "c.parquet")})
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    vocabulary = write_config(tmp_path / "v.json", job_config("data/vocabularies/clip", "paper"))
    with without_root_powers():
        line = told(["corpus", config, "--out", str(tmp_path / "out")], capsys)
        assert "c.parquet" in line and "ermission denied" in line
        line = told(["vocabulary", vocabulary, "--out", str(closed / "v")], capsys)
        assert str(closed) in line and "Permission denied" in line


@pytest.mark.slow
def test_read_only_results(tmp_path: Path) -> None:
    """Snakemake itself: the configurations are written while it reads the rules."""
    shutil.copy(ROOT / "Snakefile", tmp_path)
    shutil.copy(ROOT / "params.yaml", tmp_path)
    for part in ("scales", "workflow"):
        shutil.copytree(ROOT / part, tmp_path / part)
    (tmp_path / "results").mkdir(mode=0o500)
    snakemake = str(Path(sys.executable).parent / "snakemake")
    prctl = ctypes.CDLL(None).prctl  # a started program may have no more than is in its bounding set
    powers = (1, 2)  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
    command: dict[str, Any] = {"args": [snakemake, "-n", "results/table1.csv"], "cwd": tmp_path}
    command["preexec_fn"] = lambda: [prctl(24, power, 0, 0, 0) for power in powers]  # PR_CAPBSET_DROP
    done = subprocess.run(**command, capture_output=True, text=True)
    everything = done.stdout + done.stderr
    assert done.returncode != 0 and "Traceback" not in everything
    said = [line for line in everything.splitlines() if "ermission denied" in line]
    assert said == ["results/mini: Permission denied"], everything


def test_the_list_of_what_was_left_out_is_the_same_every_time(tmp_path: Path) -> None:
    write_parquet(tmp_path / "c.parquet", {**GOOD, "image": [IMAGES[0], b"x", b"", IMAGES[1]]})
    source = {"kind": "parquet", "path": "c.parquet"}
    made = [write_corpus("c", source, tmp_path / name, tmp_path, max_skipped=0.5) for name in "ab"]
    assert made[0] == made[1] and made[0]["skipped_list"]["bytes"] > 0
    assert (tmp_path / "a/skipped.jsonl").read_bytes() == (tmp_path / "b/skipped.jsonl").read_bytes()
    assert len(read_json_lines(tmp_path / "a/skipped.jsonl")) == 2
    write_parquet(tmp_path / "c.parquet", GOOD)
    again = write_corpus("c", source, tmp_path / "a", tmp_path)
    assert "skipped_list" not in again and not (tmp_path / "a/skipped.jsonl").exists()
