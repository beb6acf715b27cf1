"""A server that behaves like the Hugging Face hub, as far as its client asks: for tests."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import unquote

REPO = "org/model"
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
        revisions = {"main": self.others[repo]} if repo in self.others else self.revisions
        for name, files in revisions.items():
            if revision in (name, commit_of(name)):
                return files
        return None

    def commit(self, revision: str) -> str:
        return commit_of(revision) if revision in ("main", *self.revisions) else revision

    def repo(self, path: str) -> str:
        """Of "ORG/NAME" and what follows; empty for what is not here."""
        found = "/".join(path.split("/")[:2])
        return found if found in (REPO, *self.others) else ""


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
            path = unquote(self.path.partition("?")[0]).removeprefix("/")
            about, path = path.startswith("api/models/"), path.removeprefix("api/models/")
            repo = hub.repo(path)
            path = path.removeprefix(repo)
            if not repo:
                self._refuse()
            elif about:
                self._about(repo, path)
            elif path.startswith("/resolve/"):
                revision, _, name = path.removeprefix("/resolve/").partition("/")
                self._file(repo, revision, name, body=body)
            else:
                self._refuse()

        def _about(self, repo: str, path: str) -> None:
            *_, revision = path.split("/revision/") if "/revision/" in path else ("", "main")
            if "/tree/" in path:
                revision = path.split("/tree/")[1].split("/")[0]
            files = hub.files(repo, revision)
            if files is None:
                self._refuse()
                return
            if "/tree/" in path:
                content: object = [_entry(name, data) for name, data in files.items()]
            else:
                siblings = [{"rfilename": name, "size": len(data)} for name, data in files.items()]
                content = {"id": repo, "sha": hub.commit(revision), "siblings": siblings}
            data = json.dumps(content).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def _file(self, repo: str, revision: str, name: str, *, body: bool) -> None:
            data = (hub.files(repo, revision) or {}).get(name)
            if data is None:
                self._refuse()
                return
            start, asked = 0, self.headers.get("Range", "")
            if asked.startswith("bytes="):
                start = int(asked[6:].split("-")[0])
                hub.ranges.append((name, asked))
            self.send_response(206 if asked else 200)
            self.send_header("X-Repo-Commit", hub.commit(revision))
            self.send_header("ETag", f'"{etag_of(name, data)}"')
            self.send_header("Accept-Ranges", "bytes")
            if asked:
                self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
            self.send_header("Content-Length", str(len(data) - start))
            self.end_headers()
            if body:
                hub.gets.append(name)
                self._send(name, data, start)

        def _send(self, name: str, data: bytes, start: int) -> None:
            if name in hub.damaged:
                data = data[:-1] + bytes([data[-1] ^ 1])
            end = len(data)
            if name in hub.cut:
                hub.cut.discard(name)
                end, self.close_connection = len(data) // 2, True
            self.wfile.write(data[start:end])

        def _refuse(self) -> None:
            self.send_response(404)
            self.send_header("X-Error-Code", "RevisionNotFound")
            self.send_header("Content-Length", "0")
            self.end_headers()

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
