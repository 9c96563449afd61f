"""How bytes are fetched from addresses that a list of strangers names.

Our own, because no client in reach connects to the address that it checked: urllib, requests and httpx look names up anew.
img2dataset asks through ``urllib.request.urlopen`` and sets no bound but one on each socket operation. An ``Opener``,
installed by ``urllib.request.install_opener``, sets them all: http and https only, also after a redirect; every
connection goes to an address that was looked up and checked here, so that no second look-up can lead elsewhere; a limit
on the bytes of the body and on those of the whole answer; one deadline for the whole transfer with its redirects; certificates
are verified. What may pass is asked for again, what is final is not.
"""

from __future__ import annotations

import email.message
import http.client
import io
import socket
import ssl
import time
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import TracebackType
from typing import Any, Self
from urllib.parse import urljoin, urlsplit

from mdc.data.obtain.reasons import (
    ADDRESS,
    BAD_URL,
    BROKEN_OFF,
    CERTIFICATE,
    DEADLINE,
    EMPTY,
    LARGE_BODY,
    NO_CONNECTION,
    NO_HOST,
    NO_HTTP,
    NO_NAME_SERVER,
    NO_TLS,
    REDIRECTS,
    TIME_OUT,
    UNREACHABLE,
    Failure,
    http_status,
)
from mdc.data.obtain.transfers.addresses import Network, allowed
from mdc.data.obtain.transfers.web_url import web_url

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_MOST_REDIRECTS = 10
_PIECE = 1 << 16
_OVERHEAD = 1 << 20  # bytes of headers, and of the lengths of chunks, beside a body's own
_PAUSE, _LONGEST_PAUSE = 0.5, 5.0  # seconds before the first, second, … repetition


@dataclass(frozen=True)
class Limits:
    """What one transfer may take: seconds for each socket operation, seconds in all, bytes of the body."""

    timeout: float
    deadline: float
    max_bytes: int
    retries: int = 0
    exceptions: tuple[Network, ...] = ()  # networks that are allowed although they are not public
    use_proxy: bool = False


@dataclass
class Fetched:
    """An answer with its body: the part of urllib's response that img2dataset uses."""

    headers: email.message.Message
    body: bytes

    def read(self) -> bytes:
        return self.body

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None


class Opener(urllib.request.OpenerDirector):
    """What ``urllib.request.urlopen`` asks once it is installed. Any thread may use it."""

    def __init__(self, limits: Limits) -> None:
        super().__init__()
        self._limits = limits

    def open(self, fullurl: Any, data: Any = None, timeout: Any = None) -> Any:
        """The answer to a GET of ``fullurl`` (text or urllib's Request), as ``Fetched``.

        ``timeout`` is not looked at: the limits hold. Failure, whose text is its reason, if there is no good answer.
        """
        url, headers = (fullurl, {}) if isinstance(fullurl, str) else (fullurl.full_url, dict(fullurl.header_items()))
        for attempt in range(self._limits.retries + 1):
            try:
                return fetch(url, headers, self._limits)
            except Failure as failure:
                if not failure.transient or attempt == self._limits.retries:
                    raise
            time.sleep(min(_PAUSE * 2**attempt, _LONGEST_PAUSE))
        raise AssertionError("the loop returns or raises")


def fetch(url: str, headers: Mapping[str, str], limits: Limits) -> Fetched:
    """Ask for ``url`` once, following redirects; Failure as in ``Opener.open``."""
    budget = _Budget(limits)
    for _ in range(_MOST_REDIRECTS + 1):
        url = web_url(url)
        connection, answer = _connection(url, budget), None
        try:
            answer = _answer(connection, url, headers)
            if answer.status in _REDIRECTS and (target := answer.getheader("Location")):
                url = _joined(url, target)
                continue
            if not 200 <= answer.status < 300:
                raise http_status(answer.status)
            return Fetched(answer.headers, _body(answer, limits.max_bytes))
        except Failure:
            raise
        except Exception as error:  # everything below may raise what it likes: strangers answer
            raise _failure(error, budget) from None
        finally:
            connection.close()
            if answer is not None:
                answer.close()
    raise Failure(REDIRECTS)


def _joined(url: str, target: str) -> str:
    """Where a redirect leads. http.client reads headers as Latin-1; browsers take a location for UTF-8."""
    try:
        return urljoin(url, target.encode("latin-1").decode("utf-8", errors="replace"))
    except ValueError:
        raise Failure(BAD_URL) from None


def _answer(connection: _Connection, url: str, headers: Mapping[str, str]) -> http.client.HTTPResponse:
    parts = urlsplit(url)
    target = parts.path + (f"?{parts.query}" if parts.query else "")
    if connection.through_proxy and parts.scheme == "http":
        target = url
    connection.request("GET", target, headers={**headers, "Host": parts.netloc, "Connection": "close"})
    return connection.getresponse()


def _body(answer: http.client.HTTPResponse, most: int) -> bytes:
    expected = answer.length  # None: until the end of the chunks, or of the connection
    if expected is not None and expected > most:
        raise Failure(LARGE_BODY)
    body = bytearray()
    while piece := answer.read(_PIECE):
        body += piece
        if len(body) > most:
            raise Failure(LARGE_BODY)
    if expected is not None and len(body) < expected:
        raise Failure(BROKEN_OFF)
    if not body:
        raise Failure(EMPTY)
    return bytes(body)


def _failure(error: Exception, budget: _Budget) -> Failure:
    match error:
        case TimeoutError():
            return Failure(DEADLINE if budget.is_over() else TIME_OUT)
        case socket.gaierror(errno=socket.EAI_AGAIN):
            return Failure(NO_NAME_SERVER)
        case socket.gaierror() | UnicodeError():  # a name that is no IDNA cannot be looked up
            return Failure(NO_HOST)
        case ssl.SSLCertVerificationError():
            return Failure(CERTIFICATE)
        case ssl.SSLError():
            return Failure(NO_TLS)
        case ConnectionRefusedError():
            return Failure(NO_CONNECTION)
        case http.client.IncompleteRead() | ConnectionError():  # RemoteDisconnected is a ConnectionError
            return Failure(BROKEN_OFF)
        case OSError():
            return Failure(UNREACHABLE)
        case _:  # http.client's exceptions, and ValueErrors on headers that are none
            return Failure(NO_HTTP)


@dataclass
class _Budget:
    """What is left of one transfer."""

    limits: Limits
    ends: float = 0.0
    received: int = 0

    def __post_init__(self) -> None:
        self.ends = time.monotonic() + self.limits.deadline

    def is_over(self) -> bool:
        return time.monotonic() >= self.ends

    def seconds(self) -> float:
        """What the next socket operation may take; Failure if nothing is left."""
        left = self.ends - time.monotonic()
        if left <= 0:
            raise Failure(DEADLINE)
        return min(self.limits.timeout, left)

    def take(self, count: int) -> None:
        """Account for received bytes: the body, and as much again for headers and the lengths of chunks."""
        self.received += count
        if self.received > 2 * self.limits.max_bytes + _OVERHEAD:
            raise Failure(LARGE_BODY)


class _Reader(io.RawIOBase):
    """What a socket receives, every operation within the budget. Closes the socket when it is closed."""

    def __init__(self, line: socket.socket, budget: _Budget) -> None:
        self._line, self._budget = line, budget

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._line.settimeout(self._budget.seconds())
        count = self._line.recv_into(buffer)
        self._budget.take(count)
        return count

    def close(self) -> None:
        if not self.closed:
            self._line.close()
        super().close()


class _Line:
    """The part of a socket that http.client uses. Once its answer is read, the reader owns the socket."""

    def __init__(self, line: socket.socket, budget: _Budget) -> None:
        self._line, self._budget = line, budget
        self._is_read = False

    def sendall(self, data: Any) -> None:
        self._line.settimeout(self._budget.seconds())
        self._line.sendall(data)

    def makefile(self, mode: str) -> io.BufferedReader:
        self._is_read = True
        return io.BufferedReader(_Reader(self._line, self._budget), _PIECE)

    def close(self) -> None:
        # http.client closes it before the body is read, where the server says that it will close too
        if not self._is_read:
            self._line.close()


class _Connection(http.client.HTTPConnection):
    """A connection to an address that was checked, with TLS if ``tls``; to a proxy if ``through_proxy``."""

    def __init__(self, host: str, port: int, budget: _Budget, tls: bool, through_proxy: bool) -> None:
        super().__init__(host, port)
        self.through_proxy = through_proxy
        self._budget, self._tls = budget, tls
        self._sought = host

    def connect(self) -> None:
        line = _connected(self._sought, self.port, self._budget, checked=not self.through_proxy)
        name = self._sought
        try:
            tunnel = getattr(self, "_tunnel_host", None)
            if tunnel:
                self.sock: Any = line
                line.settimeout(self._budget.seconds())
                self._tunnel()  # type: ignore[attr-defined]  # http.client's own way through a proxy
                name = tunnel
            if self._tls:
                line = _tls_context().wrap_socket(line, server_hostname=name, do_handshake_on_connect=False)
                line.settimeout(self._budget.seconds())
                line.do_handshake()
        except BaseException:
            line.close()
            raise
        self.sock = _Line(line, self._budget)


def _connection(url: str, budget: _Budget) -> _Connection:
    parts = urlsplit(url)
    host, tls = parts.hostname or "", parts.scheme == "https"
    port = parts.port or (443 if tls else 80)
    proxy = _proxy(parts.scheme, host) if budget.limits.use_proxy else None
    if proxy is None:
        return _Connection(host, port, budget, tls, through_proxy=False)
    # the proxy looks names up; a name that is an address, or this machine's own, can be judged here
    if host == "localhost" or (_is_numeric(host) and not allowed(host, budget.limits.exceptions)):
        raise Failure(ADDRESS)
    connection = _Connection(proxy[0], proxy[1], budget, tls, through_proxy=True)
    if tls:
        connection.set_tunnel(host, port)
    return connection


def _proxy(scheme: str, host: str) -> tuple[str, int] | None:
    """Host and port of the environment's proxy for this host, if there is one."""
    if urllib.request.proxy_bypass(host):
        return None
    text = urllib.request.getproxies().get(scheme)
    if not text:
        return None
    parts = urlsplit(text if "//" in text else f"//{text}")
    return (parts.hostname, parts.port or 80) if parts.hostname else None


def _is_numeric(host: str) -> bool:
    try:
        socket.getaddrinfo(host, None, flags=socket.AI_NUMERICHOST)
    except OSError:
        return False
    return True


def _connected(host: str, port: int, budget: _Budget, checked: bool) -> socket.socket:
    """A connection to the first address of ``host`` that is allowed and answers."""
    budget.seconds()
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    if checked:
        found = [entry for entry in found if allowed(str(entry[4][0]), budget.limits.exceptions)]
        if not found:
            raise Failure(ADDRESS)
    trouble: OSError | None = None
    for family, kind, protocol, _, address in found:
        line = socket.socket(family, kind, protocol)
        try:
            line.settimeout(budget.seconds())
            line.connect(address)
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return line
        except OSError as error:
            line.close()
            trouble = error
        except BaseException:
            line.close()
            raise
    raise trouble if trouble is not None else Failure(NO_HOST)


@cache
def _tls_context() -> ssl.SSLContext:
    """As urllib's: certificates of the system (or of SSL_CERT_FILE), host names checked."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context
