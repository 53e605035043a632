"""A hub on this machine for tests: the endpoints that `huggingface_hub` asks, over repositories in memory, with a log."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import re
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

WRITER, READER = "hf_writer", "hf_reader"
"""A token that may write, and one that may read."""
USER, ORGANISATION = "ada", "lab"
LARGE = (".safetensors", ".gguf", ".bin")
"""Endings of files that are stored as large ones."""


@dataclass
class Repository:
    """The files of every commit; branches and tags; who may see it."""

    private: bool = False
    gated: bool = False
    commits: dict[str, dict[str, bytes]] = field(default_factory=dict)
    references: dict[str, str] = field(default_factory=dict)
    messages: list[str] = field(default_factory=list)

    def commit(self, files: Mapping[str, bytes], branch: str = "main", message: str = "") -> str:
        """A new commit with exactly these files."""
        text = repr((sorted(files.items()), self.references.get(branch), len(self.commits)))
        sha = hashlib.sha1(text.encode()).hexdigest()
        self.commits[sha], self.references[branch] = dict(files), sha
        self.messages.append(message)
        return sha

    def at(self, revision: str) -> str | None:
        """The commit of a revision."""
        found = self.references.get(revision, revision)
        return found if found in self.commits else None

    @property
    def files(self) -> dict[str, bytes]:
        return self.commits[self.references["main"]]


@dataclass
class Hub:
    """The hub: its repositories, what it was asked (`GET /path`), and how it fails.

    `cut`: files whose sending breaks off once after so many bytes; `spoilt`: files that arrive with a flipped bit; `down`: no
    answer but a status of 503; `failing`: requests that begin so are refused.
    """

    address: str = ""
    repositories: dict[str, Repository] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    cut: dict[str, int] = field(default_factory=dict)
    spoilt: set[str] = field(default_factory=set)
    objects: dict[str, bytes] = field(default_factory=dict)
    down: bool = False
    failing: str = "nothing"
    sent: int = 0
    """Bytes of files that were sent."""

    def add(self, repo: str, source: Path | Mapping[str, bytes], **more: Any) -> Repository:
        """A repository with the files of a directory, or with these."""
        files = source if isinstance(source, Mapping) else {
            path.relative_to(source).as_posix(): path.read_bytes() for path in source.rglob("*") if path.is_file()
        }  # fmt: skip
        made = self.repositories[repo] = Repository(**more)
        made.commit(files)
        return made

    @property
    def fetched(self) -> list[str]:
        """Names of the files whose content was sent, in order."""
        found = (
            re.fullmatch(r"GET /(?:[^/]+/)+resolve/[^/]+/(.+)|GET /cdn/[0-9a-f]+/(.+?)(?: from.*)?", each)
            for each in self.asked
        )
        return [unquote(each[1] or each[2]) for each in found if each]


@contextlib.contextmanager
def serving() -> Iterator[Hub]:
    """A hub that answers until the block ends."""
    hub = Hub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Answering,), {"hub": hub}))
    server.daemon_threads = True
    hub.address = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Answering(BaseHTTPRequestHandler):
    hub: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *values: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._answer()

    do_HEAD = do_POST = do_PUT = do_GET

    def _answer(self) -> None:
        path = unquote(urlsplit(self.path).path)
        self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        begin = self.headers.get("Range")
        self.hub.asked.append(f"{self.command} {path}" + (f" from {begin.removeprefix('bytes=')}" if begin else ""))
        if self.hub.down:
            return self._send(503)
        if self.hub.asked[-1].startswith(self.hub.failing):
            return self._send(400, {"error": "not today"})
        for pattern, answer in _ROUTES:
            if found := re.fullmatch(pattern, path):
                return answer(self, *found.groups())
        return self._send(404, {"error": f"no such page: {path}"})

    @property
    def token(self) -> str | None:
        given = self.headers.get("Authorization")
        return given.removeprefix("Bearer ") if given else None

    def _send(self, status: int, table: Any = None, **headers: str) -> None:
        content = b"" if table is None else json.dumps(table).encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def _found(self, repo: str, revision: str) -> tuple[Repository, str] | None:
        """A repository that the asker may see, and the commit; else the refusal is sent."""
        made = self.hub.repositories.get(repo)
        if made is None or (made.private and self.token is None):
            self._send(404 if self.token else 401, {"error": "Repository not found"}, X_Error_Code="RepoNotFound")
            return None
        commit = made.at(revision)
        if commit is None:
            self._send(404, {"error": f"Invalid rev id: {revision}"}, X_Error_Code="RevisionNotFound")
            return None
        return made, commit

    def info(self, repo: str, revision: str | None) -> None:
        if found := self._found(repo, revision or "main"):
            made, commit = found
            files = [_sibling(name, content) for name, content in made.commits[commit].items()]
            self._send(200, {
                "id": repo, "modelId": repo, "sha": commit, "private": made.private, "tags": [],
                "gated": "auto" if made.gated else False, "siblings": files,
            })  # fmt: skip

    def tree(self, repo: str, revision: str, folder: str | None) -> None:
        if found := self._found(repo, revision):
            inside = {name: content for name, content in found[0].commits[found[1]].items() if name.startswith(f"{folder}/")}
            if folder and not inside:
                return self._send(404, {"error": "no such entry"}, X_Error_Code="EntryNotFound")
            files = inside if folder else found[0].commits[found[1]]
            self._send(200, [{"type": "file", "path": name, "size": len(x), "oid": _oid(x)} for name, x in files.items()])
        return None

    def resolve(self, repo: str, revision: str, name: str) -> None:
        found = self._found(repo, revision)
        if found is None:
            return None
        made, commit = found
        if made.gated and self.token != WRITER:
            return self._send(403 if self.token else 401, {"error": "gated"}, X_Error_Code="GatedRepo")
        content = made.commits[commit].get(name)
        if content is None:
            return self._send(404, {"error": "no entry"}, X_Error_Code="EntryNotFound", X_Repo_Commit=commit)
        if name.endswith(LARGE):
            digest = hashlib.sha256(content).hexdigest()
            self.hub.objects[digest] = content
            return self._send(
                302, X_Repo_Commit=commit, X_Linked_Size=str(len(content)), X_Linked_ETag=f'"{digest}"',
                Location=f"{self.hub.address.replace('127.0.0.1', 'localhost')}/cdn/{digest}/{name}",
            )  # fmt: skip
        return self._content(name, content, X_Repo_Commit=commit, ETag=f'"{_oid(content)}"')

    def cdn(self, digest: str, name: str) -> None:
        self._content(name, self.hub.objects[digest], ETag=f'"{digest}"')

    def _content(self, name: str, content: bytes, **headers: str) -> None:
        if name in self.hub.spoilt:
            content = content[:-1] + bytes([content[-1] ^ 1])
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range") or "")
        begin, end = (int(asked[1]), int(asked[2] or len(content) - 1)) if asked else (0, len(content) - 1)
        self.send_response(206 if asked else 200)
        if asked:
            self.send_header("Content-Range", f"bytes {begin}-{end}/{len(content)}")
            content = content[: end + 1]
        for key, value in {"Accept-Ranges": "bytes", **headers}.items():
            self.send_header(key.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(content) - begin))
        self.end_headers()
        if self.command == "HEAD":
            return
        if name in self.hub.cut:
            self.wfile.write(content[begin : begin + self.hub.cut.pop(name)])
            self.wfile.flush()
            self.close_connection = True
            self.connection.shutdown(1)
            return
        self.hub.sent += self.wfile.write(content[begin:])

    def who(self) -> None:
        if self.token not in (WRITER, READER):
            return self._send(401, {"error": "Invalid credentials in Authorization header"})
        role = "write" if self.token == WRITER else "read"
        return self._send(200, {
            "type": "user", "name": USER, "orgs": [{"name": ORGANISATION}],
            "auth": {"type": "access_token", "accessToken": {"displayName": "a", "role": role}},
        })  # fmt: skip

    def create(self) -> None:
        asked = json.loads(self.body)
        repo = f"{asked.get('organization') or USER}/{asked['name']}"
        if self.token != WRITER:
            return self._send(403, {"error": "You don't have the rights to create a model under this namespace"})
        if repo in self.hub.repositories:
            return self._send(409, {"error": "You already created this model repo", "url": f"{self.hub.address}/{repo}"})
        made = self.hub.repositories[repo] = Repository(
            private=asked.get("visibility") == "private" or bool(asked.get("private"))
        )
        made.commit({".gitattributes": b"*.safetensors filter=lfs\n"}, message="initial commit")
        return self._send(200, {"url": f"{self.hub.address}/{repo}"})

    def branch(self, repo: str, name: str) -> None:
        made = self.hub.repositories[repo]
        if name in made.references:
            return self._send(409, {"error": "Reference already exists"})
        made.references[name] = made.references["main"]
        return self._send(200, {})

    def valid(self) -> None:
        self._send(200, {"errors": [], "warnings": []})

    def preupload(self, repo: str, revision: str) -> None:
        if self._found(repo, revision) is None:
            return None
        if self.token != WRITER:
            return self._send(403, {"error": "Forbidden: you must have write rights"})
        files = json.loads(self.body)["files"]
        modes = [
            {
                "path": each["path"],
                "uploadMode": "lfs" if each["path"].endswith(LARGE) else "regular",
                "shouldIgnore": False,
                "oid": None,
            }
            for each in files
        ]
        return self._send(200, {"files": modes})

    def batch(self, repo: str) -> None:
        objects = json.loads(self.body)["objects"]
        sent = [
            {**each, "actions": {"upload": {"href": f"{self.hub.address}/upload/{each['oid']}"}}}
            if each["oid"] not in self.hub.objects
            else each
            for each in objects
        ]
        self._send(200, {"transfer": "basic", "objects": sent})

    def upload(self, digest: str) -> None:
        if hashlib.sha256(self.body).hexdigest() != digest:
            return self._send(400)
        self.hub.objects[digest] = self.body
        return self._send(200)

    def commit(self, repo: str, revision: str) -> None:
        made, files, message = self.hub.repositories[repo], {}, ""
        files = dict(made.commits[made.references[revision]])
        for line in self.body.splitlines():
            step = json.loads(line)
            key, value = step["key"], step["value"]
            match key:
                case "header":
                    message = value["summary"]
                case "file":
                    files[value["path"]] = base64.b64decode(value["content"])
                case "lfsFile":
                    files[value["path"]] = self.hub.objects[value["oid"]]
                case "deletedFile":
                    del files[value["path"]]
        sha = made.commit(files, revision, message)
        self._send(200, {"commitUrl": f"{self.hub.address}/{repo}/commit/{sha}", "commitOid": sha, "success": True})

    def paths(self, repo: str, revision: str) -> None:
        if found := self._found(repo, revision):
            files, asked = found[0].commits[found[1]], parse_qs(self.body.decode()).get("paths", [])
            known = [(name, files[name]) for name in asked if name in files]
            self._send(200, [{"type": "file", "path": name, "size": len(x), "oid": _oid(x)} for name, x in known])


_NAME, _AT = r"([\w.-]+(?:/[\w.-]+)?)", r"((?:refs/\w+/)?[^/]+)"
_ROUTES = [
    (rf"/api/models/{_NAME}", lambda self, repo: self.info(repo, None)),
    (rf"/api/models/{_NAME}/revision/(.+)", _Answering.info),
    (rf"/api/models/{_NAME}/tree/{_AT}(?:/(.+))?", _Answering.tree),
    (rf"/api/models/{_NAME}/paths-info/(.+)", _Answering.paths),
    (rf"/{_NAME}/resolve/{_AT}/(.+)", _Answering.resolve),
    (r"/cdn/(\w+)/(.+)", _Answering.cdn),
    (r"/api/whoami-v2", _Answering.who),
    (r"/api/repos/create", _Answering.create),
    (rf"/api/models/{_NAME}/branch/(.+)", _Answering.branch),
    (r"/api/validate-yaml", _Answering.valid),
    (rf"/api/models/{_NAME}/preupload/(.+)", _Answering.preupload),
    (rf"/{_NAME}\.git/info/lfs/objects/batch", _Answering.batch),
    (r"/upload/(\w+)", _Answering.upload),
    (rf"/api/models/{_NAME}/commit/(.+)", _Answering.commit),
]


def _oid(content: bytes) -> str:
    """Git's name of a file's content."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def _sibling(name: str, content: bytes) -> dict[str, Any]:
    large = {"lfs": {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 130}}
    return {"rfilename": name, "size": len(content), "blobId": _oid(content), **(large if name.endswith(LARGE) else {})}
