"""Survey of a source: counts, captions and image sizes, from a sample."""

import io
import os
import time
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

from mdc.app.init.find import Corpus
from mdc.data.formats.captions import clean_captions
from mdc.data.formats.folders import inside, is_image_name
from mdc.data.formats.foreign_tar import tar_samples
from mdc.data.formats.parquet_file import open_parquet
from mdc.data.formats.reading import SourceItem, with_images
from mdc.data.formats.samples import LeftOut, Skipped, held_out
from mdc.data.sources.corpora.caption_files import images_within
from mdc.data.sources.corpora.webdataset import Webdataset
from mdc.data.sources.probes.class_folder import SPLITS, class_layout
from mdc.data.sources.source import open_corpus
from mdc.models.text import clip_pieces
from mdc.plan.data_folder import Links
from mdc.plan.records import UserError


@dataclass(frozen=True)
class Classes:
    """``train`` and ``test`` count images; ``said``: how they were split, if not by folders."""

    names: list[str]
    train: int
    test: int
    said: str


def look_at_classes(folder: Path) -> Classes:
    """The classes of ``folder``, see :mod:`mdc.data.sources.probes.class_folder`.

    UserError if a split has no images of a class that the other has, or if there are fewer than two classes.
    """
    links = Links()
    layout = class_layout(folder, None, links)
    counts = {
        split: {name: sum(map(is_image_name, layout.files(split, name))) for name in layout.classes} for split in SPLITS
    }
    for split, of_class in counts.items():
        if missing := [name for name, number in of_class.items() if not number]:
            raise UserError(f"{folder}: split {split} contains no images of {', '.join(missing[:5])}{links.remark}")
    if len(layout.classes) < 2:
        has = ", ".join(["one class", *layout.classes]) if layout.classes else "no class"
        raise UserError(f"{folder}: contains {has}; at least two are needed")
    train, test = (sum(of_class.values()) for of_class in counts.values())
    return Classes(layout.classes, train, test, "; ".join(filter(None, (layout.note, str(links)))))


def places_under(root: Path, paths: Sequence[str]) -> list[str]:
    """The paths of ``paths`` relative to ``root``, which is MDC_DATA's folder.

    A path may start from ``root`` or from the current folder; ``root`` takes precedence. Links are not
    followed, so folders may be linked into ``root``. UserError if one does not exist, or is outside of ``root``.
    """
    top = _absolute(root)
    places = [_first_there(top, path) for path in paths]
    for place in places:
        if not place.is_relative_to(top):
            common = os.path.commonpath([place if place.is_dir() else place.parent for place in places])
            hint = f"; or set MDC_DATA={common}, which holds what you name" if common != os.sep else ""
            raise UserError(
                f"{place}: is outside {top}, the folder of your data (MDC_DATA; without it, data/); put or "
                f"link it there{hint}"
            )
    return [place.relative_to(top).as_posix() for place in places]


def is_anywhere(root: Path, path: str) -> bool:
    """Whether there is such a file or folder, from ``root`` or from the current folder."""
    return any(os.path.lexists(_absolute(base / path)) for base in (root, Path()))


def _first_there(top: Path, path: str) -> Path:
    """``path`` from ``top`` or from the current folder; preferably one in ``top``."""
    existing = [place for base in (top, Path()) if (place := _absolute(base / path)).exists()]
    if not existing:
        raise UserError(f"{path}: no such file or folder, neither in {top} (MDC_DATA) nor in the current folder")
    return next((place for place in existing if place.is_relative_to(top)), existing[0])


def _absolute(path: Path) -> Path:
    """The absolute path, without resolving links."""
    return Path(os.path.normpath(Path.cwd() / path))


_OPENED = 48  # images that are opened
_READ = 100  # samples that are read of tars and parquet files, whose captions lie beside their images
_COUNTED = 5000  # captions whose pieces are counted


@dataclass
class Survey:
    """``counts``: of each split the images with a caption; ``about``: estimated from a part. ``names``: of images
    without a split, which decide what is held out. ``captions``: of all images; ``pieces``: CLIP tokens of some captions.
    ``sizes``: (width, height) of opened images; ``seconds``: to process one for shards; ``unused``: images without captions;
    ``samples``: the images with a caption that are known, with their split if the source has splits."""

    counts: dict[str, int]
    about: bool = False
    names: list[str] = field(default_factory=list)
    captions: int = 0
    pieces: list[int] = field(default_factory=list)
    sizes: list[tuple[int, int]] = field(default_factory=list)
    seconds: float = 0.0
    left_out: Skipped = field(default_factory=Skipped)
    unused: int = 0
    broken_links: int = 0
    samples: list[SourceItem] = field(default_factory=list)

    @property
    def shorter(self) -> int:
        """The median shorter side; 0 if no image was opened."""
        return int(median(map(min, self.sizes))) if self.sizes else 0


def survey(root: Path, corpus: Corpus) -> Survey:
    """Survey ``corpus``. Tables are read whole, and their files looked up; of tars and parquet files the first samples are read.
    Some images are opened.

    UserError for an invalid file, without captions, or if no opened image can be read.
    """
    from mdc.plan.config.kinds.known import CORPORA

    complete = CORPORA[corpus.source["kind"]].model_validate(corpus.source).complete()
    source: Any = open_corpus({**complete, "val_fraction": complete.get("val_fraction") or 0.0}, root)
    contents = Survey({}, broken_links=len(source.links.broken))
    listed = corpus.source["kind"] in ("caption_table", "caption_files")
    folder = (root / corpus.images).resolve()
    present = _real_places(folder, images_within(folder, Links())) if listed else set()
    samples: list[SourceItem] = []
    named: set[str] = set()
    for split in corpus.splits if not corpus.holds_out else ("train",):
        account = contents.left_out
        for sample in source.items(split) if listed else islice(source.items(split), _READ):
            place = _normal(str(folder / sample.file)) if listed else ""
            if listed and place not in present:  # by an absolute path, through a link, or missing
                place = _normal(str(inside(folder, sample.file, follow=True) or ""))
            named.add(place)
            # a table's number of a row or an image's in its folder tells a person nothing
            sample = sample._replace(key="") if listed and sample.key.isdigit() else sample
            captions = clean_captions(sample.captions, skipped=account)
            if isinstance(sample.read, LeftOut):
                account.add(sample.read.reason, sample.key, sample.file, sample.read.detail)
            elif listed and not place:
                account.add("image outside the folder", sample.key, sample.file)
            elif listed and place not in present and not Path(place).exists():
                account.add("image file is missing", sample.key, sample.file)
            elif not captions:
                account.add("no caption", sample.key, sample.file)
            else:
                contents.counts[split] = contents.counts.get(split, 0) + 1
                contents.captions += len(captions)
                contents.names += [sample.file] if corpus.holds_out else []
                if len(contents.pieces) < _COUNTED:
                    contents.pieces += [len(clip_pieces(text)) for text in captions]
                samples.append(sample if corpus.holds_out else sample._replace(split=split))
    contents.unused = len(present - named)
    if not samples:
        raise UserError(f"{root / corpus.images}: no image has a caption ({contents.left_out or 'it has no samples'})")
    if not listed:
        _extrapolate(contents, source, corpus, len(samples))
    contents.samples = samples
    opened = samples[:: max(1, len(samples) // _OPENED)][:_OPENED]
    _open(contents, opened)
    if not contents.sizes:
        raise UserError(f"{root / corpus.images}: none of {len(opened)} images can be read ({contents.left_out})")
    return contents


def _extrapolate(contents: Survey, source: Any, corpus: Corpus, count: int) -> None:
    """Estimate the number of samples by parquet footers, or by the sizes of tars."""
    of_each = contents.captions / count
    counts: dict[str, int] = Counter()
    if isinstance(source, Webdataset):
        for split in {split or "train" for split, _ in source.shards}:
            shards = [path for named, path in source.shards if (named or "train") == split]
            first, size = shards[0], sum(path.stat().st_size for path in shards)
            counts[split] = round(sum(1 for _ in tar_samples(first)) * size / max(1, first.stat().st_size))
            contents.about |= len(shards) > 1
    elif source.config["split_column"] is None:
        for split in corpus.splits if not corpus.holds_out else ("train",):
            for path in source.files.of(split):
                with open_parquet(path) as file:
                    counts[split] += file.metadata.num_rows
    else:
        counts = source.files.counts()
    contents.counts, contents.names = {split: counts[split] for split in corpus.splits if counts.get(split)}, []
    contents.captions = round(of_each * sum(contents.counts.values()))


def _real_places(folder: Path, names: Iterable[str]) -> set[str]:
    """The real paths of images in a resolved folder; links are resolved, one call for each of its folders."""
    real_folder = lru_cache(16)(os.path.realpath)
    places = (Path(real_folder(folder / Path(name).parent), Path(name).name) for name in names)
    return {_normal(str(place.resolve() if place.is_symlink() else place)) for place in places}


def _normal(name: str) -> str:
    """NFC: file systems encode accents differently."""
    return unicodedata.normalize("NFC", name)


def _open(contents: Survey, samples: list[SourceItem]) -> None:
    from PIL import Image

    began, count = time.perf_counter(), 0
    for _, image, _ in with_images(samples, contents.left_out, None):
        with Image.open(io.BytesIO(image)) as opened:
            contents.sizes.append(opened.size)
        count += 1
    contents.seconds = (time.perf_counter() - began) / max(1, count)


def held_out_of(contents: Survey, share: float) -> int:
    """How many images the ``share`` holds out: exactly where their names are known."""
    if contents.names:
        return sum(held_out(name, share) for name in contents.names)
    return round(share * contents.counts.get("train", 0))
