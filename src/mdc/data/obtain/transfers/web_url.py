"""Normalises the URLs of lists for a request, or refuses them."""

import re
from urllib.parse import SplitResult, quote, urlsplit

from mdc.data.obtain.reasons import BAD_URL, SCHEME, Failure

_DEFAULT_PORTS = {"http": 80, "https": 443}
_LONGEST = 8192  # characters; servers take 8 KB of a request line at most
_CONTROLS = re.compile(r"[\x00-\x1f\x7f]")
# fast path for most URLs, which need no change: lists have a billion
_FIT = re.compile(
    r"https?://(?:[a-z0-9_-]{1,63}\.)*[a-z0-9_-]{1,63}/[\w.~!$%&'()*+,/:;=@\[\]|-]*(?:\?[\w.~!$%&'()*+,/:;=?@\[\]|-]+)?",
    re.ASCII,
)
_SAFE = "!#$%&'()*+,-./:;=?@[]_~|"  # with '%': nothing is encoded twice


def web_url(text: str) -> str:
    """``text`` with its host in IDNA and its spaces and non-ASCII characters percent-encoded (as UTF-8).

    The fragment is removed. Failure for a scheme other than http and https, and for an invalid URL: no host, a login,
    control characters, an impossible port, over 8,192 characters.
    """
    if len(text) <= _LONGEST and _FIT.fullmatch(text):
        return text
    text = text.strip()
    if _CONTROLS.search(text) or len(text) > _LONGEST:
        raise Failure(BAD_URL)
    try:
        parts = urlsplit(text)
        scheme, port, host = parts.scheme.lower(), parts.port, parts.hostname
    except ValueError:  # a port that is no number, an unmatched bracket
        raise Failure(BAD_URL) from None
    if scheme and scheme not in _DEFAULT_PORTS:
        raise Failure(SCHEME)
    if not scheme or not host or "@" in parts.netloc:
        raise Failure(BAD_URL)
    netloc = _host(host) + ("" if port is None or port == _DEFAULT_PORTS[scheme] else f":{port}")
    path = quote(parts.path, safe=_SAFE) or "/"
    return SplitResult(scheme, netloc, path, quote(parts.query, safe=_SAFE), "").geturl()


def _host(host: str) -> str:
    if ":" in host:  # IPv6
        return f"[{host}]"
    try:
        name = host if host.isascii() else host.encode("idna").decode("ascii")
    except UnicodeError:
        raise Failure(BAD_URL) from None
    if not re.fullmatch(r"[A-Za-z0-9._-]+", name) or any(len(label) > 63 for label in name.split(".")):
        raise Failure(BAD_URL)
    return name
