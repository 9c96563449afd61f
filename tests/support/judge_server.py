"""A real HTTP server on 127.0.0.1 that speaks OpenAI's protocol, or whatever else a test lets it say."""

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest


@dataclass(frozen=True)
class Dripping:
    """A body that comes byte by byte, with so many seconds between them."""

    data: bytes
    pause: float


#: status (0: the connection is closed instead), body (JSON, bytes as they are, or bytes that drip), headers
Reply = tuple[int, Any, dict[str, str]]


def without_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is asked of 127.0.0.1 goes there."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)


def said(text: str | None, **more: Any) -> dict[str, Any]:
    """A completion with this text; ``more`` of its choice, or of its ``message``."""
    message = {"role": "assistant", "content": text, **more.pop("message", {})}
    choice = {"index": 0, "message": message, "finish_reason": "stop", **more}
    return {"id": "1", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]}


class Server:
    """``replies`` are given in their order, the last one again and again; ``requests``: what was asked, with its headers."""

    def __init__(self) -> None:
        self.replies: list[Reply | Callable[[], Reply]] = []
        self.requests: list[tuple[dict[str, Any], dict[str, str]]] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
                server.requests.append((asked, dict(self.headers)))
                reply = server.replies.pop(0) if len(server.replies) > 1 else server.replies[0]
                status, content, headers = reply() if callable(reply) else reply
                if not status:
                    self.close_connection = True
                    return
                drips = content if isinstance(content, Dripping) else None
                body = drips.data if drips else content
                data = body if isinstance(body, bytes) else json.dumps(body).encode()
                try:
                    self.send_response(status)
                    for name, value in {"content-type": "application/json", **headers}.items():
                        self.send_header(name, value)
                    self.send_header("content-length", str(len(data)))
                    self.end_headers()
                    for part in (data,) if drips is None else (data[at : at + 1] for at in range(len(data))):
                        time.sleep(drips.pause if drips else 0)
                        self.wfile.write(part)
                except OSError:  # the client did not wait
                    pass

            def log_message(self, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
