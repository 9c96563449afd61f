"""Safe downloads from untrusted URLs.

Our own, because no common client connects to the very address that it checked, or limits a whole transfer. A name is looked up
once, and only its public addresses are connected to; http and https only, also after a redirect; a limit on the bytes of the
body and of the whole answer; one deadline for the transfer with its redirects; certificates are verified. Nothing of Python is
patched: only users of an ``Opener`` are affected (img2dataset by ``urllib.request.install_opener``).
"""

import http.client
import io
import ipaddress
import socket
import ssl
import time
import urllib.request
from base64 import b64encode
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import unquote, urljoin, urlsplit
from urllib.response import addinfourl

from mdc.data.obtain import reasons as why
from mdc.data.obtain.reasons import Failure
from mdc.data.obtain.transfers.web_url import web_url

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

# IPv6 network whose gateways forward to the IPv4 address in the last 32 bits (RFC 6052)
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
# the IANA special registries in Python's ipaddress
_SPECIAL = ("private", "loopback", "link_local", "multicast", "reserved", "unspecified", "site_local")

_REDIRECTS, _MOST_REDIRECTS = frozenset({301, 302, 303, 307, 308}), 10
_PIECE = 1 << 16
_OVERHEAD = 1 << 20  # bytes of headers, and of the lengths of chunks, beside a body's own
_PAUSE, _LONGEST_PAUSE = 0.5, 5.0  # seconds before the first retry (doubled for each later one), and at most
_REASONS: tuple[tuple[Any, str], ...] = (  # the first that fits
    (ssl.SSLCertVerificationError, why.CERTIFICATE),
    (ssl.SSLError, why.NO_TLS),
    ((socket.gaierror, UnicodeError), why.NO_HOST),  # a name that is no IDNA cannot be looked up
    (ConnectionRefusedError, why.NO_CONNECTION),
    ((http.client.IncompleteRead, ConnectionError), why.BROKEN_OFF),
    (OSError, why.UNREACHABLE),
    (Exception, why.NO_HTTP),  # http.client's exceptions, and ValueErrors on headers that are none
)


@dataclass(frozen=True)
class Limits:
    """Limits of one transfer: seconds for each socket operation, seconds in all, bytes of the body."""

    timeout: float
    deadline: float
    max_bytes: int
    retries: int = 0
    exceptions: tuple[Network, ...] = ()  # networks that are allowed although they are not public
    use_proxy: bool = False


def networks(texts: Iterable[str]) -> tuple[Network, ...]:
    """Networks in CIDR notation ("127.0.0.1/32")."""
    return tuple(map(ipaddress.ip_network, texts))


def allowed(address: str, exceptions: Iterable[Network] = ()) -> bool:
    """Whether a connection to ``address`` (numeric) is allowed: it is public, or in one of the ``exceptions``.

    An IPv6 address that embeds an IPv4 address is as public as that one.
    """
    try:
        ip: Address = ipaddress.ip_address(address.partition("%")[0])  # without the interface
    except ValueError:
        return False
    if isinstance(ip, ipaddress.IPv6Address):
        gateway = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF) if ip in _NAT64 else None
        ip = ip.ipv4_mapped or ip.sixtofour or gateway or ip
    # `is_global` alone differs between versions of Python
    public = ip.is_global and not any(getattr(ip, f"is_{kind}", False) for kind in _SPECIAL)
    return public or any(ip.version == network.version and ip in network for network in exceptions)


class Opener(urllib.request.OpenerDirector):
    """The opener of ``urllib.request.urlopen`` once it is installed. Thread-safe."""

    def __init__(self, limits: Limits) -> None:
        super().__init__()
        self._limits = limits

    def open(self, fullurl: Any, data: Any = None, timeout: Any = None) -> Any:
        """The answer to a GET of ``fullurl`` (text or urllib's Request), see ``fetch``; transient failures are retried.

        ``timeout`` is ignored: the limits hold.
        """
        url, headers = (fullurl, {}) if isinstance(fullurl, str) else (fullurl.full_url, dict(fullurl.header_items()))
        for attempt in range(self._limits.retries):
            try:
                return fetch(url, headers, self._limits)
            except Failure as failure:
                if not failure.transient:
                    raise
            time.sleep(min(_PAUSE * 2**attempt, _LONGEST_PAUSE))
        return fetch(url, headers, self._limits)


def fetch(url: str, headers: Mapping[str, str], limits: Limits) -> addinfourl:
    """Request ``url`` once, following redirects. Failure, whose text is its reason, if there is no good answer."""
    transfer = _Transfer(limits, time.monotonic() + limits.deadline)
    try:
        for _ in range(_MOST_REDIRECTS + 1):
            url = web_url(url)
            with closing(_Connection(url, transfer)) as connection:
                connection.request("GET", connection.target, headers={**headers, **connection.named})
                with closing(connection.getresponse()) as answer:
                    if answer.status in _REDIRECTS and (target := answer.getheader("Location")):
                        url = _joined(url, target)
                        continue
                    if not 200 <= answer.status < 300:
                        raise Failure(f"HTTP {answer.status}")
                    return addinfourl(io.BytesIO(_body(answer, limits.max_bytes)), answer.headers, url, answer.status)
    except Failure:
        raise
    except TimeoutError:
        raise Failure(why.DEADLINE if time.monotonic() >= transfer.ends else why.TIME_OUT) from None
    except Exception as error:  # an untrusted answer may make the libraries raise anything
        if isinstance(error, socket.gaierror) and error.errno == socket.EAI_AGAIN:
            raise Failure(why.NO_NAME_SERVER) from None
        raise Failure(next(reason for kinds, reason in _REASONS if isinstance(error, kinds))) from None
    raise Failure(why.REDIRECTS)


def _joined(url: str, target: str) -> str:
    """The target of a redirect. http.client reads headers as Latin-1; browsers read a location as UTF-8."""
    try:
        return urljoin(url, target.encode("latin-1").decode("utf-8", errors="replace"))
    except ValueError:
        raise Failure(why.BAD_URL) from None


def _body(answer: http.client.HTTPResponse, most: int) -> bytes:
    expected = answer.length  # None: until the end of the chunks, or of the connection
    body = bytearray()
    while max(len(body), expected or 0) <= most and (piece := answer.read(_PIECE)):
        body += piece
    if max(expected or 0, len(body)) > most:
        raise Failure(why.LARGE_BODY)
    if expected is not None and len(body) < expected:
        raise Failure(why.BROKEN_OFF)
    if not body:
        raise Failure(why.EMPTY)
    return bytes(body)


@dataclass
class _Transfer:
    """The remaining time and bytes of one transfer."""

    limits: Limits
    ends: float
    received: int = 0

    def seconds(self) -> float:
        """The timeout of the next socket operation; Failure if no time is left."""
        left = self.ends - time.monotonic()
        if left <= 0:
            raise Failure(why.DEADLINE)
        return min(self.limits.timeout, left)

    def take(self, count: int) -> int:
        """Count received bytes; Failure over twice the body's limit, with headers and chunk lengths."""
        self.received += count
        if self.received > 2 * self.limits.max_bytes + _OVERHEAD:
            raise Failure(why.LARGE_BODY)
        return count


class _Bounded(socket.socket):
    """A socket that receives within its transfer's limits."""

    transfer: _Transfer

    def makefile(self, mode: str) -> Any:  # type: ignore[override]  # of http.client's use of it
        return super().makefile("rb", _PIECE)  # 8 KB by default: several reads for most images

    def recv_into(self, *args: Any) -> int:
        self.settimeout(self.transfer.seconds())
        return self.transfer.take(super().recv_into(*args))


class _BoundedTls(_Bounded, ssl.SSLSocket):
    """The same over TLS."""


@cache
def _tls_context() -> ssl.SSLContext:
    """As urllib's: the system's certificates (or those of SSL_CERT_FILE), host names checked."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    context.sslsocket_class = _BoundedTls
    return context


class _Connection(http.client.HTTPConnection):
    """A connection for ``url`` to an address that was checked, or to the environment's proxy."""

    def __init__(self, url: str, transfer: _Transfer) -> None:
        parts = urlsplit(url)
        host, self._tls = parts.hostname or "", parts.scheme == "https"
        port = parts.port or (443 if self._tls else 80)
        self._transfer, self._name = transfer, host
        self.named = {"Host": parts.netloc, "Connection": "close"}
        self.target = parts.path + (f"?{parts.query}" if parts.query else "")
        use_proxy = transfer.limits.use_proxy and not urllib.request.proxy_bypass(host)
        proxy = urllib.request.getproxies().get(parts.scheme) if use_proxy else None
        self._checked = not proxy
        if not proxy:
            super().__init__(host, port)
            return
        # the proxy looks names up; numeric addresses and localhost are checked here
        if host == "localhost" or (_is_numeric(host) and not allowed(host, transfer.limits.exceptions)):
            raise Failure(why.ADDRESS)
        proxy_parts = urlsplit(proxy if "//" in proxy else f"//{proxy}")
        super().__init__(proxy_parts.hostname or "", proxy_parts.port or 80)
        login = f"{unquote(proxy_parts.username or '')}:{unquote(proxy_parts.password or '')}".encode()
        headers = {} if login == b":" else {"Proxy-Authorization": f"Basic {b64encode(login).decode()}"}
        if self._tls:
            self.set_tunnel(host, port, headers)
        else:
            self.target = url
            self.named |= headers

    def connect(self) -> None:
        self.sock = _connected(self.host, self.port, self._transfer, self._checked)
        if getattr(self, "_tunnel_host", None):
            self._tunnel()  # type: ignore[attr-defined]  # http.client's own way through a proxy
        if self._tls:
            self.sock.settimeout(self._transfer.seconds())
            tls: Any = _tls_context().wrap_socket(self.sock, server_hostname=self._name)
            self.sock, tls.transfer = tls, self._transfer
        self.sock.settimeout(self._transfer.seconds())


def _is_numeric(host: str) -> bool:
    try:
        return bool(socket.getaddrinfo(host, None, flags=socket.AI_NUMERICHOST))
    except OSError:
        return False


def _connected(host: str, port: int, transfer: _Transfer, checked: bool) -> _Bounded:
    """A connection to the first allowed address of ``host`` that answers."""
    addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    if checked:
        addresses = [entry for entry in addresses if allowed(str(entry[4][0]), transfer.limits.exceptions)]
    trouble: Exception = Failure(why.ADDRESS)
    for family, kind, protocol, _, address in addresses:
        connection = _Bounded(family, kind, protocol)
        connection.transfer = transfer
        try:
            connection.settimeout(transfer.seconds())
            connection.connect(address)
            return connection
        except BaseException as error:
            connection.close()
            if not isinstance(error, OSError):
                raise
            trouble = error
    raise trouble
