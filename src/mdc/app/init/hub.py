"""Survey of a dataset on the Hugging Face hub without downloading it: commit, files, parquet footers."""

import io
import re
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from mdc.app.init.find import Corpus
from mdc.app.init.survey import Survey
from mdc.data.formats.parquet_file import open_parquet
from mdc.data.formats.split_words import SplitWords
from mdc.data.formats.tar import sample_key
from mdc.data.obtain.hub import hub_api, hub_endpoint
from mdc.data.sources.parquet import caption_column, image_column
from mdc.plan.records import UserError

_ID = re.compile(r"(?:hub:)?([A-Za-z0-9][\w.-]*/[\w.-]+)((?:/[\w.-]+)*)(?:@([\w./-]+))?")
_CONVERTED = "refs/convert/parquet"  # where the hub keeps parquet files that it made of other formats
_PART = 1 << 20  # bytes to fetch of a file: a parquet's footer, a tar's first samples
_LOOKED_AT = 8  # parquet files whose rows are counted; the rest is extrapolated by size


@dataclass(frozen=True)
class HubId:
    """A dataset's id, a folder of it ("" for all), and a commit, branch or tag."""

    repo: str
    folder: str
    revision: str | None


def hub_id(path: str) -> HubId | None:
    """What ``hub:OWNER/NAME[/FOLDER][@REVISION]`` names, also without ``hub:``; None for what is no such id."""
    match = _ID.fullmatch(path)
    return HubId(match[1], match[2].strip("/"), match[3]) if match else None


def look_at_hub(dataset: HubId, name: str) -> tuple[Corpus, Survey]:
    """The dataset as a corpus ``name`` at the current commit of its revision, and an estimate of its pairs.

    UserError if the hub has no such dataset or cannot be reached, if it has no parquet files or tars of it, or several
    sets.
    """
    at = f" at {dataset.revision}" if dataset.revision else ""
    with hub_api(f"{dataset.repo}{at} (no such file or folder here)") as api:
        commit, sizes = _files(api, dataset, dataset.revision)
        if not sizes and dataset.revision is None:
            with suppress(Exception):  # not every dataset has been converted
                commit, sizes = _files(api, dataset, _CONVERTED)
        if not sizes:
            raise UserError(f"{dataset.repo}: the hub has neither parquet files nor tars of it, and has converted none")
        words = SplitWords({})
        splits = {path: words.of_name(Path(path)) for path in sizes}
        training = {path: size for path, size in sizes.items() if splits[path] in (None, "train")}
        sets = sorted({PurePosixPath(path).parent.as_posix() for path in training})
        if not training or (len(sets) > 1 and not next(iter(sizes)).endswith(".tar")):
            many = (
                f"several sets: {', '.join(sets)[:200]}; name one: hub:{dataset.repo}/{sets[0]}"
                if sets
                else "no train split"
            )
            raise UserError(f"{dataset.repo}: has {many}")
        holds_out = "val" not in splits.values()
        source: dict[str, Any] = {"kind": "pairs", "dataset": name}
        if next(iter(sizes)).endswith(".tar"):
            captions, counted = "the tars", {"train": _of_tars(dataset, commit, training)}
        else:
            columns = _columns(dataset, commit, next(iter(training)))
            source |= columns
            captions = f"column {columns['caption_field']}"
            named = {"train": training}
            if not holds_out:
                named["val"] = {path: size for path, size in sizes.items() if splits[path] == "val"}
            counted = {split: _rows(dataset, commit, files) for split, files in named.items()}
    patterns = sorted({str(PurePosixPath(path).parent / f"*{PurePosixPath(path).suffix}") for path in sizes})
    mirror = {"repo": dataset.repo, "revision": commit, "patterns": patterns}
    entry = {name: {"path": f"hub/{dataset.repo}", "from": "mirror", "mirror": mirror}}
    origin = f"{dataset.repo} on the hub, commit {commit[:12]}, {sum(sizes.values()) / 1e9:.2g} GB"
    contents = Survey(counted, about=True, captions=sum(counted.values()))
    return Corpus(source, holds_out, origin, captions, dataset=entry), contents


def _files(api: Any, dataset: HubId, revision: str | None) -> tuple[str, dict[str, int]]:
    """(commit, {path: bytes}) of the tars of a revision or else of its parquet files."""
    info = api.dataset_info(dataset.repo, revision=revision, files_metadata=True)
    start = f"{dataset.folder}/" if dataset.folder else ""
    files = {entry.rfilename: entry.size or 0 for entry in info.siblings or [] if entry.rfilename.startswith(start)}
    for ending in (".tar", ".parquet"):
        if matching := {path: size for path, size in sorted(files.items()) if path.endswith(ending)}:
            return str(info.sha), matching
    return str(info.sha), {}


def _part(dataset: HubId, commit: str, path: str, bytes_range: str) -> bytes:
    """The bytes of a file that a Range header names."""
    from huggingface_hub import hf_hub_url
    from huggingface_hub.utils import build_hf_headers, get_session

    url = hf_hub_url(dataset.repo, path, repo_type="dataset", revision=commit, endpoint=hub_endpoint())
    answer = get_session().get(
        url, headers={**build_hf_headers(), "Range": f"bytes={bytes_range}"}, follow_redirects=True
    )
    answer.raise_for_status()
    return bytes(answer.content)


@contextmanager
def _footer(dataset: HubId, commit: str, path: str) -> Iterator[Path]:
    """A file with the footer of a parquet file alone: its schema and row counts."""
    with tempfile.NamedTemporaryFile(suffix=".parquet") as file:
        file.write(_part(dataset, commit, path, f"-{_PART}"))
        file.flush()
        yield Path(file.name)


def _columns(dataset: HubId, commit: str, path: str) -> dict[str, str]:
    with _footer(dataset, commit, path) as file, open_parquet(file) as opened:
        try:
            return {
                "image_column": image_column(file),
                "caption_field": caption_column(file, None, opened.schema_arrow),
            }
        except UserError as error:
            raise UserError(f"{dataset.repo}/{path}{str(error).removeprefix(str(file))}") from None


def _rows(dataset: HubId, commit: str, files: Mapping[str, int]) -> int:
    """The rows of all files, from those of the first ones and all sizes."""
    rows, size = 0, 0
    for path in list(files)[:_LOOKED_AT]:
        with _footer(dataset, commit, path) as file, open_parquet(file) as opened:
            rows += opened.metadata.num_rows
        size += files[path]
    return rows if size == sum(files.values()) else round(rows * sum(files.values()) / size)


def _of_tars(dataset: HubId, commit: str, files: Mapping[str, int]) -> int:
    """About how many samples there are, from the first ones of the first tar."""
    path = next(iter(files))
    keys, end = set(), 1
    with (
        suppress(tarfile.TarError),
        tarfile.open(fileobj=io.BytesIO(_part(dataset, commit, path, f"0-{_PART - 1}"))) as tar,
    ):
        for member in tar:
            keys.add(sample_key(member.name))
            end = member.offset_data
    return round(max(1, len(keys) - 1) / end * sum(files.values()))
