"""CLIP-benchmark on our runs: its linear probe equals ours, and its zero-shot retrieval runs on a webdataset of ours."""

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from clip_benchmark_peer import on_the_cpu, retrieval
from PIL import Image
from small_project import CLIP, MDC

from mdc.app.cli import main
from mdc.app.clip_benchmark import benchmark_model
from mdc.data.formats.images import decode
from mdc.data.shards.index import ShardReader
from mdc.plan.records import read_json


class _Labelled(torch.utils.data.Dataset[tuple[torch.Tensor, int]]):
    """A split of a probe set as CLIP-benchmark's builders give it: images through the model's own transform."""

    def __init__(self, index: Path, split: str, transform: Any) -> None:
        self.reader, self.transform = ShardReader(index, split), transform

    def __len__(self) -> int:
        return len(self.reader)

    def __getitem__(self, number: int) -> tuple[torch.Tensor, int]:
        _, data, record = self.reader.read(number)
        return self.transform(decode(data)), record["label"]


@pytest.mark.parametrize("method", ["mdc", "clip"])
def test_its_linear_probe_of_a_run_is_ours(
    r: Path, method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own evaluation, its moves to CUDA undone, on its model of a run, against the record of our probe of that run."""
    peer = on_the_cpu(monkeypatch)
    run = r / f"runs/alt/ViT-T-12/{method}/s0"
    model, transform, _ = benchmark_model(run, "last", "linear_probe", torch.device("cpu"))
    record = read_json(r / f"probe/alt/ViT-T-12/{method}/s0/probe.json")
    recipe = record["config"]["recipe"]

    def evaluate() -> float:
        sets = [_Labelled(r / "data/probes/shape", split, transform) for split in ("train", "test")]
        loaders = [torch.utils.data.DataLoader(one, batch_size=16) for one in sets]
        values = (recipe["batch_size"], 0, recipe["lr"], recipe["epochs"], "model", recipe["seed"])
        found = peer.evaluate(model, *loaders, -1, *values, str(tmp_path / "cache"), "cpu", amp=False)
        return float(found["lp_acc1"])

    evaluate()  # fills its cache: only then does the shuffle follow the seed directly
    torch.manual_seed(recipe["seed"])
    assert 100 * evaluate() == pytest.approx(record["probes"]["shape"]["value"], abs=1e-9)


def test_its_zero_shot_retrieval_runs_on_a_webdataset_of_ours(r: Path, tmp_path: Path) -> None:
    output = tmp_path / "result.json"
    words = [*retrieval(r, tmp_path / "wds"), "--model", CLIP, "--pretrained", "last", "--recall_k", "1"]
    assert main(["clip-benchmark", "--scale", r.name, *words, "--output", str(output)]) == 0
    told = json.loads(output.read_text())
    model, transform, tokenizer = benchmark_model(r / "runs" / CLIP, "last", "zeroshot_retrieval", torch.device("cpu"))
    with tarfile.open(tmp_path / "wds/test/0.tar") as tar:
        names = tar.getnames()
        files = {name: tar.extractfile(name) for name in names}
        keys = sorted({name.split(".")[0] for name in names})
        images = [Image.open(io.BytesIO(files[f"{key}.png"].read())) for key in keys]  # type: ignore[union-attr]
        texts = [files[f"{key}.txt"].read().decode() for key in keys]  # type: ignore[union-attr]
    with torch.no_grad():
        scores = model.encode_text(tokenizer(texts)) @ model.encode_image(torch.stack(list(map(transform, images)))).T
    found = float(np.mean(scores.argmax(dim=1).numpy() == np.arange(len(keys))))
    assert told["metrics"]["image_retrieval_recall@1"] == pytest.approx(found, abs=1e-6)


def test_what_it_cannot_do_ends_in_one_line(r: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [*retrieval(r, tmp_path / "wds"), "--model", MDC, "--pretrained", "last"]
    assert main(["clip-benchmark", "--scale", r.name, *words, "--output", str(tmp_path / "x.json")]) == 2
    assert "has no embeddings" in capsys.readouterr().err
