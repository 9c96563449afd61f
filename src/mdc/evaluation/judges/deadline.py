"""An HTTP client for whose answers there is a deadline: httpx's time-out starts anew with every byte that comes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import httpx


class InTime(httpx.Client):
    """``seconds``: from the beginning of a request until its answer is complete; httpx.ReadTimeout after them. They are looked at
    when a part of the answer comes; until one does, httpx's own time-out, of as many seconds, holds."""

    def __init__(self, seconds: float) -> None:
        super().__init__(timeout=seconds, follow_redirects=False)
        self._seconds = seconds

    def send(self, request: httpx.Request, *, stream: bool = False, **how: Any) -> httpx.Response:
        """See httpx."""
        until = time.monotonic() + self._seconds
        response = super().send(request, stream=True, **how)
        assert isinstance(response.stream, httpx.SyncByteStream)
        response.stream = _Until(response.stream, until, request)
        if not stream:
            try:
                response.read()
            finally:
                response.close()
        return response


class _Until(httpx.SyncByteStream):
    def __init__(self, parts: httpx.SyncByteStream, until: float, request: httpx.Request) -> None:
        self._parts, self._until, self._request = parts, until, request

    def __iter__(self) -> Iterator[bytes]:
        for part in self._parts:
            if time.monotonic() > self._until:
                raise httpx.ReadTimeout("the answer is not whole in time", request=self._request)
            yield part

    def close(self) -> None:
        self._parts.close()
