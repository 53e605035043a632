"""Claims about bytes read for each FLOP, and about time that follows from it."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.claims.asked import changed, sheet
from benchmarks.claims.claim import Claim, Topic

import anyformer as af
from anyformer.costs.roofline import StepTime

LLAMA, KV = "llama-7b", "decoder.layer.attention.kv_heads"


def step(what: str | af.Architecture, length: int, mode: str, *, batch: int = 1) -> StepTime:
    """The step on an H100."""
    found = sheet(what, length, mode, batch=batch, hardware="h100").time
    assert found is not None, "hardware was named"
    return found


def ridge() -> float:
    """FLOPs for each byte at which an H100 waits for neither."""
    found = step(LLAMA, 64, "decode").hardware
    return found.peaks["bf16"] / found.bandwidth


def decoding() -> Mapping[str, float]:
    return {"one": step(LLAMA, 2048, "decode").intensity, "ridge": ridge()}


def batches() -> Mapping[str, float]:
    """FLOPs per byte of decoding by rows, after 2,048 tokens and after 128."""
    one, some, many = (step(LLAMA, 2048, "decode", batch=rows).intensity for rows in (1, 64, 8192))
    short = step(LLAMA, 128, "decode", batch=8192).intensity
    double = step(LLAMA, 4096, "decode", batch=8192).intensity
    return {"one": one, "some": some, "many": many, "short": short, "double": many / double, "ridge": ridge()}


def training() -> Mapping[str, float]:
    found = step(LLAMA, 2048, "train")
    compute = sum(each.seconds for each in found.operations if each.bound == "compute") / found.seconds
    return {"intensity": found.intensity, "compute": compute, "decoding": step(LLAMA, 2048, "decode").intensity}


def one_key() -> Mapping[str, float]:
    """How much faster a step is with one key head, alone after 128 tokens, and of 16 rows after 8,192."""
    one = changed(LLAMA, {KV: 1})
    alone, long = (
        step(LLAMA, length, "decode", batch=batch).seconds / step(one, length, "decode", batch=batch).seconds
        for length, batch in ((128, 1), (8192, 16))
    )
    return {"alone": alone, "long": long}


def reading() -> Mapping[str, float]:
    """Milliseconds of reading 2,048 tokens at once, and of writing as many one by one, a step after 1,024 for all."""
    read, written = step(LLAMA, 2048, "prefill").seconds, 2048 * step(LLAMA, 1024, "decode").seconds
    return {"read": 1000 * read, "written": written, "times": written / read}


def two_stacks() -> Mapping[str, float]:
    """FLOPs over 2 N (source + target), of 512 tokens read and 512 written."""
    both, one = sheet("t5-11b", 512, source_length=512), sheet("pythia-12b", 1024)
    of = {each: found.flops.forward.dense / (2 * found.params.total * 1024) for each, found in (("both", both), ("one", one))}
    return {**of, "ratio": of["both"] / of["one"]}


TOPIC = Topic(
    "Bytes and time",
    (
        Claim(
            "decoding-waits-for-memory", "B 6", "The arithmetic intensity of decoding is not good.", decoding,
            "LLaMA 7B after 2,048 tokens: {one:.2f} FLOPs per byte, where an H100 needs {ridge:.0f}",
            lambda f: f["one"] < f["ridge"] / 10,
            command="anyformer cost llama-7b --length 2k --mode decode",
            shows=("FLOPs per byte {one:.1f}", "memory 96%"), how="priced",
        ),
        Claim(
            "batches-help-decoding", "B 6", "Decoding needs large batches.", batches,
            "LLaMA 7B after 2,048 tokens: {one:.2f} FLOPs per byte for one row, {some:.1f} for 64, {many:.1f} for 8,192; "
            "after 128 "
            "tokens {short:.0f} for 8,192",
            lambda f: f["many"] > f["ridge"], lambda f: f["short"] > 3 * f["many"],
            "caches are short too: of long ones each row reads its own",
        ),
        Claim(
            "short-lengths-help-decoding", "B 6", "The intensity of decoding large batches falls as 1 / length.", batches,
            "LLaMA 7B, 8,192 rows, from 2,048 to 4,096 tokens: 1/{double:.2f}",
            lambda f: 1.8 < f["double"] < 2.2,
        ),
        Claim(
            "training-is-intense", "B 6", "The arithmetic intensity of training is high.", training,
            "LLaMA 7B, one row of 2,048: {intensity:.0f} FLOPs per byte, {compute:.0%} of the time waits for compute "
            "(decoding: {decoding:.1f})",
            lambda f: f["compute"] > 0.5 and f["intensity"] > 100 * f["decoding"], how="priced",
        ),
        Claim(
            "one-key-head-is-faster", "A 4.2", "One key head for all makes generating faster.", one_key,
            "LLaMA 7B on an H100: {alone:.2f} times as fast for one row after 128 tokens, {long:.1f} times for 16 after 8,192",
            lambda f: f["alone"] > 1.5, lambda f: f["long"] > 1.5, "caches are long or rows are many", how="priced",
        ),
        Claim(
            "reading-is-parallel", "D 8", "All positions of a known text are computed in parallel; writing is sequential.",
            reading,
            "LLaMA 7B on an H100, 2,048 tokens: {read:.0f} ms to read, {written:.1f} s to write, {times:.0f} times as long",
            lambda f: f["times"] > 10, how="priced",
        ),
        Claim(
            "two-stacks-cost-more", "A 8.5",
            "Of equal parameters, an encoder-decoder computes more at inference, having two stacks.",
            two_stacks,
            "512 tokens read and 512 written, FLOPs over 2 N for each: T5 11B {both:.2f}, Pythia 12B {one:.2f}: {ratio:.2f} "
            "times, "
            "since a token passes one stack",
            lambda f: f["ratio"] > 1,
        ),
    ),
)  # fmt: skip
