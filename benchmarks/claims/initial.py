"""Claims about a model before it is trained, measured on drawn weights and tokens."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from benchmarks.claims.claim import Claim, Topic
from benchmarks.claims.models import VOCAB, built, drawn, slope, small, streams, tokens

from anyformer.parts import Normal, RMSNorm

WIDTHS = [64, 128, 256, 512, 1024]
DEPTHS = [4, 8, 16, 32]


def logits() -> Mapping[str, float]:
    """Logits of RMS-normalised features with weights of variance 1, by width."""
    spread = []
    for width in WIDTHS:
        x = RMSNorm(gain="none").build(width)(drawn(500, width))
        spread.append((x @ drawn(width, 200, seed=1)).std().item())
    divided = [each / width**0.5 for each, width in zip(spread, WIDTHS, strict=True)]
    return {"first": spread[0], "last": spread[-1], "power": slope(WIDTHS, spread),
            "low": min(divided), "high": max(divided)}  # fmt: skip


def scores() -> Mapping[str, float]:
    """Variance of the products of queries and keys in models of three widths with heads of 16."""
    found = {}
    for width in (64, 128, 256):
        model = built(small(1, width))
        attention = model.decoder.layers[0].attention.sublayer
        x = RMSNorm(gain="none").build(width)(drawn(2000, width))
        query, key = (part(x).unflatten(-1, (-1, 16))[:, 0] for part in (attention.query, attention.key))
        found[width] = (query @ key.T).var().item()
    return {f"w{width}": variance for width, variance in found.items()}


def entropies() -> Mapping[str, float]:
    """Entropy of attention over 256 keys, with and without the division by the root of the head's width."""
    found: dict[str, float] = {"most": math.log(256)}
    for width in (16, 64, 256):
        raw = drawn(256, width) @ drawn(256, width, seed=1).T
        for way, score in (("raw", raw), ("scaled", raw / width**0.5)):
            log = score.log_softmax(-1)
            found[f"{way}{width}"] = -(log.exp() * log).sum(-1).mean().item()
    return found


def residual() -> Mapping[str, float]:
    with torch.no_grad():
        pre, post = (streams(built(small(24, place=place)), tokens(4, 64)) for place in ("pre", "post"))
    return {"first": pre[0].std().item(), "last": pre[-1].std().item(), "post": post[-1].std().item(),
            "mean": max(abs(x.mean().item()) for x in pre)}  # fmt: skip


def gradients(place: str, depth: int) -> list[float]:
    """Norm of the gradient of the network's last matrix in each layer, mean over three draws of the weights."""
    found = []
    for seed in range(3):
        model, x = built(small(depth, place=place), seed=seed), tokens(8, 65, seed=seed)
        torch.nn.functional.cross_entropy(model(x[:, :-1]).flatten(0, 1), x[:, 1:].flatten()).backward()
        found.append([layer.feedforward.sublayer.down.weight.grad.norm().item() for layer in model.decoder.layers])
    return [sum(norms) / len(norms) for norms in zip(*found, strict=True)]


def last_layers() -> Mapping[str, float]:
    """Exponents of the depth in the gradient of the last layer, and the first layer's over it in the deepest model."""
    found = {}
    for place in ("pre", "post"):
        each = [gradients(place, depth) for depth in DEPTHS]
        found[place] = slope(DEPTHS, [norms[-1] for norms in each])
        found[f"{place}_first"] = each[-1][0] / each[-1][-1]
    return found


def beginning() -> Mapping[str, float]:
    """Loss of an untrained model with small and with loud logits."""
    x, found = tokens(32, 65), {}
    for name, std in (("small", 0.02), ("loud", 0.5)):
        made = small(2, changes={"initialisation.head": Normal(std=std)})
        with torch.no_grad():
            found[name] = torch.nn.functional.cross_entropy(built(made)(x[:, :-1]).flatten(0, 1), x[:, 1:].flatten()).item()
    return found | {"uniform": math.log(VOCAB)}


def dropped() -> Mapping[str, float]:
    torch.manual_seed(0)
    x = torch.ones(10**6)
    return {f"p{int(100 * p)}": torch.nn.functional.dropout(x, p).mean().item() for p in (0.1, 0.5)}


def shifts() -> Mapping[str, float]:
    means = RMSNorm(gain="none").build(128)(drawn(10_000, 128)).mean(-1)
    return {"mean": abs(means.mean().item()), "spread": means.std().item()}


def branches() -> Mapping[str, float]:
    """Variance of the two branches of a block and of their sum, on the same normalised input."""
    block, x = built(small(1, 256)).decoder.layers[0], RMSNorm(gain="none").build(256)(drawn(64, 1, 256))
    with torch.no_grad():
        mixed = block.attention.sublayer
        a = mixed.output(mixed.value(x))
        f = block.feedforward.sublayer
        f = f.down(f.activation(f.up(x)))
    one = (a.var() + f.var()).item() / 2
    return {"sum": (a + f).var().item() / one, "scaled": ((a + f) / 2**0.5).var().item() / one}


def slopes() -> Mapping[str, float]:
    found = {}
    for name in ("silu", "gelu", "relu"):
        x = torch.linspace(-8, 8, 400_001, dtype=torch.float64, requires_grad=True)
        (slope_,) = torch.autograd.grad(getattr(torch.nn.functional, name)(x).sum(), x)
        found |= {f"{name}_low": slope_.min().item(), f"{name}_high": slope_.max().item()}
        if name == "silu":
            found["turn"] = x[slope_ > 0][0].item()
    x = drawn(10**6).requires_grad_()
    (dead,) = torch.autograd.grad(x.relu().sum(), x)
    return found | {"dead": (dead == 0).double().mean().item()}


def stable() -> Mapping[str, float]:
    """Softmax of scores near 100 in fp32, as written and with the largest subtracted."""
    z = 100 * drawn(1000, 64)
    plain, kept = z.exp() / z.exp().sum(-1, keepdim=True), (z - z.amax(-1, keepdim=True)).softmax(-1)
    return {"plain": plain.isfinite().all(-1).double().mean().item(), "kept": kept.isfinite().all(-1).double().mean().item()}


TOPIC = Topic(
    "Before training",
    (
        Claim(
            "logits-grow", "A 3.1", "The deviation of logits grows as the root of the width.", logits,
            "weights of variance 1, width 64 to 1,024: {first:.2f} to {last:.1f}, the width to the power {power:.3f}; "
            "divided by "
            "the root {low:.3f} to {high:.3f}",
            lambda f: abs(f["power"] - 0.5) < 0.02, how="measured",
        ),
        Claim(
            "scores-of-the-model", "A 4.1", "The variance of scores is in proportion to the width of the model.", scores,
            "heads of 16 in models of width 64, 128 and 256: {w64:.1f}, {w128:.1f} and {w256:.1f}: the width of a head",
            lambda f: f["w256"] > 2 * f["w64"], how="measured",
        ),
        Claim(
            "division-keeps-softmax-soft", "A 4.1", "Dividing scores by the root of the head's width keeps softmax stable.",
            entropies,
            "entropy over 256 keys (at most {most:.2f}) with heads of 16, 64, 256: {scaled16:.2f}, {scaled64:.2f}, "
            "{scaled256:.2f} "
            "divided; {raw16:.2f}, {raw64:.2f}, {raw256:.2f} not",
            lambda f: abs(f["scaled256"] / f["scaled16"] - 1) < 0.05 and f["raw256"] < f["raw16"] / 2, how="measured",
        ),
        Claim(
            "residual-of-variance-one", "A 4.7", "The residual path of pre-norm carries activations of variance 1 and mean 0.",
            residual,
            "24 layers: the deviation grows from {first:.2f} to {last:.2f}, means stay below {mean:.3f}; after post-norm "
            "{post:.2f}",
            lambda f: f["last"] < 1.2 and f["mean"] < 0.1, how="measured",
        ),
        Claim(
            "post-norm-gradients", "C 4.2",
            "Before training, the norms on post-norm's path make gradients vanish or explode with depth.",
            last_layers,
            "32 layers: the first layer's gradient is {post_first:.2f} times the last's",
            lambda f: not 0.1 < f["post_first"] < 10, how="measured",
        ),
        Claim(
            "pre-norm-scales-gradients", "A 4.7", "Before training, pre-norm keeps gradients better scaled than post-norm.",
            last_layers,
            "32 layers, first layer's over last's: {pre_first:.2f} in pre-norm, {post_first:.2f} in "
            "post-norm; the "
            "last's is as the depth to the power {pre:.2f} in pre-norm, {post:.2f} in post-norm",
            lambda f: abs(math.log(f["pre_first"])) < abs(math.log(f["post_first"])), how="measured",
        ),
        Claim(
            "first-loss", "A 10.1", "A model that knows nothing has the cross-entropy of the vocabulary's uniform "
            "distribution.",
            beginning,
            "ln 50 = {uniform:.3f}: {small:.3f} with head weights of deviation 0.02, {loud:.3f} with 0.5",
            lambda f: abs(f["loud"] / f["uniform"] - 1) < 0.02, lambda f: abs(f["small"] / f["uniform"] - 1) < 0.02,
            "its first logits are small", how="measured",
        ),
        Claim(
            "dropout-keeps-the-mean", "A 4.8", "Dropout with the survivors scaled leaves the expectation as it was.", dropped,
            "mean of a million ones: {p10:.4f} at p = 0.1, {p50:.4f} at 0.5",
            lambda f: abs(f["p10"] - 1) < 0.005 and abs(f["p50"] - 1) < 0.005, how="measured",
        ),
        Claim(
            "bias-takes-the-mean", "A 5.2", "The mean that RMSNorm leaves is one shift, which the next bias takes up.", shifts,
            "10,000 drawn tokens of 128 features: the mean is another for each, {spread:.3f} about {mean:.3f}",
            lambda f: f["spread"] < f["mean"], how="measured",
        ),
        Claim(
            "two-branches", "A 8.9", "Two branches added at once have twice the variance, and 1/sqrt(2) takes it back.",
            branches,
            "{sum:.2f} times the mean variance of a branch, {scaled:.2f} times when divided by the root of 2",
            lambda f: abs(f["sum"] - 2) < 0.1 and abs(f["scaled"] - 1) < 0.05, how="measured",
        ),
        Claim(
            "silu-slope", "C 3.1", "SiLU avoids a gradient of 0.", slopes,
            "its slope is 0 at {turn:.3f} and negative below; ReLU's is 0 for {dead:.0%} of drawn inputs",
            lambda f: f["silu_low"] > 0, lambda f: f["dead"] > 0.4, "it is said of whole regions, and not of points",
            how="measured",
        ),
        Claim(
            "slopes-below-one", "C 3.1", "The slope of most activations lies between 0 and 1.", slopes,
            "SiLU {silu_low:.3f} to {silu_high:.3f}, GELU {gelu_low:.3f} to {gelu_high:.3f}, ReLU {relu_low:g} to "
            "{relu_high:g}",
            lambda f: f["silu_low"] > 0 and f["silu_high"] < 1, how="measured",
        ),
        Claim(
            "softmax-minus-the-largest", "A 4.1", "Subtracting the largest score makes softmax stable.", stable,
            "scores of deviation 100 in fp32: {plain:.1%} of rows are finite as written, {kept:.0%} with it",
            lambda f: f["kept"] == 1 and f["plain"] < 1, how="measured",
        ),
    ),
)  # fmt: skip
