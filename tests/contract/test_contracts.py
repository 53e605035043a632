"""What every part and every architecture owes (DESIGN: what every part owes), over the whole zoo."""

from __future__ import annotations

import naive
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from zoo import DECODERS, ENCODERS, PAIRS, SOURCES, VOCAB, ZOO

from anyformer.describe import from_json, from_toml, to_json, to_toml
from anyformer.model import Architecture, InputError, Transformer, build, materialise
from anyformer.pictures import masks_of
from anyformer.plan import Plan
from anyformer.tally import Shape

B, T, S = 2, 11, 7
every = pytest.mark.parametrize("name", ZOO)
decoders = pytest.mark.parametrize("name", DECODERS)


def tokens(rows: int = B, length: int = T, seed: int = 0, vocab: int = VOCAB) -> torch.Tensor:
    return torch.randint(0, vocab, (rows, length), generator=torch.Generator().manual_seed(seed))


def inputs(architecture: Architecture, rows: int = B, length: int = T) -> tuple[torch.Tensor, ...]:
    """What the model reads: one input, or a source of S positions and a target of `length`."""
    if not architecture.two_inputs:
        return (architecture.embedding.example(rows, length),)
    return architecture.embedding.example(rows, S, seed=1), architecture.output_embedding.example(rows, length)


def model_of(name: str, **more) -> Transformer:
    return build(ZOO[name], **more).eval()


@every
def test_declared_weights_are_the_modules_parameters(name):
    model = Transformer(ZOO[name])
    declared = ZOO[name].cost(Shape()).weights
    assert {n: tuple(p.shape) for n, p in model.named_parameters()} == {n: w.shape for n, w in declared.items()}


@every
@pytest.mark.parametrize("kernel", [pytest.param("plain", marks=pytest.mark.slow), "sdpa"])
def test_declared_flops_of_both_passes_are_the_counted_ones(name, kernel):
    architecture = ZOO[name]
    model = build(architecture, Plan(attention=kernel), device="meta")
    with FlopCounterMode(display=False) as counter:
        output = model(*(x.to("meta") for x in inputs(architecture)))
        forward = counter.get_total_flops()
        output.sum().backward()
    shape = Shape(batch=B, length=T, source=S if architecture.two_inputs else 0)
    declared = architecture.cost(shape).total_flops
    assert (declared.dense, declared.backward) == (forward, counter.get_total_flops() - forward)


RECURRENT = [name for name in ZOO if name.startswith(("linear", "lightning", "delta", "pair_recurrent"))]


@pytest.mark.parametrize("length", [3, 11, 12])
@pytest.mark.parametrize("name", RECURRENT)
def test_flops_of_recurrences_by_chunks_both_ways(name, length):
    """Chunks of 3: one, several, and a last one that is not full."""
    architecture, plan = ZOO[name], Plan(chunk=3)
    model = build(architecture, plan, device="meta")
    with FlopCounterMode(display=False) as counter:
        output = model(*(x.to("meta") for x in inputs(architecture, length=length)))
        forward = counter.get_total_flops()
        output.sum().backward()
    declared = architecture.cost(Shape(batch=B, length=length, source=S if architecture.two_inputs else 0), plan).total_flops
    assert (declared.dense, declared.backward) == (forward, counter.get_total_flops() - forward)


@decoders
def test_declared_flops_of_a_decode_step_are_the_counted_ones(name):
    architecture = ZOO[name]
    model = build(architecture, device="meta").eval()
    state = model.state(B, T)
    model(tokens(B, T - 1).to("meta"), state=state)
    with FlopCounterMode(display=False) as counter:
        model(tokens(B, 1).to("meta"), state=state)
    flops = architecture.cost(Shape(batch=B, length=1, past=T - 1)).total_flops
    if any(mask.reach for mask in masks_of(architecture)):
        # A ring holds no more keys than the mask reaches, so fewer than all are met.
        assert counter.get_total_flops() <= flops.dense
    else:
        assert counter.get_total_flops() == flops.dense


@every
def test_exact_flops_never_exceed_dense_ones(name):
    flops = ZOO[name].cost(Shape(batch=B, length=T, source=S)).total_flops
    assert 0 < flops.exact <= flops.dense


@every
def test_the_naive_twin_agrees_in_outputs_and_gradients(name):
    architecture = ZOO[name]
    model = build(architecture, dtype=torch.float64).eval()
    given = inputs(architecture, rows=1, length=6)
    prefix = 3 if "prefix" in name else 0
    ours = model(*given, prefix=torch.tensor([prefix]) if prefix else None)[0]
    weights = {n: p.detach().clone().requires_grad_() for n, p in model.named_parameters()}
    theirs = naive.forward(architecture, weights, *(x[0].tolist() for x in given), prefix=prefix)
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)  # rotary angles and sinusoids are fp32 in the model
    direction = torch.randn(ours.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    (ours * direction).sum().backward()
    (theirs * direction).sum().backward()
    for n, parameter in model.named_parameters():
        if not parameter.requires_grad:  # running statistics
            continue
        assert parameter.grad is not None, f"{n} gets no gradient"
        assert parameter.grad.isfinite().all()
        torch.testing.assert_close(parameter.grad, weights[n].grad, rtol=1e-3, atol=5e-5, msg=lambda m, n=n: f"{n}: {m}")


@decoders
def test_no_token_sees_a_later_one(name):
    model, x = model_of(name), tokens()
    assert not model.architecture.cost(Shape()).breaks("causal")
    y = x.clone()
    y[:, 6:] = (y[:, 6:] + 1) % VOCAB
    before, after = model(x), model(y)
    torch.testing.assert_close(before[:, :6], after[:, :6])
    assert (before[:, 6:] - after[:, 6:]).abs().amax(-1).min() > 1e-4


@pytest.mark.parametrize("name", ENCODERS)
def test_masks_that_look_ahead_say_so_and_do(name):
    model, x = model_of(name), tokens()
    assert model.architecture.cost(Shape()).breaks("causal")
    y = x.clone()
    y[:, 6:] = (y[:, 6:] + 1) % VOCAB
    assert (model(x)[:, 5] - model(y)[:, 5]).abs().max() > 1e-4


CUTS = [(1,) * T, (T,), (5, 1, 1, 4), (1, 9, 1), (2, 2, 7)]


@decoders
@pytest.mark.parametrize("cut", CUTS, ids=lambda cut: "+".join(map(str, cut)))
def test_cached_and_chunked_equal_the_whole(name, cut):
    model, x = model_of(name), tokens()
    whole = model(x)
    state = model.state(B, T + 3)
    pieces = [model(piece, state=state) for piece in x.split(cut, 1)]
    torch.testing.assert_close(torch.cat(pieces, 1), whole, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["prefix", "prefix_or_window"])
def test_a_prefix_must_come_in_one_piece(name):
    model, x = model_of(name), tokens()
    assert model.architecture.cost(Shape()).breaks("chunked")
    prefix = torch.tensor([5, 3])
    whole = model(x, prefix=prefix)
    assert (whole - model(x)).abs().max() > 1e-3, "the prefix should matter"
    state = model.state(B, T)
    kept = torch.cat([model(x[:, :6], prefix=prefix, state=state), model(x[:, 6:], state=state)], 1)
    torch.testing.assert_close(kept, whole, rtol=1e-4, atol=1e-5)
    state = model.state(B, T)
    broken = torch.cat([model(x[:, :2], prefix=prefix, state=state), model(x[:, 2:], prefix=prefix, state=state)], 1)
    assert (broken - whole).abs().max() > 1e-3, "the declared limit should be real"


@pytest.mark.parametrize("name", PAIRS | SOURCES)
@pytest.mark.parametrize("cut", CUTS[:3], ids=lambda cut: "+".join(map(str, cut)))
def test_cached_target_equals_the_whole(name, cut):
    model = model_of(name)
    source, target = inputs(model.architecture)
    padding = None
    if source.dim() < 4:  # images have none
        padding = torch.zeros(source.shape[:2], dtype=torch.bool)
        padding[0, -4:] = True
    whole = model(source, target, padding=padding)
    state = model.state(B, T, source=S)
    first, *rest = target.split(cut, 1)
    pieces = [model(source, first, padding=padding, state=state)] + [model(None, piece, state=state) for piece in rest]
    torch.testing.assert_close(torch.cat(pieces, 1), whole, rtol=1e-4, atol=1e-5)


@every
def test_decode_state_takes_the_declared_bytes(name):
    from anyformer.parts.call.state import Slots

    architecture = ZOO[name]
    if architecture.decoder is None or architecture.latents is not None:
        assert architecture.cost(Shape(batch=3, capacity=20)).total_state_bytes == 0, "what does not generate keeps no state"
        return
    state = build(architecture).state(3, 20, source=S)
    shape = Shape(batch=3, length=1, capacity=20, source=S if architecture.two_inputs else 0)
    room = 20 + (S if architecture.source == "prefix" else 0)
    fp32 = Plan(precision="fp32")  # as the module is built
    assert state.nbytes == architecture.cost(shape, fp32).total_state_bytes + Slots.bytes(3, room)


def padded(x: torch.Tensor, left: int, right: int) -> tuple[torch.Tensor, torch.Tensor]:
    padding = torch.ones(len(x), left + x.shape[1] + right, dtype=torch.bool)
    padding[:, left : left + x.shape[1]] = False
    wide = torch.full_like(padding, 5, dtype=torch.int64)
    wide[:, left : left + x.shape[1]] = x
    return wide, padding


@pytest.mark.parametrize("name", DECODERS | ENCODERS)
@pytest.mark.parametrize(("left", "right"), [(4, 0), (0, 3), (2, 1)])
def test_a_padded_row_equals_the_row_alone(name, left, right):
    model, x = model_of(name), tokens()
    wide, padding = padded(x, left, right)
    y = model(wide, padding=padding)
    assert y.isfinite().all()
    torch.testing.assert_close(y[:, left : left + T], model(x), rtol=1e-4, atol=1e-5)


@decoders
def test_left_padding_and_decode_state_together(name):
    model, x = model_of(name), tokens()
    wide, padding = padded(x, 4, 0)
    state = model.state(B, T + 4)
    pieces = [
        model(wide[:, :9], padding=padding[:, :9], state=state),
        *(model(p, state=state) for p in wide[:, 9:].split(1, 1)),
    ]
    torch.testing.assert_close(torch.cat(pieces, 1)[:, 4:], model(x), rtol=1e-4, atol=1e-5)


@decoders
def test_right_padding_and_decode_state_together(name):
    model, x = model_of(name), tokens()
    wide, padding = padded(x[:, :7], 0, 3)
    padding[1] = False
    wide[1] = tokens(length=10, seed=2)[0]
    state = model.state(B, 16)
    first = model(wide, padding=padding, state=state)
    later = torch.cat([model(piece, state=state) for piece in x[:, 7:].split(1, 1)], 1)
    torch.testing.assert_close(torch.cat([first[:1, :7], later[:1]], 1), model(x[:1]), rtol=1e-4, atol=1e-5)
    whole = torch.cat([wide[1:], x[1:, 7:]], 1)
    torch.testing.assert_close(torch.cat([first[1:], later[1:]], 1), model(whole), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["window", "lightning"])
def test_padding_within_a_row_is_refused_where_slots_are_counted(name):
    model, x = model_of(name), tokens()
    state = model.state(B, T)
    model(x[:, :4], state=state)
    padding = torch.zeros(B, 3, dtype=torch.bool)
    padding[0, 0] = True
    if state.gaps:
        model(x[:, 4:7], padding=padding, state=state)
    else:
        with pytest.raises(InputError, match="pad the first chunk"):
            model(x[:, 4:7], padding=padding, state=state)


@pytest.mark.parametrize("name", PAIRS)
def test_a_padded_source_equals_the_source_alone(name):
    model = model_of(name)
    source, target = inputs(model.architecture)
    wide, padding = padded(source, 2, 3)
    torch.testing.assert_close(model(wide, target, padding=padding), model(source, target), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", DECODERS | ENCODERS)
def test_packed_documents_equal_each_alone(name):
    model, x = model_of(name), tokens()
    documents = torch.tensor([[0] * 4 + [1] * 7, [3] * 1 + [4] * 10])
    reasons = model.architecture.cost(Shape()).breaks("packed")
    if reasons:
        with pytest.raises(InputError, match=reasons[0]):
            model(x, documents=documents)
        return
    packed = model(x, documents=documents)
    torch.testing.assert_close(packed[0, :4], model(x[:1, :4])[0], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(packed[0, 4:], model(x[:1, 4:])[0], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(packed[1, 1:], model(x[1:, 1:])[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", PAIRS)
def test_cross_attention_refuses_packing(name):
    model = model_of(name)
    source, target = inputs(model.architecture)
    with pytest.raises(InputError, match=r"cross-attention|a source stands before"):
        model(source, target, documents=torch.zeros_like(source))


@every
def test_bf16_stays_near_fp32(name):
    given = inputs(ZOO[name])
    model = model_of(name)
    with torch.no_grad():
        exact = model(*given)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            rough = model(*given).float()
    # bf16 keeps 8 bits: a relative step of 2^-8, and errors add up over two or three layers of loud weights.
    assert (rough - exact).norm() / exact.norm() < 0.05


@every
def test_the_description_survives_text(name):
    architecture = ZOO[name]
    for write, read in ((to_toml, from_toml), (to_json, from_json)):
        text = write(architecture)
        again = read(Architecture, text)
        assert again == architecture
        assert hash(again) == hash(architecture)
        assert write(again) == text


@every
def test_meta_then_materialise_equals_building(name):
    direct = build(ZOO[name], seed=5)
    late = materialise(build(ZOO[name], device="meta"), "cpu", seed=5)
    assert not list(direct.buffers()), "no buffer, so none can be lost"
    for (n, a), (m, b) in zip(direct.named_parameters(), late.named_parameters(), strict=True):
        assert n == m
        assert torch.equal(a, b)


@every
def test_kernels_agree(name):
    given = inputs(ZOO[name])
    plain, sdpa = (build(ZOO[name], Plan(attention=kernel)).eval()(*given) for kernel in ("plain", "sdpa"))
    torch.testing.assert_close(plain, sdpa, rtol=1e-4, atol=1e-5)


@decoders
def test_forked_state_continues_like_its_row(name):
    model, x = model_of(name), tokens()
    state = model.state(B, T)
    model(x[:, :7], state=state)
    rows = torch.tensor([1, 0, 1])
    fork = state.fork(rows)
    model(x[:, 7:9], state=state)
    torch.testing.assert_close(model(x[rows, 7:], state=fork), model(x[rows])[:, 7:], rtol=1e-4, atol=1e-5)
