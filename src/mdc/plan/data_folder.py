"""The folder of the user's own data, and the one walk through a folder of data."""

import os
import sys
from collections.abc import Iterator, Sequence
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
    """The local files of a model of open_clip, timm or torchvision: those of its folder (``local-dir:FOLDER``), or that of its
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

    def say(self, of: object) -> None:
        """Print them, if there are any; ``of``: where they were met."""
        if text := str(self):
            print(f"{of}: {text}", file=sys.stderr)


def walk(folders: Sequence[Path], links: Links | None = None) -> Iterator[tuple[Path, list[str]]]:
    """(folder, names of its files, sorted) of ``folders`` and of all folders below them, without clutter.

    With ``links``, for a person's own data, linked folders are followed, wherever they lead, and recorded:
    first come all folders that are no links, then the linked ones in the order of their names, and of those only what was not
    reached before; so loops end, and a linked copy moves nothing. Without ``links``, linked folders are passed over. UserError
    for a folder that cannot be read.
    """
    own, linked, single = list[tuple[str, str]](), list[str](), list[str]()
    for folder in reversed(folders):
        place = str(folder)
        if links is not None and len(folders) > 1 and folder.is_symlink():
            heappush(linked, place)
        else:
            own.append((place, os.path.realpath(place)))
    reached, by_link = set[str](), False
    while own or linked:
        if not own:
            # linked files are resolved only where a linked folder could lead to the same
            reached.update(map(os.path.realpath, single))
            single, by_link, place = [], True, heappop(linked)
            own = [(place, os.path.realpath(place))]
        place, real = own.pop()
        if by_link and real in reached:
            assert links is not None
            links.again.append(Path(place))
            continue
        reached.add(real)
        names, below = list[str](), list[tuple[str, str]]()
        for entry in _entries(place):
            is_link = entry.is_symlink()
            if _is_folder(entry):
                if not is_link:
                    below.append((entry.path, f"{real}/{entry.name}"))
                elif links is not None:
                    heappush(linked, entry.path)
                continue
            if links is not None and is_link and not Path(entry.path).exists():
                links.broken.append(Path(entry.path))
            if links is not None and by_link:
                target = os.path.realpath(entry.path) if is_link else f"{real}/{entry.name}"
                if target in reached or (is_link and target.rpartition("/")[0] in reached):
                    links.again.append(Path(entry.path))
                    continue
                reached.update([target] if is_link else [])
            elif is_link:
                single.append(entry.path)
            names.append(entry.name)
        own += reversed(below)
        yield Path(place), names


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
