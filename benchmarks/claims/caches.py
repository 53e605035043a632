"""Claims about what decoding keeps: sizes of caches."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.claims.asked import changed, entries, first, made_of, sheet
from benchmarks.claims.claim import Claim, Topic

import anyformer as af

KV = "decoder.layer.attention.kv_heads"


def one_key() -> Mapping[str, float]:
    many, one = (sheet(changed("gpt2", {KV: heads}), 1024) for heads in (12, 1))
    return {
        "many": many.state_bytes_per_token,
        "one": one.state_bytes_per_token,
        "times": many.state_bytes_per_token / one.state_bytes_per_token,
        "parameters": one.params.total / many.params.total - 1,
        "flops": one.flops.forward.exact / many.flops.forward.exact - 1,
    }


def saved() -> Mapping[str, float]:
    many, one = (sheet(changed("gpt2", {KV: heads}), 1024, "train").activations.saved for heads in (12, 1))
    return {"many": many / 1e6, "one": one / 1e6, "change": one / many - 1}


def groups() -> Mapping[str, float]:
    grouped, own = (sheet(changed("llama-3-8b", {KV: heads}), 4096).state_bytes_per_token for heads in (8, 32))
    return {"grouped": grouped, "own": own, "ratio": own / grouped}


def row_bytes() -> Mapping[str, float]:
    """A token of one layer against the whole row of one layer: B = 1, fp32 of GPT-2's 12 heads of 64."""
    plan = af.Plan(precision="fp32")
    per_token, row = (sheet("gpt2", 512, plan=plan).state_bytes_per_token, sheet("gpt2", 512, plan=plan).state.memories)
    return {"token": per_token // (12 * 4), "row": sum(memory.bytes for memory in row) // (12 * 4)}


def linear() -> Mapping[str, float]:
    """How the decode state grows from 32k to 64k tokens, of every entry."""
    growth = {}
    for entry in entries():
        made = made_of(entry.name)
        short, long = (sheet(made, length).state for length in (32_768, 65_536))
        before, after = (sum(memory.bytes for memory in state.memories) for state in (short, long))
        growth[entry.name] = after / before if before else 1.0
    everywhere = {entry.name for entry in entries() if entry.columns.window == "full" and whole(entry.columns.attention)}
    return {
        "entries": len(growth),
        "linear": sum(times == 2 for times in growth.values()),
        "full": len(everywhere),
        "exceptions": sum(growth[name] != 2 for name in everywhere),
        "least": min(growth.values()),
    }


def whole(attention: str) -> bool:
    """All layers keep every key."""
    return set(attention.split("+")) <= {"MHA", "GQA", "MQA", "MLA"}


def window() -> Mapping[str, float]:
    at = {length: sheet("mistral-7b-v0.1", length).state.memories[0].bytes for length in (4096, 32_768)}
    return {"short": at[4096], "long": at[32_768], "ratio": at[32_768] / at[4096]}


def latent() -> Mapping[str, float]:
    made = made_of("deepseek-v2")
    per_layer = sheet(made, 4096).state_bytes_per_token // (2 * made.decoder.depth)
    heads = sheet("llama-2-7b", 4096).state_bytes_per_token // (2 * 32)
    return {"numbers": per_layer, "latent": 512, "rotated": per_layer - 512, "more": (per_layer - 512) / 512, "llama": heads}


def latent_below_groups() -> Mapping[str, float]:
    numbers = latent()["numbers"]
    return {"numbers": numbers, "groups": numbers / (2 * 128), "times": 128 * (192 + 128) / numbers}


def outgrows() -> Mapping[str, float]:
    """Tokens in 16 bits whose cache is as large as the weights."""
    weights = sheet("llama-7b", 64).weights["bf16"]
    tokens = first(1, 10**7, lambda length: sheet("llama-7b", length).state_bytes >= weights)
    return {"tokens": tokens, "weights": weights / 1e9, "each": sheet("llama-7b", 64).state_bytes_per_token}


def two_caches() -> Mapping[str, float]:
    """T5's decoder over a source of 4,096 and 512 of its own, against the same decoder reading all 4,608 as one row."""
    state = sheet("t5-11b", 512, "prefill", source_length=4096).state
    both = sum(memory.bytes for memory in state.memories)
    own, cross = (sum(m.bytes for m in state.memories if m.grows == grows) for grows in ("every token", "with the source"))
    return {"both": both, "cross": cross, "one": own // 512 * (512 + 4096), "ratio": both / (own // 512 * (512 + 4096))}


def halves() -> Mapping[str, float]:
    parts = sheet("t5-11b", 64, source_length=64).params.by_component
    own, cross = parts["decoder.attention"], parts["decoder.cross_attention"]
    encoder = sum(count for name, count in parts.items() if name.startswith("encoder"))
    return {"share": own / (own + cross), "encoder": encoder / sum(parts.values()), "whole": own / (2 * own + cross)}


TOPIC = Topic(
    "Caches",
    (
        Claim(
            "cache-of-one-head", "A 4.2", "A cache with one key head is smaller by the number of heads.", one_key,
            "GPT-2: {many:,} B a token, {one:,} B with one: 1/{times:g} with 12 heads",
            lambda f: f["times"] == 12,
            command=f"anyformer diff gpt2 gpt2 --set {KV}=1", shows=("36.86 kB", "3.072 kB", "/ {times:g}"),
        ),
        Claim(
            "one-head-parameters", "A 4.2", "One key head for all takes fewer parameters.", one_key,
            "GPT-2: {parameters:+.1%} parameters, {flops:+.1%} FLOPs of reading 1,024 tokens",
            lambda f: f["parameters"] < 0,
            command=f"anyformer diff gpt2 gpt2 --set {KV}=1", shows=("{parameters:+.1%}", "{flops:+.1%}"),
        ),
        Claim(
            "one-head-activations", "A 4.2", "One key head for all makes the activations of training smaller.", saved,
            "GPT-2, 1,024 tokens: {many:.1f} to {one:.1f} MB saved for the backward pass, {change:+.1%}",
            lambda f: f["change"] < 0,
        ),
        Claim(
            "cache-of-groups", "A 4.4", "The number of key heads sets the memory: groups stand between all and one.", groups,
            "Llama 3 8B with 8 key heads: {grouped:,} B a token; with 32, one for each query head, {own:,} B: {ratio:g} times",
            lambda f: f["ratio"] == 4,
            command=f"anyformer diff llama-3-8b llama-3-8b --set {KV}=32", shows=("131.1 kB", "524.3 kB"),
        ),
        Claim(
            "cache-of-a-layer", "A 4.2", "A layer keeps 2 B H L d numbers for each token that is generated.", row_bytes,
            "GPT-2, 512 tokens, one row: a layer keeps {row:,} numbers in all, and each token adds {token:,} = 2 H d",
            lambda f: f["token"] == 2 * 512 * 12 * 64, lambda f: f["row"] == 2 * 512 * 12 * 64,
            "it is said of the L = 512 tokens together",
        ),
        Claim(
            "cache-grows-linearly", "A 4.10, table 2", "A decode cache grows in proportion to the tokens.", linear,
            "from 32k to 64k tokens: exactly twice in {linear} of {entries} decoder-only entries, {least:.2f} times at least",
            lambda f: f["linear"] == f["entries"], lambda f: f["exceptions"] == 0,
            "no layer has a window or a recurrent state: all {full} such entries",
        ),
        Claim(
            "cache-of-a-window", "C 2.3", "With a sliding window only the nearest tokens are needed.", window,
            "Mistral 7B, window 4,096: {short:,} B at 4k tokens, {long:,} B at 32k, {ratio:g} times",
            lambda f: f["ratio"] == 1,
            command="anyformer cost mistral-7b-v0.1 --length 32k --mode decode", shows=("536.9 MB", "grows to its window"),
        ),
        Claim(
            "cache-of-latents", "C 2.2", "Latent attention needs to store nothing but the small vector.", latent,
            "DeepSeek-V2: {numbers} numbers a token and layer, of which {latent} are the vector and {rotated} a rotated key",
            lambda f: f["numbers"] == f["latent"], lambda f: f["numbers"] == f["latent"] + 64,
            "no position is rotated; a rotated key adds {more:.1%}",
            command="anyformer cost deepseek-v2 --mode decode --length 4k", shows=("69,120 B",),
        ),
        Claim(
            "latents-against-groups", "C 2.2", "Latent attention keeps far less than a key and a value for each head.",
            latent_below_groups,
            "DeepSeek-V2: 1/{times:.1f} of its 128 heads' keys and values, as much as {groups} key heads of 128",
            lambda f: f["times"] > 10,
        ),
        Claim(
            "cache-is-large", "C 2.2", "Caching every key and value takes an extremely large amount of memory.", outgrows,
            "LLaMA 7B: {each:,} B a token, as much as its {weights:.2f} GB of weights from {tokens:,} tokens on",
            lambda f: f["tokens"] < 4096, lambda f: f["tokens"] < 10**6,
            "rows x tokens exceed {tokens:,}",
        ),
        Claim(
            "cache-of-two-stacks", "C 1.3", "An encoder-decoder's cross-attention makes its cache much larger.", two_caches,
            "T5 11B, source 4,096 and 512 tokens: {both:,} B; all 4,608 in one row: {one:,} B: {ratio:g} times",
            lambda f: f["ratio"] > 1.1,
        ),
        Claim(
            "encoder-share", "C 1.3", "A considerable part of an encoder-decoder's parameters lies in its encoder.", halves,
            "T5 11B: {encoder:.1%}", lambda f: f["encoder"] > 0.25,
        ),
        Claim(
            "prefix-halves-attention", "A 8.4", "A prefix decoder has half the attention parameters of a decoder with "
            "cross-attention.", halves,
            "T5 11B without cross-attention: {share:.1%} of its decoder's; without the encoder's too, {whole:.1%} of all",
            lambda f: abs(f["share"] - 0.5) < 0.01,
        ),
    ),
)  # fmt: skip
