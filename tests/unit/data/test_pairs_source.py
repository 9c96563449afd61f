"""The corpus source of obtained pairs: order, subsets, what is held out, and what is refused."""

import tarfile
from pathlib import Path
from typing import Any

import pytest
from bad_input import tar_of
from data_samples import encoded, iter_corpus, write_corpus
from obtained_pairs import CHOSEN, SOURCE, downloaded, sample, take_account

from mdc.data.formats.foreign_tar import samples_by_key, tar_samples
from mdc.data.formats.samples import Skipped
from mdc.plan.records import UserError, sha256_file


def places(folder: Path, split: str = "train", **changes: Any) -> list[int]:
    found = list(iter_corpus({**SOURCE, **changes}, split, folder, Skipped()))
    assert [sample.captions for sample in found] == [(f"thing {int(sample.key)}",) for sample in found]
    assert all(sample.image == encoded(int(sample.key), kind="JPEG") for sample in found)
    return [int(sample.key) for sample in found]


ALL = [n for n in range(CHOSEN) if n not in (3, 20)]


def test_shards_do_not_depend_on_which_thread_was_first(tmp_path: Path) -> None:
    made = []
    for order in (1, 2):
        folder = downloaded(tmp_path / str(order), order)
        write_corpus("c", {**SOURCE, "val_fraction": 0.3}, folder / "out", folder)
        made.append({path.name: sha256_file(path) for path in (folder / "out").iterdir()})
    assert made[0] == made[1]
    assert sha256_file(tmp_path / "1/d/shards/00000.tar") != sha256_file(tmp_path / "2/d/shards/00000.tar")


@pytest.mark.parametrize("pairs", [None, 1, 10, 21, 34])
def test_pairs_are_the_first_places_of_the_list(tmp_path: Path, pairs: int | None) -> None:
    folder = downloaded(tmp_path, 1)
    assert places(folder, pairs=pairs) == [n for n in ALL if pairs is None or n < pairs]


def test_a_smaller_subset_needs_its_own_shards_only(tmp_path: Path) -> None:
    folder = downloaded(tmp_path, 1)
    (folder / "d/shards/00002.tar").unlink()
    assert places(folder, pairs=20) == [n for n in ALL if n < 20]
    with pytest.raises(UserError, match=r"00002\.tar: incomplete, or changed since its download; rerun"):
        places(folder, pairs=21)
    (folder / "d/accounts/00001.json").unlink()
    with pytest.raises(UserError, match=r"00001\.tar: incomplete, or changed"):
        places(folder, pairs=20)


def test_held_out_by_url_and_the_same_in_every_subset(tmp_path: Path) -> None:
    folder = downloaded(tmp_path, 1)
    val, train = (places(folder, split, val_fraction=0.4) for split in ("val", "train"))
    assert sorted(val + train) == ALL and 3 < len(val) < 30
    assert not {n // 2 for n in val} & {n // 2 for n in train}  # captions of one image stay together
    assert places(folder, "val", val_fraction=0.4, pairs=15) == [n for n in val if n < 15]
    assert places(folder, "val") == [] == places(folder, "test", val_fraction=0.4)


def test_another_field_may_be_the_caption(tmp_path: Path) -> None:
    found = iter_corpus({**SOURCE, "caption_field": "long"}, "train", downloaded(tmp_path, 1), Skipped())
    assert [sample.captions for sample in found] == [(f"long {n}",) for n in ALL]


def test_what_was_not_obtained_is_told(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="nothing was downloaded into it; obtain this dataset first"):
        places(tmp_path)
    with pytest.raises(UserError, match="35 pairs requested, its list has 34"):
        places(downloaded(tmp_path, 1), pairs=35)


def test_a_mirror_is_read_as_it_stands(tmp_path: Path) -> None:
    (tmp_path / "d/mirror").mkdir(parents=True)
    order = [5, 2, 9, 0]
    (tmp_path / "d/mirror/a.tar").write_bytes(tar_of([file for n in order for file in sample(n)]))
    assert places(tmp_path, **{"from": "mirror"}) == order
    halves = [places(tmp_path, split, **{"from": "mirror", "val_fraction": 0.5}) for split in ("train", "val")]
    assert sorted(halves[0] + halves[1]) == sorted(order)
    with pytest.raises(UserError, match="a mirror has none, set it to null"):
        places(tmp_path, **{"from": "mirror", "pairs": 2})


def link(name: str) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
    return info


@pytest.mark.parametrize(
    ("members", "trouble"),
    [
        ([("../evil.jpg", b"x")], "is an absolute path or leads outside"),
        ([("/etc/evil.jpg", b"x")], "is an absolute path or leads outside"),
        ([(link("000000.jpg"), b"")], "is not a regular file"),
        ([*sample(0), ("000000.jpg", b"again")], "duplicate member"),
        ([("000000.jpg", encoded(0, kind="JPEG"))], "has no record of its place and url"),
        (sample(0, place="0"), "has no record of its place and url"),
    ],
)
def test_foreign_members_are_refused(tmp_path: Path, members: list[Any], trouble: str) -> None:
    folder = downloaded(tmp_path, 1)
    (folder / "d/shards/00000.tar").write_bytes(tar_of(members))
    with pytest.raises(UserError, match=r"00000\.tar: incomplete, or changed since"):
        places(folder)
    take_account(folder, 0)
    with pytest.raises(UserError, match=rf"00000\.tar.*{trouble}"):
        places(folder)


@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT, tarfile.USTAR_FORMAT])
def test_places_in_a_tar_are_those_of_its_samples(tmp_path: Path, form: int) -> None:
    path = tmp_path / "a.tar"
    path.write_bytes(tar_of([file for n in (2, 0, 1) for file in sample(n)], form))
    with tarfile.open(path) as tar:
        expected = {member.name: tar.extractfile(member).read() for member in tar}  # type: ignore[union-attr]
    for samples, order in ((tar_samples, (2, 0, 1)), (samples_by_key, (0, 1, 2))):
        found = [(one.key, {f"{one.key}.{ending}": one.read(ending) for ending in one.files}) for one in samples(path)]
        assert [key for key, _ in found] == [f"{n:06d}" for n in order]
        assert {name: content for _, files in found for name, content in files.items()} == expected
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(UserError, match="corrupt tar"):
        list(samples_by_key(path))
