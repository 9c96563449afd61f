"""An HTTP client with a deadline for the whole answer: httpx's time-out restarts with every byte."""

import time
from collections.abc import Iterator
from typing import Any

import httpx


class InTime(httpx.Client):
    """``seconds``: from the start of a request to its complete answer; then httpx.ReadTimeout. The deadline is checked whenever a
    part arrives; until then httpx's own time-out of as many seconds applies."""

    def __init__(self, seconds: float) -> None:
        super().__init__(timeout=seconds, follow_redirects=False)
        self._seconds = seconds

    def send(self, request: httpx.Request, *, stream: bool = False, **options: Any) -> httpx.Response:
        until = time.monotonic() + self._seconds
        response = super().send(request, stream=True, **options)
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
