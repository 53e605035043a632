"""llama.cpp beside this package: GGUF files as `anyformer export OUT.gguf` writes them, in fp32, and one type in few bits."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from benchmarks.engines.engine import Engine
from benchmarks.engines.gguf_types import TYPES
from benchmarks.engines.ours import decoded_logits, greedy, log_probabilities
from benchmarks.engines.row import Row
from benchmarks.engines.scratch import Scratch

import anyformer as af
from anyformer.describe import Notice, UserError
from anyformer.huggingface import Config, read_architecture
from anyformer.parts.pointwise.activation_module import FUNCTIONS, ActivationModule

READER = Path(__file__).with_name("read_llama_cpp.py")
PACKAGE = "llama_cpp_python"
PROMPT, NEW = 24, 16
"""Tokens of the prompt, and greedy ones after it."""
START = 0
"""The first token of decoders that read a source."""
CASES = ("prompt at once", "token by token")
CLOSE = 1e-4
"""What log-probabilities may differ by."""
FEW_BITS = ("Q8_0", "Q4_0", "Q4_K_M", "Q6_K")
"""Types to which llama.cpp's own quantiser rounds one model."""
ROUNDED = "llama"
"""The model that is rounded, its rows as long as blocks of 256."""
WIDE = {"hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2}
TABLE = "GELU, which llama.cpp looks up in a table of fp16 of its tanh form"
PRODUCTS = "products with weights in few bits, whose inputs llama.cpp rounds to 8 bits"


def loud(model: af.Transformer, seed: int = 1) -> af.Transformer:
    """Random weights that all leave a trace: norms about 1, nothing at a neutral value."""
    drawn = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            scale = 0.2 if parameter.dim() < 2 else min(0.2, 1.4 * parameter.shape[-1] ** -0.5)
            noise = scale * torch.randn(parameter.shape, generator=drawn)
            parameter.copy_(1 + noise if parameter.dim() == 1 and name.endswith("weight") else noise)
    return model.eval()


def made(model_type: str, sizes: Mapping[str, Any]) -> af.Transformer:
    """A random model of a model type."""
    return loud(af.build(read_architecture(Config({"model_type": model_type, **sizes}))[0]))


def looked_up(x: torch.Tensor) -> torch.Tensor:
    """GELU as llama.cpp computes it on processors: from a table in fp16 of its tanh form, for inputs in fp16."""
    found = torch.nn.functional.gelu(x.half().float(), approximate="tanh").half().float()
    return torch.where(x <= -10, 0.0, torch.where(x >= 10, x, found))


def with_their_gelu(model: af.Transformer) -> af.Transformer | None:
    """The model with llama.cpp's table in place of GELU; None where it has none."""
    other, found = deepcopy(model), False
    for was, module in zip(model.modules(), other.modules(), strict=True):
        if isinstance(was, ActivationModule) and was.function in (FUNCTIONS["gelu"], FUNCTIONS["gelu_tanh"]):
            cast(Any, module).function, found = looked_up, True
    return other if found else None


def prompt_of(model: af.Transformer) -> list[int]:
    """Random tokens."""
    drawn = torch.Generator().manual_seed(2)
    return cast(list[int], torch.randint(5, model.architecture.embedding.symbols, (PROMPT,), generator=drawn).tolist())


def beside(model: af.Transformer, answer: Mapping[str, Any]) -> tuple[int, int, float]:
    """Tokens that were generated, how many are ours, and the largest difference of log-probabilities up to the first other."""
    prompt, theirs = prompt_of(model), answer["tokens"]
    two = model.architecture.two_inputs
    own = greedy(model, prompt, len(theirs), START if two else None)
    same = [left == right for left, right in zip(own, theirs, strict=True)]
    if two:
        first, ours = 1, decoded_logits(model, prompt, [START, *own]).log_softmax(-1)
    else:
        first, ours = len(prompt), log_probabilities(model, [*prompt, *own])
    until = first + (same.index(False) if False in same else len(same))
    read = torch.from_numpy(np.load(answer["logits"])).log_softmax(-1)[:until]
    return len(theirs), sum(same), float((ours[:until] - read).abs().max())


def together(found: Sequence[tuple[int, int, float]]) -> tuple[int, int, float]:
    """Of several models of a type."""
    counts, equal, apart = zip(*found, strict=True)
    return sum(counts), sum(equal), max(apart)


def row(name: str, version: str, models: Sequence[af.Transformer], answers: Sequence[Mapping[str, Any]]) -> Row:
    """The answers about all models of a type beside their own."""
    if wrong := [each["error"] for each in answers if "error" in each]:
        return Row(name, "GGUF", "f32", version, reason=wrong[0])
    found = together([beside(*pair) for pair in zip(models, answers, strict=True)])
    note = f"{len(models)} settings" if len(models) > 1 else ""
    others = [with_their_gelu(model) for model in models]
    departs = ""
    if found[2] > CLOSE and any(others):
        departs = TABLE
        with_table = together(
            [beside(other or model, said) for other, model, said in zip(others, models, answers, strict=True)]
        )
        told = f"with that here, the largest difference is {with_table[2]:.1e}"
        note = f"{note}; {told}" if note else told
    return Row(name, "GGUF", "f32", version, CASES, *found, note=note, departs=departs)


def few_bits(scratch: Scratch, version: str) -> Iterator[Row]:
    """One model rounded by llama.cpp, beside the same file read here."""
    model, path = made(ROUNDED, {**TYPES[ROUNDED][0], **WIDE}), scratch.place / "rounded.gguf"
    af.export_gguf(model, path, length=64)
    same = {"name": ROUNDED, "file": str(path), "prompt": prompt_of(model), "new": NEW, "number": 0}
    for kind, answer in zip(FEW_BITS, scratch.answers(READER, [{**same, "as": kind} for kind in FEW_BITS]), strict=True):
        if "error" in answer:
            yield Row(ROUNDED, "GGUF", kind.lower(), version, reason=answer["error"])
            continue
        again, _ = af.load(answer["read"], dtype=torch.float32)
        yield Row(ROUNDED, "GGUF", kind.lower(), version, CASES, *beside(again, answer), departs=PRODUCTS)


def rows(scratch: Scratch) -> Iterator[Row]:
    """A row for every type, then those of one type in few bits."""
    version = scratch.versions(PACKAGE)[PACKAGE]
    models: dict[str, list[af.Transformer]] = {}
    asked = []
    for name in scratch.names:
        try:
            models[name] = [made(name, sizes) for sizes in TYPES[name]]
            for number, model in enumerate(models[name]):
                path = scratch.place / f"{name}-{number}.gguf"
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", Notice)
                    af.export_gguf(model, path, model_type=name, length=64)
                asked.append({"name": name, "number": number, "file": str(path), "prompt": prompt_of(model), "new": NEW})
        except UserError as error:
            yield Row(name, "GGUF", "f32", version, reason=str(error))
            models.pop(name)
            asked = [each for each in asked if each["name"] != name]
    answers: dict[str, list[dict[str, Any]]] = {name: [] for name in models}
    for answer in scratch.answers(READER, asked):
        name = answer["name"]
        answers[name].append(answer)
        if len(answers[name]) == len(models[name]):
            yield row(name, version, models[name], answers[name])
    if ROUNDED in scratch.names:
        yield from few_bits(scratch, version)


ENGINE = Engine(tuple(TYPES), (PACKAGE, "gguf"), rows, CLOSE)
