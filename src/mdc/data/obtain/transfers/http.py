"""One file over http or https into a ``.part`` file, resumed where an earlier attempt broke off.

Our own, because what offers the same (pooch, torchvision, torch.hub) starts a broken transfer of gigabytes from the beginning.
"""

from __future__ import annotations

import http.client
import json
import os
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

from mdc.plan.progress import progress
from mdc.plan.records import UserError, write_json

_BLOCK = 1 << 20
# of a file whose size nobody published, more than this is taken for a body without end
MAX_UNKNOWN = 64 << 30
_AGENT = "mdc-obtain"


class BrokenOff(Exception):
    """The connection ended early; what came is kept."""


@dataclass(frozen=True)
class Part:
    """Where the bytes that came so far lie, and beside them what the server said about the file they are of."""

    path: Path

    @property
    def about(self) -> Path:
        return self.path.with_name(self.path.name + ".json")

    @property
    def size(self) -> int:
        return self.path.stat().st_size if self.path.is_file() else 0

    def validator(self, url: str) -> str | None:
        """The strong ETag or the date of the file that the part is of, if it is of ``url``."""
        try:
            told = json.loads(self.about.read_text(encoding="utf-8"))
            return str(told["validator"]) if told["url"] == url and told["validator"] else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)
        self.about.unlink(missing_ok=True)


class _OnlyHttp(urllib.request.HTTPRedirectHandler):
    """Follows redirects to http and https alone, and never from https back to http."""

    def http_error_302(self, req: Any, fp: Any, code: Any, msg: Any, headers: Any) -> Any:
        before, target = urlsplit(req.full_url).scheme, headers.get("location") or headers.get("uri") or ""
        try:
            # a colon makes no scheme of what stands before it: "12:30.zip" and "a/b:c" are relative (RFC 3986, 4.2)
            after = urlsplit(urljoin(req.full_url, target)).scheme
        except ValueError:
            raise UserError(f"{_shown(req.full_url)}: redirects to {target!r:.80}, which is not a valid URL") from None
        if after not in ("http", "https") or (before, after) == ("https", "http"):
            raise UserError(f"{_shown(req.full_url)}: redirects to {after}://, which is not followed")
        return super().http_error_302(req, fp, code, msg, headers)

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302


def opener() -> urllib.request.OpenerDirector:
    """An opener without handlers for file, ftp and data; proxies as the environment names them."""
    director = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
        _OnlyHttp(),
    ):
        director.add_handler(handler)
    director.addheaders = [("User-Agent", _AGENT)]
    return director


def fetch_part(url: str, part: Part, size: int | None, timeout: float) -> None:
    """Bring ``part`` to the whole of ``url``. ``size``: what was published, None if nothing was.

    BrokenOff if the connection ended early; UserError for everything that trying again would not mend. A part is gone on
    with only if the server says that it is still of the same file.
    """
    if urlsplit(url).scheme not in ("http", "https"):
        raise UserError(f"{url}: only http and https are fetched")
    have, validator = part.size, part.validator(url)
    if have and (validator is None or (size is not None and have > size)):
        part.remove()
        have = 0
    request = urllib.request.Request(url)
    if have:
        request.add_header("Range", f"bytes={have}-")
        request.add_header("If-Range", str(validator))
    try:
        with opener().open(request, timeout=timeout) as response:
            _take(response, url, part, have, size)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == 416 and have:  # the part is whole already, or not of this file
            if have == (_told_size(error.headers) if size is None else size):
                return
            part.remove()
            raise BrokenOff(f"HTTP {error.code}") from None
        if error.code in (408, 425, 429, 500, 502, 503, 504):
            raise BrokenOff(f"HTTP {error.code}") from None
        raise UserError(f"{_shown(url)}: HTTP {error.code} {error.reason}") from None
    except urllib.error.URLError as error:
        raise BrokenOff(str(getattr(error.reason, "strerror", None) or error.reason)) from None
    except (http.client.HTTPException, TimeoutError, ConnectionError, ssl.SSLError) as error:
        raise BrokenOff(str(error) or type(error).__name__) from None


def _told_size(headers: Any) -> int | None:
    """The size of the whole file in the answer to a range that it does not have (RFC 9110, 14.4)."""
    size = (headers.get("Content-Range") or "").removeprefix("bytes */")
    return int(size) if size.isascii() and size.isdigit() else None


def _take(response: Any, url: str, part: Part, have: int, size: int | None) -> None:
    headers: Mapping[str, str] = response.headers
    going_on = response.status == 206
    if going_on and not str(headers.get("Content-Range", "")).startswith(f"bytes {have}-"):
        part.remove()
        raise BrokenOff("the server returned a different byte range than requested")
    if not going_on:
        have = 0
    length = headers.get("Content-Length")
    whole = have + int(length) if length and length.isdigit() else None
    if size is not None and whole is not None and whole != size:
        part.remove()
        raise UserError(f"{_shown(url)}: the server offers {whole} bytes, expected {size}")
    most = size if size is not None else MAX_UNKNOWN
    if whole is not None:
        _room(part.path.parent, whole - have)
    etag = headers.get("ETag") or ""
    validator = etag if etag and not etag.startswith("W/") else headers.get("Last-Modified")
    write_json(part.about, {"url": url, "validator": validator})
    bar = progress(total=whole, initial=have, unit="B", unit_scale=True, desc=part.path.name.strip("."), leave=False)
    with part.path.open("ab" if going_on else "wb") as out, bar:
        while block := response.read(_BLOCK):
            have += len(block)
            if have > most:
                part.remove()
                raise UserError(f"{_shown(url)}: sends more than the expected {most} bytes; not the published file")
            _write(out, block, part.path)
            bar.update(len(block))
        _flush(out, part.path)
    if (whole if whole is not None else size) not in (None, have):
        raise BrokenOff(f"connection lost at {have} of {whole or size} bytes")


def _room(folder: Path, needed: int) -> None:
    state = os.statvfs(folder)
    free = state.f_bavail * state.f_frsize
    if needed > free:
        raise UserError(f"{folder}: {needed} bytes needed, {free} are free; free some space and rerun")


def _write(out: Any, block: bytes, path: Path) -> None:
    try:
        out.write(block)
    except OSError as error:
        raise _unwritable(error, path) from None


def _flush(out: Any, path: Path) -> None:
    try:
        out.flush()
        os.fsync(out.fileno())
    except OSError as error:
        raise _unwritable(error, path) from None


def _unwritable(error: OSError, path: Path) -> UserError:
    return UserError(f"{path.parent}: {error.strerror}; partial download kept; rerun to resume")


def _shown(url: str) -> str:
    """The address without user, password and query, which may hold keys."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname or ''}{f':{parts.port}' if parts.port else ''}{parts.path}"
