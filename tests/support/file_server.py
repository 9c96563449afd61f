"""A web server on 127.0.0.1 for tests: files with and without ranges, cut off, refused, redirected, without end."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Page:
    """What the server answers at one path.

    ``cuts``: after how many bytes each of the first answers breaks off. ``tells_size``: in the answer to a range that the
    file does not have.
    """

    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    ranges: bool = True
    etag: str | None = '"one"'
    cuts: list[int] = field(default_factory=list)
    length: bool = True
    endless: bool = False
    tells_size: bool = True


class Server:
    """``pages`` by path; ``asked`` lists (path, Range header) of every request."""

    def __init__(self, port: int) -> None:
        self.pages: dict[str, Page] = {}
        self.asked: list[tuple[str, str | None]] = []
        self.special: Callable[[Any], bool] | None = None
        self.base = f"http://127.0.0.1:{port}"

    def url(self, path: str) -> str:
        return f"{self.base}{path}"


@contextmanager
def running(httpd: ThreadingHTTPServer) -> Iterator[None]:
    """``httpd`` at work in a thread until the block ends."""
    thread = threading.Thread(target=httpd.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        httpd.shutdown()
        httpd.server_close()
        thread.join()


@contextmanager
def serving() -> Iterator[Server]:
    """A running server; it ends with the block."""

    class Request(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *args: Any) -> None:
            pass

        def do_HEAD(self) -> None:
            self.do_GET()

        def do_GET(self) -> None:
            server.asked.append((self.path, self.headers.get("Range")))
            if server.special is not None and server.special(self):
                return
            self._send(server.pages.get(self.path.partition("?")[0]) or Page(status=404))

        def _send(self, page: Page) -> None:
            body, status, start = page.body, page.status, 0
            wanted = self.headers.get("Range")
            unchanged = self.headers.get("If-Range") in (None, page.etag)
            if wanted and page.ranges and unchanged and status == 200:
                start = int(wanted.removeprefix("bytes=").removesuffix("-"))
                status = 206 if start < len(body) else 416
                body = body[start:]
            self.send_response(status)
            for name, value in page.headers.items():
                self.send_header(name, value)
            if page.etag:
                self.send_header("ETag", page.etag)
            if status == 206:
                self.send_header("Content-Range", f"bytes {start}-{start + len(body) - 1}/{len(page.body)}")
            if status == 416 and page.tells_size:
                self.send_header("Content-Range", f"bytes */{len(page.body)}")
            if page.length and not page.endless:
                self.send_header("Content-Length", str(len(body)))
            else:
                self.send_header("Connection", "close")
                self.close_connection = True
            self.end_headers()
            if self.command == "HEAD":
                return
            if page.cuts and status in (200, 206):
                body = body[: page.cuts.pop(0)]
                self.close_connection = True
            try:
                self.wfile.write(body)
                while page.endless:
                    self.wfile.write(bytes(1 << 16))
            except OSError:
                self.close_connection = True

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Request)
    httpd.daemon_threads = True
    server = Server(httpd.server_address[1])
    with running(httpd):
        yield server
