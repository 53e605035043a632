"""Claims about mixtures of experts."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.claims.asked import changed, entries, forward, median, sheet
from benchmarks.claims.claim import Claim, Topic, result

import anyformer as af
from anyformer.parts import FeedForward

MIXTRAL, EXPERTS, CHOSEN = "mixtral-8x7b", "decoder.layer.experts.experts", "decoder.layer.experts.chosen"


def dense() -> af.Architecture:
    """Mixtral with one network in place of its experts."""
    made = changed(MIXTRAL, {})
    return af.change(made, "decoder.layer.experts.sublayer", FeedForward(width=14_336, activation="silu", gated=True))


def inflation() -> Mapping[str, float]:
    total, one = sheet(MIXTRAL, 64).params.total, sheet(dense(), 64).params.total
    told = one + 7 * 3 * 4096 * 14_336 * 32
    return {"total": total, "told": told, "left": total - told, "routers": 32 * 4096 * 8, "times": total / one}


def constant() -> Mapping[str, float]:
    few, many = (sheet(changed(MIXTRAL, {EXPERTS: count}), 4096) for count in (8, 64))
    flops = many.flops.forward.dense / few.flops.forward.dense - 1
    return {"flops": flops, "parameters": many.params.total / few.params.total}


def against_dense() -> Mapping[str, float]:
    one, two = (forward(changed(MIXTRAL, {CHOSEN: count}), 4096) / forward(dense(), 4096) for count in (1, 2))
    return {"one": one - 1, "two": two}


def chosen() -> Mapping[str, float]:
    recent = [entry.columns.chosen for entry in entries(since=2024) if entry.columns.experts]
    return {"median": median(recent), "few": sum(each <= 2 for each in recent), "entries": len(recent)}


def gemini() -> Mapping[str, float]:
    return {"total": (sheet("llama-7b", 64).params.total + 999 * 3 * 4096 * 11_008 * 32) / 1e12}


def speed() -> Mapping[str, float]:
    """Decoding on an H100 after 2,048 tokens: Mixtral with one expert chosen over one network of the same width."""
    mixture, found = changed(MIXTRAL, {CHOSEN: 1}), {}
    for batch in (1, 16, 4096):
        many, one = (sheet(made, 2048, "decode", batch=batch, hardware="h100").time for made in (mixture, dense()))
        assert many is not None
        assert one is not None
        found[batch] = many.seconds / one.seconds
    return {"alone": found[1], "sixteen": found[16], "many": found[4096]}


def held() -> Mapping[str, float]:
    found = sheet(MIXTRAL, 64)
    return {"weights": found.weights["bf16"] / 1e9, "active": 2 * found.params.active / 1e9,
            "share": found.params.active / found.params.total}  # fmt: skip


def gathered() -> Mapping[str, float]:
    rows = {(row["ranks"], row["way"]): row["bytes"] for row in result("dispatching.json")["results"]}
    return {f"r{ranks}": rows[ranks, "all-gather"] / rows[ranks, "all-to-all"] for ranks in (2, 4, 8)}


def trained() -> Mapping[str, float]:
    found = result("parts.json")["experts_over_dense"]
    return {"times": found["times_the_dense"], "flops": found["flops_ratio"]}


TOPIC = Topic(
    "Mixtures of experts",
    (
        Claim(
            "inflation-formula", "D 13.2", "E experts add (E - 1) 3 h i N parameters to the dense model.", inflation,
            "Mixtral 8x7B: {total:,}, the formula {told:,}; {left:,} are missing, its routers ({times:.2f} times the dense "
            "model)",
            lambda f: f["left"] == 0, lambda f: f["left"] == f["routers"], "routers of h E N parameters are left out",
        ),
        Claim(
            "more-experts-same-flops", "A 8.8", "More experts add parameters and no computing.", constant,
            "Mixtral with 64 experts for 8: {parameters:.2f} times the parameters, {flops:+.2%} FLOPs, of the router",
            lambda f: f["flops"] < 0.01,
        ),
        Claim(
            "mixture-computes-as-dense", "D 13.2", "A mixture computes about as much for a token as the model whose network it "
            "copies.", against_dense,
            "Mixtral over its dense model at 4,096 tokens: {one:+.3%} with one expert chosen, {two:.2f} times with its two",
            lambda f: f["two"] < 1.1, lambda f: f["one"] < 0.01, "one expert is chosen",
        ),
        Claim(
            "few-are-chosen", "D 13.1", "Typically one or two experts are chosen.", chosen,
            "{entries} mixtures since 2024: median {median:g}; {few} choose one or two", lambda f: f["median"] <= 2,
        ),
        Claim(
            "seven-to-trillions", "D 13.3", "A dense 7B with a thousand experts reaches trillions of parameters.", gemini,
            "{total:.2f} T by the notes' formula", lambda f: f["total"] > 1,
        ),
        Claim(
            "memory-of-all", "D 13.4", "The memory of a mixture is that of all its parameters.", held,
            "Mixtral 8x7B: {weights:.2f} GB in 16 bits, of which a token uses {active:.2f} GB, {share:.0%}",
            lambda f: f["share"] < 0.5,
            command="anyformer cost mixtral-8x7b --length 2k", shows=("{weights:.2f} GB",),
        ),
        Claim(
            "mixture-decodes-as-fast", "C 3.2", "Inference is almost as fast as with one network.", speed,
            "H100, one of 8 experts chosen, time of a step over the dense model's: {alone:.2f} for one row, {sixteen:.2f} "
            "for 16, "
            "{many:.2f} for 4,096",
            lambda f: f["sixteen"] < 1.2, lambda f: f["alone"] < 1.2,
            "one row is decoded, or so many that products take the time",
            how="priced",
        ),
        Claim(
            "mixture-trains-as-fast", "A 8.8", "Experts can be scaled up without computing more.", trained,
            "2 of 8 experts of 512 over one network of 1,024: {flops:.4f} times the FLOPs, {times:.2f} "
            "times "
            "the time",
            lambda f: f["times"] < 1.1, lambda f: f["flops"] < 1.1, "FLOPs count; in time they took {times:.2f} times as long",
            how="from results", file="benchmarks/results/parts.json",
        ),
        Claim(
            "gathering-wastes", "A 8.8", "Sending all tokens everywhere wastes bandwidth that all-to-all saves.", gathered,
            "2 of 16 experts, bytes of all-gather over all-to-all: {r2:.2f} on 2 processes, {r4:.2f} on 4, {r8:.2f} on 8",
            lambda f: f["r2"] > 1.1, lambda f: f["r8"] > 1.1, "there are more processes than chosen experts",
            how="from results", file="benchmarks/results/dispatching.json",
        ),
    ),
)  # fmt: skip
