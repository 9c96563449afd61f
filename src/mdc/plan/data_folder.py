"""The folder of the user's own data, and the one walk through a folder of data."""

import os
import sys
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from pathlib import Path

from mdc.plan.records import UserError

_CLUTTER = {"__macosx", "thumbs.db", "desktop.ini", "$recycle.bin", "system volume information", "@eadir", "lost+found"}


def data_folder() -> Path:
    """The folder that relative paths of sources start from: the environment's MDC_DATA, or ``data``."""
    return Path(os.environ.get("MDC_DATA") or "data")


def weights_path(weights: str | None, data: Path) -> str | None:
    """``weights`` of a model of others as its library takes them: the path of the file that they name, in ``data`` or else from
    here; a name that the library knows stays, as does None."""
    places = [] if weights is None else [data / weights, Path(weights)]
    return next((str(place) for place in places if place.is_file()), weights)


def weights_files(model: str, weights: str | None, data: Path) -> list[Path]:
    """The local files of a model of open_clip or timm: those of its folder (``local-dir:FOLDER``), or that of its
    ``weights``; empty if the library knows the names."""
    if model.startswith("local-dir:"):
        files = Path(model.removeprefix("local-dir:")).glob("[!.]*")
        return sorted(file for file in files if file.is_file() and file.suffix != ".md")
    path = weights_path(weights, data)
    return [Path(path)] if path is not None and Path(path).is_file() else []


def is_clutter(name: str) -> bool:
    """Whether a folder's entry is no data: hidden files, and those that macOS and Windows add."""
    return name.startswith(".") or name.casefold() in _CLUTTER


@dataclass
class Links:
    """What a walk met of links: those that lead nowhere, and what they lead to that is reached otherwise, which counts once."""

    broken: list[Path] = field(default_factory=list)
    again: list[Path] = field(default_factory=list)

    def __str__(self) -> str:
        """How many, with the first of each; empty if there are none."""
        kinds = ("links that lead nowhere", self.broken), ("reached by a link too, and counted once", self.again)
        return "; ".join(f"{what}: {len(paths)} (first: {min(paths)})" for what, paths in kinds if paths)

    @property
    def remark(self) -> str:
        """The same in brackets, for the end of a sentence."""
        return f" ({self})" if str(self) else ""

    def say(self, of: object) -> None:
        """Print them, if there are any; ``of``: where they were met."""
        if text := str(self):
            print(f"{of}: {text}", file=sys.stderr)


def walk(
    folders: Sequence[Path], links: Links | None = None, counts: Callable[[Path], bool] = lambda _: False
) -> Iterator[tuple[Path, list[str]]]:
    """(folder, names of its files, sorted) of ``folders`` and of all folders below them, without clutter.

    With ``links``, for a person's own data, links are followed, wherever they lead, and recorded. First come all folders that are
    no links, then the linked ones in the order of their names, and of those only what was not reached before; so loops end, and a
    linked copy moves nothing. Nor do linked files: of files whose names ``counts`` accepts, each comes once. A link that leads
    nowhere stays among the names. Without ``links``, linked folders are passed over. UserError for a folder that cannot be read.
    """
    linked = sorted(str(folder) for folder in folders if links is not None and len(folders) > 1 and folder.is_symlink())
    tops = [place for place in map(str, folders) if place not in linked]
    if links is None:
        yield from ((Path(place), list(files)) for place, _, files in _below(tops, [], (), []))
        return
    reached, targets = set[str](), set[str]()

    def is_new(path: Path) -> bool:
        """Whether a link, or a file that one led to, is the first way to its target."""
        if not path.exists():
            links.broken.append(path)
        elif counts(path):
            target = Path(os.path.realpath(path))
            # not in a store of objects without endings, as the hub's and git-annex's, which may lie below the folder, too
            held = str(target.parent) in reached and counts(target) and not is_clutter(target.name)
            if held or str(target) in targets:
                links.again.append(path)
                return False
            targets.add(str(target))
        return True

    while tops or linked:
        # the whole tree before its files, since a linked one counts only where no folder holds its target
        below = list(_below(tops or [heappop(linked)], linked, reached, links.again))
        reached.update(real for _, real, _ in below)
        for place, real, files in below:
            single = {name for name, is_link in files.items() if is_link or f"{real}/{name}" in targets}
            yield Path(place), [name for name in files if name not in single or is_new(Path(place, name))]
        tops = []


def _below(
    tops: Sequence[str], linked: list[str], reached: Container[str], again: list[Path]
) -> Iterator[tuple[str, str, dict[str, bool]]]:
    """(folder, its real path, {name of a file in it: whether it is a link}) of ``tops`` and of what is below them. Linked folders
    go to the heap ``linked`` instead, those ``reached`` to ``again``."""
    stack = [(top, os.path.realpath(top)) for top in reversed(tops)]
    while stack:
        place, real = stack.pop()
        if real in reached:
            again.append(Path(place))
            continue
        files, below = dict[str, bool](), list[tuple[str, str]]()
        for entry in _entries(place):
            if not _is_folder(entry):
                files[entry.name] = entry.is_symlink()
            elif entry.is_symlink():
                heappush(linked, entry.path)
            else:
                below.append((entry.path, f"{real}/{entry.name}"))
        stack += reversed(below)
        yield place, real, files


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted((entry for entry in entries if not is_clutter(entry.name)), key=lambda entry: entry.name)
    except OSError as error:
        raise UserError(f"{error.filename}: cannot be read ({error.strerror})") from None


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a loop of links
        return False
