"""A server that behaves like the Hugging Face hub, as far as its client asks: for tests."""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import unquote

REPO = "org/model"
# What is asked about a repository or for a file; its name, "/revision/" or the like, and a file.
_PATH = re.compile(
    r"/(api/models/)?([^/?]+/[^/?]+)(?:/(resolve|revision|tree)/([^/?]+))?(?:/([^?]+))?"
)
LARGE_FILES = (".safetensors", ".bin", ".pt", ".pth", ".onnx")


def commit_of(revision: str) -> str:
    return hashlib.sha1(revision.encode(), usedforsecurity=False).hexdigest()


@dataclass
class Hub:
    """revisions: files by name, by branch or tag, of REPO. others: files by name, of repositories
    that have one branch. cut: files that break off once, half way. damaged: files of which one byte
    is another on the way. ranges: what was asked for in part.
    """

    revisions: Mapping[str, Mapping[str, bytes]] = field(default_factory=dict)
    others: Mapping[str, Mapping[str, bytes]] = field(default_factory=dict)
    cut: set[str] = field(default_factory=set)
    damaged: set[str] = field(default_factory=set)
    ranges: list[tuple[str, str]] = field(default_factory=list)
    gets: list[str] = field(default_factory=list)
    url: str = ""

    def files(self, repo: str, revision: str) -> Mapping[str, bytes] | None:
        """None for what is not here."""
        own = self.revisions if repo == REPO else {}
        revisions = {"main": self.others[repo]} if repo in self.others else own
        found = (files for name, files in revisions.items() if revision in (name, commit_of(name)))
        return next(found, None)

    def commit(self, revision: str) -> str:
        return commit_of(revision) if revision in ("main", *self.revisions) else revision


def etag_of(name: str, data: bytes) -> str:
    """As the hub names large files and small ones."""
    if name.endswith(LARGE_FILES):
        return hashlib.sha256(data).hexdigest()
    head = b"blob %d\0" % len(data)
    return hashlib.sha1(head + data, usedforsecurity=False).hexdigest()


@contextmanager
def serving(hub: Hub) -> Iterator[Hub]:
    """Serve until the end of the block."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *args: object) -> None:
            """Tests are quiet."""

        def do_HEAD(self) -> None:
            self._answer(body=False)

        def do_GET(self) -> None:
            self._answer(body=True)

        def _answer(self, *, body: bool) -> None:
            found = _PATH.match(unquote(self.path))
            about, repo, place, revision, name = found.groups("") if found else [""] * 5
            files = hub.files(repo, revision or "main")
            if files is not None and about:
                self._about(files, repo, revision or "main", place)
            elif files is not None and name in files:
                self._file(files[name], revision, name, body=body)
            else:
                self._send(404, {"X-Error-Code": "RevisionNotFound"})

        def _about(self, files: Mapping[str, bytes], repo: str, revision: str, place: str) -> None:
            content: object = [_entry(name, data) for name, data in files.items()]
            if place != "tree":
                siblings = [{"rfilename": name, "size": len(data)} for name, data in files.items()]
                content = {"id": repo, "sha": hub.commit(revision), "siblings": siblings}
            self._send(200, {"Content-Type": "application/json"}, json.dumps(content).encode())

        def _file(self, data: bytes, revision: str, name: str, *, body: bool) -> None:
            start, asked = 0, self.headers.get("Range", "")
            told = {
                "X-Repo-Commit": hub.commit(revision),
                "ETag": f'"{etag_of(name, data)}"',
                "Accept-Ranges": "bytes",
            }
            if asked.startswith("bytes="):
                start = int(asked[6:].split("-")[0])
                hub.ranges.append((name, asked))
                told["Content-Range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
            self._send(206 if asked else 200, told, length=len(data) - start)
            if body:
                hub.gets.append(name)
                self.wfile.write(self._harmed(name, data)[start:])

        def _harmed(self, name: str, data: bytes) -> bytes:
            if name in hub.damaged:
                data = data[:-1] + bytes([data[-1] ^ 1])
            if name in hub.cut:
                hub.cut.discard(name)
                self.close_connection = True
                data = data[: len(data) // 2]
            return data

        def _send(
            self, status: int, told: Mapping[str, str], data: bytes = b"", length: int = 0
        ) -> None:
            self.send_response(status)
            for name, value in told.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(length or len(data)))
            self.end_headers()
            self.wfile.write(data)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    hub.url = f"http://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _entry(name: str, data: bytes) -> dict[str, object]:
    entry: dict[str, object] = {"type": "file", "path": name, "size": len(data), "oid": "0" * 40}
    if name.endswith(LARGE_FILES):
        entry["lfs"] = {"oid": etag_of(name, data), "size": len(data), "pointerSize": 100}
    return entry
