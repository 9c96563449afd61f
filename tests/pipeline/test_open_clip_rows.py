"""A model of others as a row of Table 2: a small open_clip model in a folder, against open_clip called by hand."""

from pathlib import Path
from typing import Any

import open_clip
import pyarrow.parquet as parquet
import pytest
import small_project
import torch
from open_clip.tokenizer import HFTokenizer
from shown import read_rows
from small_project import do_jobs
from tiny_clip import write_clip

from mdc.data.formats.images import decode
from mdc.data.shards.index import ShardReader
from mdc.evaluation.option_scores import boxed
from mdc.evaluation.predictors.open_clip_score import OpenClipScorer
from mdc.evaluation.predictors.score import TooLong
from mdc.plan.config.read import validate
from mdc.plan.jobs.plan import Plan
from mdc.plan.records import UserError, read_json, sha256_file


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_clip(tmp_path)


def _plan(model: str) -> Plan:
    values: dict[str, Any] = small_project.values((0, 1))
    tables = values["tables"]
    tables["table2"]["open_clip"] = {"tiny": {"label": "Tiny CLIP", "model": model, "weights": None}}
    return Plan(validate(values))


@pytest.mark.usefixtures("own_copy")
def test_an_open_clip_model_in_a_folder_is_a_row(r: Path, folder: Path) -> None:
    do_jobs(_plan(f"local-dir:{folder}"), ["scores/open_clip/tiny", "table2"])
    made = r / "scores/open_clip/tiny"
    rows = [row for row in parquet.read_table(made / "scores.parquet").to_pylist() if row["set"] == "relation"]
    model, _, preprocess = open_clip.create_model_and_transforms(f"local-dir:{folder}")
    tokenizer = open_clip.get_tokenizer(f"local-dir:{folder}")
    reader, right = ShardReader(r / "data/choices/relation", "test"), []
    for number in range(len(reader)):
        key, data, record = reader.read(number)
        with torch.no_grad():
            image = model.eval().encode_image(preprocess(boxed(decode(data), record.get("box")))[None], normalize=True)
            expected = (image @ model.encode_text(tokenizer(record["options"]), normalize=True).T)[0]
        mine = [row["score"] for row in rows if row["item"] == key]
        assert mine == pytest.approx(expected.tolist(), abs=1e-6)
        right.append((record["group"], float(expected.argmax() == 0)))
    assert all(row["error"] == 0 and row["unseen"] == 0 for row in rows)
    # its weights are named by their hashes, and nothing is said of a training that nobody here saw
    told = read_json(made / "scores.json")
    assert told["weights"]["open_clip_model.safetensors"] == sha256_file(folder / "open_clip_model.safetensors")
    assert told["training"] is None
    table = read_rows(r / "table2/table2_long.csv")
    lines = [line for line in table if line["method"] == "Tiny CLIP" and line["label"] == "Relation"]
    groups = {group: [value for other, value in right if other == group] for group, _ in right}
    share = sum(sum(values) / len(values) for values in groups.values()) / len(groups)
    assert [float(line["value"]) for line in lines] == pytest.approx([100 * share], abs=0.05)
    assert "Tiny CLIP" in (r / "table2/table2.html").read_text()


@pytest.mark.usefixtures("own_copy")
def test_a_folder_that_is_no_model_ends_in_one_line(r: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"cannot be loaded .* allowed: a name and weights"):
        do_jobs(_plan(f"local-dir:{tmp_path}/nothing"), ["scores/open_clip/tiny"])


def test_a_name_without_weights_is_refused_not_drawn_at_random() -> None:
    with pytest.raises(UserError, match=r"'ViT-S-32' with weights None cannot be loaded .*Required pretrained weights"):
        OpenClipScorer("ViT-S-32", None, "fp32", torch.device("cpu"))


def test_a_caption_that_the_models_own_tokenizer_would_cut_is_refused(folder: Path) -> None:
    """Its longest caption fits and one word more does not: of open_clip's tokenizer, and of one from the hub, which tells no
    lengths and cuts without a word."""
    scorer = OpenClipScorer(f"local-dir:{folder}", None, "fp32", torch.device("cpu"))
    for tokenizer, most in ((scorer._tokenizer, 75), (_of_the_hub(12), 11)):
        scorer._tokenizer, scorer._context = tokenizer, tokenizer.context_length
        full = " ".join(["red"] * most)
        assert len(scorer.tokens(full)) == tokenizer.context_length and len(set(scorer.tokens("a red"))) >= 3
        for caption in (f"{full} red", f"{full} dog", "red " * 500):
            with pytest.raises(TooLong, match="longer than the context"):
                scorer.tokens(caption)
        with pytest.raises(UserError, match="has no word"):
            scorer.tokens(" ")


def _of_the_hub(context_length: int) -> Any:
    """open_clip's wrapper of a tokenizer of transformers, as models of the hub have, with a few words and an end of text."""
    import tokenizers
    import transformers

    words = {"[PAD]": 0, "[END]": 1, "[UNK]": 2, "a": 3, "red": 4, "dog": 5}
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="[UNK]"))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    inner.post_processor = tokenizers.processors.TemplateProcessing(single="$A [END]", special_tokens=[("[END]", 1)])
    found = HFTokenizer.__new__(HFTokenizer)
    found.tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=inner, pad_token="[PAD]", eos_token="[END]")
    found.context_length, found.clean_fn = context_length, str.strip
    found.tokenizer_mode, found.strip_sep_token = "", False
    return found


@pytest.mark.usefixtures("own_copy")
def test_only_a_clip_of_others_gives_a_clip_score(r: Path, folder: Path) -> None:
    """A CLIP of the scale has seen data of its kind, so its numbers are called otherwise, in tables, csv files and notes."""

    def labels() -> set[str]:
        keys = ("CLIPScore", "RefCLIPScore")
        return {line["label"] for line in read_rows(r / "table3/table3_long.csv") if line["column"] in keys}

    ours = labels()
    assert all("similarity by our CLIP" in label for label in ours) and len(ours) == 2
    text = (r / "table3/table3.md").read_text()
    assert "which was trained on data of the scale" in text and "| CLIPScore |" not in text
    values: dict[str, Any] = small_project.values((0, 1))
    model = {"kind": "open_clip", "label": "Tiny CLIP", "model": f"local-dir:{folder}", "weights": None}
    values["captions"]["clip_score"] = model
    plan = Plan(validate(values))
    do_jobs(plan, [name for name in plan.jobs if name.startswith(("metrics/", "judged/"))] + ["table3"])
    assert labels() == {"CLIPScore", "RefCLIPScore"}
    text = (r / "table3/table3.md").read_text()
    assert "by Tiny CLIP" in text and "our CLIP" not in text.replace("on our CLIP", "").replace("On our CLIP", "")
