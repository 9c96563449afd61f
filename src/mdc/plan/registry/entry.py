"""What the registry says about one dataset."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

# where a dataset comes from, unless the scale says otherwise
Origin = Literal["urls", "files", "own copy", "embedded"]
# the ways of `datasets.<name>.from`
Way = Literal["urls", "mirror", "files"]
CheckKind = Literal["files", "folders", "json", "lines", "sha256", "md5"]


@dataclass(frozen=True)
class RemoteFile:
    """A file that its publisher offers under ``url``.

    ``bytes``, ``sha256`` and ``md5`` are what somebody published about it; None where nobody did. Without ``unpack``
    the file is put at ``into``/``name`` in the dataset's folder; with it the archive is kept in ``archives/`` there and
    unpacked into the folder ``into``. ``only`` takes the files of these names (apart by spaces) and those below folders
    of these names alone, wherever in the archive they stand, and their names begin with it. ``unpacked_bytes`` is the most
    that it may unpack to, where the usual limit does not do. ``part`` lets a user ask for some of a dataset's files.
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
    """Files of a dataset repository on the Hugging Face hub; ``patterns`` as the shell's. ``revision``: a commit, or a branch or
    tag, whose commit is looked up and recorded by the first job that needs it (:mod:`mdc.data.obtain.hub`)."""

    repo: str
    revision: str
    patterns: tuple[str, ...]


@dataclass(frozen=True)
class ListColumns:
    """How a list of URLs is to be read. Columns by name, or by number from 0 where there is no header. ``hash_column``: the
    sha256 that each image had when the list was made."""

    format: Literal["tsv", "csv", "jsonl", "parquet"]
    header: bool
    url_column: str | int
    caption_column: str | int
    key_column: str | int | None = None
    hash_column: str | int | None = None


@dataclass(frozen=True)
class Check:
    """Something that a dataset's files must show.

    ``files`` and ``folders`` count what the pattern ``path`` matches; ``lines`` those of a text file; ``json`` the items
    of a JSON file (of its member ``key``, if given); ``sha256`` and ``md5`` are of one file. ``of`` says for which ways of
    obtaining it holds. With ``at_least``, more is as good.
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
        """The check in words, without what is expected."""
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
    """One dataset. ``licence`` is as the paper prints it where the paper does; ``licence_note`` what its own page says.

    ``label`` is the name in tables; ``paper_label`` the one in the paper's Table 9, None if it is not there. ``citation``
    is short, ``reference`` names the work. ``items`` counts by split or task. ``size_bytes``: by default of its own ``files``, if
    all are known. ``own_copy`` tells a user what to get and
    where to put it, ``needs`` names the paths that must then be there.
    """

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
        """How it can be obtained, the usual way first."""
        usual: dict[Origin, tuple[Way, ...]] = {"urls": ("urls",), "files": ("files",), "own copy": ("files",)}
        return usual.get(self.origin, ()) + (("mirror",) if self.mirror else ())

    @property
    def parts(self) -> tuple[str, ...]:
        """The names by which parts of its files can be asked for."""
        return tuple(dict.fromkeys(file.part for file in self.files if file.part))


def decisive(entry: RegistryEntry) -> dict[str, Any]:
    """What an entry says as far as it decides what is obtained and how it is checked, as JSON has it.

    No label, prose, licence, citation or count for readers: a sentence about a licence makes no dataset anew.
    """
    return {
        "ways": list(entry.ways),
        "parts": list(entry.parts),
        "list_columns": _plain(entry.list_columns),
        "list_files": [_plain(file) for file in entry.list_files],
        "list_mirror": _plain(entry.list_mirror),
        "mirror": _plain(entry.mirror),
        "files": [_plain(file) for file in entry.files],
        "needs": list(entry.needs),
        # their titles stand in obtained.json
        "checks": [{**asdict(check), "title": check.title} for check in entry.checks],
    }


def _plain(part: RemoteFile | Mirror | ListColumns | None) -> dict[str, Any] | None:
    if part is None:
        return None
    return {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(part).items()}


def known_bytes(*files: RemoteFile) -> int | None:
    """The size of ``files`` together, None unless all are known."""
    sizes = [file.bytes for file in files]
    return None if None in sizes else sum(size for size in sizes if size is not None)
