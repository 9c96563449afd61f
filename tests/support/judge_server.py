"""A real HTTP server on 127.0.0.1 that speaks OpenAI's protocol, or whatever else a test lets it say."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

#: status, body (JSON, or bytes as they are), headers
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
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                server.requests.append((body, dict(self.headers)))
                reply = server.replies.pop(0) if len(server.replies) > 1 else server.replies[0]
                status, content, headers = reply() if callable(reply) else reply
                data = content if isinstance(content, bytes) else json.dumps(content).encode()
                try:
                    self.send_response(status)
                    for name, value in {"content-type": "application/json", **headers}.items():
                        self.send_header(name, value)
                    self.send_header("content-length", str(len(data)))
                    self.end_headers()
                    self.wfile.write(data)
                except OSError:  # the client did not wait
                    pass

            def log_message(self, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
