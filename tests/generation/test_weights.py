"""Weights held for generating: every form computes what plain matrices do, and few rows are multiplied as they are stored."""

from __future__ import annotations

import re
from copy import deepcopy
from itertools import product

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from zoo import DECODERS, PAIRS

from anyformer.catalogue.llama import llama
from anyformer.describe import UserError
from anyformer.generation import Sampling, decode, generate_tokens, generating, prefill, weights
from anyformer.generation.native.decode import unavailable
from anyformer.generation.recorded import RecordedDecode
from anyformer.generation.weights import computing
from anyformer.model.transformer import build
from anyformer.parts.experts.chosen import chosen_product
from anyformer.parts.experts.grouped import grouped_product
from anyformer.processor import packs
from anyformer.quantising import FORMATS, HALF, SINGLE, Plain
from anyformer.quantising.joint import joined, read_together
from anyformer.quantising.model import dense, quantised
from anyformer.quantising.tensor import PackedMatrix, Quantised
from covering import covering, kinds, others_slow, rest_slow

KERNELS = {"bf16": HALF, "fp32": SINGLE, **{name: FORMATS[name] for name in ("int8", "int4", "int4-64", "int4-32")}}
FEW_BITS = ("fp8", "int8", "int4-32", "nf4")
LLAMA = llama(width=128, depth=2, heads=4, kv_heads=2, ffn=192, vocab=96)
"""Sizes that torch's kernels take."""
MODELS = {
    "llama": LLAMA,
    "pair": PAIRS["original"],
    **{name: DECODERS[name] for name in ("gpt2", "latent", "experts", "delta")},
}


def off(found: torch.Tensor, wanted: torch.Tensor) -> float:
    """The largest difference, as a share of the largest number."""
    return float((found.float() - wanted.float()).abs().max() / wanted.float().abs().max())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", KERNELS)
def test_few_rows_are_multiplied_as_the_matrix_is_stored(name, dtype, tiles, monkeypatch):
    torch.manual_seed(0)
    W = torch.randn(48, 256) * torch.linspace(0.1, 3, 48)[:, None]
    held = PackedMatrix.of(W, KERNELS[name]).to(dtype)
    plain, bias = held.restored.float(), torch.randn(48, dtype=dtype)
    monkeypatch.setattr(PackedMatrix, "restored", property(lambda self: pytest.fail("restored")))
    with torch.inference_mode():
        for shape in ((256,), (1, 256), (2, 1, 256), (4, 256), (3, 6, 256)):
            x = torch.randn(shape, dtype=dtype)
            assert (y := F.linear(x, held)).dtype == dtype
            assert off(y, F.linear(x.float(), plain)) < 0.01
            assert off(F.linear(x, held, bias), F.linear(x.float(), plain, bias.float())) < 0.01


def test_what_a_processor_packs_is_found_whatever_surrounds_the_question():
    plain = packs.__wrapped__(torch.float32)
    with FakeTensorMode():
        assert packs.__wrapped__(torch.float32) == plain
    with torch.device("meta"), torch.inference_mode():
        assert packs.__wrapped__(torch.float32) == plain
    assert not packs(torch.float64), "of which oneDNN has no products"


@pytest.mark.parametrize("name", KERNELS)
def test_many_rows_and_gradients_meet_the_restored_matrix(name):
    held = PackedMatrix.of(torch.randn(48, 256), KERNELS[name])
    x = torch.randn(200, 256, requires_grad=True)
    assert torch.equal(F.linear(x, held), F.linear(x, held.restored))
    with torch.no_grad():
        assert off(y := F.linear(x, held), F.linear(x, held.restored)) < 0.01
        # The kernel and the restored matrix, which meet at `most` rows, multiply by the same numbers.
        assert off(y[:8], F.linear(x[:8], held)) < 0.01
    F.linear(x[:1], held).sum().backward()
    torch.testing.assert_close(x.grad[0], held.restored.sum(0))


@pytest.mark.parametrize(("outputs", "inputs"), [(40, 250), (33, 60), (40, 32), (7, 64)])
@pytest.mark.parametrize("name", KERNELS)
def test_sizes_without_a_kernel_are_restored(name, outputs, inputs):
    held, x = PackedMatrix.of(torch.randn(outputs, inputs), KERNELS[name]), torch.randn(1, inputs)
    with torch.inference_mode():
        assert off(F.linear(x, held), F.linear(x, held.restored)) < 0.01
    filled_up = (name, inputs) in (("int4-32", 32), ("int4-32", 64), ("int4-64", 64), ("int8", 64))
    assert (held.product is None) == (name not in ("bf16", "fp32") and not filled_up)


@pytest.mark.parametrize(("name", "read"), [("int8", 128 + 2), ("int4-64", 128 // 2 + 128 // 64 * 4)])
@pytest.mark.parametrize("outputs", [1, 31, 97, 5003])
def test_outputs_that_fill_no_block_are_filled_up_in_the_kernels_copy(outputs, name, read, monkeypatch):
    torch.manual_seed(0)
    held = PackedMatrix.of(torch.randn(outputs, 128), FORMATS[name])
    plain = held.restored
    monkeypatch.setattr(PackedMatrix, "restored", property(lambda self: pytest.fail("restored")))
    with torch.inference_mode():
        for rows in (1, 3, 200):
            x = torch.randn(rows, 128)
            y = F.linear(x, held)
            assert y.shape == (rows, outputs)
            assert y.is_contiguous()
            assert off(y, F.linear(x, plain)) < 0.01
    assert held.read_bytes == -(-outputs // 16) * 16 * read


@pytest.mark.parametrize("shape", [(33, 64), (40, 250), (5, 96), (7, 62), (1, 63)], ids=str)
@pytest.mark.parametrize("name", ["int8", "fp8-row", "int4", "int4-64", "int4-32"])
def test_rows_are_those_of_the_restored_matrix(name, shape, monkeypatch):
    """Two codes share a byte, and so do the zero points of two rows where the groups of a row are an odd number.

    Rows of an odd number of such codes are those of the whole matrix, whose numbers are those of bf16.
    """
    torch.manual_seed(0)
    held = PackedMatrix.of(torch.randn(shape) * torch.linspace(0.1, 3, shape[0])[:, None], FORMATS[name])
    plain = held.restored
    if FORMATS[name].bits == 4 and shape[1] % 2:
        plain = plain.bfloat16().float()
    else:
        monkeypatch.setattr(PackedMatrix, "restored", property(lambda self: pytest.fail("restored")))
    index = torch.randint(0, shape[0], (3, 5), generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        found = F.embedding(index, held)
    for place, row in zip(index.flatten().tolist(), found.flatten(0, 1), strict=True):
        assert torch.equal(row, plain[place])


HELD = (MODELS, ("fp32", "bf16", *FEW_BITS), (False, True))


@pytest.mark.parametrize(("name", "form", "tiles"), rest_slow(product(*HELD), covering(*HELD)), indirect=["tiles"])
def test_every_model_computes_what_its_plain_matrices_do(name, form, tiles):
    model = build(MODELS[name], seed=3).eval()
    wanted = {"fp32": deepcopy(model), "bf16": deepcopy(model).bfloat16().float()}
    plain = wanted.get(form) or dense(quantised(model, FORMATS[form])[0]).float()
    made = generating(model, form)
    tokens = torch.randint(0, 16, (1, 5), generator=torch.Generator().manual_seed(0))
    inputs = (tokens, tokens[:, :1]) if made.architecture.two_inputs else (tokens,)
    with torch.inference_mode():
        assert off(made(*inputs), plain(*inputs)) < (1e-5 if form == "fp32" else 0.03)
    assert not any(parameter.requires_grad for parameter in made.parameters())
    computing = torch.bfloat16 if tiles and form != "fp32" else torch.float32
    assert {parameter.dtype for parameter in made.parameters()} == {computing}


def test_32_bits_are_computed_with_as_such_on_any_device(tiles):
    model = build(LLAMA)
    for device in ("cpu", "meta"):
        for dtype in (torch.float32, torch.bfloat16):
            narrow = dtype == torch.bfloat16 and (tiles or device == "meta")
            found = computing(model.to(device, dtype))
            assert found == (torch.bfloat16 if narrow else torch.float32)


def test_states_have_16_bits_beside_no_more():
    """Where steps are computed in C++, which reads them as they lie."""
    for form in ("fp32", "bf16", "int8", "int4-32"):
        model = generating(build(LLAMA), form)
        narrow = form != "fp32" and not unavailable()
        assert model.state(1, 8).layers[0]["attention"].key.dtype == (torch.bfloat16 if narrow else computing(model))


def test_gates_that_a_file_holds_in_32_bits_stay_so(tiles):
    model = build(DECODERS["delta_gated"], seed=3).eval().bfloat16()
    gates = [module for module in model.modules() if isinstance(getattr(module, "A_log", None), nn.Parameter)]
    exact = torch.rand(gates[0].A_log.shape)
    for module in gates:
        module.A_log = nn.Parameter(exact.clone())
    tokens = torch.randint(0, 16, (1, 5), generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        wanted = deepcopy(model).float()(tokens)
        assert off(generating(model)(tokens), wanted) < 0.03
    assert gates
    assert all(torch.equal(module.A_log, exact) for module in gates)


SHAPE = {"width": 128, "depth": 1, "heads": 4, "kv_heads": 2, "ffn": 192}
FORMS = {"int4-32": "int8", "int4-64/int4-32": "int4-32", "int8/int4": "int4", "stored/int4-64": "int4-64"}
"""The format of tables in each form."""


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("vocab", [96, 97])
@pytest.mark.parametrize("form", FORMS)
def test_tables_beside_few_bits_are_in_few_too(form, vocab, tied, monkeypatch):
    """Rows are looked up and logits made as the table is stored, and both are those of the restored model."""
    model = build(llama(**SHAPE, vocab=vocab, tied=tied), seed=3).eval()
    exact = {path: value.bfloat16() for path, value in model.named_parameters() if path in ("embedding.weight", "head.weight")}
    made = generating(quantised(model, FORMATS["int4-32"])[0] if form.startswith("stored") else model, form)
    tables = {path: value for path, value in made.named_parameters() if path in exact}
    assert len(tables) == (1 if tied else 2)
    plain = build(model.architecture).eval()
    plain.load_state_dict(
        {path: value.restored if isinstance(value, PackedMatrix) else value for path, value in made.named_parameters()}
    )
    for path, table in tables.items():
        wanted = Quantised.of(exact[path].float(), FORMATS[FORMS[form]])
        assert torch.equal(table.restored, wanted.restored.to(table.dtype))
        assert table.stored_bytes == wanted.stored_bytes
    monkeypatch.setattr(PackedMatrix, "restored", property(lambda self: pytest.fail("restored")))
    with torch.inference_mode():
        tokens = torch.tensor([[5, 95]])
        assert torch.equal(made.embedding(tokens, None, None).float(), plain.embedding(tokens, None, None))
        assert off(made(tokens), plain(tokens)) < 0.02
        (text,) = generate_tokens(made, [[1, 2, 3]], max_tokens=12, sampling=Sampling(temperature=0))
        logits = plain(torch.tensor([[1, 2, 3, *text]]))[0, 2:-1]
    # Its likeliest token, or one that rounding cannot tell from it.
    assert (logits.amax(-1) - logits[range(12), text] < 0.02 * logits.abs().max()).all()


def test_tables_that_nobody_names_a_format_for_may_stay_in_sixteen():
    model = build(llama(**SHAPE | {"width": 96}, vocab=96), seed=3).eval()
    stored = generating(quantised(model, FORMATS["int4-32"])[0])
    wide = generating(quantised(model, FORMATS["int4-32"])[0].float(), "stored/bf16")
    for made in (stored, wide, generating(model, "int4-32"), generating(model, "int4-32/bf16")):
        table = made.get_parameter("embedding.weight")
        assert torch.equal(table.planes["codes"], model.get_parameter("embedding.weight").bfloat16())


def test_fp32_gives_the_same_tokens_from_matrices_as_they_are_held(tiles):
    model = build(LLAMA, seed=3).eval()
    plain = deepcopy(model)
    made = generating(model)
    assert made is model
    up = made.get_parameter("decoder.layers.0.feedforward.sublayer.up.weight")
    assert torch.equal(up.restored, plain.get_parameter("decoder.layers.0.feedforward.sublayer.up.weight"))
    assert up.stored_bytes == up.restored.nbytes
    settings = {"max_tokens": 12, "sampling": Sampling(temperature=0)}
    assert generate_tokens(made, [[1, 2, 3]], **settings) == generate_tokens(plain, [[1, 2, 3]], **settings)


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("name", ["fp32", "bf16", "int8", "int4-32", "nf4"])
def test_rows_meet_the_experts_of_their_groups(name, whole):
    torch.manual_seed(0)
    experts, format = torch.randn(3, 32, 64), FORMATS["nf4"] if name == "nf4" else KERNELS[name]
    planes = format.ordered(experts) if isinstance(format, Plain) else format.quantised(experts)
    held = PackedMatrix(planes, format, (3, 32, 64), torch.float32)
    if name == "fp32":
        assert torch.equal(held.restored, experts)
    rows, ends = torch.randn(5, 64), torch.tensor([2, 2, 5 if whole else 4])
    with torch.inference_mode():
        for _ in range(2):
            y = grouped_product(rows, held, ends, whole=whole)
            assert off(y, grouped_product(rows, held.restored, ends, whole=whole)) < 0.01
        for numbers in ([0, 2], [2, 2, 0, 3, 2]):
            expert, some = torch.tensor(numbers), rows[: len(numbers)]
            wanted = [torch.zeros(32) if x == 3 else held.restored[x] @ row for row, x in zip(some, numbers, strict=True)]
            for _ in range(2):
                assert off(chosen_product(some, held, expert), torch.stack(wanted)) < 0.01


class Maps(torch.nn.Module):
    """Three maps of one input, one of two, and one that is called with two."""

    def __init__(self, format):
        super().__init__()
        for leaf, outputs in {"q": 64, "k": 16, "v": 32, "o": 64, "again": 64}.items():
            value = torch.randn(outputs, 64)
            value = value.to(torch.bfloat16) if format == HALF else value if format == SINGLE else Quantised.of(value, format)
            self.register_parameter(leaf, torch.nn.Parameter(value, False))

    def forward(self, x):
        q, k, v = F.linear(x, self.q), F.linear(x, self.k, torch.ones(16)), F.linear(x, self.v)
        y = F.linear(x + 1, self.again) + F.linear(q, self.o)
        return torch.cat([q, k, v, F.linear(y, self.o), F.linear(y, self.again)], -1)


@pytest.mark.parametrize("name", ["bf16", "fp32", "int8", "int4-32"])
def test_matrices_that_read_the_same_input_are_joined(name):
    """One product in the place of three, and every value stays; a matrix with two inputs stands alone."""
    torch.manual_seed(0)
    model, one, several = Maps(KERNELS[name]), torch.randn(1, 1, 64), torch.randn(2, 40, 64)
    values = dict(model.named_parameters())
    among = {id(value) for leaf, value in values.items() if leaf != "v"}
    dtype = model.q.dtype
    (few,) = read_together(lambda: model(one.to(dtype)), among)
    assert [id(value) for value in few] == [id(values[leaf]) for leaf in "qk"]
    (group,) = read_together(lambda: model(one.to(dtype)), {id(value) for value in values.values()})
    assert [id(value) for value in group] == [id(values[leaf]) for leaf in "qkv"]
    with torch.inference_mode():
        exact = {leaf: dense_of(value) for leaf, value in values.items()}
        wanted = [torch.cat([x @ exact["q"].T, x @ exact["k"].T, x @ exact["v"].T], -1) for x in (one, several)]
        pieces = joined(group, torch.float32)
        for x, expected in zip((one, several), wanted, strict=True):
            assert off(torch.cat([F.linear(x, piece) for piece in pieces], -1), expected) < (1e-6 if name == "fp32" else 0.01)
        for leaf, piece in zip("qkv", pieces, strict=True):
            assert torch.equal(piece.restored, exact[leaf])
        before = sum(value.stored_bytes if isinstance(value, Quantised) else value.nbytes for value in group)
        assert sum(piece.stored_bytes for piece in pieces) == pytest.approx(before, abs=4)
        seen = []
        whole = pieces[0].joint.whole
        type(whole).times, original = lambda self, x, bias: seen.append(self) or original(self, x, bias), type(whole).times
        [F.linear(one, piece) for piece in pieces]
        type(whole).times = original
        assert sum(each is whole for each in seen) == 1


@pytest.mark.parametrize("name", others_slow({**DECODERS, **PAIRS}, kinds))
def test_every_kind_of_model_is_laid_out(name):
    """What reads the same input is found by a pass that computes no product, whatever the model's parts do with zeros."""
    model = build({**DECODERS, **PAIRS}[name], seed=1).eval()
    exact = {path: value.detach().clone() for path, value in model.named_parameters()}
    for path, value in generating(model).named_parameters():
        assert torch.equal(dense_of(value).float(), exact[path].float()), path


def dense_of(value):
    return value.restored if isinstance(value, Quantised) else value.float()


@pytest.mark.parametrize("form", ["bf16", "int8", "int4-64"])
def test_a_recorded_step_repeats_the_kernels_bit_for_bit(form, monkeypatch):
    model = generating(build(LLAMA, seed=3).eval(), form)
    calls, tokens = [], torch.tensor([[1, 2, 3]])
    step = RecordedDecode(lambda recorder, logits: calls.extend(recorder.calls) or recorder.written(logits))
    with torch.inference_mode():
        states = [model.state(1, 16) for _ in range(2)]
        for state in states:
            prefill(model, tokens, None, state)
            state.slots.reserve(1, 16)
        first = step(model, torch.tensor([3]), states[0])
        assert off(first, decode(model, torch.tensor([3]), states[1])) < 0.01
        if form != "bf16":
            monkeypatch.setattr(PackedMatrix, "restored", property(lambda self: pytest.fail("restored")))
        for token in (4, 5, 6, 7):
            for state in states:
                state.slots.reserve(1, 16)
            next_B = torch.tensor([token])
            assert torch.equal(step(model, next_B, states[0]), decode(model, next_B, states[1]))
    assert step.recording.bind is not None
    assert calls
    assert not any("convert" in str(call.function) for call in calls), "a step is not to lay out a matrix again"


def test_experts_that_are_not_chosen_are_not_restored(monkeypatch):
    model = generating(build(DECODERS["experts"], seed=3).eval(), "int8")
    seen = []
    whole = Quantised.restored.fget
    monkeypatch.setattr(Quantised, "restored", property(lambda self: seen.append(self.dim()) or whole(self)))
    with torch.inference_mode():
        model(torch.tensor([[1]]))
    assert 2 in seen
    assert 3 not in seen


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("int5",), "'int5' is no format of weights; there are fp32"),
        (("int4/int5",), "'int5' is no format of weights; there are fp32"),
        (("int4/",), "'' is no format of weights"),
        (
            ("bf16/int8",),
            "weights 'bf16/int8': tables have a format of their own beside layers in 8 and 4 bits alone: leave /int8 out",
        ),
        (
            ("int4/nf4",),
            "no kernel multiplies by a table in nf4: take bf16, int8, int4, int4-64, int4-32, or leave /nf4 out",
        ),
        (("int4/fp32",), "no kernel multiplies by a table in fp32"),
        (("int4/int4", 1, "cuda"), "tables in few bits are a processor's, and the model is on cuda: leave /int4 out"),
        (("stored/int4", 2), "'stored/int4' are not divided among 2 processes yet"),
    ],
)
def test_words_for_weights_that_cannot_be_are_refused(given, said):
    with pytest.raises(UserError, match=re.escape(said)):
        weights.check_weights(*given)


def test_tables_of_other_sizes_and_a_second_rounding_are_refused():
    few = quantised(build(LLAMA), FORMATS["int8"])[0]
    assert any(isinstance(value, PackedMatrix) for value in generating(few).parameters())
    for form, said in (("bf16", "leave --weights out"), ("int4", "in few bits already")):
        with pytest.raises(UserError, match=said):
            generating(quantised(build(LLAMA), FORMATS["int8"])[0], form)
    model = build(llama(**SHAPE | {"width": 96}, vocab=97)).eval()
    before = dict(model.named_parameters())
    for form, said in (
        ("int4-32/int4-64", r"embedding.weight has 97 x 96 numbers, and no kernel multiplies by so many in int4-64"),
        ("int8/int8", r"embedding.weight has 97 x 96 numbers, and no kernel multiplies by so many in int8"),
        ("stored/int4-32", r"the layers are not stored in few bits: name a format for them too"),
    ):
        with pytest.raises(UserError, match=said):
            generating(model, form)
    assert all(value is before[path] for path, value in model.named_parameters())
