"""The table of costs: operations against a count by hand, parameters, whose times are shown, and what they may not decide."""

from pathlib import Path
from typing import Any

import pytest
import toy
from shown import make, page, read_rows, shown_job, write_made, write_manifest

from mdc.extensions.neighbours.tables import cost
from mdc.models.text import Vocabulary
from mdc.plan.artefacts import ARTEFACTS
from mdc.plan.records import sha256_file, sha256_text, write_json

WIDTH, LAYERS, PATCHES, PATCH = 32, 2, 4, 8
PIECES = 6  # of each caption, SOT and EOT not counted
METHODS = ("arc", "clip", "mdc")


def layers(tokens: int, width: int) -> int:
    """Multiplications of a transformer's matrices for a sequence: queries, keys, values, output, an MLP four times as wide."""
    return LAYERS * tokens * (4 + 8) * width**2


def attention(queries: int, keys: int, width: int) -> int:
    """Multiplications of all scores, and of the sums that they weight."""
    return LAYERS * 2 * queries * keys * width


def by_hand() -> float:
    """The operations of a pair under ARC, forward and backward."""
    image, text = PATCHES + 1, PIECES + 2  # [CLS]; SOT and EOT
    first = PATCHES * 3 * PATCH**2 * WIDTH  # of the patches; nothing goes back to the pixels
    dense = layers(image, WIDTH) + layers(text, WIDTH)
    dense += LAYERS * (2 * text + 2 * PATCHES) * WIDTH**2  # cross-attention: queries, output; keys, values
    dense += (text - 1) * WIDTH * toy.V  # what follows each token but the last
    looks = attention(image, image, WIDTH) + attention(text, text, WIDTH) + attention(text, PATCHES, WIDTH)
    # backward: by inputs and by weights; attention, whose scores are computed again, takes five products for two
    return 2 * (2 * first + 3 * dense + 3.5 * looks)


class Costs:
    """Runs of ``METHODS`` on a corpus of captions of six pieces, ``seeds`` each, and captions by two systems of one of them."""

    def __init__(self, folder: Path, seeds: int = 2) -> None:
        self.folder, self.seeds = folder, seeds
        vocabulary = folder / "data/vocabularies/words/vocabulary.json"
        write_json(vocabulary, Vocabulary.corpus(range(toy.V - 2)).to_json())
        index = folder / "data/corpora/toy/index.json"
        write_json(index, {"captions": {"per_split": {"train": {"histogram": {str(PIECES): 10}}}}})
        self.given = {"data/vocabularies/words": vocabulary, "data/corpora/toy": index}
        for name, path in self.given.items():
            write_made(path, name)
        self.runs = {}
        self.parameters = {}
        for method in METHODS:
            model = toy.model(toy.METHODS[method])
            self.parameters[method] = sum(p.numel() for p in model.parameters() if p.requires_grad)
            encoder = sum(p.numel() for p in model.encoder.parameters() if p.requires_grad)
            for seed in range(seeds):
                name = f"runs/toy/toy/{method}/s{seed}"
                job = toy.job(toy.METHODS[method], toy.recipe(batch_size=8), job=name, vocabulary="words", scale="mini")
                told = {"parameters": {"all": self.parameters[method], "encoder": encoder}, "samples_seen": 640}
                self.given[name] = write_manifest(folder, name, config=job.config(), **told)
                self.host(name, seconds=9.0, processor_seconds=10.0 + seed, device="cpu", processor="A CPU")
        self.captions = [f"captions/toy/toy/mdc/s{seed}/last/set" for seed in range(seeds)]
        for name in self.captions:
            self.given[name] = write_manifest(
                folder, name, "captions.json", tables={"captions.parquet": [{"image": "a"}]}
            )
            self.host(name, device="cpu", processor="A CPU", writing={
                "one": {"captions": 50, "seconds": 9.0, "processor_seconds": 5.0},
                "six": {"captions": 50, "seconds": 9.0, "processor_seconds": 1.0},
            })  # fmt: skip

    def host(self, name: str, **told: Any) -> None:
        manifest = self.given[name]
        write_json(manifest.with_name("host.json"), {"manifest_sha256": sha256_file(manifest), **told})

    @property
    def job(self) -> Any:
        corpus, backbone = {"key": "toy", "label": "Toy"}, {"key": "toy", "label": "ViT"}
        common = {"corpus": corpus, "backbone": backbone, "pooling": ""}
        systems = [
            {
                **common,
                "key": f"toy/toy/{method}",
                "method": {"key": method, "label": toy.METHODS[method].label},
                "estimator": "training",
                "runs": [f"toy/toy/{method}/s{seed}" for seed in range(self.seeds)],
                "records": [f"runs/toy/toy/{method}/s{seed}" for seed in range(self.seeds)],
            }
            for method in METHODS
        ]
        written = [
            {
                **common,
                "key": f"set/{system}",
                "method": {"key": system, "label": label},
                "estimator": "captions",
                "runs": self.captions,
                "records": self.captions,
                "length": "6",
                "decoding": "greedy",
                "tuned": "",
                "weights": "last",
            }
            for system, label in (("one", "MDC"), ("six", "MDC · 6 tokens per step"))
        ]
        expected = {name: sha256_text(name) for name in self.given if not name.startswith("data/")}
        return shown_job(
            "table_cost", self.given, systems=[*systems, *written], seeds=list(range(self.seeds)), expected=expected
        )

    def make(self) -> Path:
        return make(self.job, self.given, self.folder / "out")


def levels(path: Path) -> dict[tuple[str, str], dict[str, str]]:
    return {(row["system"], row["column"]): row for row in read_rows(path)}


def test_what_is_counted(tmp_path: Path) -> None:
    """… is what is counted by hand."""
    made = Costs(tmp_path)
    found = levels(made.make() / "table_cost_long.csv")
    for method in METHODS:
        assert int(found[f"toy/toy/{method}", "parameters"]["value"]) == made.parameters[method]
        pair, run = (int(found[f"toy/toy/{method}", f"flop_per_{of}"]["value"]) for of in ("pair", "run"))
        assert run == 640 * pair and found[f"toy/toy/{method}", "pairs_seen"]["value"] == "640"
        assert method != "arc" or pair == pytest.approx(by_hand(), rel=0.01)
    runs = [(row["seed"], row["run"], row["record"]) for row in read_rows(tmp_path / "out/table_cost_runs.csv")]
    assert {(f"{seed}", f"toy/toy/mdc/s{seed}", f"runs/toy/toy/mdc/s{seed}") for seed in (0, 1)} <= set(runs)
    rows = read_rows(tmp_path / "out/table_cost.csv")
    assert [row["method"] for row in rows] == ["ARC", "CLIP", "MDC"] and rows[0]["Pairs seen"] == "640"


def test_times_of_cores_are_the_processors(tmp_path: Path) -> None:
    """… of all seeds; a caption's is of all captions of its system."""
    made = Costs(tmp_path)
    found = levels(made.make() / "table_cost_measured.csv")
    assert found["toy/toy/mdc", "core_seconds_per_run"]["value"] == "10.5"
    assert (
        float(found["set/one", "core_seconds_per_caption"]["value"]) == 0.1
        and found["set/one", "core_seconds_per_caption"]["n"] == "100"
    )
    assert float(found["set/six", "core_seconds_per_caption"]["value"]) == 0.02
    assert "A CPU" in "".join(page(tmp_path / "out/table_cost.html").itertext())


def test_a_cost_is_about_neither_checkpoints_nor_methods(tmp_path: Path) -> None:
    made = Costs(tmp_path, seeds=3)
    found = [*levels(made.make() / "table_cost_measured.csv").values()]
    assert {row["scope"] for row in found} == {""} and "3" in {row["seeds"] for row in found}


def test_times_of_gpus_are_wall_time_by_their_number(tmp_path: Path) -> None:
    made = Costs(tmp_path, seeds=1)
    made.host("runs/toy/toy/mdc/s0", seconds=7200.0, processor_seconds=3.0, device="A GPU", processor="A CPU")
    found = levels(made.make() / "table_cost_measured.csv")
    assert found["toy/toy/mdc", "gpu_seconds_per_run"]["value"] == "7200"
    told = "".join(page(tmp_path / "out/table_cost.html").itertext())
    assert "GPU-hours" in told and "core-hours" in told and "As measured on: A CPU, A GPU." in told


def test_a_time_that_is_not_known_is_left_out(tmp_path: Path) -> None:
    """Its host file is gone, of a record that was made since, or of an older version; or the run was interrupted."""
    made = Costs(tmp_path)
    whole = levels(made.make() / "table_cost_measured.csv")
    made.given["runs/toy/toy/arc/s0"].with_name("host.json").unlink()
    made.host("runs/toy/toy/arc/s1", manifest_sha256="0" * 64, processor_seconds=3.0)
    made.host("runs/toy/toy/clip/s0", seconds=9.0)
    made.host("runs/toy/toy/clip/s1", seconds=9.0, processor_seconds=None)
    made.host("runs/toy/toy/mdc/s0", seconds=9.0, processor_seconds=None)
    before = {name: (tmp_path / "out" / name).read_bytes() for name in ARTEFACTS["table_cost"].files}
    found = levels(made.make() / "table_cost_measured.csv")
    assert whole.keys() - found.keys() == {
        ("toy/toy/arc", "core_seconds_per_run"),
        ("toy/toy/clip", "core_seconds_per_run"),
    }
    assert found["toy/toy/mdc", "core_seconds_per_run"]["value"] == "11"
    changed = {name for name, content in before.items() if (tmp_path / "out" / name).read_bytes() != content}
    assert changed == set(ARTEFACTS["table_cost"].measured), "nothing else rests on times"


def test_without_any_time_there_is_the_rest(tmp_path: Path) -> None:
    made = Costs(tmp_path)
    for name, path in made.given.items():
        if not name.startswith("data/"):
            path.with_name("host.json").unlink()
    out = made.make()
    assert read_rows(out / "table_cost_measured.csv") == [] and len(read_rows(out / "table_cost.csv")) == 3


def test_units_are_as_large_as_the_greatest_value() -> None:
    names = ("", "thousand", "million")
    assert cost._scaled([3.0, 999.0], names) == (1.0, "") and cost._scaled([3.0, 1000.0], names) == (1000.0, "thousand")
    assert cost._scaled([5e9], names) == (1e6, "million") and cost._scaled([], names) == (1.0, "")
