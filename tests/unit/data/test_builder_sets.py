"""The paper's probes against CLIP-benchmark's own dataset objects, on tiny files in the published layouts."""

import io
import pickle
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import evaluation_files as files
import numpy as np
import pytest
from bad_input import Payload
from data_samples import iter_probe, probe_of, write_probe
from PIL import Image
from read_table import read_table

from mdc.data.formats.samples import RawSample, Skipped
from mdc.data.shards.index import ShardReader, read_index
from mdc.plan.records import UserError

# our name, CLIP-benchmark's, its training split, the folder that must be there, who writes the files
SETS: dict[str, tuple[str, str, str, Callable[[Path], Path]]] = {
    "cifar10": ("cifar10", "train", "cifar-10-batches-py", files.cifar),
    "cifar100": ("cifar100", "train", "cifar-100-python", lambda root: files.cifar(root, hundred=True)),
    "stl10": ("stl10", "train", "stl10_binary", files.stl10),
    "food101": ("food101", "train", "food-101", files.food101),
    "pets": ("pets", "trainval", "oxford-iiit-pet", files.pets),
    "flowers102": ("flowers", "train", "flowers-102", files.flowers102),
    "voc2007": ("voc2007_multilabel", "train", "VOCdevkit/VOC2007", files.voc2007),
    "imagenet1k": ("imagenet1k-unverified", "train", "train", files.imagenet),
}


def source(name: str, path: str = "there") -> dict[str, Any]:
    return {"kind": "builder", "dataset": name, "path": path}


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No network, no wget, and nobody may try; torchvision takes the tests' files for the published ones, by MD5."""
    import torchvision.datasets as theirs

    tried = []

    def refused(*_: Any, **__: Any) -> Any:
        tried.append("download")
        raise OSError("no network here")

    monkeypatch.setattr(socket, "getaddrinfo", refused)
    monkeypatch.setattr(socket.socket, "connect", refused)
    monkeypatch.setattr(subprocess, "Popen", refused)
    for module in (theirs.cifar, theirs.stl10, theirs.flowers102):
        monkeypatch.setattr(module, "check_integrity", lambda *_: True)
    yield
    assert not tried


def pixels(image: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(image)).convert("RGB"))


@pytest.mark.parametrize("name", SETS)
def test_images_labels_and_classes_are_those_of_clip_benchmark(name: str, tmp_path: Path) -> None:
    from clip_benchmark.datasets.builder import build_dataset

    theirs, train, _, write = SETS[name]
    write(tmp_path / "there")
    for split, their_split in (("train", train), ("test", "test")):
        oracle = build_dataset(theirs, root=str(tmp_path / "there"), split=their_split, download=False)
        found: list[RawSample] = list(iter_probe(source(name), split, tmp_path))
        assert len(found) == len(oracle) > 1 and [s.key for s in found] == [f"{i:08d}" for i in range(len(found))]
        for sample, (image, target) in zip(found, [oracle[i] for i in range(len(oracle))], strict=True):
            np.testing.assert_array_equal(pixels(sample.image), np.asarray(image))
            if name == "voc2007":
                assert sample.labels == tuple(target.int().tolist()) and sample.label is None
            else:
                assert sample.label == int(target)
        expected = oracle.classes
        if name == "imagenet1k":  # the tests' folders are three of a thousand
            expected = [oracle.classes[i] for i in (0, 1, 999)]
        assert probe_of(source(name), tmp_path).classes == list(expected)
    assert probe_of(source(name), tmp_path).task == ("multi" if name == "voc2007" else "single")


def test_files_keep_their_bytes_and_arrays_become_png(tmp_path: Path) -> None:
    files.pets(tmp_path / "there")
    (first, *_) = iter_probe(source("pets"), "train", tmp_path)
    assert first.image == (tmp_path / "there/oxford-iiit-pet/images/Abyssinian_100.jpg").read_bytes()
    assert first.extension == "jpg"
    files.stl10(tmp_path / "there")
    assert next(iter_probe(source("stl10"), "test", tmp_path)).image.startswith(b"\x89PNG")


@pytest.mark.parametrize("name", SETS)
def test_missing_data_are_one_line_with_folder_and_key(name: str, tmp_path: Path) -> None:
    for made in ("", "there"):
        (tmp_path / made).mkdir(exist_ok=True)
        folder = tmp_path / "there" / (SETS[name][2] if made else "")
        for ask in (lambda: list(iter_probe(source(name), "train", tmp_path)),
                    lambda: probe_of(source(name), tmp_path).classes):  # fmt: skip
            with pytest.raises(UserError) as error:
                ask()
            assert str(error.value).startswith(f"{folder}: no such folder")
            assert f"datasets.{name}.path of the scale" in str(error.value)
    # an empty folder, where a builder that may download would begin to
    (tmp_path / "there" / SETS[name][2]).mkdir(parents=True)
    with pytest.raises(UserError, match=r"cannot be read|no such file|no such folder") as error:
        list(iter_probe(source(name), "test", tmp_path))
    assert str(tmp_path / "there") in str(error.value) and "download" not in str(error.value)


@pytest.mark.parametrize(("name", "file", "content", "said"), read_table(__file__, "bad_files"))
def test_bad_files_are_one_line(name: str, file: str, content: str | None, said: str, tmp_path: Path) -> None:
    SETS[name][3](tmp_path / "there")
    files.damage(tmp_path / "there" / file, "", *([] if content is None else [content]))
    with pytest.raises(UserError, match=said):
        probe_of(source(name), tmp_path)
        list(iter_probe(source(name), "train", tmp_path))


def test_folders_that_are_no_class_of_imagenet_are_named(tmp_path: Path) -> None:
    files.imagenet(tmp_path)
    for split in ("train", "val"):
        (tmp_path / split / files.WNIDS[0]).rename(tmp_path / split / "tench")
    with pytest.raises(UserError, match="1 folders are not classes of ImageNet-1k, the first is 'tench'"):
        probe_of(source("imagenet1k", "."), tmp_path)


def test_broken_and_foreign_images_are_counted(tmp_path: Path) -> None:
    files.food101(tmp_path / "there")
    images = tmp_path / "there/food-101/images"
    (images / "waffles/train9.jpg").write_bytes(b"no")
    (images / "waffles/train3.jpg").unlink()
    (images / "apple_pie/train9.jpg").unlink()
    (images / "apple_pie/train9.jpg").symlink_to(files.put(tmp_path / "elsewhere.jpg", files.jpeg(1)))
    skipped = Skipped()
    assert [s.key for s in iter_probe(source("food101"), "train", tmp_path, skipped)] == ["00000003"]
    reasons = {"image cannot be decoded": 1, "image file is missing": 1, "image outside the folder": 1}
    assert skipped.counts == reasons


def test_a_multi_label_set_on_disk(tmp_path: Path) -> None:
    files.voc2007(tmp_path / "there")
    index = write_probe("voc", source("voc2007"), tmp_path / "out", tmp_path, max_skipped=0)
    assert read_index(tmp_path / "out", verify=True, kind="probe")["task"] == "multi"
    car, dog, person = (index["classes"].index(name) for name in ("car", "dog", "person"))
    assert len(index["classes"]) == 20 and index["chance"] == pytest.approx(0.5)
    labels = [ShardReader(tmp_path / "out", "train").read(i)[2]["labels"] for i in range(3)]
    # a difficult dog counts, two cars count once, and an image without objects stays
    assert [np.flatnonzero(row).tolist() for row in labels] == [sorted([car, dog]), [person], []]


def test_a_class_in_one_split_only_is_refused(tmp_path: Path) -> None:
    files.pets(tmp_path / "there")
    lines = (tmp_path / "there/oxford-iiit-pet/annotations/test.txt").read_text().splitlines()
    files.put(tmp_path / "there/oxford-iiit-pet/annotations/test.txt", f"{lines[0]}\n")
    with pytest.raises(UserError, match="the classes of pets differ between train and test"):
        write_probe("pets", source("pets"), tmp_path / "out", tmp_path)
    files.stl10(tmp_path / "there")
    files.put(tmp_path / "there/stl10_binary/test_y.bin", bytes([2, 2, 2, 2]))
    with pytest.raises(UserError, match="split test has no image of 1 classes that another has: airplane"):
        write_probe("stl10", source("stl10"), tmp_path / "out", tmp_path)


def test_only_the_published_flowers_reach_the_matlab_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SciPy's reader of MATLAB files can crash the process on a damaged one."""
    import scipy.io
    from torchvision.datasets import flowers102
    from torchvision.datasets.utils import check_integrity

    files.flowers102(tmp_path / "there")
    reached = []
    monkeypatch.setattr(scipy.io, "loadmat", lambda *_, **__: reached.append(1))
    monkeypatch.setattr(flowers102, "check_integrity", check_integrity)
    with pytest.raises(UserError, match=r"train split of flowers102 cannot be read .*not found or corrupted"):
        probe_of(source("flowers102"), tmp_path)
    assert not reached


def test_only_the_published_pickles_are_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """torchvision unpickles CIFAR's files, so a file of another MD5 must not come so far, whichever of them it is."""
    from torchvision.datasets import cifar
    from torchvision.datasets.utils import calculate_md5, check_integrity

    files.cifar(tmp_path / "there")
    folder = tmp_path / "there" / "cifar-10-batches-py"
    sums = {path.name: calculate_md5(path) for path in folder.iterdir()}
    monkeypatch.setattr(cifar, "check_integrity", check_integrity)
    kind = cifar.CIFAR10
    for name in ("train_list", "test_list"):
        monkeypatch.setattr(kind, name, [[file, sums[file]] for file, _ in getattr(kind, name)])
    monkeypatch.setattr(kind, "meta", {**kind.meta, "md5": sums["batches.meta"]})
    assert len(list(iter_probe(source("cifar10"), "train", tmp_path))) == 20  # with the sums of the tests' files
    victim = tmp_path / "ran"
    for file in sums:
        before = (folder / file).read_bytes()
        (folder / file).write_bytes(pickle.dumps(Payload(victim), protocol=2))
        for split in ("train", "test"):
            with pytest.raises(UserError, match=r"split of cifar10 cannot be read \(.*not found or corrupted"):
                list(iter_probe(source("cifar10"), split, tmp_path))
        (folder / file).write_bytes(before)
    assert not victim.exists()
    pickle.loads(pickle.dumps(Payload(victim), protocol=2))
    assert victim.exists()  # so the test could have failed
