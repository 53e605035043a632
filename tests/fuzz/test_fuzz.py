"""No malformed input ends in a traceback or in no answer: a few hundred cases here, the whole campaign with `slow`.

A failing case prints its seed; `PYTHONPATH=src:tests:tests/contract python -m fuzz --only KIND --seeds N:N+1` runs it again.
"""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import sys
import time

import pytest

from anyformer.describe import UserError
from effort import share
from fuzz import outcome
from fuzz.campaign import KINDS, campaign
from fuzz.guard import place
from fuzz.kind import Kind
from fuzz.mutate import mutated
from fuzz.outcome import judged, little_memory

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are those of Linux")


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_escapes(kind):
    few = share(KINDS[kind].few)
    found = campaign(kind, range(few))
    assert found["found"] == {}
    assert found["outcomes"].get("refused", 0) > few / 4
    assert found["outcomes"].get("ok", 0) > 0


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_escapes_from_the_whole_campaign(kind):
    assert campaign(kind, range(KINDS[kind].cases))["found"] == {}


def _raises(error):
    raise error


def test_outcomes_are_told_apart(monkeypatch):
    monkeypatch.setattr(outcome, "SECONDS", 0.05)

    def endless():
        while True:
            time.process_time()

    assert judged(lambda: 1).kind == "ok"
    assert judged(lambda: _raises(UserError("x"))).kind == "refused"
    assert judged(lambda: _raises(SystemExit(2))).kind == "usage"
    assert judged(lambda: _raises(KeyError("x"))).where == "KeyError"
    assert judged(lambda: _raises(KeyError("x"))).kind == "escape"
    assert judged(endless).kind == "hang"
    with little_memory(room=2**28):
        assert judged(lambda: bytearray(2**30)).where == "MemoryError"


def test_what_a_case_does_beside_its_answer_is_noticed(monkeypatch):
    """Memory, programs and files outside count, though the case swallows every error and ends well."""
    monkeypatch.setattr(outcome, "GROWTH", 2**26)
    monkeypatch.setattr(outcome, "WAITING", 0.2)

    def starts():
        with contextlib.suppress(OSError):
            subprocess.run(["no-such-program"], check=True)

    def opens(path):
        with place() as inside, contextlib.suppress(OSError):
            (inside / "link").symlink_to("../outside")
            (inside / path).read_bytes()

    def waits():
        with place() as inside:
            os.mkfifo(inside / "pipe")
            (inside / "pipe").read_bytes()

    assert judged(starts).where == "subprocess.Popen no-such-program"
    assert [judged(lambda path=path: opens(path)).kind for path in ("x", "../outside/x", "link/x")] == [
        "ok",
        "outside",
        "outside",
    ]
    assert [judged(lambda size=size: bytearray(size)).kind for size in (2**20, 2**27)] == ["ok", "memory"]
    assert judged(waits).kind == "hang"
    assert judged(lambda: _raises(Panic())).where == "Panic"


class Panic(BaseException):
    """As libraries in Rust raise it."""


def test_an_escape_is_named_with_its_seed(monkeypatch):
    monkeypatch.setitem(KINDS, "broken", Kind(lambda seed: lambda: _raises(KeyError(seed)) if seed % 2 else None, 4, 4))
    assert campaign("broken", range(4))["found"] == {"escape: KeyError": [1, 3]}


def test_a_seed_gives_the_same_mutation():
    data = {"width": 32, "decoder": {"order": "layer*2", "layers": [1, 2.5, {"a": "b"}]}}
    twice = [repr([mutated(data, random.Random(seed)) for seed in range(200)]) for _ in range(2)]
    assert twice[0] == twice[1]
    assert data == {"width": 32, "decoder": {"order": "layer*2", "layers": [1, 2.5, {"a": "b"}]}}
