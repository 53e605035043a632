"""FLOPs of a training step by the formulas of eleven projects, beside the operators of the model.

    python -m benchmarks.formulas

Every formula is given the sizes that transformers' configuration of a model has (`projects.py` says where each is published).
The operators are those of `af.flops`; PyTorch's own counter counts the same in the model on the meta device, forward and
backward, for every pair of query and key, or nothing is judged. A prediction of later tokens is left out on both sides.

`off`: the formula over all FLOPs of the pairs that masks allow, less one. `granted`: over those of the pairs that it means to
count, so that what is left is none of its convention. Writes benchmarks/results/formulas.json.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

from benchmarks.formulas.projects import FORMULAS
from benchmarks.formulas.sizes import ModelSizes, sizes_of
from benchmarks.sitting import RESULTS, written

import anyformer as af
from anyformer.costs.counted import total_flops
from anyformer.operations import Shape

CASES: Mapping[str, tuple[str, str, int]] = {
    "gpt2": ("gpt2", "multi-head attention, tied head", 1024),
    "llama-3.2-1b": ("llama", "grouped queries, tied head", 4096),
    "llama-3.1-8b": ("llama", "grouped queries", 8192),
    "llama-3.1-8b at 128k": ("llama", "grouped queries", 131_072),
    "gemma-3-12b": ("gemma3_text", "windows of 1,024 in five layers of six, heads of 256", 32_768),
    "gpt-oss-20b": ("gpt_oss", "windows of 128 in every other layer, 4 of 32 experts", 8192),
    "mixtral-8x7b": ("mixtral", "2 of 8 experts", 8192),
    "qwen3-30b-a3b": ("qwen3_moe", "8 of 128 experts, heads wider than D / H", 8192),
    "deepseek-v3": ("deepseek_v3", "latent attention, 8 of 256 experts", 4096),
    "qwen3-next-80b-a3b": ("qwen3_next", "gated delta rule in three layers of four, 10 of 512 experts", 8192),
    "nemotron-h-8b": ("nemotron_h", "Mamba-2 and four layers of attention", 8192),
    "t5-v1.1-large": ("t5", "encoder and decoder, as many tokens each", 512),
}
"""Model, its type, what is particular about it, and tokens of a row."""
PLAN = af.Plan(attention="plain")
"""Attention by plain products, which the counter sees one by one."""


def exact(name: str, length: int) -> tuple[int, int]:
    """FLOPs of training on one row, three times those of the forward pass: of the pairs that masks allow, and of every pair.

    Raises `SystemExit` where PyTorch's counter finds others in either pass, of every pair.
    """
    made = af.architecture(name).but(mtp=None)
    shape = Shape(batch=1, length=length, source=length if made.two_inputs else 0)
    declared = made.cost(shape, PLAN).total_flops
    counted = total_flops(made, shape, PLAN)
    if counted != (declared.dense, declared.backward):
        raise SystemExit(
            f"{name}: {declared.dense:,} FLOPs forward and {declared.backward:,} backward are declared, and {counted} counted: "
            "no formula is judged by these"
        )
    return 3 * declared.exact, 3 * declared.dense


def judged(name: str, sizes: ModelSizes, of_masks: int, of_every: int) -> Iterator[dict[str, Any]]:
    """Every formula beside the exact FLOPs of one model."""
    for formula in FORMULAS:
        row: dict[str, Any] = {"model": name, "project": formula.project}
        if not formula.takes(sizes.model_type):
            yield row | {"why": "not given"}
            continue
        try:
            found = formula.flops(sizes)
        except (AttributeError, KeyError) as error:
            yield row | {"why": f"fails: {error}"}
            continue
        granted = found / (of_every if formula.convention == "every" else of_masks) - 1
        yield row | {"flops": found, "off": found / of_masks - 1, "granted": granted}


def main() -> None:
    """Judge, print and write down."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=RESULTS / "formulas.json", metavar="FILE")
    arguments = parser.parse_args()
    record: dict[str, Any] = {"date": date.today().isoformat(), "models": [], "rows": []}
    known: dict[str, ModelSizes] = {}
    for title, (model_type, about, length) in CASES.items():
        name = title.split(" at ")[0]
        if name not in known:
            known[name] = sizes_of(af.architecture(name), model_type, length)
        of_masks, of_every = exact(name, length)
        record["models"].append({"model": title, "about": about, "length": length, "exact": of_masks, "every": of_every})
        rows = list(judged(title, replace(known[name], length=length), of_masks, of_every))
        record["rows"] += rows
        told = (f"{row['project']} {row['off']:+.1%} ({row['granted']:+.1%})" for row in rows if "off" in row)
        print(f"{title} at {length:,}: {of_masks:.4g}, {of_every:.4g} of every pair; {', '.join(told)}", flush=True)
    written(arguments.output, record)


if __name__ == "__main__":
    main()
