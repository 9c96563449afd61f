"""CoCa as a row of reference, written by the Python of another environment, for which a small script stands in here."""

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest
import small_project
from small_project import do_jobs

from mdc.evaluation.others import coca
from mdc.plan.config.read import validate
from mdc.plan.jobs.plan import Plan
from mdc.plan.records import UserError

COCA = Path(os.environ.get("MDC_COCA", Path(__file__).resolve().parents[2] / ".coca"))
JOBS = ["captions/coca/coca/described", "metrics/coca/coca/described", "judged/described/s0"]
JOBS += ["judged/described/s1", "judged/on_clip/s0", "judged/on_clip/s1", "table3", "figure6"]
#: writes as `mdc.evaluation.others.coca` does, and counts how often it is asked
STAND_IN = """
import json, sys
from pathlib import Path
images, out = json.loads(Path(sys.argv[2]).read_text()), Path(sys.argv[3])
with open("asked", "a") as file:
    file.write(" ".join(sys.argv[4:]) + "\\n")
done = [json.loads(line)["image_id"] for line in out.read_text().splitlines()] if out.exists() else []
with out.open("a") as file:
    for number, (name, path) in enumerate(images.items()):
        assert Path(path).read_bytes()[:4] in (b"\\x89PNG", b"\\xff\\xd8\\xff\\xe0", b"RIFF"), path
        if name not in done:
            file.write(json.dumps({"image_id": name, "caption": f"a circle number {number}"}) + "\\n")
        if Path("killed").exists() and number == 3:
            print("CoCa: the machine went down", file=sys.stderr)
            sys.exit(2)
"""


def _plan(**changes: Any) -> Plan:
    values: dict[str, Any] = small_project.values((0, 1))
    table = values["tables"]["table3"]
    table["coca"] = {
        "coca": {"label": "CoCa", "model": "tiny", "weights": "some", "datasets": ["described"], **changes}
    }
    table["judge"]["contests"]["with"] = {"label": "chosen with CoCa", "systems": ["arc", "mdc_6", "coca"]}
    return Plan(validate(values))


@pytest.fixture
def python(r: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The stand-in's Python, in the project's folder."""
    place = Path.cwd() / ".coca/bin/python"
    place.parent.mkdir(parents=True)
    (Path.cwd() / "stand_in.py").write_text(STAND_IN)
    place.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{Path.cwd() / "stand_in.py"}" "$@"\n')
    place.chmod(0o755)
    return place


@pytest.mark.usefixtures("own_copy")
def test_it_is_a_row_of_reference_and_enters_its_contest(r: Path, python: Path) -> None:
    do_jobs(_plan(), JOBS)
    (words,) = Path("asked").read_text().splitlines()
    assert words == "--model tiny --weights some --beams 6 --seq-len 30 --threads 1 --device cpu"
    rows = parquet.read_table(r / f"{JOBS[0]}/captions.parquet").to_pylist()
    assert [row["caption"] for row in rows] == [f"a circle number {n}" for n in range(8)]
    assert {row["system"] for row in rows} == {"coca"}
    text = (r / "table3/table3.md").read_text()
    (row,) = [line for line in text.split("### More")[0].splitlines() if line.startswith("| *CoCa*")]
    assert row.startswith("| *CoCa* | *–* |")
    assert "CoCa: an external model (open\\_clip)" in text
    # it writes on one of the two datasets, so the contest's systems are told of each
    assert "chosen with CoCa (Described): " in text and "among ARC, MDC · 6, CoCa;" in text
    assert "chosen with CoCa (On our CLIP): " in text and "among ARC, MDC · 6;" in text
    assert "a circle number" in (r / "figure6/figure6.html").read_text()


@pytest.mark.usefixtures("own_copy")
def test_a_killed_job_goes_on(r: Path, python: Path) -> None:
    Path("killed").touch()
    with pytest.raises(UserError, match="captions/coca/coca/described: CoCa: the machine went down"):
        do_jobs(_plan(), JOBS[:1])
    (kept,) = Path(".state/features").glob("coca-*.jsonl")
    assert len(kept.read_text().splitlines()) == 4 and not (r / JOBS[0]).exists()
    Path("killed").unlink()
    do_jobs(_plan(), JOBS[:1])
    assert len(kept.read_text().splitlines()) == 8


@pytest.mark.usefixtures("own_copy")
def test_weights_of_a_file_that_changed_write_anew(r: Path, python: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MDC_DATA", "mine")
    Path("mine").mkdir()
    for content in ("first", "second"):
        Path("mine/w.pt").write_text(content)
        do_jobs(_plan(weights="w.pt"), JOBS[:1])
        shutil.rmtree(r / JOBS[0])
    first, second = Path("asked").read_text().splitlines()
    assert first == second and "--weights mine/w.pt" in first
    whole = [len(kept.read_text().splitlines()) for kept in Path(".state/features").glob("coca-*.jsonl")]
    assert whole == [8, 8], "neither read the captions of the other"


@pytest.mark.usefixtures("own_copy")
def test_without_its_environment_it_says_how_to_make_it(r: Path) -> None:
    with pytest.raises(UserError, match=r"\.coca/bin/python: no such Python; `make \.coca/\.ready` makes"):
        do_jobs(_plan(), JOBS[:1])


def test_under_our_transformers_it_says_what_it_needs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The script itself, by this environment's Python."""
    (tmp_path / "list.json").write_text("{}")
    arguments = ["coca.py", str(tmp_path / "list.json"), str(tmp_path / "out"), "--model", "x"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", arguments)
        assert coca.main() == 2
    said = capsys.readouterr().err
    assert "needs transformers below 5" in said and "make .coca/.ready" in said and said.count("\n") == 1


def test_a_line_that_was_cut_short_is_written_again(tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    assert coca.finished(out) == set()
    whole = json.dumps({"image_id": "a", "caption": "x"}) + "\n"
    out.write_text(whole + '{"image_id": "b", "capt')
    assert coca.finished(out) == {"a"} and out.read_text() == whole


def test_where_it_does_not_caption_its_contest_goes_on_without_it() -> None:
    jobs = _plan().jobs
    contests = jobs["judged/described/s0"].contests  # type: ignore[attr-defined]
    assert contests["with"] == ["arc", "mdc_6", "coca"]
    on_clip = jobs["judged/on_clip/s0"].contests  # type: ignore[attr-defined]
    assert on_clip == {"with": ["arc", "mdc_6"]}


@pytest.mark.usefixtures("own_copy")
@pytest.mark.skipif(
    not (COCA / "bin/python").is_file(), reason="CoCa's own environment is not made; `make .coca/.ready` makes it"
)
def test_open_clips_own_coca_writes(r: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A CoCa with untrained weights writes whatever it writes, by beam search and greedily, in its own environment."""
    import open_clip
    import torch
    from safetensors.torch import save_file

    monkeypatch.setenv("MDC_COCA", str(COCA))
    text = {"context_length": 76, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 1}
    vision = {"image_size": 32, "layers": 1, "width": 32, "head_width": 16, "patch_size": 8}
    vision |= {"attentional_pool": True, "attn_pooler_heads": 2, "output_tokens": True}
    config = {"embed_dim": 32, "vision_cfg": vision, "custom_text": True}
    config |= {"text_cfg": {**text, "embed_cls": True, "output_tokens": True}}
    config |= {"multimodal_cfg": {**text, "attn_pooler_heads": 2}}
    folder = tmp_path / "tiny"
    folder.mkdir()
    torch.manual_seed(0)
    model = open_clip.CoCa(32, config["multimodal_cfg"], config["text_cfg"], vision)
    save_file(
        {n: v.contiguous().clone() for n, v in model.state_dict().items()}, folder / "open_clip_model.safetensors"
    )
    (folder / "open_clip_config.json").write_text(json.dumps({"model_cfg": config, "preprocess_cfg": {}}))
    do_jobs(_plan(model=f"local-dir:{folder}", weights=None, most=8), JOBS[:1])
    assert len(parquet.read_table(r / f"{JOBS[0]}/captions.parquet").to_pylist()) == 8
