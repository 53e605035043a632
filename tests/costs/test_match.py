"""Matching: what is found meets the budget, divides as it should, and keeps what was not to move."""

from __future__ import annotations

from itertools import product

import pytest
from combinations import draw
from hypothesis import given
from hypothesis import strategies as st

from anyformer.catalogue import architecture
from anyformer.costs import cost
from anyformer.costs.budget import Budget, budget_of
from anyformer.costs.match import UnmatchedError, match
from anyformer.costs.search import Search
from anyformer.describe import UserError, diff
from anyformer.model import decoder_only
from anyformer.model.transformer import build
from anyformer.operations import Shape
from anyformer.parts import Attention, Embedding, FeedForward, LightningAttention, RMSNorm, Rotary, pre_norm
from anyformer.resizing.sizes import Sizes, lattice, lengthened, networks, period_of, resized, sizes
from covering import covering, rest_slow
from effort import calls, examples

ENTRIES = [
    "gpt2", "llama-3-8b", "llama-3.1-405b", "gemma-3-27b", "deepseek-v3", "mixtral-8x7b", "qwen3-next-80b-a3b", "t5-v1.1-xl",
    "bert-base-uncased", "albert-xxlarge-v2", "whisper-large", "lfm2-1.2b", "gpt-oss-20b", "phi-3-small", "bloom-7b1",
    "olmo-2-13b",    "perceiver-imagenet", "opt-350m", "gemma-2-9b",
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "factor"), rest_slow(product(ENTRIES, (0.4, 1.3, 3)), covering(ENTRIES, (0.4, 1.3, 3), together=1))
)
def test_parameters_are_met_within_half_a_percent(name, factor):
    made = architecture(name)
    wanted = round(made.cost(Shape(source=1)).parameters * factor)
    found = match(made, Budget(parameters=wanted))
    # Counted layer by layer, not as the solver does.
    actual = found.architecture.cost(Shape(source=1)).parameters
    assert abs(actual / wanted - 1) <= 0.005
    assert actual == found.costs["parameters"]
    assert found.sizes.depth == made.output_stack.depth
    assert sizes(found.architecture) == found.sizes


OTHER = (
    ("llama-3-8b", "deepseek-v3", "gemma-3-27b", "t5-v1.1-xl"),
    ("active", "training_flops", "decode_bytes"),
    (("width", "ffn"), ("depth", "ffn"), ("ffn",)),
)


@pytest.mark.parametrize(("name", "target", "move"), rest_slow(product(*OTHER), covering(*OTHER)), ids=str)
def test_other_budgets_are_met(name, target, move):
    made = architecture(name)
    wanted = Budget(**{target: round(getattr(budget_of(made, length=4096), target) * 0.85)}, length=4096)
    found = match(made, wanted, move=move)
    assert abs(getattr(budget_of(found.architecture, length=4096), target) / getattr(wanted, target) - 1) <= 0.005
    if "width" not in move:
        assert found.sizes.width == made.width


def test_of_two_multiples_the_one_within_the_budget_is_taken_though_the_other_is_nearer():
    made = architecture("llama-12m")
    step = 3 * made.width * 8 * made.output_stack.depth
    budget = made.cost(Shape(source=1)).parameters + 30 * step - step // 8
    found = match(made, Budget(parameters=budget), move=("ffn",))
    assert found.costs["parameters"] == budget - step + step // 8


def test_training_flops_are_those_of_the_sheet():
    made = architecture("gemma-2-9b")
    found = match(made, Budget(training_flops=10**10, length=6000)).architecture
    flops = cost(found, length=6000).flops.total.exact / 6000
    assert abs(flops / 10**10 - 1) <= 0.005


def test_what_is_built_has_the_parameters_asked_for():
    found = match(architecture("llama-12m"), Budget(parameters=20_000_000))
    built = sum(weight.numel() for weight in build(found.architecture, device="meta").parameters())
    assert abs(built / 20_000_000 - 1) <= 0.005


HIDDEN = (
    ("llama-3-8b", Sizes(3072, 44, 9600), ("width", "depth", "ffn")),
    ("llama-2-7b", Sizes(4096, 43, 15384), ("depth", "ffn")),
    ("llama-3-8b", Sizes(5376, 32, 9816), ("width", "ffn")),
    ("gemma-3-27b", Sizes(3392, 62, 17600), ("width", "ffn")),
    ("deepseek-v3", Sizes(7168, 46, 2304), ("depth", "ffn")),
    ("t5-v1.1-xl", Sizes(2224, 33, 4144), ("width", "depth", "ffn")),
    ("minimax-text-01", Sizes(6144, 88, 9000), ("depth", "ffn")),
)
TWO = (("parameters", "training_flops"), ("parameters", "decode_bytes"), ("decode_bytes", "training_flops"))


@pytest.mark.parametrize(("hidden", "pair"), rest_slow(product(HIDDEN, TWO), covering(HIDDEN[::2], TWO, together=1)), ids=str)
def test_two_budgets_at_once(hidden, pair):
    """What another architecture costs in two ways: as wide, deep and so on as it takes, without going to extremes."""
    name, hidden, move = hidden
    start = architecture(name)
    asked = budget_of(resized(start, hidden), length=8192)
    found = match(start, Budget(**{each: getattr(asked, each) for each in pair}, length=8192), move=move)
    actual = budget_of(found.architecture, length=8192)
    assert all(abs(getattr(actual, each) / getattr(asked, each) - 1) <= 0.005 for each in pair)
    assert set(found.costs) == set(pair)
    assert 0.4 < found.sizes.width / hidden.width < 2.5


@pytest.mark.parametrize("multiple", [64, 128])
def test_widths_are_the_multiples_asked_for_and_heads_divide(multiple):
    for name in ("llama-3-8b", "gpt2", "qwen2.5-7b", "mixtral-8x7b"):
        made = architecture(name)
        found = match(made, Budget(parameters=3 * 10**9), multiple=multiple, move=("width", "depth", "ffn"))
        assert found.sizes.width % multiple == 0
        assert found.sizes.ffn % multiple == 0
        for sublayer in found.architecture.output_stack.variants["layer"].sublayers:
            heads = sublayer.resizing.divisor
            assert found.sizes.width % heads == 0
            assert heads == 1 or found.sizes.width // heads % 8 == 0


def test_heads_as_wide_as_10_stay_even_for_rotary():
    block = pre_norm(RMSNorm(), Attention(heads=6, place=Rotary()), FeedForward(width=160))
    made = decoder_only(Embedding(vocab=50), 60, [block] * 3)
    widths = lattice(made, "width", multiple=1)
    assert widths.step == 12
    for width in widths[:30]:
        resized(made, Sizes(width, 3, 160), multiple=1)  # refuses an odd head


def test_only_what_may_move_moves():
    made = architecture("deepseek-v3")
    found = match(made, Budget(parameters=500 * 10**9), move=("ffn",)).architecture
    changed = {path.split(".")[-1] for path, _, _ in diff(made, found)}
    assert changed == {"width"}
    networks = {name: [s.resizing.network for s in block.sublayers] for name, block in found.decoder.variants.items()}
    ffn = {name: [network.width for network in found if network] for name, found in networks.items()}
    assert abs(ffn["dense"][0] / ffn["routed"][0] - 18432 / 2048) < 0.05  # the dense network stays as many times as wide


def test_depth_keeps_the_pattern_of_layers():
    gemma = architecture("gemma-3-27b")
    found = match(gemma, Budget(parameters=14 * 10**9), move=("depth", "ffn")).architecture.decoder.layers
    pattern = ("local",) * 5 + ("global",)
    assert found == (pattern * len(found))[: len(found)]
    assert len(found) % 6 == 62 % 6
    deepseek = architecture("deepseek-v3")
    found = match(deepseek, Budget(parameters=300 * 10**9), move=("depth", "ffn")).architecture.decoder.layers
    assert found.count("dense") == 3
    assert found[:3] == ("dense",) * 3


def test_what_follows_from_sizes_follows():
    gemma = architecture("gemma-2-9b")
    assert resized(gemma, Sizes(1024, 42, 14336)).resolved().embedding.scale == 1024**0.5
    llama = architecture("llama-3-8b")
    assert resized(llama, Sizes(4096, 8, 14336)).resolved().initialisation.residual_scale == 16**-0.5


def test_a_width_that_cannot_move_leaves_the_others_to():
    """Phi's rotary factors are for heads of one width."""
    found = match(architecture("phi-4-mini"), Budget(parameters=3_452_419_584))
    assert found.sizes.width == 3072
    assert found.error <= 0.005


def test_a_budget_out_of_reach_is_refused_with_the_nearest():
    with pytest.raises(UnmatchedError, match=r"no ffn comes within 0.5% of it. The nearest is ffn = 8, with .* off") as refused:
        match(architecture("llama-3-8b"), Budget(parameters=10**9), move=("ffn",))
    nearest = refused.value.nearest
    assert nearest.sizes == Sizes(4096, 32, 8)
    assert nearest.architecture.cost(Shape()).parameters == nearest.costs["parameters"]
    # What no step is fine enough for, and what contradicts itself.
    with pytest.raises(UnmatchedError):
        match(architecture("llama-3-8b"), Budget(parameters=10**10), move=("width",), multiple=128)
    with pytest.raises(UnmatchedError, match="Let more sizes move"):
        match(architecture("llama-3-8b"), Budget(parameters=10**9, training_flops=10**12), move=("width", "depth", "ffn"))


@pytest.mark.parametrize(
    ("budget", "move", "says"),
    [
        (Budget(), ("ffn",), "asks for nothing"),
        (Budget(parameters=0), ("ffn",), "at least 1"),
        (Budget(parameters=1), (), "nothing may move"),
    ],
)
def test_senseless_questions_are_refused(budget, move, says):
    with pytest.raises(UserError, match=says):
        match(architecture("gpt2"), budget, move=move)


def test_layers_that_do_not_repeat_cannot_be_deepened():
    layers = [LightningAttention(heads=2, decay=decay) for decay in (1.0, 0.5, 0.25)]
    blocks = [pre_norm(RMSNorm(), mixer, FeedForward(width=32)) for mixer in layers]
    with pytest.raises(UserError, match="depth cannot move"):
        match(decoder_only(Embedding(vocab=32), 16, blocks), Budget(parameters=10**6), move=("depth",))


@examples(200)
@given(
    before=st.lists(st.sampled_from("abc"), max_size=3),
    pattern=st.lists(st.sampled_from("abc"), min_size=1, max_size=4),
    times=st.integers(2, 5),
    after=st.lists(st.sampled_from("abc"), max_size=3),
    depth=st.integers(1, 40),
)
def test_lengthened_layers_keep_their_variants_and_their_ends(before, pattern, times, after, depth):
    layers = tuple(before + pattern * times + after)
    head, period, tail = period_of(layers)
    assert head + period + tail <= len(before) + len(pattern) + len(after)
    assert lengthened(layers, len(layers)) == layers
    longer = lengthened(layers, depth)
    assert longer[:head] == layers[:head]
    assert longer[len(longer) - tail :] == layers[len(layers) - tail :]
    assert set(longer) == set(layers)
    middle = longer[head : len(longer) - tail]
    assert all(middle[i] == middle[i + period] for i in range(len(middle) - period))
    assert (len(longer) - len(layers)) % period == 0


def test_every_network_is_in_proportion_and_then_a_multiple():
    """9 and 1 times 1,408 are 49.5 and 5.5 times 256."""
    small = resized(architecture("deepseek-v3"), Sizes(7168, 61, 1408), multiple=256)
    assert [network.width for _, network in networks(small)] == [50 * 256, 6 * 256]


def test_layers_are_cut_down_to_one_repetition_and_no_further():
    assert lengthened(("layer",) * 8, 1) == ("layer",)
    assert lengthened(("first", *("local", "global") * 4), 1) == ("first", "local", "global")


@examples(60)
@given(seed=st.integers(0, 10**6), factor=st.floats(0.7, 4))
def test_any_architecture_meets_what_the_finest_step_allows(seed, factor):
    made = draw(seed)
    wanted = round(made.cost(Shape(source=1)).parameters * factor)
    try:
        found = match(made, Budget(parameters=wanted), multiple=1, move=("width", "ffn"))
    except UnmatchedError as refused:
        # Steps of heads are coarse in a model as small as this; the nearest is what no neighbour betters.
        nearest = refused.nearest
        for ffn in (nearest.sizes.ffn - 1, nearest.sizes.ffn + 1):
            if ffn > 0:
                other = resized(made, Sizes(nearest.sizes.width, nearest.sizes.depth, ffn), multiple=1)
                assert abs(other.cost(Shape(source=1)).parameters / wanted - 1) >= nearest.error
    else:
        assert abs(found.architecture.cost(Shape(source=1)).parameters / wanted - 1) <= 0.005


@pytest.mark.parametrize("name", ["llama-3.1-405b", "deepseek-v3"])
def test_an_evaluation_is_few_calls(name):
    """About 11,000, so that a thousand take a few seconds."""
    made = architecture(name)
    search = Search(made, Budget(parameters=10**9, active=10**9, training_flops=10**9, decode_bytes=10**9, length=8192), 8)
    assert calls(lambda: search.costs(Sizes(made.width, made.decoder.depth, 1024))) < 40_000
    assert search.priced == 1
