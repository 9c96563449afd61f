"""The registry's facts are complete, agree with the installed packages, and its checks hold on files of the real layout."""

import json
import re
from dataclasses import fields, replace
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlsplit

import pytest
from pydantic import TypeAdapter, ValidationError
from read_table import read_table

from mdc.data.obtain.checks import look, run_checks
from mdc.plan.config.yaml_core import parse_yaml
from mdc.plan.data_folder import data_folder
from mdc.plan.registry import datasets
from mdc.plan.registry.datasets import REGISTRY, find
from mdc.plan.registry.entry import Check, RegistryEntry, RemoteFile, decisive, known_bytes


@pytest.mark.parametrize("entry", REGISTRY.values(), ids=REGISTRY)
def test_an_entry_is_whole(entry: RegistryEntry) -> None:
    assert find(entry.name) is entry
    for text in (entry.label, entry.citation, entry.reference, entry.licence, entry.licence_note):
        assert text and text == text.strip()
    uses = {"pretraining", "probe", "captioning", "compositionality", "codes of images"}
    assert entry.used_for and set(entry.used_for) <= uses
    assert all(count > 0 for count in entry.items.values())
    if entry.origin == "embedded":
        assert not (entry.files or entry.checks or entry.ways)
        return
    assert urlsplit(entry.url).scheme in ("http", "https") and entry.items and entry.checks
    for way in entry.ways:
        assert [check for check in entry.checks if check.of == way], f"nothing is checked of what comes from {way}"
    if entry.origin == "own copy":
        assert entry.own_copy and entry.needs
    if entry.origin == "urls":
        assert entry.list_columns and (entry.list_files or entry.list_mirror or entry.own_copy)
    told = entry.own_copy.format(path="/data/x", name=entry.name)
    assert not entry.own_copy or ("https://" in told and f"datasets.{entry.name}." in told and "/data/x" in told)
    for mirror in filter(None, (entry.mirror, entry.list_mirror)):
        assert re.fullmatch(r"[\w-]+/[\w.-]+", mirror.repo) and (
            # a gated set can be pinned by nobody but its reader; the commit is looked up once and recorded
            re.fullmatch("[0-9a-f]{40}", mirror.revision) or ("Gated" in entry.note and mirror.revision == "main")
        )
    for file in (*entry.files, *entry.list_files):
        assert urlsplit(file.url).scheme in ("http", "https") and "/" not in file.name
        # without a checksum a file could be any, so its publisher has to be reached safely
        assert file.sha256 or file.md5 or file.url.startswith("https://"), file.name
        assert file.sha256 is None or re.fullmatch("[0-9a-f]{64}", file.sha256)
        assert file.md5 is None or re.fullmatch("[0-9a-f]{32}", file.md5)
    for check in entry.checks:
        assert not check.path.startswith("/") and ".." not in PurePosixPath(check.path).parts
        assert isinstance(check.expected, int) == (check.kind not in ("md5", "sha256"))
        assert not check.part or check.part in entry.parts
    names = [file.name for file in entry.files]
    assert len(set(names)) == len(names)
    if entry.files and entry.origin == "files":
        assert entry.size_bytes in (known_bytes(*entry.files), None)


def test_the_checksums_are_those_of_torchvision() -> None:
    """torchvision publishes md5 sums of most probe sets' archives; it must find our files good too."""
    from torchvision import datasets
    from torchvision.datasets import food101, stl10
    from torchvision.datasets.voc import DATASET_YEAR_DICT

    published = {
        "cifar10": {datasets.CIFAR10.tgz_md5},
        "cifar100": {datasets.CIFAR100.tgz_md5},
        "food101": {food101.Food101._MD5},
        "stl10": {stl10.STL10.tgz_md5},
        "pets": {md5 for _, md5 in datasets.OxfordIIITPet._RESOURCES},
        "flowers102": {md5 for _, md5 in datasets.Flowers102._file_dict.values()},
        "voc2007": {DATASET_YEAR_DICT[year]["md5"] for year in ("2007", "2007-test")},
    }
    for name, sums in published.items():
        assert {file.md5 for file in REGISTRY[name].files} == sums, name
    inside = {check.path.rpartition("/")[2]: check.expected for name in published for check in find(name).checks}
    for set_ in (datasets.CIFAR10, datasets.CIFAR100):
        for name, md5 in (*set_.train_list, *set_.test_list, (set_.meta["filename"], set_.meta["md5"])):
            assert inside[name] == md5
    for name, md5 in (*datasets.STL10.train_list[:2], *datasets.STL10.test_list):
        assert inside[name] == md5


def test_the_archives_unpack_to_what_torchvision_reads() -> None:
    """The folders below the dataset's path that torchvision's classes look for."""
    from torchvision import datasets

    assert datasets.CIFAR10.base_folder == "cifar-10-batches-py" == find("cifar10").checks[0].path.partition("/")[0]
    assert datasets.CIFAR100.base_folder == find("cifar100").checks[0].path.partition("/")[0]
    assert datasets.STL10.base_folder == find("stl10").checks[0].path.partition("/")[0]
    assert {file.into for file in find("pets").files} == {"oxford-iiit-pet"}
    assert {file.into for file in find("flowers102").files} == {"flowers-102"}


@pytest.mark.parametrize(("check", "found"), read_table(__file__, "checks"))
def test_checks_find_what_is_there(tmp_path: Path, check: dict[str, Any], found: int | str) -> None:
    for folder in ("a/x", "a/y"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "a" / "x" / "1.jpg").touch()
    (tmp_path / "a" / "y" / "2.jpg").touch()
    (tmp_path / "a" / "x" / "lines.txt").write_bytes(b"one\ntwo\nthree")
    (tmp_path / "a" / "y" / "empty.txt").touch()
    (tmp_path / "list.json").write_text("[1, 2]")
    (tmp_path / "object.json").write_text('{"images": [1]}')
    finding = look(Check(**check), tmp_path)
    assert (finding.found if finding.found is not None else finding.trouble) == found
    assert finding.good == (found == check["expected"] or check.get("at_least", False))


def test_a_check_that_is_not_met_is_not_good(tmp_path: Path) -> None:
    (tmp_path / "1").touch()
    assert not look(Check("files", "*", 2), tmp_path).good
    assert not look(Check("files", "*", 2, at_least=True), tmp_path).good
    assert not look(Check("lines", "1", 1), tmp_path).good  # an empty file has no line
    assert not look(Check("md5", "1", "0" * 32), tmp_path).good


def test_sizes_that_are_not_known_are_not_guessed() -> None:
    assert known_bytes(RemoteFile("a", "u", bytes=1), RemoteFile("b", "u", bytes=2)) == 3
    assert known_bytes(RemoteFile("a", "u", bytes=1), RemoteFile("b", "u")) is None


@pytest.mark.parametrize(
    "misspelt", [{"licens": "x"}, {"mirror": {"repo": "a/b", "revision": "main", "pattern": ["*"]}}]
)
def test_a_misspelt_key_is_refused(misspelt: dict[str, Any]) -> None:
    entry = {field.name: getattr(find("cc12m"), field.name) for field in fields(RegistryEntry)}
    assert TypeAdapter(RegistryEntry).validate_python(entry) == find("cc12m")
    with pytest.raises(ValidationError, match="Unexpected keyword"):
        TypeAdapter(RegistryEntry).validate_python(entry | misspelt)


def test_no_key_stands_twice() -> None:
    """``parse_yaml`` refuses that; the registry's own reader would take the last."""
    file = Path(datasets.__file__).with_suffix(".yaml")
    files = [file, *file.parents[2].glob("extensions/*/datasets.yaml")]
    found = [name for one in files for name in parse_yaml(one.read_text(encoding="utf-8"), str(one))]
    assert sorted(found) == sorted(REGISTRY)


def test_what_is_told_to_readers_decides_nothing_and_all_else_does() -> None:
    entry = find("cc12m")
    told: dict[str, Any] = {"items": {"x": 1}, "size_bytes": 1, "used_for": ("probe",), "note": "x", "own_copy": "x"}
    told |= dict.fromkeys(
        ("name", "label", "paper_label", "url", "citation", "reference", "licence", "licence_note"), "x"
    )
    assert decisive(replace(entry, **told)) == decisive(entry) == json.loads(json.dumps(decisive(entry)))
    # an origin is decided by its ways
    assert {field.name for field in fields(entry)} - told.keys() - {"origin"} <= decisive(entry).keys()


def test_every_part_of_a_file_decides() -> None:
    entry = find("food101")
    for field in fields(RemoteFile):
        other = replace(entry.files[0], **{field.name: "another"})
        assert decisive(replace(entry, files=(other, *entry.files[1:]))) != decisive(entry), field.name


@pytest.mark.data
def test_real_sugarcrepe_files_pass() -> None:
    folder = data_folder() / "sugarcrepe"
    if not folder.is_dir():
        pytest.skip("no sugarcrepe folder in MDC_DATA")
    entry = find("sugarcrepe")
    assert all(finding.good for finding in run_checks(entry, folder, "files"))
    for file in entry.files:
        assert look(Check("sha256", file.name, file.sha256 or ""), folder).good
        assert (folder / file.name).stat().st_size == file.bytes
