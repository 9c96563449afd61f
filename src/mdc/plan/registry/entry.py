"""The registry's entry for one dataset."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Literal

from pydantic import ConfigDict

# where a dataset comes from, unless the scale says otherwise
Origin = Literal["urls", "files", "own copy", "embedded"]
# the ways of `datasets.<name>.from`
Way = Literal["urls", "mirror", "files"]
CheckKind = Literal["files", "folders", "json", "lines", "sha256", "md5"]


@dataclass(frozen=True)
class RemoteFile:
    """A file that its publisher offers under ``url``.

    ``bytes``, ``sha256`` and ``md5``: published values; None if none is published. Without ``unpack`` the file is stored at
    ``into``/``name`` in the dataset's folder; with it the archive is kept in ``archives/`` there and unpacked into the folder
    ``into``. ``only``: names separated by spaces; only files and folders of these names are unpacked, wherever they are in the
    archive, and the unpacked paths begin with the name. ``unpacked_bytes``: the maximal unpacked size, where the usual limit is
    too small. ``part``: the part of the dataset that it belongs to, for users who want only some.
    """

    name: str
    url: str
    bytes: int | None = None
    sha256: str | None = None
    md5: str | None = None
    unpack: Literal["zip", "tar"] | None = None
    into: str = ""
    only: str = ""
    unpacked_bytes: int | None = None
    part: str = ""


@dataclass(frozen=True)
class Mirror:
    """Files of a dataset repository on the Hugging Face hub. ``patterns``: as in the shell. ``revision``: a commit, or a branch
    or tag, whose commit is recorded by the first job that needs it (:mod:`mdc.data.obtain.hub`)."""

    repo: str
    revision: str
    patterns: tuple[str, ...]


@dataclass(frozen=True)
class ListColumns:
    """The format of a list of URLs. Columns by name, or by number from 0 without a header. ``hash_column``: the sha256 of each
    image when the list was compiled."""

    format: Literal["tsv", "csv", "jsonl", "parquet"]
    header: bool
    url_column: str | int
    caption_column: str | int
    key_column: str | int | None = None
    hash_column: str | int | None = None


@dataclass(frozen=True)
class Check:
    """A check of a dataset's files.

    ``files`` and ``folders`` count the matches of the pattern ``path``, ``lines`` the lines of a text file, ``json`` the items
    of a JSON file (of its member ``key``, if set); ``sha256`` and ``md5`` are of one file. ``of``: the way of obtaining that it
    applies to. With ``at_least``, ``expected`` is a minimum.
    """

    kind: CheckKind
    path: str
    expected: int | str
    of: Way = "files"
    key: str = ""
    part: str = ""
    at_least: bool = False

    @property
    def title(self) -> str:
        """The check in words, without the expected value."""
        return {
            "files": f"files {self.path}",
            "folders": f"folders {self.path}",
            "lines": f"lines of {self.path}",
            "json": f"items of {self.path}" + (f" ({self.key})" if self.key else ""),
            "sha256": f"sha256 of {self.path}",
            "md5": f"md5 of {self.path}",
        }[self.kind]


@dataclass(frozen=True)
class RegistryEntry:
    """One dataset. ``licence``: as the paper prints it, if it does; ``licence_note``: as its own page says.

    ``label``: the name in tables; ``paper_label``: that in the paper's Table 9, None if it is not there. ``citation``: short;
    ``reference``: the full work. ``items``: counts by split or task. ``size_bytes``: by default the sum of its ``files``, if all
    are known. ``own_copy``: instructions for obtaining it by hand; ``needs``: the paths that must then exist.
    """

    __pydantic_config__: ClassVar = ConfigDict(extra="forbid")  # of the classes of its fields, too

    name: str
    label: str
    used_for: tuple[str, ...]
    origin: Origin
    url: str
    citation: str
    reference: str
    licence: str
    licence_note: str
    items: Mapping[str, int]
    size_bytes: int | None = None
    note: str = ""
    paper_label: str | None = None
    list_columns: ListColumns | None = None
    list_files: tuple[RemoteFile, ...] = ()
    list_mirror: Mirror | None = None
    mirror: Mirror | None = None
    files: tuple[RemoteFile, ...] = ()
    own_copy: str = ""
    needs: tuple[str, ...] = ()
    checks: tuple[Check, ...] = ()

    def __post_init__(self) -> None:
        if self.size_bytes is None and self.origin == "files":
            object.__setattr__(self, "size_bytes", known_bytes(*self.files))

    @property
    def ways(self) -> tuple[Way, ...]:
        """The ways of obtaining it, the usual one first."""
        usual: dict[Origin, tuple[Way, ...]] = {"urls": ("urls",), "files": ("files",), "own copy": ("files",)}
        return usual.get(self.origin, ()) + (("mirror",) if self.mirror else ())

    @property
    def parts(self) -> tuple[str, ...]:
        """The names of the parts of its files that can be requested separately."""
        return tuple(dict.fromkeys(file.part for file in self.files if file.part))


def decisive(entry: RegistryEntry) -> dict[str, Any]:
    """The values of an entry that decide which files are obtained and how they are checked, as JSON values.

    Labels, prose, licences, citations and item counts are left out, so that editing them reruns nothing.
    """
    kept = ("list_columns", "list_files", "list_mirror", "mirror", "files", "needs", "checks")
    whole = json.loads(json.dumps(asdict(entry)))
    for check, own in zip(whole["checks"], entry.checks, strict=True):
        check["title"] = own.title  # obtained.json holds it
    return {"ways": list(entry.ways), "parts": list(entry.parts), **{key: whole[key] for key in kept}}


def known_bytes(*files: RemoteFile) -> int | None:
    """The size of ``files`` together, None unless all are known."""
    sizes = [file.bytes for file in files]
    return None if None in sizes else sum(size for size in sizes if size is not None)
