"""A recorded decode step has every bit of the plain one, whatever the decode state holds."""

from __future__ import annotations

from functools import partial
from unittest import mock

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from zoo import DECODERS, PAIRS

from anyformer.generation import Sampling, continuations, generating, recorded, rehearsal
from anyformer.generation.compiled import compiled
from anyformer.generation.decode import decode, prefill, read_source
from anyformer.generation.memory import grown
from anyformer.generation.recorded import RecordedDecode
from anyformer.generation.recorded_step import RecordedStep, spanning
from anyformer.generation.recorder import Recorder
from anyformer.generation.steps import stepper
from anyformer.model.transformer import build
from anyformer.parts.call.state import Slots
from covering import kinds, others_slow

GREEDY = Sampling(temperature=0)
EVERY = {**DECODERS, **PAIRS}
STEPS, MULTIPLE = 9, 8
SPANNING = ("llama", "gpt2", "window", "delta", "experts", "mamba", "latent", "alibi", "sink", "differential")
"""Kinds in which nothing but views and sizes depends on the number of visible slots."""


def begun(model):
    """A state that has read prompts of unequal lengths, or sources and the first token of each target."""
    tokens = torch.tensor([[0, 3, 1, 4], [2, 7, 1, 8], [5, 5, 6, 2]])
    padding = torch.tensor([[True, False, False, False]] + [[False] * 4] * 2)
    if model.architecture.two_inputs:
        state = grown(model, None, batch=3, count=1, most=32, source=4)
        read_source(model, tokens, padding, tokens[:, :1], None, state)
        return state
    state = grown(model, None, batch=3, count=4, most=32)
    prefill(model, tokens, padding if state.allows_padding else None, state)
    return state


def long_begun(model):
    """The same, in 16 bits and with so many slots in use, most of them empty, that recording computes nothing with keys."""
    model.narrow_state = torch.bfloat16
    many = rehearsal.LARGE // 16
    state = grown(model, begun(model), batch=3, count=many)
    state.slots.reserve(many - 1)
    state.slots.reserve(1, MULTIPLE)
    return state


def beside_plain(step, model, tokens, state, plain, other=None):
    """The logits of a recorded step, which have all bits of the plain one over the same slots (of the `other` model)."""
    for each in (state, plain):
        each.slots.reserve(1, MULTIPLE)
    logits = step(model, tokens, state)
    plain.slots.visible = state.slots.visible
    assert torch.equal(logits, decode(other or model, tokens, plain))
    return logits


@pytest.mark.parametrize("name", others_slow(EVERY, kinds))
def test_every_step_has_the_bits_of_the_plain_one(name, monkeypatch):
    """Of a step that is recorded with few slots visible and with all, and no tensor of the state so small that recording
    computes with it; then of one with a number of slots between."""
    monkeypatch.setattr(recorded, "FINE", 2)
    monkeypatch.setattr(rehearsal, "LARGE", 1)
    model = build(EVERY[name], seed=1).eval()
    step, visible = RecordedDecode(), []
    with torch.inference_mode():
        plain, other = begun(model), begun(model)
        tokens = torch.tensor([1, 2, 3])
        for _ in range(STEPS):
            tokens = beside_plain(step, model, tokens, other, plain).argmax(-1)
            assert step.recording is not None
            assert step.recording.bind is not None
            visible.append(other.slots.visible)
    used = range(other.slots.used - STEPS + 1, other.slots.used + 1)
    few = (-(-used[0] // 2) | 1) * 2
    grown_by = {step: [few if n <= few else -(-n // step) * step for n in used] for step in (recorded.FINE, MULTIPLE)}
    assert visible in ([grown_by[recorded.FINE]] if name in SPANNING else grown_by.values())


def test_a_larger_state_and_another_model_are_recorded_anew():
    model, other = build(DECODERS["llama"]).eval(), build(DECODERS["llama"], seed=5).eval()
    step = RecordedDecode()
    with torch.inference_mode():
        small = begun(model)
        small.slots.reserve(1, MULTIPLE)
        step(model, torch.tensor([1, 2, 3]), small)
        first = step.recording
        large = grown(model, small, batch=3, count=40)
        assert large is not small
        for one, state in ((model, large), (other, begun(other))):
            state.slots.reserve(1, MULTIPLE)
            twin = state.fork(torch.arange(3))
            logits = step(one, torch.tensor([3, 2, 1]), state)
            twin.slots.start, twin.slots.visible = state.slots.start, state.slots.visible
            assert torch.equal(logits, decode(one, torch.tensor([3, 2, 1]), twin))
            assert step.recording is not first


@pytest.mark.parametrize("name", ["llama", "window", "latent", "delta", "experts"])
def test_what_was_recorded_for_one_text_serves_another(name, monkeypatch):
    monkeypatch.setattr(recorded, "FINE", 2)
    model = build(DECODERS[name], seed=1).eval()
    tokens, made = torch.tensor([1, 2, 3]), []

    class Counted(Recorder):
        def __init__(self, given):
            made.append(given)
            super().__init__(given)

    monkeypatch.setattr(recorded, "Recorder", Counted)
    with torch.inference_mode():
        for text in range(3):
            plain, other = begun(model), begun(model)
            step = RecordedDecode()
            for _ in range(STEPS):
                beside_plain(step, model, (tokens + text) % 8, other, plain)
            assert len(made) == 2


def test_a_step_in_which_values_are_read_is_never_repeated(monkeypatch):
    """Calls that depend on a value, here on the token, would be those of another token."""
    model = build(DECODERS["llama"]).eval()
    norm = type(model.get_submodule("decoder").final_norm)
    forward = norm.forward
    seen = []

    def reading(self: nn.Module, x: torch.Tensor) -> torch.Tensor:
        seen.append(x.sum().item() > 0)
        return forward(self, x) if seen[-1] else forward(self, -x)

    monkeypatch.setattr(norm, "forward", reading)
    expected = [next_B.tolist() for next_B in continuations(model, [[1, 2]], sampling=GREEDY, max_tokens=6)]
    step = RecordedDecode()
    found = continuations(model, [[1, 2]], sampling=GREEDY, max_tokens=6, step=step, multiple=MULTIPLE)
    assert [next_B.tolist() for next_B in found] == expected
    assert step.recording is not None
    assert step.recording.bind is None


class Read(TorchDispatchMode):
    """The most numbers of a tensor in fp32 or bf16 with which an operator computed."""

    NOTHING = ("aten::_unsafe_view", "aten::empty_like")

    def __init__(self):
        super().__init__()
        self.most = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if not func.is_view and func._schema.name not in self.NOTHING:
            for tensor in tree_leaves(args):
                if isinstance(tensor, torch.Tensor) and tensor.is_floating_point():
                    self.most = max(self.most, tensor.numel())
        return func(*args, **kwargs or {})


@pytest.mark.parametrize("name", ["llama", "latent", "differential", "alibi"])
def test_recording_reads_no_keys_and_writes_nothing(name):
    """Behind a long prompt torch would copy all keys and values, at each of five steps."""
    model = build(EVERY[name], seed=1).eval()
    with torch.inference_mode():
        state = long_begun(model)
        before = {place: each.clone() for place, each in recorded._tensors(state)}
        assert max(each.numel() for each in before.values()) >= rehearsal.LARGE
        step = RecordedDecode()
        with Read() as read:
            assert step._recorded(model, torch.tensor([1, 2, 3]), state, dict(recorded._tensors(state))).bind is not None
        assert read.most < rehearsal.LARGE
        for place, each in recorded._tensors(state):
            assert torch.equal(each, before[place]), place


def test_what_is_written_into_a_tensor_is_repeated():
    kept, given = torch.zeros(1, 3), torch.tensor([[1.0, 2.0, 3.0]])

    def call(x):
        kept[:, 1:] = x[:, 1:] * 2
        kept.add_(1)
        first, _ = x.chunk(2, 1)
        return kept.T + first.sum()

    with Recorder((given,)) as recorder:
        result = call(given)
    assert recorder.kept == [kept]
    assert result.tolist() == [[4.0], [8.0], [10.0]]
    assert recorder.written(result)(kept)(torch.tensor([[0.0, 1.0, 1.0]])).tolist() == [[3.0], [4.0], [4.0]]
    assert kept.tolist() == [[2.0, 3.0, 3.0]]


def recorded_sum(memory: torch.Tensor, visible: int, weigh) -> tuple[int, RecordedStep]:
    """A recording of a weighted sum over the visible part of a memory."""
    given = torch.tensor([1.0])
    with Recorder((given,)) as recorder:
        result = (memory[:, :visible].T * weigh(visible)).sum(0) * given
    assert recorder.kept == [memory]
    return visible, recorder.written(result)


def test_one_program_serves_every_number_of_slots_between_two():
    memory = torch.arange(6.0)[None]
    span = spanning(*(recorded_sum(memory, visible, lambda _: 2) for visible in (2, 6)))
    assert span is not None
    sums = [span(memory, visible)(torch.tensor([3.0])).item() for visible in (2, 3, 5, 6)]
    assert sums == [6.0, 18.0, 60.0, 90.0]
    other = torch.ones(1, 6)
    assert span(other, 4)(torch.tensor([1.0])).tolist() == [8.0]


def test_the_number_of_slots_may_be_an_argument():
    memory = torch.arange(6.0)[None]
    span = spanning(*(recorded_sum(memory, visible, lambda visible: visible) for visible in (2, 6)))
    assert span is not None
    assert [span(memory, visible)(torch.tensor([1.0])).item() for visible in (2, 3, 6)] == [2.0, 9.0, 90.0]


@pytest.mark.parametrize("weigh", [lambda visible: 1 / visible, lambda visible: 2 + (visible > 4), lambda visible: visible - 1])
def test_recordings_in_which_more_depends_on_the_slots_are_not_joined(weigh):
    memory = torch.arange(6.0)[None]
    assert spanning(*(recorded_sum(memory, visible, weigh) for visible in (2, 6))) is None


@pytest.mark.parametrize("used", [1, 16, 17, 60, 64, 65, 500])
def test_the_first_recording_shows_what_blocks_of_slots_need(used):
    """Were both ends of a span whole blocks, nothing would be seen of what is done where the last block is not full."""
    slots = Slots(torch.zeros(1, 1024, dtype=torch.int64), used)
    few = recorded.Recordings().visible(slots, spans=True)
    assert used <= few <= used + 2 * recorded.FINE
    assert few % recorded.FINE == 0
    assert all(few % block for block in (32, 64, 128))


def test_weights_in_another_place_are_recorded_anew():
    """A model that is laid out for generating after it has generated must not go on with its former weights."""
    model = build(DECODERS["llama"], seed=1).eval()
    other = build(DECODERS["llama"], seed=2).eval()
    with torch.inference_mode():
        for source in (model, other):
            for mine, value in zip(model.named_parameters(), source.parameters(), strict=True):
                owner, _, leaf = mine[0].rpartition(".")
                setattr(model.get_submodule(owner), leaf, value)
            plain, recorded_state, step = begun(source), begun(model), RecordedDecode()
            for _ in range(3):
                beside_plain(step, model, torch.tensor([1, 2, 3]), recorded_state, plain, source)


COMPILED = {"llama": "bf16", "latent": "int8", "experts": "fp32", "delta": "bf16"}
"""Decoders, and the form of their weights, whose steps are compiled."""


def test_texts_are_recorded_unless_they_are_compiled(monkeypatch):
    monkeypatch.setattr("anyformer.generation.steps.unavailable", lambda: "no C++ compiler was found")
    assert [stepper(tokens, compile)[0]._finish is compiled for tokens in (100, 10**6) for compile in (None, False, True)] == [
        False, False, True, True, False, True,
    ]  # fmt: skip


@torch.inference_mode()
def test_a_compiler_leaves_products_with_one_row_as_they_are(tiles):
    """By its own loops they took half as long again, with AMX, where matrices are not in an order of oneDNN's."""
    model, seen = generating(build(DECODERS["llama"]).eval()), []
    state = grown(model, None, batch=1, count=1)
    state.slots.reserve(1)
    tokens = torch.tensor([3])
    with Recorder((tokens, state.slots.start)) as recorder:
        logits = decode(model, tokens, state)
    repeat = partial(torch.compile, backend=lambda graph, _: seen.append(graph) or graph.forward)
    with mock.patch("torch.compile", lambda run, **how: repeat(run, fullgraph=True)):
        step = compiled(recorder, logits)(*recorder.kept)
    torch.testing.assert_close(step(tokens, state.slots.start), logits, rtol=0, atol=0)
    products = {"mv": 0, "held_row": 0, "held_product": 0}
    for node in seen[0].graph.nodes:
        for name in products:
            products[name] += name in str(node.target)
    assert products == {"mv": 0, "held_row": 9 if tiles else 0, "held_product": 0 if tiles else 9}


@pytest.mark.parametrize(
    ("name", "form", "backend"),
    [
        ("llama", "bf16", "aot_eager"),  # generating code takes seconds for each layer
        *(pytest.param(name, form, "inductor", marks=pytest.mark.slow) for name, form in COMPILED.items()),
    ],
)
def test_a_compiled_recording_computes_what_the_plain_step_does(name, form, backend, monkeypatch):
    """What is one graph is decided before code is generated, so that the fast form generates none."""
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=backend))
    model = generating(build(DECODERS[name], seed=1).eval(), form)
    with torch.inference_mode():
        plain, other, step = begun(model), begun(model), RecordedDecode(compiled)
        for number in range(4):
            for state in (plain, other):
                state.slots.reserve(1, 32)
            tokens = torch.tensor([1, 2, number])
            wanted = decode(model, tokens, plain)
            torch.testing.assert_close(step(model, tokens, other), wanted, rtol=0, atol=0.02 * float(wanted.abs().max()))
    assert step.recording is not None
    assert step.recording.bind is not None
