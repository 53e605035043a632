"""Claims about what computing costs: FLOPs and how they grow."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.claims.asked import changed, entries, first, forward, made_of, median, pairs, sheet
from benchmarks.claims.claim import Claim, Topic

import anyformer as af
from anyformer.operations import Shape
from anyformer.parts import Attention, Causal, EluPlusOne, Embedding, FeedForward, Head, LinearAttention, RMSNorm, pre_norm

LLAMA = "llama-7b"
HEADS, KV, NETWORK = (f"decoder.layer.{name}" for name in ("attention.heads", "attention.kv_heads", "feedforward.width"))


def heads() -> Mapping[str, float]:
    """GPT-2 of 1,024 tokens with 12 heads of 64 and with 3 of 256."""
    many, few = (sheet(changed("gpt2", {HEADS: count, KV: count}), 1024) for count in (12, 3))
    return {
        "products": many.flops.forward.dense - few.flops.forward.dense,
        "softmax": many.elementwise["softmax"].dense / few.elementwise["softmax"].dense,
    }


def squares() -> Mapping[str, float]:
    short, long = (pairs(LLAMA, length) for length in (2048, 4096))
    return {"pairs": long / short, "whole": forward(LLAMA, 4096) / forward(LLAMA, 2048)}


def half() -> Mapping[str, float]:
    tokens = first(1, 2**20, lambda length: 2 * pairs(LLAMA, length) >= forward(LLAMA, length))
    share, long = (pairs(LLAMA, length) / forward(LLAMA, length) for length in (4096, 2**20))
    return {"half": tokens, "share": share, "long": long}


def without_head(name: str, length: int) -> float:
    flops = sheet(name, length).flops.forward
    return 1 - flops.by_component["head"].dense / flops.dense


def ninety() -> Mapping[str, float]:
    """The share of all but the head in the pass over 2,048 tokens."""
    found = [without_head(entry.name, 2048) for entry in entries(5e9)]
    return {
        "median": median(found), "least": min(found), "gpt2": without_head("gpt2", 1024), "entries": len(found),
        "llama": without_head(LLAMA, 2048),
    }  # fmt: skip


def sizes() -> Mapping[str, float]:
    each = []
    for size in ("410m", "1.4b", "2.8b", "6.9b", "12b"):
        found = sheet(f"pythia-{size}", 2048, "train")
        each.append(found.flops.total.exact / 2048 / found.params.total)
    return {"least": min(each), "most": max(each)}


def ratio() -> Mapping[str, float]:
    scaled = forward(LLAMA, 512) * 32_768 / 512
    return {"share": scaled / forward(LLAMA, 32_768)}


def wider() -> Mapping[str, float]:
    """LLaMA 7B at twice its width, with heads and networks to match, against twice the length."""
    wide, base = changed(LLAMA, {"width": 8192, HEADS: 64, KV: 64, NETWORK: 22_016}), forward(LLAMA, 2048)
    crossing = first(1, 2**20, lambda length: forward(LLAMA, 2 * length) >= forward(wide, length))
    return {"width": forward(wide, 2048) / base, "length": forward(LLAMA, 4096) / base, "crossing": crossing}


def generated() -> Mapping[str, float]:
    """FLOPs of writing 128 and 256 tokens, one after another, with a cache and without."""
    kept, again = {}, {}
    for tokens in (128, 256):
        kept[tokens] = sum(sheet(LLAMA, past, "decode").flops.forward.dense for past in range(tokens))
        again[tokens] = sum(forward(LLAMA, length) for length in range(1, tokens + 1))
    return {"kept": kept[256] / kept[128], "again": again[256] / again[128], "saved": again[256] / kept[256]}


def one_step() -> Mapping[str, float]:
    """What decoding one token takes beyond what it takes without any cache, after 4,096 and after 8,192 others."""
    alone, short, long = (sheet(LLAMA, past, "decode").flops.forward.dense for past in (0, 4096, 8192))
    return {"ratio": (long - alone) / (short - alone), "each": (short - alone) / 4096, "expected": 4 * 32 * 4096}


def light() -> Mapping[str, float]:
    found = sheet(LLAMA, 2048, "prefill", hardware="h100")
    assert found.time is not None
    operations = sum(flops.exact for flops in found.elementwise.values()) / found.flops.forward.exact
    spent = sum(each.seconds for each in found.time.operations if each.unit == "memory")
    return {"operations": operations, "time": spent / found.time.seconds}


def fused() -> Mapping[str, float]:
    """What is saved for the backward pass of GPT-2, and what is executed, by how attention is computed."""
    plans = {kind: af.Plan(attention=kind) for kind in ("plain", "sdpa")}
    found = {kind: [sheet("gpt2", length, "train", plan=plan) for length in (512, 1024)] for kind, plan in plans.items()}
    grown = {kind: [each.activations.saved for each in pair] for kind, pair in found.items()}
    return {
        "plain": grown["plain"][1] / grown["plain"][0], "fused": grown["sdpa"][1] / grown["sdpa"][0],
        "less": grown["sdpa"][1] / grown["plain"][1],
        "executed": found["sdpa"][1].executed.total / found["plain"][1].executed.total - 1,
        "forward": found["sdpa"][1].executed.forward / found["plain"][1].executed.forward - 1,
    }  # fmt: skip


def latents() -> Mapping[str, float]:
    """The Perceiver's first reading of 50,176 pixels by 512 latents, against all pixels reading all in the same widths."""
    flops = made_of("perceiver-imagenet").folded_cost(Shape(length=50_176)).flops
    read = {name.rpartition(".")[2]: f.dense for name, f in flops.items() if "first_read.cross_attention" in name}
    times = 50_176 / 512
    every = sum(count if name in ("key", "value") else count * times for name, count in read.items())
    return {"read": sum(read.values()) / 1e9, "every": every / 1e12, "less": every / sum(read.values()), "pairs": times}


def mixers() -> Mapping[str, float]:
    """A block of width 384 and 6 heads: linear against softmax attention."""
    linear, softmax = mixer(LinearAttention(heads=6, feature_map=EluPlusOne(), eps=1e-6)), mixer(Attention(heads=6))
    crossing = first(1, 2**20, lambda length: allowed(softmax, length) >= allowed(linear, length))
    state = [sheet(linear, length).state.memories[0].bytes for length in (1024, 65_536)]
    return {
        "grows": forward(linear, 65_536) / forward(linear, 32_768),
        "softmax": forward(softmax, 65_536) / forward(softmax, 32_768),
        "crossing": crossing, "state": state[1] / state[0],
    }  # fmt: skip


def allowed(made: af.Architecture, length: int) -> int:
    """FLOPs of a forward pass, only pairs counted that the mask allows."""
    return sheet(made, length).flops.forward.exact


def mixer(sublayer: Attention | LinearAttention) -> af.Architecture:
    block = pre_norm(RMSNorm(), sublayer, FeedForward(width=1024, activation="silu"))
    return af.decoder_only(Embedding(vocab=4096), 384, [block], final_norm=RMSNorm(), head=Head())


def banded() -> Mapping[str, float]:
    """Mistral 7B with and without its window at 32,768 tokens."""
    local = changed("mistral-7b-v0.1", {})
    wide = changed("mistral-7b-v0.1", {"decoder.layer.attention.mask": Causal()})
    short = pairs(local, 32_768, exact=True) / pairs(wide, 32_768, exact=True)
    grown = pairs(local, 65_536, exact=True) / pairs(local, 32_768, exact=True)
    return {"share": short, "grown": grown, "reach": 32 * (4096 - 1) + 1}


TOPIC = Topic(
    "FLOPs",
    (
        Claim(
            "heads-cost-the-same", "A 4.1", "Many heads compute as much as one.", heads,
            "GPT-2, 1,024 tokens, 12 heads of 64 against 3 of 256: {products} FLOPs of products apart; {softmax:g} times the "
            "operations of softmax",
            lambda f: f["products"] == 0 and f["softmax"] == 1, lambda f: f["products"] == 0, "only matrix products count",
            command=f"anyformer diff gpt2 gpt2 --set {HEADS}=3 --set {KV}=3",
            shows=("parameters, FLOPs and decode state stay the same",),
        ),
        Claim(
            "attention-is-quadratic", "A 4.10", "Scores and mixing cost O(L^2), so long inputs are dominated by them.", squares,
            "LLaMA 7B from 2,048 to 4,096 tokens: {pairs:g} times for scores and mixing, {whole:.2f} times for the model",
            lambda f: f["pairs"] == 4,
        ),
        Claim(
            "length-dominates", "D 14", "Length dominates the calculation in extremely long contexts.", half,
            "LLaMA 7B, every pair counted: {share:.1%} of the FLOPs at 4,096 tokens, {long:.1%} at a million; "
            "half of them at {half:,}",
            lambda f: f["share"] > 0.5, lambda f: f["long"] > 0.9, "the context exceeds {half:,} tokens (LLaMA 7B)",
        ),
        Claim(
            "ninety-percent", "D 14", "Around 90 % of the FLOPs come from attention and networks.", ninety,
            "at 2,048 tokens: LLaMA 7B {llama:.1%}; median {median:.1%}, least {least:.1%} of {entries} decoders of 5 B or "
            "more; "
            "GPT-2 {gpt2:.1%}",
            lambda f: 0.85 <= f["median"] <= 0.95, lambda f: f["median"] > 0.95, "at least 90 % is meant, of products alone",
        ),
        Claim(
            "twice-the-size", "D 14", "FLOPs grow with the square of the parameters: twice the size, four times the FLOPs.",
            sizes,
            "Pythia from 410 M to 12 B: {least:.2f} to {most:.2f} FLOPs of training for each parameter and token",
            lambda f: f["most"] / f["least"] > 10, lambda f: f["most"] / f["least"] < 1.1,
            "the tokens grow with the parameters; of equal tokens twice",
        ),
        Claim(
            "scale-from-short", "D 14", "FLOPs can be calculated at a short length and scaled by the ratio.", ratio,
            "LLaMA 7B, from 512 tokens to 32,768: {share:.1%} of what they are",
            lambda f: abs(f["share"] - 1) < 0.1,
        ),
        Claim(
            "width-grows-slower", "D 14", "FLOPs grow much slower with the width than with the length.", wider,
            "LLaMA 7B at 2,048 tokens: {width:.2f} times at twice the width, {length:.2f} times at twice the length",
            lambda f: f["width"] < f["length"], lambda f: f["crossing"] < 2**20 - 1, "there are more than {crossing:,} tokens",
        ),
        Claim(
            "cache-saves-a-power", "C 2.2", "A cache makes the computing of N tokens linear that was quadratic.", generated,
            "LLaMA 7B from 128 to 256 tokens: {kept:.2f} times with a cache, {again:.2f} without, which costs {saved:.0f} "
            "times "
            "as much",
            lambda f: f["kept"] < 2.1 and f["again"] > 3.9,
        ),
        Claim(
            "step-is-linear", "A 4.10, table 2", "With a cache a token costs O(H t d) of attention at step t.", one_step,
            "LLaMA 7B: {each:,.0f} FLOPs for each token of the past (4 L H d), {ratio:g} times in all after twice as many",
            lambda f: f["ratio"] == 2 and f["each"] == f["expected"],
        ),
        Claim(
            "light-operations", "D 6", "Residuals, norms, activations and softmax are light beside matrix products.", light,
            "LLaMA 7B, 2,048 tokens: {operations:.2%} as many operations, but {time:.0%} of the time on an H100",
            lambda f: f["operations"] < 0.01 and f["time"] < 0.05, lambda f: f["operations"] < 0.01,
            "operations count and time does not", how="priced",
        ),
        Claim(
            "fused-memory", "A 4.10", "Kernels that write no scores reduce memory from L^2 to L.", fused,
            "GPT-2 from 512 to 1,024 tokens, saved for the backward pass: {plain:.2f} times with scores, {fused:.2f} without, "
            "where it is {less:.0%} as much",
            lambda f: f["fused"] <= 2.01 < f["plain"],
        ),
        Claim(
            "fused-flops", "A 4.10, table 2", "Kernels that write no scores keep the computing the same.", fused,
            "GPT-2, 1,024 tokens: {forward:+.1%} executed forward, since masked blocks are left out, {executed:+.1%} in a "
            "step of "
            "training, which computes scores twice",
            lambda f: abs(f["executed"]) < 0.001, lambda f: abs(f["executed"]) < 0.1, "a few percent do not matter",
        ),
        Claim(
            "latents-read-cheaply", "A 4.5", "A few latents that read a long input cost much less than attention over it.",
            latents,
            "Perceiver, 512 latents and 50,176 pixels: {pairs:.0f} times fewer pairs; {read:.0f} GFLOP against {every:.1f} "
            "TFLOP, "
            "{less:.0f} times less",
            lambda f: f["less"] > 10,
        ),
        Claim(
            "linear-attention", "A 4.10", "Linear attention depends linearly on the length.", mixers,
            "from 32k to 64k tokens {grows:.3f} times the FLOPs, with softmax {softmax:.2f}; {state:g} times the state",
            lambda f: abs(f["grows"] - 2) < 1e-3 and f["state"] == 1,
        ),
        Claim(
            "linear-is-cheaper", "A 4.10", "Linear attention has the better dependence, so it is cheaper.", mixers,
            "width 384, 6 heads of 64: fewer FLOPs than causal softmax from {crossing:,} tokens on",
            lambda f: f["crossing"] <= 2, lambda f: f["crossing"] < 2**20 - 1, "there are {crossing:,} tokens or more",
        ),
        Claim(
            "window-saves", "C 2.3", "A sliding window computes only a part of the scores.", banded,
            "Mistral 7B at 32,768 tokens: {share:.1%} of the causal pairs; twice the tokens, {grown:.2f} times the pairs",
            lambda f: f["share"] < 1 and f["grown"] < 2.5,
        ),
        Claim(
            "window-reaches-all", "C 2.3", "Through the layers of a sliding window every token takes up all former ones.",
            banded,
            "Mistral 7B: a token is reached from at most 32 (4,096 - 1) + 1 = {reach:,} positions",
            lambda f: f["reach"] > 2**20, lambda f: f["reach"] > 4096, "the row has at most {reach:,} tokens",
        ),
    ),
)  # fmt: skip
