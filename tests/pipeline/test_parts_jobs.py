"""Two nested corpora of a list of URLs, from the plan to their indices, by the jobs that a scale's parameters make."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from scale_files import common_values, write_params
from url_server import serving

from mdc.app import cli
from mdc.data.shards.index import ShardReader, read_index
from mdc.data.shards.parts import PartsWriter
from mdc.plan.config.read import validate
from mdc.plan.jobs.plan import Plan
from mdc.plan.processes.lock import locked
from mdc.plan.records import UserError, json_text
from mdc.plan.verbs import VERBS

SCALE, ROWS, SPLITS = "web", 110, ("train", "val")


def values(jobs: int) -> dict[str, Any]:
    runtime = {"jobs": jobs, "processes": 2, "threads": 8, "timeout": 600.0, "deadline": 600.0, "retries": 0}
    runtime |= {"allow_addresses": ["127.0.0.0/8"], "use_proxy": False}
    download = {"image_size": 32, "rows_per_shard": 20, "max_bytes": 1_000_000, "min_image_size": 8, "quality": 90}
    download |= {"max_pixels": 1_000_000, "max_aspect": 20.0, "respect_robots": True, "runtime": runtime}
    source = {"kind": "pairs", "dataset": "mine", "val_fraction": 0.2}
    data = {
        "samples_per_shard": 1000,
        "max_skipped": 0.1,
        "runtime": {"processes": jobs},
        "datasets": {"mine": {"path": "mine", "from": "urls", "list": {"path": "my.jsonl"}, "subset": {"pairs": 90}}},
        "download": download,
        "corpora": {
            "all": {"label": "All", "source": source},
            "half": {"label": "Half", "source": {**source, "pairs": 50}},
            "cut": {"label": "Cut", "source": {**source, "caption_mode": "cut", "max_pieces": 2}},
        },
    }
    return {**common_values(), "scale": SCALE, "label": "Web", "data": data}


def do_all(folder: Path, jobs: int, monkeypatch: pytest.MonkeyPatch) -> Plan:
    """Every job of the scale, as the workflow calls them."""
    monkeypatch.chdir(folder)
    write_params(Path(), values(jobs))
    plan = Plan(validate(values(jobs)))
    configs = Path("results", SCALE, "configs")
    for name, job in plan.jobs.items():
        path = configs / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json_text(job.config()))
        words = [job.verb, str(path)]
        if "runtime" in VERBS[job.verb].options:
            part = plan.scale.data.runtime if job.verb == "corpus-parts" else plan.scale.data.download
            runtime = getattr(part, "runtime", part)
            (folder / "runtime.json").write_text(json_text(runtime.model_dump(mode="json")))  # type: ignore[union-attr]
            words += ["--runtime", "runtime.json"]
        if "state" in VERBS[job.verb].options:
            words += ["--state", str(Path(".state", job.name))]
        assert cli.main(words) == 0, name
    return plan


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with serving() as started:
        yield started.address


@pytest.fixture
def listed(tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MDC_DATA", str(tmp_path / "data"))
    rows = [{"url": f"{address}/image/{n}.jpg", "caption": f"red thing {n}"} for n in range(ROWS)]
    random.Random(0).shuffle(rows)
    (tmp_path / "data").mkdir()
    (tmp_path / "data/my.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return tmp_path


@pytest.mark.slow
def test_one_job_or_two_the_same_corpora(
    listed: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = PartsWriter.write

    def held(writer: PartsWriter, processes: int) -> Any:
        """What another process, which a killed Snakemake left, would meet."""
        with (
            pytest.raises(UserError, match=r"process \d+ writes these too already"),
            locked(writer.state, doing="writes these too"),
        ):
            pass
        return real(writer, processes)

    monkeypatch.setattr(PartsWriter, "write", held)
    made: list[dict[str, Any]] = []
    for jobs in (1, 2):
        folder = listed / str(jobs)
        folder.mkdir()
        monkeypatch.setenv("MDC_DATA", str(folder / "data"))
        (folder / "data").mkdir()
        (folder / "data/my.jsonl").write_bytes((listed / "data/my.jsonl").read_bytes())
        plan = do_all(folder, jobs, monkeypatch)
        verbs = [job.verb for job in plan.jobs.values()]
        assert verbs.count("corpus-parts") == 2  # `all` and `half` share theirs, `cut` has captions of its own
        assert verbs.count("plan-download") == (jobs > 1) and verbs.count("download") == jobs * (jobs > 1)
        corpora = Path("results", SCALE, "data/corpora")
        made.append({name: [sample(corpora / name, split) for split in SPLITS] for name in ("all", "half", "cut")})
        capsys.readouterr()
        assert cli.main(["verify"]) == 0
        assert f"{len(plan.jobs)} records: good" in capsys.readouterr().out
    assert made[0] == made[1]  # the tars of two downloads are never equal to the byte, so no more is to be had
    for few, many in zip(made[1]["half"], made[1]["all"], strict=True):
        assert few == many[: len(few)] and 0 < len(few) < len(many)

    # the images are on this disk once, where they were downloaded to
    everything = b"".join(path.read_bytes() for path in Path("results", SCALE).rglob("*") if path.is_file())
    images = {image for split in made[1]["all"] for _, image, _ in split}
    assert len(images) > 50 and not any(image in everything for image in images)
    shared = {shard["file"] for shard in read_index(corpora / "half")["splits"]["train"]["shards"]}
    assert {name for name in shared if name.startswith("../../parts/mine-")} == shared - {"train-00002.jsonl"} != shared

    # and a changed part is found
    captions = min(Path("results", SCALE, "data/parts").glob("mine-*/captions-00001.safetensors"))
    content = bytearray(captions.read_bytes())
    content[-1] ^= 1
    captions.write_bytes(bytes(content))
    assert cli.main(["verify"]) == 3
    said = capsys.readouterr().err
    assert "captions-00001.safetensors: not the file that" in said and "to mend: snakemake" in said

    # and so is a tar that is not the one that was downloaded
    content[-1] ^= 1
    captions.write_bytes(bytes(content))
    tar = Path(folder, "data/mine/shards/00001.tar")
    whole = tar.read_bytes()
    for other in (whole[:-512], bytes([whole[0] ^ 1]) + whole[1:], None):
        tar.unlink() if other is None else tar.write_bytes(other)
        assert cli.main(["verify"]) == 3
        said = capsys.readouterr().err
        assert "00001.tar: " in said and "-00001.jsonl " in said and "to mend: snakemake" in said
    tar.write_bytes(whole)
    assert cli.main(["verify"]) == 0


def sample(corpus: Path, split: str) -> list[tuple[str, bytes, Any]]:
    reader = ShardReader(corpus, split)
    return [reader.read(number) for number in range(len(reader))]
