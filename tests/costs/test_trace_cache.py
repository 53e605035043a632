"""Traces are remembered, and sizes that were not traced follow from those that were."""

from __future__ import annotations

from itertools import product
from typing import Literal

import pytest
from zoo import ZOO

from anyformer.cache import Cache
from anyformer.costs.saved import TraceQuestion, saved, sizes, trace_cache
from anyformer.costs.saved.tracing import trace
from anyformer.describe import change_all
from anyformer.operations import Shape
from anyformer.parts import Capacity, RMSNorm, Window
from anyformer.plan import Plan
from covering import covering, rest_slow

BF16 = Plan(precision="bf16", attention="sdpa")


@pytest.fixture
def fresh(monkeypatch, tmp_path):
    """Nothing remembered, and a place of its own."""
    monkeypatch.setenv("ANYFORMER_CACHE", str(tmp_path))
    monkeypatch.setattr(trace_cache, "_known", {})
    monkeypatch.setattr(trace_cache, "_batches", {})
    return tmp_path


def asked(name="llama", batch=2, length=11, **more):
    return TraceQuestion(ZOO[name], Shape(batch=batch, length=length), BF16, **more)


def refuse(question):
    raise AssertionError(f"traced again: {question.shape}")


def forget(monkeypatch):
    """As another process would begin."""
    monkeypatch.setattr(trace_cache, "_known", {})
    monkeypatch.setattr(trace_cache, "_batches", {})


def test_a_question_is_traced_once_on_a_machine(fresh, monkeypatch):
    first = saved(asked())
    monkeypatch.setattr("anyformer.costs.saved.tracing.trace", refuse)
    assert saved(asked()) is first
    forget(monkeypatch)
    assert saved(asked()) == first
    assert len([*(fresh / "saved").iterdir()]) == 1, "no partial file is left"
    for other in (asked(batch=1), asked(recomputed=True), asked(length=12), asked("gpt2"), asked(scoreless=True)):
        with pytest.raises(AssertionError, match="traced again"):
            saved(other)


def test_parts_of_others_are_not_remembered_between_processes(fresh):
    """Their code may have changed."""

    class TheirNorm(RMSNorm):
        kind: Literal["their_norm"] = "their_norm"

    theirs = change_all(ZOO["llama"], {"decoder.final_norm": TheirNorm()})
    saved(TraceQuestion(theirs, Shape(batch=2, length=11), BF16))
    assert not (fresh / "saved").exists()


def test_another_version_of_the_code_is_another_question(fresh, monkeypatch):
    saved(asked())
    forget(monkeypatch)
    monkeypatch.setattr(trace_cache, "_code", lambda: "other")
    monkeypatch.setattr("anyformer.costs.saved.tracing.trace", refuse)
    with pytest.raises(AssertionError, match="traced again"):
        saved(asked())


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"tensors": [[1]], "like": {}}'])
def test_a_damaged_file_is_none(damage, fresh, monkeypatch):
    first = saved(asked())
    (path,) = (fresh / "saved").iterdir()
    path.write_text(damage)
    forget(monkeypatch)
    assert saved(asked()) == first
    assert path.read_text() != damage


def test_a_cache_that_cannot_be_written_is_none(monkeypatch, fresh):
    (fresh / "file").write_text("")
    monkeypatch.setenv("ANYFORMER_CACHE", str(fresh / "file"))
    assert saved(asked()) == trace(asked())


def test_the_oldest_go(fresh, monkeypatch):
    monkeypatch.setattr(trace_cache, "KEPT", Cache("saved", files=2))
    for length in (5, 6, 7):
        saved(asked(length=length))
    assert len([*(fresh / "saved").iterdir()]) == 2


FEW, MANY = (2, 1, 5, 1000), (2, 1, 5, 3, 16, 1000)
BATCHED = (("llama", "gpt2", "experts", "capacity", "linear_elu", "latent", "buckets_shared"), (False, True))
ASKED = {(*row, FEW) for row in covering(*BATCHED, together=1)}


@pytest.mark.parametrize(("name", "recomputed", "batches"), rest_slow(product(*BATCHED, (FEW, MANY)), ASKED), ids=str)
def test_any_batch_is_what_a_trace_of_it_says(name, recomputed, batches, fresh):
    """Whether it follows from others, or, where rows are rounded, does not."""
    rounded = {"decoder.layer.experts.sublayer.capacity": Capacity(factor=1.3)}
    architecture = change_all(ZOO["experts"], rounded) if name == "capacity" else ZOO[name]
    source = 7 if architecture.two_inputs else 0
    for batch in batches:
        question = TraceQuestion(architecture, Shape(batch=batch, length=11, source=source), BF16, recomputed=recomputed)
        assert saved(question) == trace(question)


def test_after_two_batches_any_other_is_counted(fresh, monkeypatch):
    saved(asked(batch=4))
    saved(asked(batch=8))
    monkeypatch.setattr("anyformer.costs.saved.tracing.trace", refuse)
    found = [saved(asked(batch=batch)) for batch in (16, 17, 4096)]
    assert all(found)


def totals(found):
    sums: dict = {}
    for each in found.tensors:
        sums[each.reason, each.layer, each.divided] = sums.get((each.reason, each.layer, each.divided), 0) + each.bytes
    return sums


LONG = (("llama", "window", "linear_elu", "delta_gated", "alibi"), (3000, 3001, 4096))


@pytest.mark.parametrize(("name", "length"), rest_slow(product(*LONG), covering(*LONG, together=1)))
def test_long_sequences_follow_from_three_shorter_ones(name, length, fresh, monkeypatch):
    plan = Plan(precision="bf16", attention="plain" if name == "alibi" else "sdpa", chunk=64)
    architecture = ZOO[name]
    if name == "window":
        architecture = change_all(architecture, {"decoder.layer.attention.mask": Window(size=8)})
    monkeypatch.setattr(sizes, "STEP", 512)
    monkeypatch.setattr(trace_cache, "LONG", 2048)
    question = TraceQuestion(architecture, Shape(batch=2, length=length), plan)
    assert totals(saved(question)) == totals(trace(question))


def test_sizes_beyond_any_tensor_are_counted(fresh):
    few, many = (sum(each.bytes for each in saved(asked(batch=1 << n)).tensors) for n in (20, 30))
    assert 1000 * few < many < 1025 * few
    short, long = (sum(each.bytes for each in saved(asked(length=1 << n)).tensors) for n in (20, 40))
    assert long > 900_000 * short
