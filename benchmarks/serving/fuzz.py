"""Requests that may be anything: none gets a 500, none leaves a traceback, and the server answers afterwards.

`raw`: bytes on sockets (`raw.py`), each from a seed. `schema`: schemathesis, in an environment of its own, on the document at
/openapi.json. Counts add up over calls; another version of the serving room begins anew.
"""

from __future__ import annotations

import json
import re
import subprocess
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from typing import Any

from benchmarks.serving.raw import answered, drawn_request
from benchmarks.serving.servers import RunningServer, ours, running
from benchmarks.sitting import written

ROOM = Path(__file__).parents[2] / "src/anyformer/serving"
CLIENTS = 8
KINDS = "raw", "schema"


class FuzzError(SystemExit):
    """A request did what none may do."""


def version() -> str:
    """The digest of the serving room."""
    return sha256(b"".join(file.read_bytes() for file in sorted(ROOM.glob("*.py")))).hexdigest()[:12]


def check(server: RunningServer, where: str) -> None:
    """The server has printed no traceback, and answers."""
    said = server.said
    if "Traceback" in said:
        raise FuzzError(f"{where}: {said[said.index('Traceback') :][:3000]}")
    if json.loads(server.get("/health")) != {"status": "ok"}:
        raise FuzzError(f"{where}: the server is not well")


def raw(server: RunningServer, first: int, seconds: float) -> dict[str, Any]:
    """Requests of the seeds from `first` on, for so long."""
    end, counts, statuses, lock = time.monotonic() + seconds, Counter[str](), Counter[int](), threading.Lock()
    seeds = iter(range(first, 10**9))

    def client(_: int) -> None:
        while time.monotonic() < end:
            with lock:
                seed = next(seeds)
            request = drawn_request(seed)
            found = answered(server.port, request)
            with lock:
                counts[request.kind] += 1
                statuses.update(found)
            if 500 in found:
                raise FuzzError(f"seed {seed}: 500 for {request}")

    with ThreadPoolExecutor(CLIENTS) as clients:
        list(clients.map(client, range(CLIENTS)))
    check(server, f"seeds from {first} on")
    return {"requests": sum(counts.values()), "kinds": dict(counts), "statuses": {str(key): n for key, n in statuses.items()}}


def schema(server: RunningServer, program: Path, seed: int, seconds: float) -> dict[str, Any]:
    """What schemathesis asks of the document."""
    words = [
        str(program), "run", f"http://127.0.0.1:{server.port}/openapi.json", "--checks", "not_a_server_error", "--phases",
        "examples,coverage,fuzzing", "--max-examples", "100000", "--max-time", str(int(seconds)), "--seed", str(seed),
        "--request-timeout", "30", "--no-color", "--exclude-path", "/metrics",
    ]  # fmt: skip
    before = requests_of(server)
    said = subprocess.run(words, capture_output=True, text=True, timeout=seconds + 120, cwd=server.log.parent)
    check(server, said.stdout[-3000:])
    if re.search(r"Server error|not_a_server_error.*FAIL|FAILURES", said.stdout):
        raise FuzzError(said.stdout[-6000:])
    return {"requests": requests_of(server) - before, "statuses": {}, "kinds": {}, "said": said.stdout[-400:]}


def requests_of(server: RunningServer) -> int:
    """Requests that its log has told of."""
    return server.said.count('"address"')


def run(place: Path, output: Path, kind: str, seconds: float, schemathesis: Path | None) -> None:
    """Fuzz for so long, and add to what is known."""
    record: dict[str, Any] = json.loads(output.read_text()) if output.exists() else {}
    if record.get("version") != version():
        record = {"version": version(), **{each: {"requests": 0, "kinds": {}, "statuses": {}} for each in KINDS}}
    few = ("--length", "64", "--places", "8", "--log")
    with running(ours(place, *few), place, threads=1) as server:
        first = record[kind]["requests"]
        if kind == "raw":
            found = raw(server, first, seconds)
        elif schemathesis is None:
            raise SystemExit("--schemathesis: give the program, from an environment that has it")
        else:
            found = schema(server, schemathesis, first, seconds)
    known = record[kind]
    known["requests"] += found["requests"]
    for table in ("kinds", "statuses"):
        known[table] = dict(Counter(known[table]) + Counter(found[table]))
    record["requests"] = sum(record[each]["requests"] for each in KINDS)
    print(found, flush=True)
    written(output, record)
