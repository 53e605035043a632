"""Claims about number formats and what they take of memory."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import mean

from benchmarks.claims.asked import sheet
from benchmarks.claims.claim import Claim, Topic, result

import anyformer as af
from anyformer.precision import BF16, E4M3, E5M2, FP16, FP32, INT4, INT8, TF32

STEPS = {FP32: 2**-23, FP16: 2**-10, BF16: 2**-7, TF32: 2**-10, E4M3: 2**-3, E5M2: 2**-2}
"""Steps at 1 as the notes have them."""
LARGEST = {FP32: 3.4e38, FP16: 6.6e4, BF16: 3.4e38, TF32: 3.4e38, E4M3: 4.5e2, E5M2: 5.7e4, INT8: 127, INT4: 7}
SMALLEST = {FP32: 1.2e-38, FP16: 6.1e-5, BF16: 1.2e-38, TF32: 1.2e-38}


def near(found: float, told: float) -> bool:
    """Equal in the two digits that are told."""
    return float(f"{found:.1e}") == told or abs(found / told - 1) < 0.02


def ranges() -> Mapping[str, float]:
    return {
        "steps": sum(each.step == told for each, told in STEPS.items()), "of_steps": len(STEPS), "int4": INT4.step,
        "largest": sum(near(each.largest, told) for each, told in LARGEST.items()), "of_largest": len(LARGEST),
        "smallest": sum(near(each.smallest_normal, told) for each, told in SMALLEST.items()), "of_smallest": len(SMALLEST),
        "e4m3": E4M3.smallest_normal, "e4m3_least": E4M3.smallest, "e5m2": E5M2.smallest_normal, "e5m2_least": E5M2.smallest,
        "same": BF16.smallest_normal / FP32.smallest_normal, "top": BF16.largest / FP32.largest,
        "decades": E5M2.decades / E4M3.decades,
    }  # fmt: skip


def states() -> Mapping[str, float]:
    found = sheet("llama-7b", 2048, "train")
    held = found.memory.weights + found.memory.gradients + found.memory.optimiser
    moments = found.memory.optimiser / found.params.total
    return {"each": held / found.params.total, "moments": moments, "held": held / 1e9, "stored": found.weights["bf16"] / 1e9}


def halves() -> Mapping[str, float]:
    """GPT-2, 8 rows of 1,024: bf16 over fp32."""
    narrow, wide = (sheet("gpt2", 1024, "train", batch=8, plan=af.Plan(precision=kind)) for kind in ("bf16", "fp32"))
    return {
        "inference": narrow.weights["bf16"] / wide.weights["fp32"], "training": narrow.memory.total / wide.memory.total,
        "saved": narrow.activations.saved / wide.activations.saved,
    }  # fmt: skip


def stored() -> Mapping[str, float]:
    weights = sheet("llama-7b", 64).weights
    return {"fp8": weights["bf16"] / weights["fp8"], "int4": weights["bf16"] / weights["int4"]}


def unscaled() -> Mapping[str, float]:
    """The median share of numbers that become 0 in FP8-E4M3 without a scale and with one for a tensor."""
    errors = result("rounding.json")["errors"]
    return {
        f"{kind}_{way}": errors[kind][name]["zero"][0]
        for kind in ("weights", "activations", "gradients")
        for way, name in (("none", "fp8_e4m3"), ("tensor", "fp8_tensor"))
    }


def channels() -> Mapping[str, float]:
    errors = result("rounding.json")["errors"]
    return {
        f"{kind}_{way}": errors[kind][name]["worst row"][1]
        for kind in ("weights", "gradients") for way, name in (("tensor", "fp8_tensor"), ("row", "fp8_row"))
    } | {f"typical_{way}": errors["weights"][name]["error"][0] for way,
    name in (("tensor", "fp8_tensor"), ("row", "fp8_row"))}  # fmt: skip


def underflow() -> Mapping[str, float]:
    errors = result("rounding.json")["errors"]["gradients"]
    return {"fp16": errors["fp16"]["zero"][0], "worst": errors["fp16"]["zero"][1], "bf16": errors["bf16"]["zero"][1]}


def trained() -> Mapping[str, float]:
    found = result("precisions.json")["distances"]
    return {name.split(", ")[-1]: found[name]["mean_difference"] for name in ("fp8, tensor", "fp8, channel", "fp16", "fp32")}


def few_bits() -> Mapping[str, float]:
    """Nats that stored weights lose, mean over seeds."""
    rows: dict[str, list[float]] = {}
    for seed in result("quantised.json")["results"]:
        whole = next(each["loss"] for each in seed["formats"] if each["format"] == "fp32")
        for each in seed["formats"]:
            if not each["calibrated"]:
                rows.setdefault(each["format"].replace("-", "_"), []).append(each["loss"] - whole)
    return {name: mean(losses) for name, losses in rows.items()}


ROUNDING = "benchmarks/results/rounding.json"
TOPIC = Topic(
    "Number formats and memory",
    (
        Claim(
            "steps-at-one", "A 7, tables 3 and 4", "Steps at 1 are 2^-23 (FP32), 2^-10 (FP16, TF32), 2^-7 (bfloat16), 2^-3 and "
            "2^-2 (FP8).", ranges,
            "{steps} of {of_steps} from the bits", lambda f: f["steps"] == f["of_steps"],
        ),
        Claim(
            "step-of-int4", "A 7, table 4", "INT4 has a step of 1/16 at 1.", ranges, "{int4:g}, for it holds whole numbers",
            lambda f: f["int4"] == 1 / 16,
        ),
        Claim(
            "largest-numbers", "A 7, tables 3 and 4", "The largest finite numbers of the eight formats are as in the tables.",
            ranges, "{largest} of {of_largest} agree in their digits", lambda f: f["largest"] == f["of_largest"],
        ),
        Claim(
            "smallest-wide", "A 7, table 3", "The smallest normal number is 1.2e-38, in FP16 6.1e-5.", ranges,
            "{smallest} of {of_smallest}", lambda f: f["smallest"] == f["of_smallest"],
        ),
        Claim(
            "smallest-fp8", "A 7, table 4", "The smallest normal numbers of FP8 are 9.2e-8 (E4M3) and 3.0e-10 (E5M2).", ranges,
            "{e4m3:.3g} and {e5m2:.3g}; subnormal ones reach {e4m3_least:.3g} and {e5m2_least:.3g}",
            lambda f: near(f["e4m3"], 9.2e-8) and near(f["e5m2"], 3e-10),
        ),
        Claim(
            "bfloat16-range", "A 7", "bfloat16 has the range of FP32.", ranges,
            "smallest normal number {same:g} times, largest {top:.4f} times FP32's",
            lambda f: f["same"] == 1 and f["top"] > 0.99,
        ),
        Claim(
            "e5m2-is-wider", "A 7", "E4M3 has the narrower range of the two FP8 formats.", ranges,
            "E5M2 spans {decades:.1f} times as many decades", lambda f: f["decades"] > 1,
        ),
        Claim(
            "states-in-fp32", "A 7", "Weights for updates and the optimiser's state stay in FP32.", states,
            "16-bit training with Adam: {each:g} B for each parameter, {moments:g} of them moments; LLaMA 7B {held:.1f} GB, "
            "for "
            "{stored:.1f} GB of stored weights",
            lambda f: f["each"] == 16 and f["moments"] == 8,
            command="anyformer cost llama-7b --length 2k", shows=("{held:.1f} GB", "optimiser state"),
        ),
        Claim(
            "half-the-memory", "A 7", "bfloat16 takes half the memory of FP32.", halves,
            "GPT-2: weights {inference:.0%}; training 8 rows of 1,024 with masters in FP32: {training:.0%} at the peak, "
            "{saved:.0%} "
            "of what is saved",
            lambda f: f["training"] < 0.55, lambda f: f["inference"] == 0.5, "weights are stored, and not in training",
        ),
        Claim(
            "fewer-bits-for-inference", "A 7", "FP8 and INT4 weights make the footprint of inference minimal.", stored,
            "LLaMA 7B, bf16 over them: {fp8:.3f} and {int4:.2f} times, since tables and norms stay in 16 bits",
            lambda f: f["fp8"] == 2 and f["int4"] == 4, lambda f: f["fp8"] > 1.8 and f["int4"] > 3,
            "a little less than half and a quarter is meant",
        ),
        Claim(
            "few-bits-keep-quality", "A 7", "INT8 and INT4 are for inference after training.", few_bits,
            "0.85 M parameters, rounded without calibration: {int8:+.5f} nats in int8, {int4:+.4f} in int4, {fp8:+.5f} in fp8",
            lambda f: f["int4"] < 0.01, how="from results", file="benchmarks/results/quantised.json",
        ),
        Claim(
            "scaling-is-not-optional", "A 7", "Without a scale FP8 under- or overflows all the time.", unscaled,
            "share that becomes 0 in E4M3, without a scale and with one: weights {weights_none:.1%} and {weights_tensor:.1%}, "
            "activations {activations_none:.1%} and {activations_tensor:.1%}, gradients {gradients_none:.0%} and "
            "{gradients_tensor:.1%}",
            lambda f: f["weights_none"] > 0.5 and f["gradients_none"] > 0.5, lambda f: f["gradients_none"] > 0.5,
            "gradients are rounded; weights and activations lose a few percent at most",
            how="from results", file=ROUNDING,
        ),
        Claim(
            "scales-by-channel", "A 7", "A scale for each channel is more precise than one for the tensor.", channels,
            "FP8, error of the worst row: gradients {gradients_tensor:.0%} with one scale, {gradients_row:.1%} with one a "
            "row; weights "
            "{weights_tensor:.1%} and {weights_row:.1%} (typically {typical_tensor:.2%} and {typical_row:.2%})",
            lambda f: f["weights_row"] < f["weights_tensor"] / 2, lambda f: f["gradients_row"] < f["gradients_tensor"] / 2,
            "rows differ in loudness, as those of gradients do", how="from results", file=ROUNDING,
        ),
        Claim(
            "fp16-underflows", "A 7", "Gradients underflow in FP16 and not in bfloat16.", underflow,
            "share that becomes 0: {fp16:.1%} in the median matrix and {worst:.0%} in the worst, {bf16:.0%} in bfloat16",
            lambda f: f["fp16"] > 0.01 and f["bf16"] == 0, how="from results", file=ROUNDING,
        ),
        Claim(
            "fp8-trains", "A 7", "FP8 with scales can be used for training.", trained,
            "mean distance from the losses of bf16 over 300 updates: {tensor:.4f} nats with scales of tensors, {channel:.4f} "
            "of "
            "channels; fp32 itself {fp32:.4f}",
            lambda f: f["tensor"] < 0.05 and f["channel"] < 0.05, how="from results", file="benchmarks/results/precisions.json",
        ),
    ),
)  # fmt: skip
