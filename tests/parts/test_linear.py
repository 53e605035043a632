"""Linear attention, lightning attention, delta attention, short convolutions: what the contract tests do not ask."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from zoo import DECODERS, RECURRENT, ZOO

from anyformer.describe import DescriptionError, change
from anyformer.generation import Sampling, continuations
from anyformer.model.transformer import build
from anyformer.operations import Shape
from anyformer.parts import (
    ChannelDecay,
    DeltaAttention,
    EluPlusOne,
    ExponentialNormalised,
    GatedConvolution,
    Identity,
    LightningAttention,
    LinearAttention,
    PositiveRandom,
    RandomFourier,
    Rectified,
    Rotary,
    ScalarDecay,
    ShortConvolution,
    UnitLength,
)
from anyformer.parts.call.recurrent_state import ConvolutionState, RecurrentState
from anyformer.parts.call.state import StateError
from anyformer.parts.recurrence.decay_module import DecayModule
from anyformer.parts.recurrence.recurrence import delta_recurrence, linear_recurrence
from anyformer.plan import Plan
from covering import but_slow

recurrent = pytest.mark.parametrize("name", [name for name in RECURRENT if name in DECODERS])
FEW = [
    "linear_elu",
    "linear_identity_rotary",
    "lightning",
    "delta",
    "delta_gated",
    "delta_channels",
    "gated_convolution_wide",
    "mamba",
    "mamba2",
]
few = pytest.mark.parametrize("name", FEW)
X = torch.randint(0, 37, (2, 23), generator=torch.Generator().manual_seed(0))
B, K, G, M, E = 2, 2, 3, 4, 5


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def one_by_one(q, k, v, log_decay, state, beta=None):
    """The recurrence as written, token after token."""
    out = []
    for t in range(q.shape[-2]):
        if log_decay is not None:
            state = log_decay[..., t, :].exp()[..., None] * state
        key, value = k[..., t, :, None], v[..., t, None, :]
        if beta is not None:
            value = beta[..., t, :, None] * (value - (key * state).sum(-2, keepdim=True))
        state = state + key * value
        out.append((q[..., t, :, None] * state).sum(-2))
    return torch.stack(out, -2), state


def arguments(rule: str, decay: int | None, length: int, strength: float = 1.0) -> list[torch.Tensor | None]:
    """q, k, v, log-decay, state and, for the delta rule, beta: with groups of queries, or of values."""
    wide, narrow = (B, K, G, length), (B, K, 1, length)
    values = wide if rule == "delta" else narrow
    log_decay = None if decay is None else -strength * drawn(*values, decay, seed=4).abs()
    state = drawn(*values[:3], M, E, seed=5)
    k = drawn(*narrow, M, seed=2)
    k = k / k.norm(dim=-1, keepdim=True)
    given = [drawn(*(wide if rule == "linear" else narrow), M, seed=1), k, drawn(*values, E, seed=3), log_decay, state]
    return [*given, drawn(*values, 1, seed=6).sigmoid()] if rule == "delta" else given


def chunked(rule: str, given, chunk: int, segments=None):
    if rule == "linear":
        return linear_recurrence(*given, chunk=chunk, segments=segments)
    q, k, v, log_decay, state, beta = given
    return delta_recurrence(q, k, v, beta, log_decay, state, chunk=chunk, segments=segments)


rules = pytest.mark.parametrize("rule", ["linear", "delta"])
decays = pytest.mark.parametrize("decay", [None, 1, M], ids=["no_decay", "scalar", "channels"])


@rules
@decays
@pytest.mark.parametrize("chunk", [1, 3, 4, 64])
@pytest.mark.parametrize("length", [1, 11])
def test_chunks_of_any_size_are_the_recurrence(rule, decay, chunk, length):
    given = [None if x is None else x.requires_grad_() for x in arguments(rule, decay, length)]
    ours, theirs = chunked(rule, given, chunk), one_by_one(*given)
    leaves = [x for x in given if x is not None]
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b)
    gradients = [torch.autograd.grad([(y * drawn(*y.shape, seed=7)).sum() for y in pair], leaves) for pair in (ours, theirs)]
    for a, b in zip(*gradients, strict=True):
        torch.testing.assert_close(a, b)


@rules
@pytest.mark.parametrize("decay", [1, M], ids=["scalar", "channels"])
def test_strong_decay_stays_finite_in_fp32(rule, decay):
    given = [x.float().requires_grad_() for x in arguments(rule, decay, 40, strength=300.0)]
    mixed, state = chunked(rule, given, 16)
    torch.testing.assert_close(mixed, one_by_one(*given)[0])
    for gradient in torch.autograd.grad(mixed.sum() + state.sum(), given):
        assert gradient.isfinite().all()


@rules
@decays
@pytest.mark.parametrize("chunk", [2, 4, 64])
def test_documents_start_from_nothing(rule, decay, chunk):
    given = arguments(rule, decay, 11)
    given[4] = None
    segments = torch.tensor([[0] * 4 + [1] * 7, [0] + [1] * 2 + [2] * 8])
    mixed, _ = chunked(rule, given, chunk, segments)
    for row, cuts in enumerate([(4, 7), (1, 2, 8)]):
        pieces = zip(*[[None] * len(cuts) if x is None else x[row : row + 1].split(cuts, -2) for x in given], strict=True)
        alone = torch.cat([chunked(rule, piece, 64)[0] for piece in pieces], -2)
        torch.testing.assert_close(mixed[row : row + 1], alone)


@few
def test_chunks_padding_documents_and_state_together(name):
    model = build(ZOO[name], Plan(chunk=4)).eval()
    whole = model(X)
    state = model.state(2, 40)
    pieces = [model(piece, state=state) for piece in X.split((9, 1, 6, 1, 1, 5), 1)]
    torch.testing.assert_close(torch.cat(pieces, 1), whole, rtol=1e-4, atol=1e-5)
    documents = torch.tensor([[0] * 9 + [1] * 14, [0] * 3 + [1] * 4 + [2] * 16])
    packed = model(X, documents=documents)
    torch.testing.assert_close(packed[:1, 9:], model(X[:1, 9:]), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(packed[1:, 3:7], model(X[1:, 3:7]), rtol=1e-4, atol=1e-5)


@few
def test_padding_anywhere_in_a_chunk_leaves_the_state_alone(name):
    """A row padded on the right goes on after its padding, and one that waits for the others stays where it is."""
    model = build(ZOO[name]).eval()
    state = model.state(2, 40)
    filled, padding = torch.full((2, 9), 5), torch.ones(2, 9, dtype=torch.bool)
    for row, places in enumerate([range(2, 8), (0, 1, 4, 5, 6, 8)]):
        filled[row, list(places)], padding[row, list(places)] = X[row, :6], False
    first = torch.stack([y[keep] for y, keep in zip(model(filled, padding=padding, state=state), ~padding, strict=True)])
    waiting = torch.tensor([[True], [True]])
    model(X[:, :1], padding=waiting, state=state)
    rest = model(X[:, 6:], state=state)
    torch.testing.assert_close(torch.cat([first, rest], 1), model(X), rtol=1e-4, atol=1e-5)


@few
def test_prompts_of_different_lengths_go_on_as_alone(name):
    model, prompts = build(ZOO[name]).eval(), [X[0, :9].tolist(), X[1, :2].tolist()]
    greedy = partial(continuations, model, sampling=Sampling(temperature=0), max_tokens=6)
    together = torch.stack(list(greedy(prompts)), 1)
    for row, prompt in enumerate(prompts):
        assert torch.equal(torch.stack(list(greedy([prompt])), 1)[0], together[row])


@recurrent
def test_memory_does_not_grow(name):
    mixer = next(iter(ZOO[name].decoder.variants.values())).sublayers[0]
    sizes = {mixer.state(24, 3, room, 0, torch.float32, torch.device("cpu")).nbytes for room in (10, 1000)}
    assert sizes == {
        mixer.cost(24, Shape(batch=3, capacity=room), Plan(precision="fp32")).total_state_bytes for room in (10, 1000)
    }
    assert len(sizes) == 1


def test_sums_are_kept_in_fp32_and_inputs_of_convolutions_in_their_type():
    mixer = DeltaAttention(heads=2, key_width=4, convolution=ShortConvolution())
    state = mixer.state(24, 3, 9, 0, torch.bfloat16, torch.device("cpu"))
    assert state.nbytes == 3 * 2 * 4 * 4 * 4 + 3 * 3 * 24 * 2
    assert state.nbytes == mixer.cost(24, Shape(batch=3), Plan(precision="bf16")).total_state_bytes


def test_work_grows_linearly_with_length():
    for name in RECURRENT:
        beside = ZOO[name].virtual_tokens or 0  # they stand in front of every length
        first, second, third = (ZOO[name].cost(Shape(length=n - beside)).flops for n in (4096, 8192, 16384))
        mixers = [key for key in first if "layers.0." in key]
        assert mixers
        for key in mixers:
            assert (second[key].dense, third[key].dense) == (2 * first[key].dense, 4 * first[key].dense)


class Written(TorchDispatchMode):
    """Counts the numbers that all operations inside give."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = 0

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        result = operation(*args, **(kwargs or {}))
        self.numbers += sum(x.numel() for x in tree_leaves(result) if isinstance(x, torch.Tensor))
        return result


@pytest.mark.parametrize("rule", ["linear", "delta"])
def test_gradients_grow_linearly_with_length(rule):
    def written(length: int) -> int:
        q, k, v, log_decay, beta = (torch.empty(1, 2, length, n, device="meta", requires_grad=True) for n in (M, M, E, 1, 1))
        extra = {"beta": beta} if rule == "delta" else {}
        run = delta_recurrence if rule == "delta" else linear_recurrence
        with Written() as counter:
            run(q, k, v, log_decay=log_decay, state=None, chunk=4, segments=None, **extra)[0].sum().backward()
        return counter.numbers

    assert written(256) / written(128) == pytest.approx(2, rel=0.02)


@pytest.mark.parametrize("name", ["linear_elu", "lightning_plain", "delta", "gated_convolution_wide"])
def test_a_sum_cannot_forget(name):
    model = build(ZOO[name]).eval()
    state = model.state(2, 12)
    model(X[:, :5], state=state)
    with pytest.raises(StateError, match="cannot be taken back; fork the state"):
        state.trim(1)
    state.trim(0)


def test_states_refuse_by_name():
    with pytest.raises(StateError, match="one sum over the 7 positions"):
        RecurrentState(torch.zeros(1, 1, 1, 2, 2)).check_trim(7, 2)
    with pytest.raises(StateError, match="latest 3 inputs"):
        ConvolutionState(torch.zeros(1, 3, 2)).check_trim(7, 2)


def softmax_gap(feature_map) -> float:
    """How far attention by random features is from softmax attention, relatively, over several seeds."""
    q, k, v = (size * drawn(1, 1, 1, 24, width, seed=seed) for seed, (width, size) in enumerate([(8, 0.5), (8, 0.5), (5, 1.0)]))
    scores = (q @ k.mT / 8**0.5).masked_fill(~torch.ones(24, 24, dtype=torch.bool).tril(), -torch.inf)
    exact, gaps = scores.softmax(-1) @ v, []
    for seed in range(5):
        phi = feature_map.but(seed=seed)
        a, b = (phi.apply(x, phi.directions(8)) for x in (q, k))
        summed, _ = linear_recurrence(a, b, torch.cat([v, torch.ones_like(v[..., :1])], -1), None, None, chunk=8, segments=None)
        gaps.append(((summed[..., :-1] / summed[..., -1:] - exact).norm() / exact.norm()).item())
    return sum(gaps) / len(gaps)


@pytest.mark.parametrize("kind", [PositiveRandom, RandomFourier])
def test_random_features_approach_softmax(kind):
    rough, fine = softmax_gap(kind(count=64)), softmax_gap(kind(count=16384))
    assert fine < rough / 4
    assert fine < 0.1
    assert softmax_gap(kind(count=64, orthogonal=True)) < rough


@pytest.mark.parametrize("count", [8, 64, 512])
@pytest.mark.parametrize("kernel", ["softmax", "gaussian"])
def test_half_of_the_denominators_of_fourier_features_are_negative(count, kernel):
    """Why the map is signed: q, k ~ N(0, I), E = 64, causal sums of 64 keys. Positive features have none below 0."""
    q, k = drawn(8, 64, 64, seed=1), drawn(8, 64, 64, seed=2)

    def negative(phi) -> float:
        a, b = (phi.apply(x, phi.directions(64)) for x in (q, k))
        return ((a @ b.mT).tril().sum(-1) <= 0).double().mean().item()

    assert 0.4 < negative(RandomFourier(count=count, kernel=kernel)) < 0.6
    assert negative(PositiveRandom(count=count)) == 0
    assert RandomFourier.signed
    assert not PositiveRandom.signed


def test_orthogonal_directions_are_orthogonal_in_groups():
    w = PositiveRandom(count=10, orthogonal=True).directions(6)
    for group in w.split(6):
        products = group @ group.mT
        torch.testing.assert_close(products, products.diagonal().diag())
    lengths = PositiveRandom(count=4096, orthogonal=True).directions(6).square().sum(1)
    assert abs(lengths.mean().item() - 6) < 0.3, "as long as normal draws"


def test_directions_are_a_function_of_the_description():
    first, again, other = (PositiveRandom(count=4, seed=seed).directions(6) for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    model = build(ZOO["linear_positive"])
    assert not list(model.buffers())
    twins = (build(ZOO["linear_positive"]).eval() for _ in range(2))
    assert torch.equal(*(twin(X) for twin in twins))


def test_lightning_forgets_at_the_published_rates():
    """MiniMax: 2^(-8 h / H), first head fastest, times the layer's factor."""
    slopes = LightningAttention(heads=64, decay=0.5).slopes
    assert slopes[0] == pytest.approx(0.5 * 2**-0.125)
    assert slopes[-1] == pytest.approx(0.5 * 2**-8)
    by_layer = [LightningAttention(heads=1, decay="by_layer").of_layer(layer, 80).decay for layer in (0, 79)]
    assert by_layer == [pytest.approx(1 + 1e-5), pytest.approx(1e-5, rel=0.02)]


def test_a_bounded_decay_is_bounded():
    module = DecayModule(6, 2, 3, rank=None, bound=5.0)
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, std=30.0, generator=torch.Generator().manual_seed(1))
    decay = module(drawn(1, 50, 6).float())
    assert decay.shape == (1, 50, 2, 3)
    assert -5 <= decay.min() < -4.9
    assert decay.max() <= 0


def test_learned_decays_start_as_published():
    model = build(ZOO["delta_gated"], seed=3)
    parameters = dict(model.named_parameters())
    rates = torch.cat([p for n, p in parameters.items() if n.endswith("A_log")]).exp()
    steps = torch.nn.functional.softplus(torch.cat([p for n, p in parameters.items() if n.endswith("dt_bias")]))
    assert ((rates >= 1) & (rates <= 16)).all()
    assert ((steps >= 0.99e-3) & (steps <= 1.01e-1)).all()
    assert len(set(rates.tolist())) == len(rates)


REFUSED = {
    "kv_heads must divide": lambda: LinearAttention(heads=4, kv_heads=3, feature_map=EluPlusOne()),
    "feature_map 'identity'": lambda: LinearAttention(heads=4, feature_map=Identity(), eps=1e-6),
    "feature_map 'random_fourier'": lambda: LinearAttention(heads=4, feature_map=RandomFourier(count=8), eps=1e-6),
    "feature_map 'unit_length'": lambda: LinearAttention(heads=4, feature_map=UnitLength(), eps=1e-6),
    "rotary makes features negative": lambda: LinearAttention(heads=4, feature_map=EluPlusOne(), eps=1e-6, rotary=Rotary()),
    "eps": lambda: LinearAttention(heads=4, feature_map=EluPlusOne(), eps=0.0),
    "feature_map": lambda: LinearAttention(heads=4),
    "power": lambda: Rectified(power=3),
    "count": lambda: PositiveRandom(count=0),
    "scale": lambda: ExponentialNormalised(scale=-1.0),
    "names a projection twice": lambda: LightningAttention(heads=4, bias=("key", "key")),
    "decay": lambda: LightningAttention(heads=4, decay=-1.0),
    "activation": lambda: LightningAttention(heads=4, activation="silo"),
    "value_heads must be a multiple": lambda: DeltaAttention(heads=4, value_heads=6, key_width=4),
    "beta_scale": lambda: DeltaAttention(heads=4, key_width=4, beta_scale=2.5),
    "bound": lambda: ChannelDecay(bound=0.0),
    "rank": lambda: ScalarDecay(rank=3),
    "kernel": lambda: ShortConvolution(kernel=1),
    "projection twice": lambda: GatedConvolution(bias=("value", "value")),
}


@pytest.mark.parametrize("name", REFUSED)
def test_senseless_descriptions_are_refused_by_field(name):
    with pytest.raises(DescriptionError, match=name):
        REFUSED[name]()


@pytest.mark.parametrize("mixer", [LinearAttention(heads=5, feature_map=EluPlusOne()), LightningAttention(heads=5)])
def test_heads_that_do_not_divide_the_width_are_refused(mixer):
    with pytest.raises(ValueError, match="heads = 5 and width = 24"):
        mixer.check(24)


@pytest.mark.parametrize(
    "name", but_slow(["linear_positive", "lightning", "delta_gated", "delta_channels"], ["lightning", "delta_channels"])
)
def test_a_chunk_and_a_step_trace_into_one_graph_each(name):
    torch.compiler.reset()
    each_once = " ".join(dict.fromkeys(ZOO[name].decoder.layers))
    model, x = build(change(ZOO[name], "decoder.order", each_once), Plan(chunk=4)).eval(), X[:, :7]
    traced = torch.compile(lambda *given, **more: model(*given, **more), fullgraph=True, dynamic=False, backend="eager")
    state = model.state(2, 7)
    with torch.no_grad():
        pieces = [traced(x[:, :6], state=state), traced(x[:, 6:], state=state)]
        torch.testing.assert_close(torch.cat(pieces, 1), model(x), rtol=1e-4, atol=1e-5)
