"""Whatever stands in a scale or in a job's configuration: it is good, or it ends in one line."""

import contextlib
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from bad_input import ROOT, downloaded, job_config, tar_of
from data_samples import encoded, write_parquet
from fuzzing import ANY, SMALL, changed_bytes, changed_tree, fuzz
from hypothesis import given
from hypothesis import strategies as st
from scale_files import scale_values
from small_project import options

from mdc.app.cli import main
from mdc.plan.config.read import validate
from mdc.plan.config.yaml_core import read_yaml
from mdc.plan.jobs.plan import Plan
from mdc.plan.jobs.read import read_job
from mdc.plan.records import UserError, json_text
from mdc.plan.verbs import VERBS

TEXT = (ROOT / "params.yaml").read_text()
# two scales, which have tables of every kind, and one has each kind of source: so every class of the schema is met
VALUES = {name: scale_values(name) for name in ("mini", "flickr8k-long")}
SOURCES = {
    "a": {"kind": "caption_table", "path": "t.csv", "caption_column": ["c", "d"], "val_fraction": 0.1},
    "b": {"kind": "webdataset", "path": "w", "splits": {"train": "t", "val": "v"}},
    "c": {"kind": "parquet", "path": "p", "caption_mode": "cut", "max_pieces": 9},
}
VALUES["mini"]["data"]["corpora"] |= {k: {"label": k, "source": v} for k, v in SOURCES.items()}
VALUES["mini"]["data"]["probes"]["f"] = {"label": "f", "source": {"kind": "class_folder", "path": "f"}}


def one_line(error: UserError) -> None:
    assert str(error)
    for line in str(error).split("\n"):  # one for each problem
        assert line and len(line) < 2_000, str(error)[:300]


@fuzz(100)
@given(changed_tree([lambda: VALUES["mini"], lambda: VALUES["flickr8k-long"]]))
def test_parameters(tree: Any) -> None:
    try:
        params = validate(tree)
        texts = [json_text(job.config()) for job in Plan(params).jobs.values()]
    except UserError as error:
        one_line(error)
    else:
        assert len(texts) > 5


PIECES = ["a: ", "b", "- ", "[", "]", "{", "}", "&x ", "*x", "!!int ", "!!set ", "!!map ", "? ", "<<: ", "\n", "\n  "]
PIECES += ['"', "'", "|", ">", "%YAML 9", "---", "...", "2001-13-01", "0x", "1:99", ".inf", "\t", "#", "!!omap "]


@fuzz(60)
@given(
    changed_bytes(TEXT.encode()[1500:6000])
    | st.binary(max_size=60)
    | st.lists(st.sampled_from(PIECES), max_size=14).map(lambda parts: "".join(parts).encode())
)
def test_yaml(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzz.yaml"
    path.write_bytes(data)
    try:
        values = read_yaml(path)
    except UserError as error:
        one_line(error)
    else:
        assert isinstance(values, dict)


NOUNS = "a dog is near two boats and the house is by a wug . the boat sits near a dog ."

# --- the command line -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Small sources of every kind, a vocabulary, and a corpus and a probe set made from them."""
    folder = tmp_path_factory.mktemp("fuzz")
    columns = {"image": [encoded(i) for i in range(8)], "caption": [NOUNS] * 8}
    write_parquet(folder / "p.parquet", {**columns, "split": ["train", "test"] * 4, "label": [0, 0, 1, 1] * 2})
    for split in ("train", "test"):
        for number, name in enumerate("xy"):
            (folder / "f" / split / name).mkdir(parents=True)
            (folder / "f" / split / name / "a.png").write_bytes(encoded(number))
            (folder / f"{name}.png").write_bytes(encoded(number))
    (folder / "t.csv").write_text("image,caption\nx.png,a\ny.png,b\n")
    (folder / "w.tar").write_bytes(tar_of(downloaded(["a", "b"])))
    (folder / "runtime.json").write_text(json.dumps({"workers": 0, "log_every": 1}))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MDC_DATA", str(folder))
        for verb in ("corpus", "probe-set", "vocabulary"):
            (folder / "c.json").write_text(json.dumps(CONFIGS[verb][0]()))
            assert main([verb, str(folder / "c.json"), "--folder", str(folder / "scale")]) == 0
    return folder


def _job(name: str, **changes: Any) -> Callable[[], dict[str, Any]]:
    return lambda: job_config(name, **changes)


def _corpus(**source: Any) -> Callable[[], dict[str, Any]]:
    return _job("data/corpora/alt", source=source, max_skipped=0.5)


def _probe_set(**source: Any) -> Callable[[], dict[str, Any]]:
    return _job("data/probes/digits", source=source)


def _pretrain() -> dict[str, Any]:
    config = job_config("runs/alt/ViT-T-12/mdc/s0")
    backbone = {"image_size": 8, "patch_size": 8, "width": 8, "layers": 1, "heads": 1, "embed_dim": 8}
    config["backbone"] |= {**backbone, "decoder": {"width": 8, "layers": 1, "heads": 1}}
    config["recipe"] |= {"epochs": 1, "batch_size": 2, "warmup_steps": 1, "validate_every": 1}
    return config


def _probe() -> dict[str, Any]:
    config = job_config("probe/untrained/ViT-T-12/cls/s0", probes=["digits"], inputs=["data/probes/digits"])
    config["recipe"] |= {"epochs": 1}
    return {**config, "backbone": _pretrain()["backbone"]}


THREE = {"vocabulary": "train", "train": "train", "test": "test"}
CONFIGS: dict[str, list[Callable[[], dict[str, Any]]]] = {
    "corpus": [
        _corpus(kind="parquet", path="p.parquet"),
        _corpus(kind="scenes", style="alt", train=3, val=1, seed=0, pixels=16),
        _corpus(kind="caption_table", path="t.csv", val_fraction=0.1),
        _corpus(kind="webdataset", path="w.tar"),
    ],
    "probe-set": [
        _probe_set(kind="parquet", path="p.parquet"),
        _probe_set(kind="class_folder", path="f"),
        _probe_set(kind="scenes", task="shape", train=3, test=2, seed=0, pixels=16),
        _probe_set(kind="caption_nouns", path="p.parquet", splits=THREE),
    ],
    "vocabulary": [_job("data/vocabularies/words", corpora=["alt"], inputs=["data/corpora/alt"])],
    "pretrain": [_pretrain],
    "probe": [_probe],
    # a table and a figure of probes, and one of every other plan
    "make": [_job(name) for name in ("table1", "figure4", "figure_loss", "figure3")],
    "make without inputs": [_job(name) for name in ("table6", "table9")],
}
EXAMPLES = {"corpus": 30, "probe-set": 24, "vocabulary": 15, "pretrain": 12, "probe": 12}
EXAMPLES |= {"make": 30, "make without inputs": 20}


@pytest.mark.parametrize("what", CONFIGS)
def test_a_jobs_configuration(place: Path, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Through ``main``: exit code 0, or 2 with one line; never a traceback."""
    monkeypatch.setenv("MDC_DATA", str(place))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    verb = what.split()[0]
    places = {"folder": place / "scale", "out": place / "out"}
    places |= {"pretrain": {"runtime": place / "runtime.json", "state": place / "state"}}.get(verb, {})
    places |= {"probe": {"cache": place / "cache"}}.get(verb, {})
    arguments = options(**places)

    def run(config: dict[str, Any]) -> int:
        (place / "config.json").write_text(json.dumps(config, default=str))
        with contextlib.redirect_stderr(io.StringIO()) as told:
            code = main([verb, str(place / "config.json"), *arguments])
        said = [line for line in told.getvalue().splitlines() if line.startswith("mdc ")]
        assert code == 0 or (code == 2 and len(said) == 1), (code, told.getvalue())
        assert "Traceback" not in told.getvalue()
        return code

    # as they are, those with all their inputs do their job, so that the mutations below are what decides
    assert {run(make()) for make in CONFIGS[what]} == ({2} if what == "make" else {0})

    @fuzz(EXAMPLES[what])
    @given(changed_tree(CONFIGS[what], SMALL, 2))
    def check(config: dict[str, Any]) -> None:
        run(config)

    check()


@fuzz(100)
@given(changed_tree([make for makers in CONFIGS.values() for make in makers], ANY))
def test_the_check_of_a_configuration_itself(tmp_path_factory: pytest.TempPathFactory, config: dict[str, Any]) -> None:
    path = tmp_path_factory.getbasetemp() / "config.json"
    verb = config.get("verb")
    try:
        path.write_text(json.dumps(config, default=str, skipkeys=True))
        read_job(path, verb if isinstance(verb, str) and verb in VERBS else "corpus")
    except ValueError:
        pass  # not what JSON can say
    except UserError as error:
        one_line(error)
