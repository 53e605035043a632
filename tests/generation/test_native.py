"""A decode step that C++ computes from a table gives the logits of the plain one, and leaves the same decode state."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from benchmarks.cases import Decoder, Latents
from benchmarks.ours_models import decoder
from zoo import DECODERS

from anyformer import native
from anyformer.catalogue.llama import llama
from anyformer.catalogue.mistral import mixtral
from anyformer.generation import generating, recorded, rehearsal
from anyformer.generation.decode import decode
from anyformer.generation.native import decode as native_decode
from anyformer.generation.native import orders
from anyformer.generation.native.captured import captured
from anyformer.generation.native.decode import NativeStep, natively, unavailable
from anyformer.generation.native.large_pages import LARGE, SWITCH, _collapse, _span, collapse_soon
from anyformer.generation.native.orders import onednn_order
from anyformer.generation.native.tables import line
from anyformer.generation.native.translated import WRITES, translated
from anyformer.generation.recorded import RecordedDecode, as_recorded
from anyformer.generation.recorder import Recorder
from anyformer.generation.steps import best_run, stepper
from anyformer.model.transformer import build
from anyformer.quantising.tensor import in_bfloat16
from covering import kinds, others_slow
from generation.test_recorded import EVERY, MULTIPLE, STEPS, Read, begun, long_begun

UNKNOWN = {
    "attention_experts_hashed": "an order of whole numbers",
    "sparse_gate": "aten::std",
    "latent_indexed": "anyformer::choose_keys",
    "latent_indexed_all": "anyformer::choose_keys",
    "latent_both": "anyformer::choose_keys",
    "latent_sink": "anyformer::choose_keys",
    "latent_shared_index": "anyformer::choose_keys",
    "compressed": "3 indices",
    "compressed_heavily": "3 indices",
    "blocks_of_mean_keys": "anyformer::attend_chosen",
    "blocks_of_pooled_keys": "aten::scatter_add",
    "blocks_of_keys": "anyformer::choose_blocks",
    "blocks_of_keys_values": "anyformer::choose_blocks",
    "linear_elu": "aten::elu",
    "linear_fourier": "numbers of torch.float64",
    "linear_gaussian": "numbers of torch.float64",
    "linear_positive": "numbers of torch.float64",
    "linear_orthogonal": "numbers of torch.float64",
    "delta_product": "aten::flip",
    "delta_values": "aten::index_fill",
    "delta_values_options": "aten::index_fill",
    "log_linear": "aten::frexp",
    "log_linear_bare": "aten::frexp",
    "value_embedding_options": "anyformer::choose_blocks",
    "experts_hashed": "an order of whole numbers",
    "experts_token_table": "aten::scatter_add",
    "experts_token_table_scores": "aten::scatter_add",
    "experts_hashed_scores": "an order of whole numbers",
    "batch_norm": "aten::_native_batch_norm_legit_no_training",
    "batch_norm_by_position": "aten::_native_batch_norm_legit_no_training",
}
"""Kinds with something that no operation of a table computes, and what."""
SIZES = {"width": 128, "depth": 2, "heads": 4, "vocab": 96}
SIZED = {
    "dense": llama(**SIZES, kv_heads=2, ffn=192),
    "uneven": llama(**SIZES | {"width": 192, "vocab": 97}, kv_heads=2, ffn=192),
    "experts": mixtral(**SIZES, kv_heads=2, expert=64, experts=6, chosen=2),
    "latent": decoder(
        Decoder(**SIZES, kv_heads=4, ffn=192, latents=Latents(q_rank=64, kv_rank=64, nope=32, rope=16, value=32))
    ),
}
"""Sizes that torch's kernels of few bits take, and of 4 bits blocks that are filled and not; `uneven`: by zeros alone, and with
rows of a table that begin within a byte of zero points."""
FORMATS = ("fp32", "bf16", "int8", "int4-32", "int4-64/int4-64")


@pytest.fixture(autouse=True)
def compiled():
    if unavailable():
        pytest.skip(unavailable())


def memory_of(state):
    return dict(recorded._tensors(state))


def tables_of(model, state):
    return recorded._recordings(model, Recorder.written, memory_of(state)).tables


def beside(step, plain_step, model, steps=STEPS, close=1e-4, rows=3):
    """Steps of both, of the tokens that the second chooses, over the same slots; the state of the first."""
    with torch.inference_mode():
        plain, other, tokens = begun(model), begun(model), torch.arange(1, rows + 1)
        if rows != 3:
            plain, other = (each.fork(torch.arange(rows) % 3) for each in (plain, other))
        for _ in range(steps):
            for each in (other, plain):
                each.slots.reserve(1, MULTIPLE)
            logits = step(model, tokens, other)
            plain.slots.visible = other.slots.visible
            expected = plain_step(model, tokens, plain)
            torch.testing.assert_close(logits, expected, atol=close, rtol=close)
            tokens = expected.argmax(-1)
        for place, mine in memory_of(other).items():
            torch.testing.assert_close(mine, memory_of(plain)[place], atol=close, rtol=close, equal_nan=True)
    return other


@pytest.mark.parametrize("name", others_slow(EVERY, kinds))
def test_every_step_has_the_logits_of_the_plain_one(name, monkeypatch):
    """With few slots visible, with all, and with numbers of slots between, whose tables are lines of that number."""
    monkeypatch.setattr(recorded, "FINE", 2)
    monkeypatch.setattr(rehearsal, "LARGE", 1)
    model = build(EVERY[name], seed=1).eval()
    state = beside(RecordedDecode(run=natively), decode, model)
    assert tables_of(model, state).unknown == UNKNOWN.get(name, "")


NARROW = ("llama", "window", "latent", "joined", "differential", "disentangled", "mamba")
"""Kinds whose steps read a state of 16 bits in each of the ways that there are: keys, values, latents, copies, sums."""


@pytest.mark.parametrize("name", [name if name in NARROW else pytest.param(name, marks=pytest.mark.slow) for name in EVERY])
def test_a_state_of_16_bits_gives_the_logits_of_the_plain_step(name, monkeypatch):
    """All else is computed in fp32, and no step copies the keys and values of all positions."""
    monkeypatch.setattr(recorded, "FINE", 2)
    monkeypatch.setattr(rehearsal, "LARGE", 1)
    model = build(EVERY[name], seed=1).eval()
    model.narrow_state = torch.bfloat16
    state = beside(RecordedDecode(run=natively), decode, model, close=1e-2)
    tables = tables_of(model, state)
    assert tables.unknown == UNKNOWN.get(name, "")
    if name == "llama":
        keys = state.layers[0]["attention"].key
        assert keys.dtype == torch.bfloat16
        assert all(keys[:, :, :visible].numel() * 4 not in table.sizes for visible, table in tables.each.items())


def test_copies_of_numbers_of_16_bits_are_made_before_these_change():
    """What reads a copy reads the numbers that were there when it was made."""
    narrow, given = torch.ones(2, 3, dtype=torch.bfloat16), torch.arange(6.0).view(2, 3)

    def step(given):
        copy = narrow.float()
        first = given @ copy.mT
        narrow.add_(1)
        return first + given @ copy.mT

    with torch.inference_mode(), captured(WRITES) as operators:
        result = step(given)
    native = NativeStep(translated(operators, (given,), (narrow,), result), (narrow,))
    narrow.fill_(1)
    torch.testing.assert_close(native(given), result)


@pytest.mark.parametrize("rows", [1, 3, 21])
@pytest.mark.parametrize("kind", SIZED)
@pytest.mark.parametrize("format", FORMATS)
def test_weights_are_read_in_the_order_in_which_they_lie(format, kind, rows):
    """Beside torch's kernels, which round as the table does."""
    model = generating(build(SIZED[kind], seed=1).eval(), format)
    close = 2e-2 if format != "fp32" else 1e-4
    state = beside(RecordedDecode(run=natively), RecordedDecode(), model, close=close, rows=rows)
    tables = tables_of(model, state)
    assert (tables.unknown, bool(tables.each)) == ("", True)


@pytest.mark.parametrize("format", ["bf16", "int8", "int4-32"])
def test_matrices_that_a_step_reads_whole_are_read_in_16_bits(format):
    """Latent attention multiplies by the restored matrices themselves: what torch reads in fp32 is read in half the bytes."""
    model = generating(build(SIZED["latent"], seed=1).eval(), format)
    step = RecordedDecode(run=natively)
    beside(step, RecordedDecode(), model, close=2e-2)
    up = dict(model.named_parameters())["decoder.layers.0.latent_attention.sublayer.key_up.weight"]
    assert up.whole.dtype == torch.float32
    assert torch.equal(up.whole, up.restored.bfloat16().float())

    def logits(state):
        state.slots.reserve(1, MULTIPLE)
        return step(model, torch.arange(1, 4), state)

    with torch.inference_mode():
        texts = [begun(model) for _ in range(4)]  # whose prompts torch reads, and the first of their steps
        _, expected = logits(texts[0]), logits(texts[1])
        up.whole.zero_()
        assert torch.equal(logits(texts[2]), expected)
        in_bfloat16(up.whole).zero_()
        assert not torch.equal(logits(texts[3]), expected)


def compiler_of(flags):
    """The compiler; skips the test where it is older than these flags."""
    compiler = next(filter(None, map(shutil.which, filter(None, (os.environ.get("CXX"), *native.COMPILERS)))))
    if subprocess.run([compiler, *flags, "-E", "-x", "c++", os.devnull], capture_output=True).returncode:
        pytest.skip(f"{compiler} is older than {' '.join(flags)}")
    return compiler


def test_the_library_uses_all_instructions_that_the_compiler_knows():
    """A source that fails to compile with the newest ones would be compiled without them, and nothing but time would tell."""
    flags = native.instructions()[0]
    compiler = compiler_of(flags)
    assert native._opened(native_decode.SOURCE, compiler, native._version(compiler), flags).step


BY_DIGITS = """
import sys, torch, torch.nn.functional as F
from anyformer import native
from anyformer.generation.native.captured import captured
from anyformer.generation.native.decode import NativeStep
from anyformer.generation.native.translated import WRITES, translated
from anyformer.quantising import FORMATS
from anyformer.quantising.tensor import PackedMatrix
flags = tuple(sys.argv[1:])
assert flags in native.instructions()
native.instructions = lambda: [flags]
torch.manual_seed(0)
for name in ("int4-32", "int4-64", "int4"):
    for outputs, rows in ((192, 1), (192, 21), (176, 3), (64, 6)):
        held = PackedMatrix.of(torch.randn(outputs, 512), FORMATS[name])
        x = torch.randn(rows, 512) * torch.logspace(-4, 1, 512)
        x[0, 64:128] = 0
        x[1:2] = 0
        assert held.product  # made once, before steps are put down
        with torch.inference_mode(), captured(WRITES) as operators:
            result = F.linear(x, held)
        found = NativeStep(translated(operators, (x,), (), result), ())(x)
        exact = x.bfloat16().double() @ held.restored.double().T
        print(name, outputs, rows, float((found - exact).norm() / exact.norm()))
        assert (found - exact).norm() < 3e-3 * exact.norm(), "bf16, to which results are rounded, is 2e-3 away"
"""
AVX2, AVX512 = native.INSTRUCTIONS["AVX2"], native.INSTRUCTIONS["AVX512"]


@pytest.mark.parametrize("flags", [AVX2, (*AVX512, *native.BYTES), (*AVX512, *native.BYTES, *native.PAIRS)])
def test_codes_of_4_bits_are_multiplied_by_digits(flags):
    """Each processor takes one of three kernels, so that every one is asked for in a process of its own."""
    if platform.machine() != "x86_64" or (flags != AVX2 and flags not in native.instructions()):
        pytest.skip(f"torch does not use the instructions of {' '.join(flags)} here")
    compiler_of(flags)
    environment = {**os.environ, **({"ATEN_CPU_CAPABILITY": "avx2"} if flags == AVX2 else {})}
    told = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", BY_DIGITS, *flags], env=environment, capture_output=True, text=True
    )
    assert told.returncode == 0, told.stdout + told.stderr


@pytest.mark.parametrize("format", ["stored", "bf16", "int4-32"])
@pytest.mark.parametrize("kind", SIZED)
def test_any_number_of_threads_computes_the_same_bits(kind, format, monkeypatch):
    """Who has computed its own tasks takes those of others, and there may be fewer tasks than threads."""
    monkeypatch.setattr(recorded, "FINE", 2)
    model, found, before = generating(build(SIZED[kind], seed=1).eval(), format), [], torch.get_num_threads()
    beside(RecordedDecode(run=natively), RecordedDecode(), model, close=2e-2)
    with torch.inference_mode():
        states = [begun(model) for _ in range(3)]
        try:
            for count, state in zip((1, 2, 7), states, strict=True):
                torch.set_num_threads(count)
                step, logits = RecordedDecode(run=natively), []
                for token in range(STEPS):
                    state.slots.reserve(1, MULTIPLE)
                    logits.append(step(model, torch.tensor([token] * 3), state))
                found.append(torch.stack(logits))
        finally:
            torch.set_num_threads(before)
    assert all(torch.equal(each, found[0]) for each in found)


def test_an_order_is_found_once_and_kept(monkeypatch, tmp_path):
    monkeypatch.setenv("ANYFORMER_CACHE", str(tmp_path))
    onednn_order.cache_clear()
    first = onednn_order(96, 64, torch.float32)
    onednn_order.cache_clear()
    monkeypatch.setattr(orders, "_tried", lambda *given: pytest.fail("it is known"))
    assert onednn_order(96, 64, torch.float32) == first
    with pytest.raises(pytest.fail.Exception):
        onednn_order(96, 128, torch.float32)
    onednn_order.cache_clear()


def test_a_table_is_made_without_reading_keys():
    model = build(DECODERS["llama"], seed=1).eval()
    with torch.inference_mode():
        state, step, tokens = long_begun(model), RecordedDecode(run=natively), torch.tensor([1, 2, 3])
        other = state.fork(torch.arange(3))
        with Read() as read:
            logits = step(model, tokens, state)
        assert tables_of(model, state).each
        assert 0 < read.most < rehearsal.LARGE
        other.slots.start, other.slots.visible = state.slots.start, state.slots.visible
        torch.testing.assert_close(logits, decode(model, tokens, other), atol=1e-2, rtol=1e-2)


def test_another_text_takes_the_tables_of_the_first(monkeypatch):
    model, made = build(DECODERS["llama"], seed=1).eval(), []
    monkeypatch.setattr(recorded, "FINE", 2)
    translated = native_decode.translated
    monkeypatch.setattr(native_decode, "translated", lambda *given: made.append(given) or translated(*given))
    for _ in range(3):
        beside(RecordedDecode(run=natively), decode, model)
    assert len(made) == 3, "a line is drawn through two tables, and a third confirms it"


def test_a_table_that_is_no_line_of_the_slots_is_not_used(monkeypatch):
    monkeypatch.setattr(recorded, "FINE", 2)
    model = build(DECODERS["llama"], seed=1).eval()
    tables = tables_of(model, beside(RecordedDecode(run=natively), decode, model))
    (few, one), (many, other), (last, third) = sorted(tables.each.items())
    made = line((few, one), (many, other), last)
    assert made is not None
    assert torch.equal(made.words, third.words)
    assert made.sizes == third.sizes
    odd, even = (replace(third, words=third.words + by) for by in (1, 2))
    assert (many - few) % 2 == 0
    assert line((few, one), (many, odd), last) is None
    tables.each.pop(last)
    tables.add(last, even, spans=True)
    assert "no straight line" in tables.unknown
    assert natively(decode, (), tables, few, (), None, spans=True) is decode


def test_an_unknown_operator_leaves_the_step_to_torch(monkeypatch):
    model = build(DECODERS["llama"], seed=1).eval()
    monkeypatch.delitem(native_decode.translated.__globals__["WRITES"], "aten::silu")
    state = beside(RecordedDecode(run=natively), decode, model)
    assert tables_of(model, state).unknown == "aten::silu"


def test_a_token_beyond_the_vocabulary_is_an_error_and_reads_no_other_memory():
    model = build(DECODERS["llama"], seed=1).eval()
    step = RecordedDecode(run=natively)
    with torch.inference_mode():
        state = begun(model)
        for _ in range(3):
            state.slots.reserve(1, MULTIPLE)
            step(model, torch.tensor([1, 2, 3]), state)
        state.slots.reserve(1, MULTIPLE)
        with pytest.raises(IndexError, match="vocabulary"):
            step(model, torch.tensor([1, 10**9, 3]), state)


def test_a_text_that_lies_otherwise_in_memory_is_left_to_torch(monkeypatch):
    """Words hold strides, which the shapes of a state do not tell."""
    monkeypatch.setattr(recorded, "FINE", 2)
    model = build(DECODERS["llama"], seed=1).eval()
    beside(RecordedDecode(run=natively), decode, model)
    monkeypatch.setitem(globals(), "begun", lambda model, begun=begun: turned(begun(model)))
    monkeypatch.setattr(NativeStep, "__init__", lambda *given: pytest.fail("the table is of another layout"))
    beside(RecordedDecode(run=natively), decode, model)


def turned(state):
    """The state with every cache laid out from feature to position."""
    for layer in state.layers:
        for cache in layer.values():
            cache.key, cache.value = (each.mT.contiguous().mT for each in (cache.key, cache.value))
    return state


def test_who_records_gradients_is_computed_by_torch(monkeypatch):
    model = build(DECODERS["llama"], seed=1).eval()
    monkeypatch.setattr(NativeStep, "__call__", lambda *given: pytest.fail("a table records nothing"))
    step, state = RecordedDecode(run=natively), begun(model)
    for _ in range(4):
        state.slots.reserve(1, MULTIPLE)
        assert step(model, torch.tensor([1, 2, 3]), state).requires_grad


def test_without_a_compiler_steps_are_recorded(monkeypatch):
    assert best_run() is natively
    assert stepper(10, None)[0]._run is natively
    assert stepper(10, False)[0]._run is as_recorded
    monkeypatch.setattr("anyformer.generation.steps.unavailable", lambda: "no C++ compiler was found")
    assert best_run() is as_recorded
    assert stepper(10, None)[0]._run is as_recorded


def large_pages_at(address):
    """Bytes in large pages of the mapping that an address lies in, as Linux says."""
    inside = False
    for text in Path("/proc/self/smaps").read_text().splitlines():
        head = re.match(r"([0-9a-f]+)-([0-9a-f]+) ", text)
        if head:
            inside = int(head[1], 16) <= address < int(head[2], 16)
        elif inside and text.startswith("AnonHugePages:"):
            return int(text.split()[1]) * 1024
    return 0


def test_a_command_takes_tensors_in_large_pages():
    code = (
        "from anyformer.cli.computing import in_large_pages; in_large_pages(); import torch; x = torch.ones(2**23)\n"
        "print([line for line in open('/proc/self/smaps_rollup') if 'AnonHuge' in line])"
    )
    if not SWITCH.exists() or "[never]" in SWITCH.read_text():
        pytest.skip("this system has no large pages")
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert int(re.search(r"(\d+) kB", said)[1]) * 1024 >= 2**24, said


def test_weights_go_to_large_pages_with_all_their_numbers(monkeypatch):
    matrix = torch.arange(3 * 2**20, dtype=torch.int32)
    held, before = matrix.clone(), matrix.data_ptr()
    thread = collapse_soon([matrix, torch.ones(4)])
    if thread is None:
        pytest.skip("this system has no large pages")
    thread.join()
    assert torch.equal(matrix, held)
    assert matrix.data_ptr() == before
    if not _collapse(*_span(matrix)):
        pytest.skip("this system refuses to make large pages of others")
    assert large_pages_at(before + matrix.nbytes // 2) >= LARGE
    monkeypatch.setattr(native_decode, "collapse_soon", lambda tensors: called.append(sum(1 for _ in tensors)))
    called, model = [], build(DECODERS["llama"], seed=1).eval()
    monkeypatch.setattr(recorded, "FINE", 2)
    for _ in range(4):
        beside(RecordedDecode(run=natively), decode, model)
    (count,) = called
    assert count >= sum(1 for _ in model.parameters())
