"""Images from users: files, PIL images, arrays and tensors."""

import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from mdc.data.formats.folders import files_below, is_image_name
from mdc.data.formats.images import FORMATS, ImageError, decode, rgb
from mdc.plan.data_folder import Links
from mdc.plan.host import usable_cores
from mdc.plan.progress import progress
from mdc.plan.records import UserError

#: one image: a file, a PIL image, an array (H, W, 3) uint8, or a tensor (3, H, W), uint8 or floating-point from 0 to 1
OneImage = str | Path | Image.Image | np.ndarray | Tensor
#: one image, or several: a list, an array (B, H, W, 3) or a tensor (B, 3, H, W)
Images = OneImage | Sequence[OneImage]
#: an RGB image → pixels (3, S, S)
Crop = Callable[[Image.Image], Tensor]
T = TypeVar("T")


def batches(images: Images, crop: Crop, size: int) -> Iterator[tuple[Tensor, list[str]]]:
    """``crop`` (3, S, S) of each image, and its name, in batches (B, 3, S, S). Threads decode and crop, which Pillow does
    outside Python's lock; at most one whole image per thread is in memory."""
    listed = several(images)

    def load(place: int) -> tuple[Tensor, str]:
        return crop(_picture(listed[place], place)), _name(listed[place], place)

    with ThreadPoolExecutor(min(usable_cores(), len(listed)) or 1) as pool:
        parts = [range(first, min(first + size, len(listed))) for first in range(0, len(listed), size)]
        try:
            # the next batch is decoded while this one is computed
            futures = [[pool.submit(load, place) for place in part] for part in parts[:1]]
            for number in range(len(parts)):
                futures += [[pool.submit(load, place) for place in part] for part in parts[number + 1 : number + 2]]
                crops, names = zip(*(future.result() for future in futures.pop(0)), strict=True)
                yield torch.stack(crops), list(names)
        finally:
            pool.shutdown(cancel_futures=True)


def computed(images: Images, crop: Crop, size: int, compute: Callable[[Tensor], T], device: torch.device) -> list[T]:
    """``compute`` of the pixels of each of ``batches``, in their order.

    On a CPU each core decodes and computes a batch of its own with one thread: sharing one computation took three times as long.
    """
    listed, before = several(images), torch.get_num_threads()
    starts = range(0, len(listed), size)
    if device.type != "cpu" or len(starts) < 2:
        return [compute(pixels) for pixels, _ in batches(images, crop, size)]

    def part(start: int) -> T:
        places = range(start, min(start + size, len(listed)))
        return compute(torch.stack([crop(_picture(listed[place], place)) for place in places]))

    torch.set_num_threads(1)
    try:
        # the number is each thread's own
        with ThreadPoolExecutor(usable_cores(), initializer=torch.set_num_threads, initargs=(1,)) as pool:
            return list(pool.map(part, starts))
    finally:
        torch.set_num_threads(before)


def _name(image: OneImage, place: int) -> str:
    """The name of a file, or the number of another image."""
    return Path(image).name if isinstance(image, str | Path) else str(place)


def is_one(images: Images) -> bool:
    """Whether it is one image, and not a sequence or a batch."""
    if isinstance(images, np.ndarray | Tensor):
        return images.ndim < 4
    return isinstance(images, str | Path | Image.Image)


def several(images: Images) -> list[Any]:
    """The images as a list; UserError for what is no image and holds none."""
    if images is None or isinstance(images, bytes):
        raise UserError(
            f"images: {type(images).__name__}; allowed: files, PIL images, arrays, tensors, or a list of them"
        )
    return [images] if is_one(images) else list(images)  # type: ignore[arg-type]


def _picture(image: Any, place: int) -> Image.Image:
    if isinstance(image, str | Path):
        return picture_file(image)
    try:
        if isinstance(image, Image.Image):
            return rgb(image)
        return Image.fromarray(_array(image))
    except ImageError as error:
        raise UserError(f"image {place}: {error}") from None


def picture_file(path: str | Path, name: str = "") -> Image.Image:
    """The image of a file; UserError, by its path or ``name``, if it cannot be read."""
    try:
        return decode(Path(path).read_bytes())
    except OSError as error:
        raise UserError(f"{name or path}: cannot be read ({error.strerror})") from None
    except ImageError as error:
        raise UserError(f"{name or path}: {error}; allowed: a whole {FORMATS} image") from None


def _array(image: Any) -> np.ndarray:
    """(H, W, 3) uint8 of an array or a tensor; ImageError for any other shape, type or range."""
    if isinstance(image, Tensor):
        image = image.detach().cpu()
        if image.ndim != 3 or image.shape[0] != 3:
            raise ImageError(f"a tensor of shape {tuple(image.shape)}; allowed: (3, H, W)")
        image = image.permute(1, 2, 0)
        if image.dtype.is_floating_point:
            if not bool(((image >= 0) & (image <= 1)).all()):
                raise ImageError("floating-point pixels outside 0 to 1; give them before any normalisation")
            image = (image.double() * 255).round().to(torch.uint8)
        image = image.numpy()
    if not isinstance(image, np.ndarray) or image.ndim != 3 or image.shape[2] != 3 or image.dtype != np.uint8:
        kind = f"an array of shape {image.shape} of {image.dtype}" if isinstance(image, np.ndarray) else type(image)
        raise ImageError(f"{kind}; allowed: a file, a PIL image, an array (H, W, 3) of uint8, or a tensor (3, H, W)")
    return np.ascontiguousarray(image)


def image_files(paths: Sequence[str]) -> Iterator[Path]:
    """The given image files, and all those below given folders, sorted by name. UserError if a folder has none."""
    for name in paths:
        path = Path(name)
        if not path.is_dir():
            yield path
            continue
        files = sorted(filter(is_image_name, files_below(path, links := Links())))
        links.say(path)
        if not files:
            raise UserError(f"{path}: a folder without an image; looked for {FORMATS} images")
        yield from files


class Readable:
    """Distinct image files (``paths``) in batches; prints why a file cannot be read."""

    def __init__(self, paths: Sequence[str]) -> None:
        self.paths, self._bad = list(dict.fromkeys(image_files(paths))), 0

    def batches(self, size: int, crop: Crop, label: str) -> Iterator[dict[Path, Tensor]]:
        """``crop`` of the readable ones in batches; ``label``: of the progress bar."""
        paths = self.paths
        for start in progress(range(0, len(paths), size), unit="batch", desc=label, disable=len(paths) <= size):
            images: dict[Path, Tensor] = {}
            for path in paths[start : start + size]:
                try:
                    images[path] = crop(picture_file(path))
                except UserError as error:
                    print(error, file=sys.stderr)
                    self._bad += 1
            if images:
                yield images

    def complain(self) -> None:
        """UserError if any could not be read."""
        if self._bad:
            raise UserError(f"{self._bad} of {len(self.paths)} images could not be read; each is named above")
