"""Central crops: decoded once for all encoders of one image size, and read from a file with the same bytes."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import toy

from mdc.evaluation.features import FeatureCache
from mdc.formats.images import center_resize, decode
from mdc.loader import central, crops
from mdc.loader.batch import LabelledBatch
from mdc.loader.crops import Crops, Kept
from mdc.loader.labelled import labelled_batches
from mdc.predictors.encode import ImageEncoder, untrained_encoder
from mdc.processes.store import Store
from mdc.shards.index import ShardReader, read_index


@pytest.fixture
def decodings(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One entry an image that was decoded."""
    made: list[int] = []
    monkeypatch.setattr(central, "decode", lambda data: made.append(len(data)) or decode(data))
    return made


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crops, "PIECE", 20)


def batches(probe_set: Path, batch_size: int, kept: Kept | None = None, image_size: int = 8) -> list[LabelledBatch]:
    return list(labelled_batches(probe_set, "train", image_size=image_size, batch_size=batch_size, kept=kept))


@pytest.mark.parametrize("batch_size", [1, 9, 20, 33, 70, 100])
def test_batches_are_those_of_the_images_one_by_one(probe_set: Path, tmp_path: Path, batch_size: int) -> None:
    """Whatever the pieces are: decoded, decoded and kept, and read."""
    reader = ShardReader(probe_set, "train")
    samples = [reader.read(number) for number in range(70)]
    kept = Kept(Store(tmp_path), {"code": "c"})
    for found in (batches(probe_set, batch_size), *(batches(probe_set, batch_size, kept) for _ in range(2))):
        sizes = [len(batch) for batch in found]
        assert sizes == [batch_size] * (70 // batch_size) + [70 % batch_size] * bool(70 % batch_size)
        assert all(batch.images.shape == (len(batch), 3, 8, 8) for batch in found)
        assert [key for batch in found for key in batch.keys] == [key for key, _, _ in samples]
        labels = torch.cat([batch.labels for batch in found])
        assert labels.dtype == torch.int64 and labels.tolist() == [record["label"] for _, _, record in samples]
        for image, (_, data, _) in zip(torch.cat([batch.images for batch in found]), samples, strict=True):
            assert torch.equal(image, torch.from_numpy(center_resize(decode(data), 8)).permute(2, 0, 1))


def test_a_second_encoder_decodes_nothing(probe_set: Path, tmp_path: Path, decodings: list[int]) -> None:
    def features(seed: int, size: int, **pixels: str) -> torch.Tensor:
        backbone = toy.BACKBONE.model_copy(update={"image_size": size})
        encoder = ImageEncoder(untrained_encoder(backbone, seed), "patch_mean", "fp32", torch.device("cpu"))
        identity = {"weights": str(seed)}
        options = {"image_size": size, "batch_size": 9, "identity": identity, "pixels": pixels}
        cache = FeatureCache(encoder, Store(tmp_path), **options)
        return cache.features(probe_set, read_index(probe_set), "train")[0]

    size = toy.BACKBONE.image_size
    first = features(0, size)
    assert len(decodings) == 70
    assert not torch.equal(first, features(1, size)) and len(decodings) == 70
    assert torch.equal(first, features(0, size)) and len(decodings) == 70
    features(0, 2 * size)
    assert len(decodings) == 140, "another size has crops of its own"
    features(0, size, code="edited")
    assert len(decodings) == 210, "and so has other code"


def test_a_damaged_piece_is_made_again(probe_set: Path, tmp_path: Path, decodings: list[int]) -> None:
    kept = Kept(Store(tmp_path), {})
    whole = batches(probe_set, 9, kept)
    pieces = sorted(tmp_path.rglob("*.safetensors"), key=lambda path: path.stat().st_size)
    assert len(pieces) == 4
    pieces[-1].write_bytes(pieces[-1].read_bytes()[:200])
    pieces[0].unlink()
    decodings.clear()
    again = batches(probe_set, 9, kept)
    assert len(decodings) == 20 + 10
    assert all(torch.equal(ours.images, theirs.images) for ours, theirs in zip(whole, again, strict=True))


def test_crops_that_would_fill_the_store_are_not_kept(probe_set: Path, tmp_path: Path) -> None:
    size = 70 * 3 * 8 * 8
    for limit, files in ((2 * size - 1, 0), (2 * size, 4)):
        assert len(batches(probe_set, 9, Kept(Store(tmp_path, limit), {}))) == 8
        assert len(list(tmp_path.rglob("*.safetensors"))) == files
    assert Crops(ShardReader(probe_set, "test"), 8).pieces() == [range(0, 20), range(20, 23)]
