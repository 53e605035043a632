"""Attention in C++ against the plain kernel: values and gradients, in both types, for rows of any length."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode
from zoo import DECODERS

from anyformer import native
from anyformer.cache import Cache
from anyformer.catalogue import architecture as catalogue
from anyformer.costs.activations import activations
from anyformer.describe import UserError, change_all
from anyformer.model.transformer import build
from anyformer.operations import Shape
from anyformer.parts.attention import attend_native as attend_native_file
from anyformer.parts.attention.attend import attend
from anyformer.parts.attention.attend_native import LEAST_PAIRS, MOST_KEYS, SOURCE, attend_native, suits_native
from anyformer.parts.call.context import Visible
from anyformer.plan import Plan
from anyformer.training import attention_kernel
from anyformer.training.attention_kernel import with_kernel

CPU = torch.device("cpu")
made = pytest.mark.usefixtures("compiled")


@pytest.fixture(scope="module")
def compiled() -> None:
    """Compiled when a test asks, and not where tests are collected."""
    if reason := native.problem(SOURCE):
        pytest.skip(reason)


def given_tensors(sizes: tuple[int, ...], dtype: torch.dtype = torch.float32, seed: int = 0) -> list[Tensor]:
    """q, k and v of (rows, query heads, key heads, queries, keys, width, width of values)."""
    B, H, K, T, S, E, U = sizes
    draw = torch.Generator().manual_seed(seed)
    shapes = ((T, H, E), (S, K, E), (S, K, U))
    return [torch.randn(B, *shape, generator=draw).to(dtype).transpose(1, 2).requires_grad_() for shape in shapes]


def both(attended, tensors: list[Tensor]) -> list[Tensor]:
    """What a kernel gives, and the gradients of q, k and v in a fixed direction."""
    mixed = attended(*tensors)
    direction = torch.randn(mixed.shape, generator=torch.Generator().manual_seed(9)).to(mixed.dtype)
    return [mixed.detach(), *torch.autograd.grad(mixed, tensors, direction)]


def by_native(causal: bool, scale: float = 0.3):
    return lambda q, k, v: attend_native(q, k, v, causal=causal, scale=scale)


def by_plain(causal: bool, scale: float = 0.3):
    return lambda q, k, v: attend(q, k, v, Visible(causal=causal), scale=scale, kernel="plain")


@made
@given(
    st.integers(1, 3), st.sampled_from([(1, 1), (4, 4), (4, 2), (3, 1)]), st.integers(1, 100), st.integers(1, 100),
    st.integers(1, 70), st.integers(1, 70), st.booleans(), st.integers(0, 9),
)  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_the_same_as_the_plain_kernel_both_ways(rows, heads, queries, keys, width, value_width, causal, seed):
    tensors = given_tensors((rows, *heads, queries, queries if causal else keys, width, value_width), seed=seed)
    for own, plain in zip(both(by_native(causal), tensors), both(by_plain(causal), tensors), strict=True):
        torch.testing.assert_close(own, plain, rtol=2e-5, atol=2e-5)


@made
@pytest.mark.parametrize("sizes", [(2, 4, 2, 77, 77, 40, 24), (1, 2, 2, 300, 300, 64, 64)])
def test_in_bfloat16_nearer_to_fp32_than_the_plain_kernel(sizes):
    narrow = given_tensors(sizes, torch.bfloat16)
    exact = both(by_plain(True), [x.detach().double().requires_grad_() for x in narrow])
    for truth, own, plain in zip(exact, both(by_native(True), narrow), both(by_plain(True), narrow), strict=True):
        assert (own.double() - truth).abs().max() <= 1.1 * (plain.double() - truth).abs().max() + 1e-3 * truth.abs().max()


LEAST = [native.INSTRUCTIONS["AVX2"]] if native.instructions() and platform.machine() == "x86_64" else []
FORMS = dict.fromkeys([*native.instructions(), *LEAST])


@made
@pytest.mark.parametrize("flags", FORMS, ids=lambda flags: "".join(flags[:1]) + " in pairs" * (native.PAIRS[0] in flags))
def test_every_set_of_instructions_that_this_processor_has_gives_the_same(flags, monkeypatch):
    monkeypatch.setattr(native, "instructions", lambda: [flags])
    own = native.library.__wrapped__(SOURCE)
    monkeypatch.setattr(attend_native_file, "_function", lambda name: own[name])
    for sizes in ((2, 4, 2, 77, 77, 40, 24), (1, 2, 1, 33, 33, 7, 64), (1, 3, 3, 130, 130, 64, 33)):
        exact = given_tensors(sizes)
        plain = both(by_plain(True), exact)
        for found, wanted in zip(both(by_native(True), exact), plain, strict=True):
            torch.testing.assert_close(found, wanted, rtol=2e-5, atol=2e-5)
        narrow = [x.detach().to(torch.bfloat16).requires_grad_() for x in exact]
        wide = both(by_plain(True), [x.detach().float().requires_grad_() for x in narrow])
        for found, wanted in zip(both(by_native(True), narrow), wide, strict=True):
            assert (found.float() - wanted).abs().max() <= 0.015 * wanted.abs().max()


@made
def test_great_scores_and_small_ones_stay_finite():
    """Scores of thousands overflow an exponential that is not taken of differences; one visible key has all the weight."""
    q, k, v = (60 * x.detach() for x in given_tensors((1, 1, 1, 40, 40, 16, 16)))
    tensors = [x.requires_grad_() for x in (q, k, v)]
    found, plain = both(by_native(True, 1.0), tensors), both(by_plain(True, 1.0), tensors)
    assert all(x.isfinite().all() for x in found)
    torch.testing.assert_close(found[0], plain[0], rtol=1e-4, atol=1e-3)
    assert torch.equal(found[0][0, 0, 0], tensors[2][0, 0, 0])


@made
def test_a_row_has_the_same_bits_alone_with_others_and_on_other_threads():
    tensors = given_tensors((5, 4, 2, 90, 90, 32, 32))
    whole = both(by_native(True), tensors)[0]
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        alone = torch.cat([attend_native(*(x[row : row + 1] for x in tensors), causal=True, scale=0.3) for row in range(5)])
    finally:
        torch.set_num_threads(before)
    assert torch.equal(whole, alone)


@made
def test_other_layouts_in_memory_give_the_same_bits():
    tensors = given_tensors((2, 4, 2, 50, 50, 16, 16))
    others = [x.detach().transpose(2, 3).contiguous().transpose(2, 3).requires_grad_() for x in tensors]
    for one, other in zip(both(by_native(True), tensors), both(by_native(True), others), strict=True):
        assert torch.equal(one, other)


@made
def test_no_future_key_and_no_other_row_is_read():
    q, k, v = (x.detach() for x in given_tensors((2, 2, 1, 70, 70, 16, 16)))
    before = attend_native(q, k, v, causal=True, scale=0.3)
    k[:, :, 41:], v[:, :, 41:], v[1] = 1e4, 1e4, float("nan")
    assert torch.equal(attend_native(q, k, v, causal=True, scale=0.3)[0, :, :41], before[0, :, :41])


@made
def test_the_operator_keeps_its_promises_to_a_compiler():
    tensors = given_tensors((2, 4, 2, 40, 40, 16, 16))
    torch.library.opcheck(torch.ops.anyformer.attend_native.default, (*tensors, True, 0.3))
    compiled = torch.compile(by_native(True), fullgraph=True, backend="aot_eager")
    for one, other in zip(both(by_native(True), tensors), both(compiled, tensors), strict=True):
        assert torch.equal(one, other)


@made
def test_products_of_all_pairs_are_counted():
    tensors = given_tensors((2, 4, 2, 40, 40, 16, 16))
    with FlopCounterMode(display=False) as counter:
        both(by_native(True), tensors)
    forward = 2 * (2 * 2 * 4 * 40 * 40 * 16)
    assert counter.get_total_flops() == forward + forward // 2 * 5


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_as_many_bytes_are_kept_as_by_torchs_kernel(precision):
    shape = Shape(batch=4, length=512)
    assert LEAST_PAIRS <= 4 * 12 * 512**2
    arch = change_all(catalogue("gpt2"), {"decoder.layer.attention.sublayer.dropout": 0.0})
    kept = [activations(arch, shape, Plan(precision=precision, attention=kernel)).saved for kernel in ("native", "sdpa")]
    assert kept[0] == kept[1]


def test_what_suits_it():
    q, k, v = (x.to("meta") for x in given_tensors((8, 4, 2, 256, 256, 64, 64)))
    assert suits_native(q, k, v, causal=True)
    assert not suits_native(q[:1], k[:1], v[:1], causal=True), "few pairs"
    assert not suits_native(q.double(), k.double(), v.double(), causal=True)
    assert not suits_native(q[:, :, :1], k, v, causal=False), "one query"
    assert not suits_native(q, k[:, :, :99], v[:, :, :99], causal=True), "no square"
    long = torch.empty(1, 4, MOST_KEYS + 1, 64, device="meta")
    assert not suits_native(long, long, long, causal=True)


@made
def test_a_model_with_it_learns_as_with_torchs_kernel(monkeypatch):
    monkeypatch.setattr(attend_native_file, "LEAST_PAIRS", 1)
    tokens = DECODERS["llama"].embedding.example(3, 40)
    found, called = [], []
    monkeypatch.setattr(
        attend_native_file, "_run", lambda *given, run=attend_native_file._run: (called.append(given[0]), run(*given))
    )
    for kernel in ("sdpa", "native"):
        assert not called
        model = build(DECODERS["llama"], Plan(precision="fp32", attention=kernel), seed=0)
        model(tokens).square().mean().backward()
        found.append([p.grad for p in model.parameters()])
    assert called.count("forward") == called.count("backward") > 0
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-5 * float(other.abs().max()))


class TestAPlan:
    """What a run takes."""

    def test_native_where_it_is_faster(self, monkeypatch):
        monkeypatch.setattr(attention_kernel, "problem", lambda source: "")
        monkeypatch.setattr(attention_kernel, "gain_of_native", lambda dtype: 1.9)
        plan, notes = with_kernel(Plan(precision="fp32"), CPU, long=True)
        assert plan.attention == "native"
        assert notes == ["attention by the kernel in C++, 1.9 times as fast here as the fastest other way"]
        assert with_kernel(Plan(precision="fp32"), CPU, long=False) == (Plan(precision="fp32"), [])
        assert with_kernel(Plan(precision="fp16"), CPU, long=True)[0].attention == "auto"
        monkeypatch.setattr(attention_kernel, "gain_of_native", lambda dtype: 0.9)
        assert with_kernel(Plan(precision="fp32"), CPU, long=True)[0].attention == "auto"

    def test_auto_without_a_compiler_and_a_refusal_where_it_was_asked_for(self, monkeypatch):
        monkeypatch.setattr(attention_kernel, "problem", lambda source: "no C++ compiler was found")
        assert with_kernel(Plan(precision="fp32"), CPU, long=True) == (Plan(precision="fp32"), [])
        with pytest.raises(UserError, match=r"plan\.attention: 'native' was asked for, but no C"):
            with_kernel(Plan(precision="fp32", attention="native"), CPU, long=False)

    @made
    def test_the_trial_compares_with_torchs_kernel(self):
        assert 0.05 < attention_kernel.gain_of_native(torch.float32) < 50


class TestALibrary:
    """How a source becomes one."""

    @pytest.fixture
    def place(self, tmp_path, monkeypatch):
        monkeypatch.setenv("ANYFORMER_CACHE", str(tmp_path))
        monkeypatch.setattr(native, "KEPT", Cache("native", files=50))
        native.library.cache_clear()
        yield tmp_path / "native"
        native.library.cache_clear()

    @pytest.fixture
    def source(self, tmp_path) -> Path:
        path = tmp_path / "seven.cpp"
        path.write_text('extern "C" int seven() { return 7; }\n')
        return path

    @made
    def test_compiled_once_kept_and_made_anew_where_it_is_damaged(self, place, source, monkeypatch):
        assert native.library(source).seven() == 7
        (kept,) = place.glob("*.so")
        first = kept.read_bytes()
        native.library.cache_clear()
        with monkeypatch.context() as nothing_to_compile:
            nothing_to_compile.setattr(native, "_compile", None)
            native.library(source)
        native.library.cache_clear()
        kept.unlink()
        kept.write_bytes(first[: len(first) // 2])
        assert native.library(source).seven() == 7
        assert kept.stat().st_size > len(first) // 2

    @made
    def test_a_source_with_a_fault_is_told_by_its_first_line(self, place, source):
        source.write_text("int seven( {\n")
        assert "did not compile seven.cpp: " in native.problem(source)
        assert not list(place.glob("*.so"))

    @made
    def test_a_compiler_older_than_the_newest_instructions_makes_it_without_them(self, place, source, monkeypatch):
        (usual,) = native.instructions()[-1:]
        monkeypatch.setattr(native, "instructions", lambda: [(*usual, "-mnothing-like-it"), usual])
        assert native.library(source).seven() == 7
        monkeypatch.setattr(native, "instructions", lambda: [(*usual, "-mnothing-like-it")])
        native.library.cache_clear()
        assert "did not compile seven.cpp" in native.problem(source)

    @made
    def test_another_header_beside_the_source_makes_another_library(self, place, source):
        source.write_text('#include "number.h"\nextern "C" int seven() { return NUMBER; }\n')
        for number in (7, 8):
            (source.parent / "number.h").write_text(f"#define NUMBER {number}\n")
            native.library.cache_clear()
            assert native.library(source).seven() == number

    @pytest.mark.parametrize(
        ("capability", "bytes", "pairs", "sets"),
        [
            ("AVX512", True, True, 3),
            ("AVX512", True, False, 2),
            ("AVX512", False, False, 1),
            ("AVX2", True, True, 1),
            ("DEFAULT", True, True, 0),
        ],
    )
    def test_bytes_and_pairs_only_where_torch_uses_their_instructions(self, monkeypatch, capability, bytes, pairs, sets):
        monkeypatch.setattr(native.platform, "machine", lambda: "x86_64")
        monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
        monkeypatch.setattr(torch.cpu, "_is_vnni_supported", lambda: bytes)
        monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: pairs)
        found = native.instructions()
        assert len(found) == sets
        assert [native.BYTES[0] in flags for flags in found] == [number + 1 < sets for number in range(sets)]
        assert [native.PAIRS[0] in flags for flags in found] == [number == 0 and sets == 3 for number in range(sets)]

    @pytest.mark.parametrize("capability", ["DEFAULT", "SVE256"])
    def test_arm_needs_no_flags(self, monkeypatch, capability):
        monkeypatch.setattr(native.platform, "machine", lambda: "aarch64")
        monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
        assert native.instructions() == [()]

    @pytest.mark.parametrize(("system", "machine"), [("Darwin", "arm64"), ("Linux", "riscv64"), ("Linux", "armv7l")])
    def test_where_nothing_was_tried_it_is_refused_with_what_this_is(self, source, monkeypatch, system, machine):
        monkeypatch.setattr(native.platform, "system", lambda: system)
        monkeypatch.setattr(native.platform, "machine", lambda: machine)
        monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "DEFAULT")
        native.library.cache_clear()
        said = "C++ kernels were tried on Linux with AVX2, AVX-512 or 64-bit ARM alone, and this is "
        assert native.problem(source) == f"{said}{system} on {machine} where torch uses DEFAULT"

    def test_no_compiler(self, place, source, monkeypatch):
        monkeypatch.setattr(native.shutil, "which", lambda name: None)
        assert "install g++" in native.problem(source) or "tried on Linux" in native.problem(source)
