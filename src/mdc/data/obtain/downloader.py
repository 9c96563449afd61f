"""img2dataset's Downloader with our guard, resizing and accounts, run for each shard by a process, Spark or Ray.

It is pickled to where it runs, and called with an :class:`Order`, as img2dataset's distributors do. It writes the shard's
account into the data set's folder, which all machines must share.

An image is decoded once, in full, by :mod:`mdc.data.formats.images`, so that every image of a shard can be trained on. A small
enough upright RGB JPEG keeps its bytes; everything else becomes an RGB JPEG whose shorter side is ``image_size`` at most.
"""

import errno
import fcntl
import hashlib
import os
import traceback
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow
from img2dataset.downloader import Downloader
from img2dataset.writer import WebDatasetSampleWriter

from mdc.data.formats.images import ImageError, smaller
from mdc.data.obtain.accounts import Incomplete, NetworkDown, remove_shard, take_account
from mdc.data.obtain.orders import DISK, NETWORK, Answer, Order, worker_lock
from mdc.data.obtain.plan import read_part
from mdc.data.obtain.reasons import LARGE_IMAGE, NARROW_IMAGE, NO_IMAGE, NO_MEMORY, SMALL_IMAGE, UNEXPECTED
from mdc.plan.records import UserError

_REASONS = {"image too large": LARGE_IMAGE, "image too narrow": NARROW_IMAGE}
_METADATA = 1 << 16  # bytes that a kept JPEG may have beyond its raw pixels

Result = tuple[bytes | None, int | None, int | None, int | None, int | None, str | None]


@dataclass(frozen=True)
class Resize:
    """Replaces img2dataset's Resizer in its Downloader."""

    image_size: int
    quality: int
    min_image_size: int
    max_pixels: int
    max_aspect: float

    def __call__(self, img_stream: Any, blurring_bbox_list: Any = None) -> Result:
        """(encoded bytes, width, height, original width, original height, None), or the reason as the last element."""
        try:
            return self._resized(img_stream.read())
        except ImageError as error:
            reason = _REASONS.get(error.reason, NO_IMAGE)
        except MemoryError:
            reason = NO_MEMORY
        except Exception:  # one row must not end the others
            reason = UNEXPECTED
        return None, None, None, None, None, reason

    def _resized(self, data: bytes) -> Result:
        image = smaller(data, self.image_size, self.max_pixels, self.max_aspect)
        width, height = image.size
        if min(width, height) < self.min_image_size:
            return None, None, None, None, None, SMALL_IMAGE
        if not image.smaller and image.plain and len(data) <= 3 * width * height + _METADATA:
            return data, width, height, width, height, None
        return image.jpeg(self.quality), *image.image.size, width, height, None


# img2dataset imports packages that look for updates over the network; a user's own setting is kept
os.environ.setdefault("NO_ALBUMENTATIONS_UPDATE", "1")
os.environ.setdefault("WANDB_MODE", "disabled")


#: errors that end a download: disk full, file too large, over quota, read-only, not permitted, I/O error
FATAL = frozenset({errno.ENOSPC, errno.EFBIG, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO})
ROBOTS_DIRECTIVES = ["noai", "noimageai", "noindex", "noimageindex"]  # img2dataset's own
_DIGITS = 5  # of a shard's number


class Writer(WebDatasetSampleWriter):
    """img2dataset's writer with equal bytes for equal samples; a failed write raises at the end, where it is noticed.

    ``images`` collects the sha256 of each image, by key.
    """

    def __init__(self, images: dict[str, str], *args: Any) -> None:
        super().__init__(*args)
        self.tarwriter.mtime = 0  # an integer, or every member gets an extra header
        self._images = images
        self._failure: Exception | None = None

    def write(self, img_str: bytes | None, key: str, caption: str | None, meta: Any) -> None:
        if self._failure is None:
            try:
                super().write(img_str, key, caption, meta)
            except Exception as error:
                self._failure = error
        if img_str is not None:
            self._images[key] = hashlib.sha256(img_str).hexdigest()

    def close(self) -> None:
        if self._failure is not None:
            raise self._failure
        super().close()


class ShardDownloader(Downloader):
    """``settings``: the data set's ``folder``, the ``lock_folder`` of the workers' lock, and the keys of ``download``."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._settings, self._folder = dict(settings), Path(settings["folder"])
        sizes = ("image_size", "quality", "min_image_size", "max_pixels", "max_aspect")
        super().__init__(
            sample_writer_class=Writer,
            resizer=Resize(**{name: settings[name] for name in sizes}),
            thread_count=settings["threads"],
            save_caption=True,
            extract_exif=False,
            output_folder=str(self._folder / "shards"),
            column_list=[],  # the shard's own
            timeout=settings["timeout"],
            number_sample_per_shard=settings["rows_per_shard"],
            oom_shard_count=_DIGITS,
            compute_hash="sha256",
            verify_hash_type=None,
            encode_format="jpg",
            retries=0,  # the guard retries
            user_agent_token=None,
            disallowed_header_directives=ROBOTS_DIRECTIVES if settings["respect_robots"] else None,
        )

    def __call__(self, row: Order) -> tuple[bool, Order]:
        """Whether the shard is complete, for img2dataset's distributors."""
        return not self.attempt(row).trouble, row

    def attempt(self, order: Order) -> Answer:
        """Download a shard and write its account; an incomplete shard is removed."""
        try:
            self.download_shard(order)
        except Exception as error:
            if not isinstance(error, Incomplete | OSError | UserError):
                traceback.print_exc()
            remove_shard(self._folder, order.shard)
            return Answer(order.shard, *_trouble(error))
        return Answer(order.shard, "")

    def download_shard(self, row: Order) -> None:
        """img2dataset's ``download_shard`` for the plan's part; Incomplete if the written files are not complete."""
        rows = self._folder / "shards" / f".rows-{row.shard:05d}.arrow"
        with ExitStack() as locks:
            for folder in {self._folder, Path(self._settings["lock_folder"])}:
                locks.enter_context(worker_lock(folder, fcntl.LOCK_SH))
            remove_shard(self._folder, row.shard)
            locks.callback(rows.unlink, missing_ok=True)
            table = read_part(self._folder, row.shard, row.part)
            with rows.open("wb") as file, pyarrow.ipc.new_file(file, table.schema) as writer:
                writer.write_table(table)
            images: dict[str, str] = {}
            self.column_list, self.sample_writer_class = table.column_names, partial(Writer, images)
            guard(self._settings)
            super().download_shard((row.shard, str(rows)))
            take_account(self._folder, row.shard, row.part, table, images, row.trust_network_errors)


def guard(settings: Mapping[str, Any]) -> None:
    """Install the limits on ``urllib.request.urlopen`` in this process."""
    import urllib.request

    from mdc.data.obtain.transfers.guard import Limits, Opener, networks

    bounds = {name: settings[name] for name in ("timeout", "deadline", "max_bytes", "retries", "use_proxy")}
    urllib.request.install_opener(Opener(Limits(**bounds, exceptions=networks(settings["allow_addresses"]))))


def _trouble(error: BaseException) -> tuple[str, str]:
    number = getattr(error, "errno", None)
    text = os.strerror(number) if number else str(error) or type(error).__name__
    return text[:500], NETWORK if isinstance(error, NetworkDown) else DISK if number in FATAL else ""
