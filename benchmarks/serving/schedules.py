"""The schedules of the engine room: requests that come, go on and are cancelled in random order, ten thousand in all.

Every kind of decode state, in all ways of holding texts, is one call of pytest, so that a sitting that was broken off goes on
with those that are left. A row that passed counts as long as the tests and the engine room are what they were.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from hashlib import sha256
from pathlib import Path
from typing import Any

from benchmarks.sitting import written

ROOT = Path(__file__).parents[2]
FILE = "tests/serving/test_scheduler.py"
TEST = "test_ten_thousand_schedules"
ROOMS = ("src/anyformer/generation", "src/anyformer/parts/call")
ENGINE = ("own_states", "prompt_prefixes", "reading", "request", "scheduler", "served_text", "shared_rows", "states")
"""Files of the room that serves which hold no address and no form of an answer."""
WORDS = (sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-m", "slow")


def version() -> str:
    """The digest of the tests, of the engine room and of the rooms under it."""
    digest = sha256((ROOT / FILE).read_bytes())
    engine = [ROOT / "src/anyformer/serving" / f"{name}.py" for name in ENGINE]
    for file in (*engine, *(file for room in ROOMS for file in sorted((ROOT / room).glob("*.py")))):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


def cases() -> list[str]:
    """Every kind of state and way of holding it, as the tests name them."""
    said = subprocess.run([*WORDS, "--collect-only", FILE, "-k", TEST], capture_output=True, text=True, cwd=ROOT).stdout
    found = re.findall(rf"::{TEST}\[(\S+)\]", said)
    if not found:
        raise SystemExit(f"no case was found:\n{said[-2000:]}")
    return found


def run(output: Path, only: list[str]) -> None:
    """Run the cases that have not passed, and write each when it ends."""
    record: dict[str, Any] = json.loads(output.read_text()) if output.exists() else {"cases": {}}
    now, every = version(), cases()
    unknown = set(only) - set(every)
    if unknown:
        raise SystemExit(f"{', '.join(sorted(unknown))}: no such case; there are {', '.join(every)}")
    for case in only or every:
        known = record["cases"].get(case, {})
        if known.get("passed") and known.get("version") == now:
            continue
        record["cases"][case] = asked(case) | {"version": now}
        record["schedules"] = sum(each["schedules"] for each in record["cases"].values() if each["passed"])
        written(output, record)
        if not record["cases"][case]["passed"]:
            raise SystemExit(f"{case} fails: pytest -m slow '{FILE}::{TEST}[{case}]' shows it")


def _children(times: os.times_result) -> float:
    return times.children_user + times.children_system


def asked(case: str) -> dict[str, Any]:
    """What pytest says of one case."""
    start, before = time.perf_counter(), os.times()
    words = [*WORDS, "-s", f"{FILE}::{TEST}[{case}]"]
    said = subprocess.run(words, capture_output=True, text=True, cwd=ROOT)
    after = os.times()
    count = re.search(r"(\d+) schedules", said.stdout)
    print(said.stdout[-3000:] if said.returncode else f"{case}: passed", flush=True)
    return {
        "passed": said.returncode == 0 and count is not None,
        "schedules": int(count[1]) if count else 0,
        "seconds": round(time.perf_counter() - start, 1),
        "processor_seconds": round(_children(after) - _children(before), 1),
    }
