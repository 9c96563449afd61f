"""A folder of images, each with its captions in a text file beside it: 0001.jpg and 0001.txt (or .TXT), one caption per line."""

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from mdc.data.formats.captions import decoded_text
from mdc.data.formats.folders import files_below, is_image_name, needed
from mdc.data.formats.reading import SourceItem
from mdc.data.formats.samples import LeftOut, drawn_split, read_file
from mdc.data.formats.split_words import SplitWords, named_splits
from mdc.data.sources.cleaned import CaptionedImages
from mdc.plan.data_folder import Links
from mdc.plan.records import UserError, text_lines

ENDINGS = (".txt", ".caption")


class CaptionFiles(CaptionedImages):
    """The images of one split in the order of their names; keys number the images of the folder."""

    named = True

    def __init__(self, source: Mapping[str, Any], data_dir: Path) -> None:
        super().__init__(source)
        self._root = needed(data_dir / source["path"])
        self._names = images_within(self._root, self.links)
        self._texts_in = lru_cache(16)(_texts_in)
        if not self._names:
            raise UserError(f"{self._root}: contains no images")
        self._splits = splits_of_folders(self._root, self._names)

    def items(self, split: str) -> Iterator[SourceItem]:
        for number, name in enumerate(self._names):
            if (self._splits[name] or drawn_split(name, self.config["val_fraction"])) != split:
                continue
            key, path = f"{number:08d}", self._root / name
            if (text := self._text_beside(path)) is None:
                yield SourceItem(key, name, LeftOut("caption file is missing"))
            else:
                captions = [line for line in text_lines(decoded_text(text.read_bytes())) if line.strip()]
                yield SourceItem(key, name, partial(read_file, path), captions)

    def _text_beside(self, image: Path) -> Path | None:
        """The file of an image's captions; None if there is none. Its extension may be in capitals."""
        for ending in ENDINGS:
            if (file := image.with_suffix(ending)).is_file():
                return file
        texts = self._texts_in(image.parent)
        return next((texts[name] for ending in ENDINGS if (name := image.stem + ending) in texts), None)


open_source = CaptionFiles  # see mdc.data.sources.source


def images_within(root: Path, links: Links) -> list[str]:
    """The image files below a folder by their extension, sorted, without clutter; a broken link to an image is one."""
    names = sorted(
        path.relative_to(root).as_posix() for path in files_below(root, links, is_image_name) if is_image_name(path)
    )
    links.broken = [link for link in links.broken if not is_image_name(link)]
    return names


def _texts_in(folder: Path) -> dict[str, Path]:
    """The text files of a folder by their names, with extensions in lower case."""
    files = sorted(file for file in folder.iterdir() if file.suffix.lower() in ENDINGS and file.is_file())
    return {file.stem + file.suffix.lower(): file for file in files}


def splits_of_folders(root: Path, names: Iterable[str]) -> dict[str, str | None]:
    """The split that the first folder of each image is named after, None: val is held out of these; see ``named_splits``."""
    words = SplitWords({})
    return named_splits(root, names, lambda name: words.of(name.partition("/")[0]), drawn=True)
