"""What `mdc export` writes, in processes that know nothing of this project: plain open_clip, timm and transformers."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from small_project import ARC, CLIP, MDC, TUNED, exported

import mdc
from mdc.data.formats.images import decode
from mdc.data.shards.index import ShardReader

CNN = "alt/cnn/lstm/s0"

#: the card's lines for open_clip give no tokens, and of a CLIP the projected feature
_OPEN_CLIP = """
import open_clip, torch
model, _, preprocess = open_clip.create_model_and_transforms("local-dir:FOLDER")
if "CLIP" == "True":
    model.visual.proj = None
feature, tokens = model.eval().encode_image(preprocess(image)[None]), torch.zeros(1, 1)
"""
_AROUND = """
import json, sys
from pathlib import Path
import numpy, torch
from PIL import Image
_kept = []
for file in sorted(Path().glob("*.png")):
    image = Image.open(file).convert("RGB")
    with torch.no_grad():
        exec(sys.argv[1])
    _kept.append((feature, tokens))
features, tokens = (torch.cat(parts).numpy() for parts in zip(*_kept))
numpy.savez("found.npz", feature=features, tokens=tokens)
print(json.dumps([name for name in sys.modules if name.split(".")[0] == "mdc"]))
"""


def elsewhere(code: str, images: Path) -> tuple[torch.Tensor, torch.Tensor]:
    """(feature, tokens) that a library's lines give for each image, in a process of its own, which has no way to this project."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {"HF_HUB_OFFLINE": "1"}
    call = [sys.executable, "-P", "-c", _AROUND, code]
    done = subprocess.run(call, capture_output=True, text=True, env=env, cwd=images)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == []
    found = np.load(images / "found.npz")
    return torch.from_numpy(found["feature"]), torch.from_numpy(found["tokens"])


@pytest.fixture
def images(r: Path, tmp_path: Path) -> Path:
    """Held-out images, and one that is neither square nor of the models' size."""
    place, reader = tmp_path / "images", ShardReader(r / "data/corpora/alt", "val")
    place.mkdir()
    for number in range(2):
        decode(reader.read(number)[1]).save(place / f"{number}.png")
    noise = np.random.default_rng(0).integers(0, 256, (91, 150, 3), dtype=np.uint8)
    Image.fromarray(noise).save(place / "wide.png")
    return place


@pytest.mark.parametrize("run", [TUNED, CLIP])
def test_features_are_ours_in_plain_open_clip_timm_and_transformers(
    r: Path, run: str, images: Path, tmp_path: Path
) -> None:
    """… by the lines of Python that the card has for timm and transformers."""
    own = mdc.load(run, scale=r.name).encode(sorted(images.glob("*.png")))
    place, alone = (exported(r, run, tmp_path / to, to) for to in ("hub", "open_clip"))
    for name in ("config.json", "model.safetensors", "open_clip_model.safetensors"):
        assert (place / name).read_bytes() == (alone / name).read_bytes()
    card = (place / "README.md").read_text()
    blocks = [part.split("```")[0] for part in card.split("```python\n")[1:]]
    theirs = [block for block in blocks if "import timm\n" in block or "from transformers " in block]
    assert len(theirs) == 2
    for code in (*theirs, _OPEN_CLIP):
        feature, tokens = elsewhere(code.replace("FOLDER", str(place)).replace("CLIP", str(run == CLIP)), images)
        torch.testing.assert_close(feature, own.probed, atol=1e-5, rtol=0)
        if code in theirs:
            torch.testing.assert_close(tokens[:, 0], own.cls, atol=1e-5, rtol=0)
            torch.testing.assert_close(tokens[:, 1:], own.patches, atol=1e-5, rtol=0)
    (block,) = [one for one in blocks if "import mdc\n" in one]
    exec(block.replace("FOLDER", str(place)).replace("CAPTION", "a star"), {"image": str(images / "0.png")})


def test_what_no_library_can_load_is_exported_for_this_project_alone_and_said(
    r: Path, images: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], refused: Callable[..., str]
) -> None:
    error = refused("export", CNN, tmp_path / "alone", "--to", "open_clip", "--scale", r.name)
    assert "residual network" in error and not (tmp_path / "alone").exists()
    place = exported(r, CNN, tmp_path / "hub", "hub")
    said = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in said if "cannot load it" in line] == ["open_clip", "timm"]
    card = (place / "README.md").read_text()
    assert "**open_clip cannot load it**" in card and "timm.create_model" not in card and "residual network" in card
    assert not list(place.glob("*.safetensors"))
    files = sorted(images.glob("*.png"))
    assert mdc.load(place).caption(files) == mdc.load(CNN, scale=r.name).caption(files)


@pytest.mark.parametrize("run", [MDC, ARC, TUNED])
def test_a_captioner_comes_back_whole_from_a_hub_folder(r: Path, run: str, images: Path, tmp_path: Path) -> None:
    """… with its weights and its vocabulary, wherever the folder is carried to."""
    place = exported(r, run, tmp_path / "out", "hub").rename(tmp_path / "carried")
    own, back, files = mdc.load(run, scale=r.name), mdc.load(place), sorted(images.glob("*.png"))
    assert back.vocabulary == own.vocabulary and back.weights == own.weights
    assert back.caption(files, length=5) == own.caption(files, length=5)
    captions = ["a red circle", "a blue star"]
    for estimator in own.estimators:
        assert back.score(files[0], captions, estimator, samples=16) == own.score(
            files[0], captions, estimator, samples=16
        )
    assert back.classify(files, ["red", "blue"], "{class}") == own.classify(files, ["red", "blue"], "{class}")
