"""``mdc.load`` on the runs of a small project: the verbs' answers, images of every kind, exported folders, and what is
refused."""

import json
import math
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as parquet
import pytest
import torch
from PIL import Image
from small_project import ARC, CLIP, MDC, exported

import mdc
from mdc.app.cli import main


def test_importing_it_imports_no_torch() -> None:
    code = "import sys, mdc; sys.exit('torch' in sys.modules or 'pydantic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_caption_imports_nothing_that_it_does_not_need(r: Path, pictures: list[Path]) -> None:
    """Each of these takes a tenth of a second to some seconds in every new process."""
    names = (
        "torch._dynamo torch._inductor pandas scipy sklearn pyarrow open_clip torchvision timm transformers matplotlib"
    )
    code = f"""
import sys, mdc
model = mdc.load({MDC!r})
model.encode({str(pictures[0])!r}), model.caption({str(pictures[0])!r}), model.score({str(pictures[0])!r}, "a red circle")
model.classify({str(pictures[0])!r}, ["red", "blue"], "{{class}}")
sys.exit(" ".join(name for name in {names!r}.split() if name in sys.modules) or 0)"""
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_every_kind_of_image_is_the_same_to_it(r: Path, pictures: list[Path]) -> None:
    model = mdc.load(MDC, scale=r.name)
    whole = model.encode(pictures)
    assert whole.patches.ndim == 3 and whole.embedding is None and len(whole.probed) == 3
    torch.testing.assert_close(whole.probed, whole.patches.mean(dim=1))
    images = [Image.open(file) for file in pictures]
    arrays = np.stack([np.asarray(image.convert("RGB")) for image in images])
    tensors = torch.from_numpy(arrays).permute(0, 3, 1, 2)
    for given in (
        images,
        list(map(str, pictures)),
        arrays,
        list(arrays),
        tensors,
        tensors.double() / 255,
        list(tensors),
    ):
        assert torch.equal(model.encode(given).probed, whole.probed)
    assert torch.equal(model.encode(arrays[1]).probed, model.encode(pictures[1]).probed)


def test_many_images_keep_their_order_and_the_first_bad_one_is_named(r: Path) -> None:
    model, images = mdc.load(MDC, scale=r.name), torch.randint(0, 256, (140, 3, 48, 48), dtype=torch.uint8)
    threads = torch.get_num_threads()
    torch.set_num_threads(threads + 1)
    try:
        whole = model.encode(images).probed
        assert torch.get_num_threads() == threads + 1, "it is left as it was"
    finally:
        torch.set_num_threads(threads)
    assert whole.shape[0] == 140 and whole.unique(dim=0).shape[0] == 140
    for place in (0, 63, 64, 139):
        torch.testing.assert_close(model.encode(images[place]).probed[0], whole[place], atol=1e-5, rtol=0)
    with pytest.raises(mdc.UserError, match="image 70: "):
        model.encode([*images[:70], torch.zeros(1, 2), *images[71:]])
    with pytest.raises(mdc.UserError, match="images: none"):
        model.encode([])


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (torch.zeros(3, 4, 4) - 1, "outside 0 to 1"),
        (torch.full((3, 4, 4), torch.nan), "outside 0 to 1"),
        (torch.zeros(4, 4, 3), r"allowed: \(3, H, W\)"),
        (np.zeros((4, 4), np.uint8), r"shape \(4, 4\)"),
        (np.zeros((4, 4, 3)), "float64"),
        ([object()], "allowed: a file, a PIL image"),
        (Image.new("F", (4, 4)), "no known range"),
        ("nowhere.png", "cannot be read"),
    ],
)
def test_what_is_no_image_is_one_line(r: Path, given: Any, why: str) -> None:
    with pytest.raises(mdc.UserError, match=why):
        mdc.load(MDC, scale=r.name).encode(given)


def test_features_are_those_of_the_verb(
    r: Path, pictures: list[Path], tmp_path_factory: pytest.TempPathFactory
) -> None:
    for run, feature in ((MDC, "patch_mean"), (CLIP, "embedding"), (CLIP, "cls")):
        out = tmp_path_factory.mktemp("out") / f"{feature}.parquet"
        folder, more = str(pictures[0].parent), ["--feature", feature, "--out", str(out), "--processes", "1"]
        assert main(["features", run, folder, "--scale", r.name, *more]) == 0
        rows = parquet.read_table(out).to_pydict()
        found = getattr(mdc.load(run, scale=r.name).encode(pictures), feature)
        np.testing.assert_allclose(np.asarray(rows["features"], np.float32), found.numpy(), atol=1e-6)


def test_scores_of_several_images_are_those_of_each(r: Path, pictures: list[Path]) -> None:
    captions = ["a red circle", "a blue star"]
    for run in (MDC, CLIP, ARC):
        model = mdc.load(run, scale=r.name)
        scores = model.score(pictures[0], captions, samples=32)
        each = model.score(pictures[:2], [captions, captions[1]], samples=32)
        assert [one.caption for one in each[0]] == captions and [len(one) for one in each] == [2, 1]
        assert [one.score for one in each[0]] == pytest.approx([one.score for one in scores], abs=1e-5)
        texts = [captions[0]] * 64 + [captions[1]] * 2  # beyond what is computed at once
        many = model.score([pictures[0]] * 66, texts, samples=32)
        assert [one.caption for (one,) in many] == texts
        assert many[-1][0].score == pytest.approx(scores[1].score, abs=1e-4)


@pytest.mark.parametrize(
    ("device", "said"),
    [("cuda", "allowed here: cpu"), ("cdua", "mean cuda?"), ("gpu", "no such device; allowed")],
)
def test_a_device_that_is_not_here(r: Path, device: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(mdc.UserError) as refused:
        mdc.load(MDC, scale=r.name, device=device)
    assert said in str(refused.value) and "recipe" not in str(refused.value)


def test_an_unknown_token_is_one_warning_and_named(r: Path, pictures: list[Path]) -> None:
    model = mdc.load(ARC, scale=r.name)
    with pytest.warns(UserWarning, match="zebra") as told:
        one, other = model.score(pictures[0], ["a red zebra", "a red circle"])
    assert len(told) == 1 and one.unknown == ["zebra"] and other.unknown == []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (known,) = model.score(pictures[0], "a red")
    assert one.score == pytest.approx(known.score)


def test_a_caption_with_unknown_tokens_stands_below_the_ranking(
    r: Path, pictures: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    right, partly = "a red circle above a blue star", "a zebra"
    call = ["score", "--run", ARC, "--scale", r.name, str(pictures[0]), partly, right]
    assert main([*call, "--json"]) == 0
    scores = {each["caption"]: each["score"] for each in json.loads(capsys.readouterr().out)["captions"]}
    assert scores[partly] > scores[right] and main(call) == 0
    listed = capsys.readouterr().out
    assert listed.index(right) < listed.index(partly)


@pytest.mark.parametrize("run", [MDC, CLIP, ARC])
def test_a_caption_of_unknown_tokens_alone_has_no_score_and_keeps_no_other_from_one(
    run: str, r: Path, pictures: list[Path]
) -> None:
    model = mdc.load(run, scale=r.name)
    with pytest.warns(UserWarning, match="zebra"):
        none, other = model.score(pictures[0], ["zebra", "a red circle"], samples=16, mismatched=True)
    (alone,) = model.score(pictures[0], "a red circle", samples=16, mismatched=True)
    assert math.isnan(none.score) and none.unknown == ["zebra"] and none.tokens == []
    assert other.score == pytest.approx(alone.score, abs=1e-5) and other.mismatched == pytest.approx(
        alone.mismatched, abs=1e-5
    )


def test_an_unknown_token_is_left_out_of_what_is_filled_in(r: Path, pictures: list[Path]) -> None:
    model = mdc.load(MDC, scale=r.name)
    with pytest.warns(UserWarning, match="zebra") as told:
        found = model.fill(pictures, "a zebra ?")
    assert len(told) == 1 and found == model.fill(pictures, "a ?")


def test_a_gap_may_have_a_comma_behind_it(r: Path, pictures: list[Path]) -> None:
    model = mdc.load(MDC, scale=r.name)
    assert model.fill(pictures, "a ?, a ?.") == model.fill(pictures, "a ? , a ? .")
    assert model.fill(pictures, "a ??") == model.fill(pictures, "a ? ?")


@pytest.mark.parametrize("images", [None, b"bytes"])
def test_what_is_no_image_and_no_caption_is_one_line(r: Path, pictures: list[Path], images: Any) -> None:
    model = mdc.load(MDC, scale=r.name)
    with pytest.raises(mdc.UserError, match="allowed"):
        model.encode(images)
    with pytest.raises(mdc.UserError, match="no text"):
        model.score(pictures[0], ["a red circle", None])  # type: ignore[list-item]


def test_what_a_run_cannot_do_is_one_line(r: Path, pictures: list[Path]) -> None:
    arc, clip = mdc.load(ARC, scale=r.name), mdc.load(CLIP, scale=r.name)
    for ask, why in (
        (lambda: clip.caption(pictures), "writes no captions"),
        (lambda: arc.fill(pictures, "a ?"), "cannot fill words in"),
        (lambda: arc.caption(pictures, steps=3), "which does not have it"),
        (lambda: arc.score(pictures, ["a red circle"]), "each image needs its own"),
        (lambda: arc.score(pictures[0], ["a red circle"], "cosine"), "it has likelihood"),
        (lambda: mdc.load("alt/on-clip/mdc/s0", scale=r.name).encode(pictures), "uses the frozen encoder"),
        (lambda: mdc.load("nope", scale=r.name), "no scale's run"),
        (lambda: mdc.load(MDC, "worst", scale=r.name), "allowed: last, best"),
    ):
        with pytest.raises(mdc.UserError, match=why) as error:
            ask()
        assert "\n" not in str(error.value)


@pytest.mark.parametrize("run", [MDC, CLIP])
def test_an_exported_folder_is_the_run(run: str, r: Path, pictures: list[Path], tmp_path: Path) -> None:
    model = mdc.load(run, scale=r.name)
    own = model.encode(pictures)
    alone = mdc.load(exported(r, run, tmp_path / "out"))
    assert torch.equal(alone.encode(pictures).probed, own.probed) and alone.name == model.name
    captions = ["a red circle", "a blue star"]
    if run == CLIP:
        scores = [one.score for one in model.score(pictures[0], captions, samples=16)]
        assert [one.score for one in alone.score(pictures[0], captions)] == pytest.approx(scores, abs=1e-6)
        return
    for ask in (
        lambda: alone.score(pictures[0], captions),
        lambda: alone.caption(pictures),
        lambda: alone.fill(pictures, "a ?"),
    ):
        with pytest.raises(mdc.UserError, match="image encoder alone"):
            ask()
