"""One file over http or https into a ``.part`` file, resumed where an earlier attempt broke off.

Our own, because pooch, torchvision and torch.hub restart a broken transfer from the beginning.
"""

import http.client
import os
import shutil
import ssl
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from mdc.data.obtain.reasons import TRANSIENT_STATUS
from mdc.plan.progress import progress
from mdc.plan.records import UserError, read_json, write_json

_BLOCK = 1 << 20
# bytes, of a file whose size was not published
MAX_UNKNOWN = 64 << 30


class BrokenOff(Exception):
    """The connection ended early; the received bytes are kept."""


@dataclass(frozen=True)
class Part:
    """The file of the bytes received so far, and beside it the server's metadata of the whole file."""

    path: Path

    @property
    def metadata(self) -> Path:
        return self.path.with_name(self.path.name + ".json")

    @property
    def size(self) -> int:
        return self.path.stat().st_size if self.path.is_file() else 0

    def validator(self, url: str) -> str | None:
        """The strong ETag or the date of the file that the part belongs to, if that is ``url``; otherwise None."""
        try:
            metadata = read_json(self.metadata)
            return metadata["validator"] if metadata["url"] == url else None
        except (OSError, UserError, KeyError, TypeError):
            return None

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)
        self.metadata.unlink(missing_ok=True)


class _OnlyHttp(urllib.request.HTTPRedirectHandler):
    """Follows redirects to http and https only (urllib itself: to ftp too), and never from https to http."""

    def redirect_request(self, req: Any, fp: Any, code: Any, msg: Any, headers: Any, newurl: str) -> Any:
        before, after = urlsplit(req.full_url).scheme, urlsplit(newurl).scheme
        if after not in ("http", "https") or (before, after) == ("https", "http"):
            raise UserError(f"{_shown(req.full_url)}: redirects to {after}://, which is not followed")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def fetch_part(url: str, part: Part, size: int | None, timeout: float) -> None:
    """Download ``url`` into ``part``. ``size``: the published number of bytes, None if unknown.

    BrokenOff if the connection ended early; UserError for everything that a retry would not fix. A part is resumed only if
    the server confirms that the file is still the same.
    """
    if urlsplit(url).scheme not in ("http", "https"):
        raise UserError(f"{url}: only http and https are fetched")
    have, validator = part.size, part.validator(url)
    if have and (validator is None or (size is not None and have > size)):
        part.remove()
        have = 0
    resume_headers = {"Range": f"bytes={have}-", "If-Range": str(validator)} if have else {}
    request = urllib.request.Request(url, headers={"User-Agent": "mdc-obtain", **resume_headers})
    try:
        with urllib.request.build_opener(_OnlyHttp).open(request, timeout=timeout) as response:
            _take(response, url, part, have, size)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == 416 and have:  # the part is complete already, or of another file
            complete_size = (error.headers.get("Content-Range") or "").removeprefix("bytes */")  # RFC 9110, 14.4
            if str(have) == (complete_size if size is None else str(size)):
                return
            part.remove()
        if error.code in TRANSIENT_STATUS | {416}:
            raise BrokenOff(f"HTTP {error.code}") from None
        raise UserError(f"{_shown(url)}: HTTP {error.code} {error.reason}") from None
    except urllib.error.URLError as error:
        raise BrokenOff(str(getattr(error.reason, "strerror", None) or error.reason)) from None
    except (http.client.HTTPException, TimeoutError, ConnectionError, ssl.SSLError) as error:
        raise BrokenOff(str(error) or type(error).__name__) from None
    except OSError as error:
        raise UserError(f"{part.path.parent}: {error.strerror}; partial download kept; rerun to resume") from None
    except ValueError:
        raise UserError(f"{_shown(url)}: redirects to what is not a valid URL") from None


def _take(response: Any, url: str, part: Part, have: int, size: int | None) -> None:
    headers = response.headers
    if response.status != 206:
        have = 0
    elif not headers.get("Content-Range", "").startswith(f"bytes {have}-"):
        part.remove()
        raise BrokenOff("the server returned a different byte range than requested")
    length = headers.get("Content-Length", "")
    whole = have + int(length) if length.isdigit() else size
    if size is not None and whole != size:
        part.remove()
        raise UserError(f"{_shown(url)}: the server offers {whole} bytes, expected {size}")
    need_room(part.path.parent, _shown(url), (whole or 0) - have)
    etag = headers.get("ETag", "")
    strong = etag and not etag.startswith("W/")
    write_json(part.metadata, {"url": url, "validator": etag if strong else headers.get("Last-Modified")})
    most = size if size is not None else MAX_UNKNOWN
    bar = progress(total=whole, initial=have, unit="B", unit_scale=True, desc=part.path.name.strip("."), leave=False)
    with part.path.open("ab" if have else "wb") as out, bar:
        while block := response.read(_BLOCK):
            have += len(block)
            if have > most:
                part.remove()
                raise UserError(f"{_shown(url)}: sends more than the expected {most} bytes; not the published file")
            out.write(block)
            bar.update(len(block))
        out.flush()
        os.fsync(out.fileno())
    if whole is not None and whole != have:
        raise BrokenOff(f"connection lost at {have} of {whole} bytes")


def need_room(folder: Path, what: str, needed: int) -> None:
    """UserError if the disk of ``folder`` has less than the ``needed`` bytes of ``what``."""
    if needed > (free := shutil.disk_usage(folder).free):
        raise UserError(f"{folder}: {what} needs {needed} bytes, {free} are free; free some space and rerun")


def _shown(url: str) -> str:
    """The URL without user, password and query, which may be secret."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname or ''}{f':{parts.port}' if parts.port else ''}{parts.path}"
