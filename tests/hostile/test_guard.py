"""What strangers' addresses may not do: each attack against the opener that downloads go through."""

import base64
import shutil
import socket
import ssl
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from bad_input import WRONG
from url_server import Server, image, serving

from mdc.data.obtain.reasons import Failure, outcome_of, reason_of
from mdc.data.obtain.transfers import guard
from mdc.data.obtain.transfers.guard import Limits, Opener, allowed, fetch, networks

HERE = networks(["127.0.0.0/8"])
#: no time that a busy machine could need; a test of time has a shorter one for the limit that is meant
LIMITS = Limits(timeout=600, deadline=600, max_bytes=300_000, exceptions=HERE)
SHORT = {"hang/1": replace(LIMITS, timeout=0.5), "trickle/1": replace(LIMITS, deadline=0.5)}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving() as started:
        yield started


def told(url: str, limits: Limits = LIMITS) -> str:
    with pytest.raises(Failure) as caught:
        fetch(url, {}, limits)
    return str(caught.value)


@pytest.mark.parametrize("address", WRONG["addresses"])
def test_addresses_that_are_not_public(address: str) -> None:
    assert not allowed(address)


def test_addresses_that_are_public_or_that_the_user_allows() -> None:
    public = "8.8.8.8 1.1.1.1 2606:4700::1111 64:ff9b::808:808 ::ffff:8.8.8.8 2002:808:808::1"
    assert all(map(allowed, public.split()))
    assert allowed("127.0.0.1", HERE) and allowed("::ffff:127.0.0.1", HERE) and not allowed("10.0.0.1", HERE)


@pytest.mark.parametrize(("path", "reason"), WRONG["answers"])
def test_attacks_by_answers(server: Server, path: str, reason: str) -> None:
    assert told(f"{server.address}/{path}", SHORT.get(path, LIMITS)) == reason == reason_of(reason)
    assert outcome_of(reason) != "obtained"


@pytest.mark.parametrize(
    "host",
    [
        *("localhost", "127.1", "2130706433", "0x7f.1", "017700000001", "[::1]", "[::ffff:127.0.0.1]"),
        *("[64:ff9b::7f00:1]", "[2002:7f00:1::]"),
        *("169.254.169.254", "0251.0376.0251.0376", "0xa9fea9fe", "2852039166", "[::ffff:a9fe:a9fe]"),  # clouds' keys
    ],
)
def test_this_machine_by_other_names(server: Server, host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(urllib.request, "_opener", None)
    before = sum(server.asked.values())
    limits = replace(LIMITS, exceptions=())
    assert told(f"http://{host}:{server.server_address[1]}/image/1", limits) == "address is not public"
    assert sum(server.asked.values()) == before
    urllib.request.install_opener(Opener(limits))  # other code of the process is left alone
    socket.create_connection(server.server_address).close()


def test_a_name_is_looked_up_once(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that is public at the first look and private at the second (DNS rebinding) leads nowhere."""
    port = server.server_address[1]
    looks: list[str] = []
    asked: list[Any] = []

    def look_up(host: str, *args: Any, **kwargs: Any) -> list[Any]:
        looks.append(host)
        addresses = ("8.8.8.8" if len(looks) == 1 else "127.0.0.1", "10.0.0.1")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in addresses]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    monkeypatch.setattr(socket.socket, "connect", lambda line, address: asked.append(address) or refuse())

    def refuse() -> None:
        raise ConnectionRefusedError

    limits = replace(LIMITS, exceptions=())
    assert told(f"http://rebound.example:{port}/image/1", limits) == "connection refused"
    assert looks == ["rebound.example"] and asked == [("8.8.8.8", port)]  # the private one was left out


def test_connections_that_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # takes connections and says nothing
        port = silent.getsockname()[1]
        assert told(f"http://127.0.0.1:{port}/", SHORT["hang/1"]) == "timed out"
        assert told(f"https://127.0.0.1:{port}/", SHORT["hang/1"]) == "timed out"  # in the middle of TLS
    assert told(f"http://127.0.0.1:{port}/") == "connection refused"

    for number, reason in ((socket.EAI_NONAME, "host not found"), (socket.EAI_AGAIN, "no word of the name server")):

        def no_host(*args: Any, number: int = number, **kwargs: Any) -> None:
            raise socket.gaierror(number, "x")

        monkeypatch.setattr(socket, "getaddrinfo", no_host)
        assert told("http://no.example/") == reason
    assert Failure("no word of the name server").transient and not Failure("host not found").transient


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_the_deadline_holds_within_one_operation(scheme: str) -> None:
    began = time.monotonic()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"{scheme}://127.0.0.1:{silent.getsockname()[1]}/"
        assert told(url, replace(LIMITS, deadline=0.2)) == "over the deadline"
    assert time.monotonic() - began < LIMITS.timeout / 2


def test_tls_to_what_is_none(server: Server) -> None:
    assert told(server.address.replace("http:", "https:") + "/image/1") == "TLS failed"


@pytest.mark.skipif(not shutil.which("openssl"), reason="no openssl to make a certificate with")
def test_tls_is_bounded_and_certificates_are_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = "req -x509 -newkey rsa:2048 -nodes -keyout key -out cert -days 2 -subj /CN=x -addext subjectAltName=IP:127.0.0.1"
    subprocess.run(["openssl", *made.split()], cwd=tmp_path, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert", tmp_path / "key")
    with serving() as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        address = server.address.replace("http:", "https:")
        guard._tls_context.cache_clear()
        assert told(f"{address}/image/1") == "certificate not trusted"
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert"))
        guard._tls_context.cache_clear()
        try:
            assert fetch(f"{address}/image/1", {}, LIMITS).read() == image(1)
            for path, reason in WRONG["answers"]:
                assert told(f"{address}/{path}", SHORT.get(path, LIMITS)) == reason, path
            assert told(f"{address}/image/1".replace("127.0.0.1", "localhost")) == "certificate not trusted"
        finally:
            guard._tls_context.cache_clear()


def answering(raw: bytes, endless: bool = False) -> tuple[socket.socket, str]:
    """A server that sends ``raw``, once or for ever, to whoever comes."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        try:
            while True:
                line, _ = listening.accept()
                with line:
                    line.recv(1000)
                    line.sendall(raw)
                    while endless:
                        line.sendall(raw)
        except OSError:
            return

    threading.Thread(target=serve, daemon=True).start()
    return listening, f"http://127.0.0.1:{listening.getsockname()[1]}/"


BODY = bytes(range(256)) * 1000
CHUNKS = b"".join(b"%x;x=y\r\n" % 1000 + BODY[n : n + 1000] + b"\r\n" for n in range(0, 256_000, 1000)) + b"0\r\n\r\n"


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 256000\r\n\r\n" + BODY, ""),
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 256000\r\n\r\n" + BODY, ""),
        (b"HTTP/1.0 200 OK\r\n\r\n" + BODY, ""),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + CHUNKS, ""),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\n" + BODY, ""),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 256001\r\n\r\n" + BODY, "connection broken off"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + CHUNKS[:-900], "connection broken off"),
        (b"HTTP/1.0 200 OK\r\n\r\n" + 2 * BODY, "body over max_bytes"),
        (b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n", "HTTP 302"),
        (b"HTTP/1.1 302 Found\r\nLocation: ftp://a.example/\r\n\r\n", "URL scheme"),
        (b"HTTP/1.1 302 Found\r\nLocation: http://[::1\r\n\r\n", "no valid URL"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", "empty answer"),
        (b"HTTP/1.1 999 Denied\r\n\r\n", "HTTP 999"),
        (b"", "connection broken off"),
    ],
)
def test_every_form_of_an_answer(raw: bytes, reason: str) -> None:
    listening, url = answering(raw)
    with listening:
        if reason:
            assert told(url) == reason
        else:
            assert fetch(url, {}, LIMITS).read() == BODY


@pytest.mark.parametrize(
    "raw",
    [
        b"HTTP/1.1 100 Continue\r\nX-A: " + b"a" * 9000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 50,
        b"x" * 5000,
    ],
)
def test_endless_headers(raw: bytes) -> None:
    listening, url = answering(raw, endless=True)
    with listening:
        assert told(url, replace(LIMITS, deadline=1.0)) in (
            "body over max_bytes",
            "answer is not HTTP",
            "over the deadline",
        )


def test_a_small_body_in_an_endless_wrapping() -> None:
    wrapped = b"1;" + b"x" * 60_000 + b"\r\na\r\n"
    listening, url = answering(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + 60 * wrapped)
    with listening:
        assert told(url) == "body over max_bytes"


def test_the_opener_tries_again_what_may_pass_and_nothing_else(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "_PAUSE", 0.01)
    opener = Opener(replace(LIMITS, retries=2))
    for path, times in (("status/404", 1), ("status/503", 3), ("trickle/1", 1), ("cut/1", 3)):
        server.asked.clear()
        with pytest.raises(Failure):
            Opener(replace(SHORT.get(path, LIMITS), retries=2)).open(urllib.request.Request(f"{server.address}/{path}"))
        assert sum(server.asked.values()) == times, path
    with opener.open(f"{server.address}/flaky/77") as answer:
        assert answer.read() == image(77) and answer.headers["Content-Length"]
    with opener.open(f"{server.address}/redirect/78") as answer:
        assert answer.read() == image(78)


def test_the_environments_proxy_is_asked_only_if_wanted(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", server.address)
    monkeypatch.setenv("no_proxy", "")
    limits = replace(LIMITS, exceptions=(), use_proxy=True)
    assert told("http://a.example/image/1", limits) == "HTTP 404"  # the stand-in for a proxy knows no such path
    assert told("http://10.0.0.1/image/1", limits) == told("http://localhost/", limits) == "address is not public"
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **kwargs: [])
    assert told("http://a.example/image/1") == "address is not public"  # not by the proxy


def test_a_proxy_with_a_login_is_given_it_and_no_other_host_is(monkeypatch: pytest.MonkeyPatch) -> None:
    listener, heard = socket.create_server(("127.0.0.1", 0)), list[bytes]()

    def serve() -> None:
        for _ in range(3):
            connection, _ = listener.accept()
            with connection:
                heard.append(connection.recv(1 << 16))
                connection.sendall(b"HTTP/1.1 407 Log in\r\nContent-Length: 0\r\n\r\n")

    threading.Thread(target=serve, daemon=True).start()
    address = f"127.0.0.1:{listener.getsockname()[1]}"
    for name in ("http_proxy", "https_proxy"):
        monkeypatch.setenv(name, f"http://user:p%40ss@{address}")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    limits = replace(LIMITS, use_proxy=True)
    said = [told(url, limits) for url in ("http://a.example/1", "https://a.example/1", f"http://{address}/1")]
    login = b"Proxy-Authorization: Basic " + base64.b64encode(b"user:p@ss")
    assert [login in request for request in heard] == [True, True, False] and not any("ss" in text for text in said)
    listener.close()


def test_urlopen_goes_through_the_installed_opener(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(urllib.request, "_opener", None)
    urllib.request.install_opener(Opener(LIMITS))
    with urllib.request.urlopen(f"{server.address}/image/5", timeout=1) as answer:
        assert answer.read() == image(5)
    with pytest.raises(Failure, match="URL scheme"):
        urllib.request.urlopen("file:///etc/hostname")
