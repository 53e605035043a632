"""Claims that something equals something else, measured on small models: positions, caches, windows, experts."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from benchmarks.claims.claim import Claim, Topic
from benchmarks.claims.models import VOCAB, built, drawn, small, tokens
from torch import Tensor, nn
from torch.nn import functional as F

import anyformer as af
from anyformer.costs.allocated import peak_above
from anyformer.costs.counted import states
from anyformer.measuring.trial import TrainingStep
from anyformer.operations import Shape
from anyformer.parts import Bidirectional, Rotary, Window
from anyformer.parts.experts.balance import balance_loss, picked
from anyformer.parts.positions.rotary_module import rotate, table
from anyformer.parts.recurrence.feature_map import EluPlusOne, Exponential, PositiveRandom, RandomFourier

MASK, ROTARY = "decoder.layer.attention.mask", "decoder.layer.attention.rotary"


def relative() -> Mapping[str, float]:
    """Scores of one query and one key, five apart, at 1,000 places: their spread over their size."""
    at, rotary = torch.arange(1000)[None], Rotary()
    query, key = drawn(64), drawn(64, seed=1)
    turned = [
        rotate(rotary, x.expand(1, 1000, 1, 64), table(rotary, place, 64, torch.float32))[0, :, 0]
        for x, place in ((query, at), (key, at + 5))
    ]
    rate = 10_000 ** (-torch.arange(0, 64, 2) / 64)
    waves = [torch.cat([(place[0, :, None] * rate).sin(), (place[0, :, None] * rate).cos()], -1) for place in (at, at + 5)]
    weights = [drawn(64, 64, seed=seed) / 8 for seed in (2, 3)]
    added = [(x + wave) @ weight for x, wave, weight in zip((query, key), waves, weights, strict=True)]
    rope, sine = ((a * b).sum(-1) for a, b in (turned, added))
    return {"rope": (rope.std() / rope.abs().mean()).item(), "sine": (sine.std() / sine.abs().mean()).item()}


def order() -> Mapping[str, float]:
    """How far outputs move if tokens are permuted and outputs put back, without positions."""
    x, turn = tokens(1, 32), torch.randperm(32, generator=torch.Generator().manual_seed(0))
    found = {}
    for name, changes in (("both", {ROTARY: None, MASK: Bidirectional()}), ("causal", {ROTARY: None})):
        model = built(small(2, changes=changes), double=True)
        with torch.no_grad():
            found[name] = (model(x)[:, turn] - model(x[:, turn])).abs().max().item()
    return found


def stepwise(name: str, length: int = 24) -> float:
    """How far logits of one token after another are from those of all at once, in float64, over their size."""
    made = af.architecture(name, tiny=True)
    model = built(made, double=True)
    x = torch.randint(0, made.embedding.vocab, (2, length), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        whole, state = model(x), model.state(2, length)
        steps = torch.cat([model(x[:, i : i + 1], state=state) for i in range(length)], 1)
    return ((steps - whole).abs().max() / whole.abs().max()).item()


def cached() -> Mapping[str, float]:
    return {"heads": stepwise("llama-2-7b"), "latents": stepwise("deepseek-v2")}


def moved() -> Mapping[str, float]:
    """Keys and values that stay in a window of 8 over 9 tokens, against the last 8 tokens computed alone."""
    x, found = tokens(1, 9), {}
    for depth in (1, 2):
        kept = built(small(depth, changes={MASK: Window(size=8)}), double=True)(x)[:, -1]
        again = built(small(depth), double=True)(x[:, 1:])[:, -1]
        found[f"layers{depth}"] = (kept - again).abs().max().item()
        found["size"] = again.abs().max().item()
    return found


def reach() -> Mapping[str, float]:
    """How many positions back a change still moves the last logits, with a window of 4."""
    found = {}
    for depth in (1, 2, 4):
        model, x = built(small(depth, changes={MASK: Window(size=4)}), double=True), tokens(1, 24)
        with torch.no_grad():
            last = model(x)[0, -1]
            seen = [back for back in range(24) if not torch.equal(model(nudged(x, back))[0, -1], last)]
        found[f"layers{depth}"] = max(seen) + 1
    return found


def nudged(x: Tensor, back: int) -> Tensor:
    changed = x.clone()
    changed[0, -1 - back] = (changed[0, -1 - back] + 1) % VOCAB
    return changed


def allocated() -> Mapping[str, float]:
    """Bytes of decode state: predicted and allocated, of small entries of six kinds."""
    names = ("llama-2-7b", "llama-3-8b", "gemma-3-27b", "deepseek-v2", "minimax-text-01", "t5-11b")
    apart, count = 0, 0
    for name in names:
        made = af.architecture(name, tiny=True)
        for each in states(made, Shape(batch=2, length=64, source=16 * made.two_inputs), af.Plan(precision="bf16")):
            apart, count = apart + abs(each.predicted - each.measured), count + int(each.measured)
    return {"apart": apart, "bytes": count, "kinds": len(names)}


def peaks() -> Mapping[str, float]:
    """Peak of a training step of a small model, predicted and allocated."""
    made, plan, shape = small(4, 128), af.Plan(precision="fp32"), Shape(batch=4, length=128)
    step = TrainingStep(made, shape, plan, torch.device("cpu"))
    step.update()
    predicted = af.cost(made, batch=4, length=128, mode="train", plan=plan).peak
    measured = predicted.persistent + peak_above(step.update, torch.device("cpu"))
    return {"predicted": predicted.total / 1e6, "measured": measured / 1e6, "ratio": measured / predicted.total}


def kernels() -> Mapping[str, float]:
    """Attention of feature maps against softmax: the mean distance of their weights, and negative causal denominators."""
    q, k = drawn(2, 64, 64)
    exact, found = (q @ k.T / 8).softmax(-1), {}
    maps = {"elu": EluPlusOne(), "exponential": Exponential(), "fourier": RandomFourier(count=256),
            "positive": PositiveRandom(count=256)}  # fmt: skip
    for name, each in maps.items():
        directions = each.directions(64)
        a, b = (each.apply(x, None if directions is None else directions.to(x.dtype)) for x in (q, k))
        weights = a @ b.T
        found[name] = (weights / weights.sum(-1, keepdim=True) - exact).abs().sum(-1).mean().item() / 2
        found[f"{name}_negative"] = (weights.cumsum(-1) < 0).double().mean().item()
    even = torch.full_like(exact, 1 / 64)
    return found | {"even": (even - exact).abs().sum(-1).mean().item() / 2}


def capacity() -> Mapping[str, float]:
    """What a router that chooses 2 of 64 experts evenly loses by the notes' capacity of 1.25 B L / E, and by k times that."""
    rows = torch.rand(32_768, 64, generator=torch.Generator().manual_seed(0)).topk(2).indices
    load, places = torch.bincount(rows.flatten(), minlength=64), 1.25 * 32_768 / 64
    return {f"k{k}": ((load - k * places).clamp(min=0).sum() / rows.numel()).item() for k in (1, 2)}


def balance() -> Mapping[str, float]:
    """The balancing loss of two experts: of even probabilities, and of 51 tokens that barely choose the first."""
    barely, surely = torch.tensor([0.51, 0.49]), torch.tensor([0.01, 0.99])
    found = {}
    for name, rows in (("uneven", [barely] * 51 + [surely] * 49), ("all", [torch.tensor([0.99, 0.01])] * 100)):
        p = torch.stack(rows)
        found[name] = balance_loss(p, picked(p.topk(1).indices, 2), torch.ones(100, dtype=torch.bool)).item()
    return found


def leaking() -> Mapping[str, float]:
    """Next-token loss on tokens drawn evenly, of which nothing can be known before, with a causal mask and without."""
    found = {"chance": math.log(VOCAB)}
    for name, changes in (("causal", {}), ("leak", {MASK: Bidirectional()})):
        model = af.build(small(2, changes=changes), seed=0).train()
        optimiser = torch.optim.Adam(model.parameters(), lr=2e-3)
        for update in range(400):
            loss = guess(model, tokens(16, 33, seed=update))
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        with torch.no_grad():
            found[name] = guess(model.eval(), tokens(64, 33, seed=-1)).item()
            x = tokens(512, 33, seed=-2)
            found[f"{name}_last"] = F.cross_entropy(model(x[:, :-1])[:, -1], x[:, -1]).item()
    return found


def guess(model: nn.Module, x: Tensor) -> Tensor:
    return F.cross_entropy(model(x[:, :-1]).flatten(0, 1), x[:, 1:].flatten())


TOPIC = Topic(
    "Equalities and small models",
    (
        Claim(
            "rope-is-relative", "C 2.1, B step 3", "With RoPE equal distances give equal scores.", relative,
            "one query and key, five apart, at 1,000 places: the score varies by {rope:.0e} of its size",
            lambda f: f["rope"] < 1e-4, how="measured",
        ),
        Claim(
            "sinusoids-are-absolute", "C 2.1, B step 3", "With added sinusoids scores depend on the absolute place.", relative,
            "the same with added sinusoids and drawn projections: by {sine:.2f} of its size",
            lambda f: f["sine"] > 0.1, how="measured",
        ),
        Claim(
            "embeddings-have-no-order", "B step 3", "Without positions a model cannot tell the order of its tokens.", order,
            "tokens permuted and outputs put back differ by {both:.0e} if all see all, by {causal:.1f} with a causal mask",
            lambda f: f["causal"] < 1e-6, lambda f: f["both"] < 1e-6, "all tokens see all; a causal mask tells the order",
            how="measured",
        ),
        Claim(
            "cache-changes-nothing", "A 4.3", "Cached keys and values give what computing them again gives.", cached,
            "one token after another against all at once, float64: {heads:.0e} of the logits' size",
            lambda f: f["heads"] < 1e-9,
            how="measured",
        ),
        Claim(
            "latents-are-enough", "C 2.2", "Keys and values can be absorbed, so that scores need the compressed vector only.",
            cached,
            "DeepSeek-V2's block, decoded from latents and rotated keys against expanded ones: {latents:.0e} of the logits' "
            "size",
            lambda f: f["latents"] < 1e-5, how="measured",
        ),
        Claim(
            "moving-window-reuses", "A 4.3",
            "When a context moves on by one, the cached keys and values of the rest can be reused.",
            moved,
            "window of 8, ninth token: logits (up to {size:.1f}) are off by {layers1:.0e} with one layer, {layers2:.2f} with "
            "two",
            lambda f: f["layers2"] < 1e-5, lambda f: f["layers1"] < 1e-5, "there is one layer", how="measured",
        ),
        Claim(
            "window-reach", "C 2.3", "Each layer carries information one window further.", reach,
            "window of 4: the last logits depend on {layers1}, {layers2} and {layers4} positions with 1, 2 and 4 layers, L "
            "(W - 1) + 1",
            lambda f: (f["layers1"], f["layers2"], f["layers4"]) == (4, 7, 13), how="measured",
        ),
        Claim(
            "cache-as-counted", "A 4.2", "The size of a cache follows from the description.", allocated,
            "{kinds} kinds of small models: {apart} of {bytes:,} bytes apart", lambda f: f["apart"] == 0, how="measured",
        ),
        Claim(
            "peak-as-counted", "D 9", "The memory of a training step can be told beforehand.", peaks,
            "4 layers of width 128, fp32: {predicted:.2f} MB predicted, {measured:.2f} MB allocated",
            lambda f: abs(f["ratio"] - 1) < 0.05, how="measured",
        ),
        Claim(
            "maps-approximate-softmax", "A 4.10", "ELU + 1 and its like stand in for the exponential of the score.", kernels,
            "64 drawn queries and keys of 64 features: weights are {elu:.0%} off softmax's with ELU + 1, {exponential:.0%} "
            "with exp, {positive:.0%} with 256 positive random features, which are made for it; equal weights {even:.0%}",
            lambda f: f["elu"] < 0.1, how="measured",
        ),
        Claim(
            "fourier-is-positive", "A 4.10", "Random Fourier features are a positive map.", kernels,
            "256 directions: {fourier_negative:.0%} of the causal denominators are negative",
            lambda f: f["fourier_negative"] == 0, how="measured",
        ),
        Claim(
            "capacity-formula", "A 8.8", "An expert's capacity is alpha B L / E for k choices of each token.", capacity,
            "an even router, 2 of 64, alpha 1.25: {k1:.1%} of the choices are dropped; of k alpha B L / E {k2:.0%}",
            lambda f: f["k1"] < 0.01, how="measured",
        ),
        Claim(
            "balance-loss-is-least-when-even", "A 8.8", "The balancing loss is smaller when experts are chosen more evenly.",
            balance,
            "evenly 1; all tokens to one of two experts {all:.2f}; 51 tokens to it barely, 49 surely to the other {uneven:.4f}",
            lambda f: f["uneven"] >= 1, lambda f: f["all"] > 1, "shares and probabilities are uneven alike", how="measured",
        ),
        Claim(
            "leak", "A 8", "Without a causal mask future tokens leak, and the model learns no generation.", leaking,
            "tokens drawn evenly, ln 50 = {chance:.2f}: loss {leak:.2f} after 400 updates without a mask, {causal:.2f} with; "
            "of the "
            "token after the text {leak_last:.2f} and {causal_last:.2f}",
            lambda f: f["leak"] < f["chance"] / 2 and f["leak_last"] > f["chance"] - 0.1, how="measured",
        ),
    ),
)  # fmt: skip
