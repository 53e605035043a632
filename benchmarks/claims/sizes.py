"""Claims about parameters: where they are, and the shapes that are usual."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.claims.asked import changed, component_shares, entries, made_of, median, network_share, sheet
from benchmarks.claims.claim import Claim, Topic

GATED = ("SwiGLU", "GeGLU")


def dense(least: float = 0) -> list[str]:
    """Names of decoder-only entries without experts."""
    return [entry.name for entry in entries(least) if not entry.columns.experts]


def formula() -> Mapping[str, float]:
    """v h + N (4 h^2 + 3 h i) + v h against what the entry has."""
    found = {}
    for name, (v, h, depth, i) in {"llama-7b": (32_000, 4096, 32, 11_008), "llama-3-8b": (128_256, 4096, 32, 14_336)}.items():
        told = 2 * v * h + depth * (4 * h * h + 3 * h * i)
        found[name] = told - sheet(name, 64).params.total
    return {
        "llama": found["llama-7b"],
        "share": -found["llama-7b"] / sheet("llama-7b", 64).params.total,
        "grouped": found["llama-3-8b"] / sheet("llama-3-8b", 64).params.total,
    }


def gpt3() -> Mapping[str, float]:
    h, depth = 12_288, 96
    ungated, gated = (depth * (4 * h * h + matrices * 4 * h * h) / 1e9 for matrices in (2, 3))
    return {"gated": gated, "ungated": ungated, "total": sheet("gpt3-175b", 64).params.total / 1e9}


def networks() -> Mapping[str, float]:
    large = [network_share(entry.name) for entry in entries(5e9)]
    named = {name.replace("-", "_"): network_share(name) for name in ("llama-7b", "gpt3-175b", "llama-2-70b", "gpt2")}
    inside = sum(0.5 <= share <= 0.6 for share in large)
    return {"median": median(large), "inside": inside, "entries": len(large), **named}


def largest() -> Mapping[str, float]:
    """Of how many decoders the networks are the largest component; RWKV's channel mixing is one."""
    of = {entry.name: component_shares(entry.name) for entry in entries(1e9)}
    most = {name: max(shares, key=lambda part: shares[part]) for name, shares in of.items()}
    won = sum(any(name in part for name in ("feedforward", "experts", "channel_mix")) for part in most.values())
    return {"won": won, "entries": len(of)}


def expansion() -> Mapping[str, float]:
    """How many times the width of the model a network has, in every dense decoder of one kind of layer."""
    found: dict[bool, list[float]] = {True: [], False: []}
    for entry in entries(1e9):
        made = made_of(entry.name)
        block = next(iter(made.decoder.variants.values())) if made.decoder else None
        network = next((each for each in block.sublayers if each.kind == "feedforward"), None) if block else None
        if network is not None and not entry.columns.experts:
            found[network.gated].append(network.width / made.width)
    near = sum(1.9 <= each <= 2.5 for each in found[True] + found[False])
    return {
        "gated": median(found[True]), "plain": median(found[False]), "near": near,
        "entries": len(found[True]) + len(found[False]),
    }  # fmt: skip


def gate() -> Mapping[str, float]:
    """A gate and 8/3 of the width against no gate and 4 times the width, of 768 features."""
    plain, gated = (
        sheet(changed("pythia-410m", {"decoder.layer.feedforward.gated": on, "decoder.layer.feedforward.width": width,
                                      "decoder.layer.feedforward.bias": ()}), 64)
        for on, width in ((False, 4 * 1020), (True, 8 * 340))
    )  # fmt: skip
    return {"apart": plain.params.total - gated.params.total, "flops": plain.flops.forward.dense - gated.flops.forward.dense}


def weights() -> Mapping[str, float]:
    seven, large = sheet("llama-7b", 64), sheet("gpt-oss-120b", 64, hardware="h100")
    return {
        "seven": seven.weights["bf16"] / 1e9, "nominal": 14.0, "large": large.weights["bf16"] / 1e9,
        "devices": large.devices_for(large.weights["bf16"]), "parameters": large.params.total / 1e9,
    }  # fmt: skip


def heads_fill() -> Mapping[str, float]:
    """In how many decoders H heads of width E make up the width of the model."""
    equal, asked = 0, 0
    for entry in entries():
        made = made_of(entry.name)
        for block in made.decoder.variants.values() if made.decoder else ():
            found = next((each for each in block.sublayers if each.kind == "attention"), None)
            if found is not None:
                asked += 1
                equal += found.heads * (found.head_width or made.width // found.heads) == made.width
                break
    return {"equal": equal, "asked": asked, "share": equal / asked}


def aspects() -> Mapping[str, float]:
    each = sorted(entry.columns.width / entry.columns.layers for entry in entries(1e9))
    return {
        "median": median(each), "low": each[len(each) // 10], "high": each[-len(each) // 10], "entries": len(each),
    }  # fmt: skip


def widths() -> Mapping[str, float]:
    seven = [entry.columns.width for entry in entries(6e9) if not entry.columns.experts and entry.columns.parameters <= 8.5e9]
    large = [entry.columns.width for entry in entries(65e9) if not entry.columns.experts]
    return {
        "seven": median(seven), "at": sum(width == 4096 for width in seven), "sevens": len(seven),
        "inside": sum(width >= 8000 for width in large), "larges": len(large), "most": max(large),
    }  # fmt: skip


def usual() -> Mapping[str, float]:
    recent = [entry.columns for entry in entries(since=2023)]
    counts = {
        "rms": sum("RMSNorm" in each.norm for each in recent), "pre": sum("pre" in each.placement for each in recent),
        "rope": sum("RoPE" in each.position for each in recent), "swiglu": sum("SwiGLU" in each.activation for each in recent),
    }  # fmt: skip
    return {name: count / len(recent) for name, count in counts.items()} | {"entries": len(recent)}


def parallel() -> Mapping[str, float]:
    """GPT-J's one norm a block, in parameters and in the element-wise operations that a second would add."""
    found = sheet("gpt-j-6b", 2048)
    norms = found.elementwise["norms"].dense * 28 / 29
    return {"saved": norms / found.flops.forward.dense, "light": norms / sum(f.dense for f in found.elementwise.values())}


TOPIC = Topic(
    "Parameters and shapes",
    (
        Claim(
            "parameter-formula", "D 10.4", "A model has about v h + N (4 h^2 + 3 h i) + v h parameters.", formula,
            "LLaMA 7B: {llama:+,} of them, {share:.4%}, which are its norms; Llama 3 8B, with 8 key heads: {grouped:+.1%}",
            lambda f: abs(f["grouped"]) < 0.01, lambda f: f["share"] < 0.001, "every query head has its own key head",
        ),
        Claim(
            "gpt3-has-a-gate", "D 10.3", "A network has 3 h i parameters, with i = 4 h in GPT-3.", gpt3,
            "GPT-3: {total:.1f} B in all; its layers have {gated:.1f} B with 3 h i and {ungated:.1f} B with 2 h i",
            lambda f: abs(f["gated"] / f["total"] - 1) < 0.02,
        ),
        Claim(
            "network-share", "A 8.6", "Networks hold 50 to 60 % of the parameters of many large models.", networks,
            "median {median:.0%}, and {inside} of {entries} decoders of 5 B or more within; LLaMA 7B {llama_7b:.0%}, GPT-3 "
            "{gpt3_175b:.0%}, Llama 2 70B {llama_2_70b:.0%}, GPT-2 {gpt2:.0%}",
            lambda f: 0.5 <= f["median"] <= 0.6,
        ),
        Claim(
            "networks-are-largest", "D 10.3", "The network is the largest contributor to the parameters.", largest,
            "largest component of {won} of {entries} decoders of 1 B or more, experts included",
            lambda f: f["won"] / f["entries"] > 0.95,
        ),
        Claim(
            "expansion", "A 8.6", "A network is usually 2 to 2.4 times as wide as the model.", expansion,
            "dense decoders of 1 B or more: median {gated:.2f} with a gate and {plain:.2f} without; {near} of {entries} lie "
            "between 1.9 and 2.5",
            lambda f: f["near"] > f["entries"] / 2,
        ),
        Claim(
            "gate-and-two-thirds", "B 3, C 3.1", "A gated network of 8/3 d has the parameters of one of 4 d without gate.",
            gate,
            "d = 1,020 in Pythia's block, 2,720 against 4,080: {apart} parameters and {flops} FLOPs apart",
            lambda f: f["apart"] == 0 and f["flops"] == 0,
        ),
        Claim(
            "weights-of-7b", "D 10", "A 7B model takes about 14 GB in 16 bits.", weights,
            "LLaMA 7B: {seven:.2f} GB, for it has 6.74 B parameters", lambda f: abs(f["seven"] / f["nominal"] - 1) < 0.05,
            command="anyformer cost llama-7b --length 2k", shows=("{seven:.2f} GB",),
        ),
        Claim(
            "weights-of-120b", "D 13.4", "A mixture of 120 B takes 240 GB in 16 bits, more than one accelerator has.", weights,
            "gpt-oss-120b, {parameters:.1f} B: {large:.1f} GB, {devices} H100",
            lambda f: abs(f["large"] / 240 - 1) < 0.05 and f["devices"] > 1,
            command="anyformer cost gpt-oss-120b --length 2k", shows=("{large:.1f} GB",),
        ),
        Claim(
            "heads-fill-the-width", "B 3", "As a rule, heads times their width is the width of the model.", heads_fill,
            "{equal} of {asked} decoders with such heads, {share:.0%}",
            lambda f: f["share"] > 0.8,
        ),
        Claim(
            "aspect-ratio", "B 3", "The width is about 100 times the number of layers.", aspects,
            "{entries} decoders of 1 B or more: median {median:.0f}, four of five between {low:.0f} and {high:.0f}",
            lambda f: 80 <= f["median"] <= 125,
        ),
        Claim(
            "hidden-sizes", "D 10.1", "About 7 B means a width of 4,096, and 70 B or more 8k to 16k or wider.", widths,
            "6 to 8.5 B: median {seven:,.0f}, {at} of {sevens} exactly; 65 B or more, dense: {inside} of {larges} of 8,000 or "
            "wider, {most:,} at most",
            lambda f: f["seven"] == 4096 and f["inside"] == f["larges"],
        ),
        Claim(
            "most-use", "C 4.2", "Most models use RMSNorm, norms before sublayers, RoPE and SwiGLU.", usual,
            "{entries} decoders since 2023: RMSNorm {rms:.0%}, pre-norm {pre:.0%}, RoPE {rope:.0%}, SwiGLU {swiglu:.0%}",
            lambda f: min(f[name] for name in ("rms", "pre", "rope", "swiglu")) > 0.5,
        ),
        Claim(
            "parallel-saves-norms", "A 8.9", "Parallel layers save computation, having one norm less.", parallel,
            "GPT-J 6B: a second norm in each block would add {saved:.3%} to its FLOPs, {light:.0%} to element-wise operations",
            lambda f: f["saved"] > 0.01, lambda f: f["saved"] > 0, "{saved:.3%} of the FLOPs count as a saving",
        ),
    ),
)  # fmt: skip
