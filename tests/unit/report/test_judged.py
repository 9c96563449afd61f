"""How often a judge chooses each system: over the images that got an answer with every seed, and no others."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from shown import STATISTICS

from mdc.plan.jobs.shown import Statistics
from mdc.plan.jobs.shown_captions import ShownContest
from mdc.plan.records import sha256_file, write_json
from mdc.report.judged import judged

#: of each seed: image → the systems by letter, and the votes of the letters; None: no answer
SEEDS: list[dict[str, tuple[str, list[float] | None]]] = [
    {"a": ("xy", [1.0, 0.0]), "b": ("yx", [1.0, 0.0]), "c": ("xy", [0.5, 0.5]), "d": ("xy", None)},
    {"a": ("yx", [0.0, 1.0]), "b": ("xy", None), "c": ("yx", [1.0, 0.0]), "d": ("xy", [1.0, 0.0])},
]


def test_an_image_without_an_answer_with_some_seed_counts_for_no_system(tmp_path: Path) -> None:
    given = {}
    for seed, answers in enumerate(SEEDS):
        rows: list[dict[str, Any]] = [
            {"contest": "n", "image": image, "systems": list(systems), "votes": votes}
            | {"status": "chosen" if votes else "failed"}
            for image, (systems, votes) in answers.items()
        ]
        folder = tmp_path / f"s{seed}"
        folder.mkdir()
        parquet.write_table(pa.Table.from_pylist([*rows, {**rows[0], "contest": "another"}]), folder / "judged.parquet")
        outputs = {"judged.parquet": sha256_file(folder / "judged.parquet")}
        record = {"kind": "judged", "id": f"judged/s{seed}", "config": {"scale": "s"}, "config_sha256": "h"}
        given[f"judged/s{seed}"] = folder / "judged.json"
        write_json(folder / "judged.json", record | {"outputs": outputs})
    contest = ShownContest(name="n", label="N", dataset="d", systems=["x", "y"], records=list(given))
    expected, statistics = dict.fromkeys(given, "h"), Statistics(**STATISTICS)
    job: Any = SimpleNamespace(artefact="table3", scale="s", expected=expected, statistics=statistics)
    found = judged(job, given, contest)
    assert found.share["x"].n == 2 and found.answers == {"chosen": 6, "failed": 2}
    # of image a x is chosen with both seeds; of image c half of the first vote is its
    assert found.share["x"].value == pytest.approx(100 * (1 + 1 + 0.5 + 0) / 4)
    assert found.share["y"].value == pytest.approx(100 * (0 + 0 + 0.5 + 1) / 4)
    assert found.letters == {"A": pytest.approx(4.5), "B": pytest.approx(1.5)}
