"""A web server on 127.0.0.1 with images and troubles, for the tests of downloading.

What a path answers is decided by its first part; the rest is the image's number. `Server` counts what it was asked.
"""

import io
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

import numpy as np
from bad_input import png
from file_server import running
from PIL import Image

PRIVATE = "http://10.0.0.1/secret"  # nothing there is ever asked for


@lru_cache(maxsize=4096)
def image(number: int, width: int = 48, height: int = 36, kind: str = "JPEG", mode: str = "RGB") -> bytes:
    """An image of smooth colours; the same number gives the same bytes."""
    corners = np.random.default_rng(number).integers(0, 256, (3, 4, 3), dtype=np.uint8)
    picture = Image.fromarray(corners).resize((width, height), Image.Resampling.BICUBIC)
    buffer = io.BytesIO()
    if mode == "I;16":
        grey = np.asarray(picture.convert("L"), dtype=np.uint16) * 257
        Image.fromarray(grey).save(buffer, "PNG")
    else:
        picture.convert(mode).save(buffer, kind)
    return buffer.getvalue()


def turned(number: int) -> bytes:
    """A JPEG that EXIF says to turn by 90 degrees."""
    buffer = io.BytesIO()
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.open(io.BytesIO(image(number))).save(buffer, "JPEG", exif=exif)
    return buffer.getvalue()


@lru_cache(maxsize=1)
def bomb() -> bytes:
    """400 million pixels in some 50 kB: refused by its header, so the content need not be whole."""
    return png(20_000, 20_000, depth=1, colour=0, rows=bytes(2501 * 20_000))


IMAGES = {
    "image": lambda n: image(n),
    "large": lambda n: image(n, 600, 400),
    "gif": lambda n: image(n, kind="GIF", mode="P"),
    "cmyk": lambda n: image(n, mode="CMYK"),
    "deep": lambda n: image(n, mode="I;16"),
    "turned": turned,
    "truncated": lambda n: image(n, 200, 200)[:-400],
    "pixel": lambda n: image(n, 1, 1, kind="PNG"),
    "narrow": lambda n: image(n, 20, 900),
    "bomb": lambda n: bomb(),
    "text": lambda n: b"<html>not found, but the status is good</html>",
    "empty": lambda n: b"",
}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: "Server"

    def do_GET(self) -> None:
        kind, _, rest = unquote(self.path).lstrip("/").partition("/")
        number = int("".join(c for c in rest if c.isdigit()) or 0)
        with self.server.gate:
            self.server.asked[kind] += 1
        time.sleep(self.server.delay)
        match kind:
            case "status":
                self._answer(b"no", int(rest.partition("/")[0]))
            case "flaky":  # good the second time
                with self.server.gate:
                    self.server.asked[self.path] += 1
                    first = self.server.asked[self.path] == 1
                self._answer(image(number), 503 if first else 200)
            case "hang":
                self.server.over.wait(60)
            case "trickle":
                self._head(200, {"Content-Length": "100000"})
                while not self.server.over.wait(0.05):
                    self.wfile.write(b"x")
            case "endless":
                self._head(200, {"Transfer-Encoding": "chunked"})
                while not self.server.over.is_set():
                    self.wfile.write(b"10000\r\n" + bytes(0x10000) + b"\r\n")
            case "huge":  # says 5 GB
                self._head(200, {"Content-Length": str(5 * 10**9)})
            case "cut":  # says more than it sends
                self._head(200, {"Content-Length": "100000"})
                self.wfile.write(image(number))
                self.close_connection = True
            case "redirect":
                self._answer(b"", 302, Location=f"/image/{rest}")
            case "loop":
                self._answer(b"", 301, Location=self.path)
            case "inside":
                self._answer(b"", 302, Location=PRIVATE)
            case "file":
                self._answer(b"", 302, Location="file:///etc/passwd")
            case "robots":
                self._answer(image(number), **{"X-Robots-Tag": "noai"})
            case "garbage":
                self.wfile.write(b"\x00\x01\x02 this is no HTTP\r\n\r\n")
                self.close_connection = True
            case _ if kind in IMAGES:
                self._answer(IMAGES[kind](number))
            case _:
                self._answer(b"no", 404)

    def _head(self, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def _answer(self, body: bytes, status: int = 200, **headers: str) -> None:
        self._head(status, {"Content-Length": str(len(body)), **headers})
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        """Nothing: a test's output is not the place."""


class Server(ThreadingHTTPServer):
    """``delay``: seconds before every answer. ``asked``: how often each kind was asked for."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, delay: float = 0.0) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.delay = delay
        self.asked: Counter[str] = Counter()
        self.gate, self.over = threading.Lock(), threading.Event()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, *args: object) -> None:
        """Clients that hang up are what is tested."""


@contextmanager
def serving(delay: float = 0.0) -> Iterator[Server]:
    server = Server(delay)
    with running(server):
        yield server
        server.over.set()
