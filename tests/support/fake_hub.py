"""A server that speaks the few routes of the Hugging Face hub that are needed."""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from file_server import serving

COMMIT = "0123456789abcdef0123456789abcdef01234567"
LARGE = 5000  # bytes; of a file that long a listing holds the sha256


class Hub:
    """One repository: the ``files`` of each commit, and the commit of each of its ``revisions``.

    ``damaged`` files are sent with other bytes; every answer has the ``status``, if there is one. ``asked``: method and path of
    every request; ``sent``: bytes of files.
    """

    def __init__(self, repo: str, files: dict[str, bytes]) -> None:
        self.repo, self.files, self.revisions = repo, {COMMIT: files}, {"main": COMMIT}
        self.damaged: set[str] = set()
        self.status: int | None = None
        self.asked: list[tuple[str, str]] = []
        self.sent = 0

    def tree(self, commit: str = COMMIT) -> list[dict[str, Any]]:
        entries = []
        for path, body in self.files[commit].items():
            sha1 = hashlib.sha1(f"blob {len(body)}\0".encode() + body).hexdigest()
            entry: dict[str, Any] = {"type": "file", "path": path, "size": len(body), "oid": sha1}
            if len(body) >= LARGE:
                digest = hashlib.sha256(body).hexdigest()
                entry |= {"oid": "0" * 40, "lfs": {"oid": digest, "size": len(body), "pointerSize": 130}}
            entries.append(entry)
        return entries

    def _about(self, what: str) -> Any:
        """What the API says of a revision or a tree; None: of none that there is."""
        kind, _, name = what.partition("/")
        commit = self.revisions.get(name or "main", name)
        if kind == "tree":
            return self.tree(commit) if commit in self.files else None
        if commit not in {*self.files, *self.revisions.values()}:
            return None
        siblings = [{"rfilename": file, "size": len(data)} for file, data in self.files.get(commit, {}).items()]
        return {"id": self.repo, "sha": commit, "siblings": siblings}

    def __call__(self, request: Any) -> bool:
        path = request.path.partition("?")[0].replace("%2F", "/")
        self.asked.append((request.command, path))
        code, body, headers = 404, b"{}", {"X-Error-Code": "RepoNotFound"}
        about, resolve = f"/api/datasets/{self.repo}", f"/datasets/{self.repo}/resolve/"
        if self.status is not None:
            code, headers = self.status, {}
        elif f"{path}/".startswith(f"{about}/"):
            headers = {"X-Error-Code": "RevisionNotFound"}
            if (told := self._about(path.removeprefix(about).strip("/"))) is not None:
                code, headers, body = 200, {}, json.dumps(told).encode()
        elif path.startswith(resolve):
            commit, _, name = path.removeprefix(resolve).partition("/")
            code, body = 200, self.files[commit][name]
            headers = {"X-Repo-Commit": commit, "ETag": f'"{hashlib.sha256(body).hexdigest()}"'}
            body = bytes(len(body)) if name in self.damaged else body
            if (wanted := request.headers.get("Range")) and wanted.startswith("bytes=-"):
                code, body = 206, body[-int(wanted.removeprefix("bytes=-")) :]
            self.sent += len(body) * (request.command == "GET")
        request.send_response(code)
        for key, value in {**headers, "Content-Length": str(len(body)), "Content-Type": "application/json"}.items():
            request.send_header(key, value)
        request.end_headers()
        if request.command == "GET":
            request.wfile.write(body)
        return True


@contextmanager
def hub_of(repo: str, files: dict[str, bytes], monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """The hub of this repository, until the block ends."""
    with serving() as server:
        server.special = hub = Hub(repo, files)
        monkeypatch.setenv("HF_ENDPOINT", server.base)
        monkeypatch.setenv("HF_HUB_DISABLE_XET", "1")
        # `mdc demo` of another test may have switched the hub off in this process
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
        yield hub
