"""`conform`: is an engine right?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from anyformer.conforming.cases import ConformCase
from anyformer.conforming.facts import ModelFacts
from anyformer.conforming.golden import GoldenCase, GoldenVectors, Tell, golden_cases
from anyformer.conforming.layers import LayerGap, layer_gaps
from anyformer.conforming.reference import TOP, Reference
from anyformer.conforming.servers import CompletionServer, EngineError
from anyformer.conforming.verdict import CaseVerdict, ConformReport, case_verdict, skipped_verdict
from anyformer.describe import UserError
from anyformer.evaluation.likelihood import check
from anyformer.loading import beside, load
from anyformer.model.prefix import reads_prefix
from anyformer.plan import Plan
from anyformer.precision import Fp32
from anyformer.text.conventions import Conventions

LONGEST, CHUNK = 2048, 512
"""Tokens of the longest text, and tokens that an engine is taken to read at once: what llama.cpp does."""
PLAN = Plan(precision=Fp32(), compile="off")
"""Products in the type of the weights."""
TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def golden_vectors(
    path: str | Path,
    cases: Sequence[ConformCase],
    *,
    longest: int = LONGEST,
    chunk: int = CHUNK,
    top: int = TOP,
    arithmetic: str | None = None,
    cache: str | None = None,
    bound: float | None = None,
    tell: Tell = lambda line: None,
) -> GoldenVectors:
    """The golden vectors of the model at `path`, computed in fp32.

    `arithmetic`: that of the engine, fp32, bf16 or fp16, by default the type of the stored weights; `cache`: the type of its
    keys and values, likewise; differences that both make here bound the engine's. `bound`: a bound in nats instead.
    """
    stored, tokenizer = load(path, plan=PLAN)
    check(stored.architecture)
    if reads_prefix(stored.architecture):
        raise UserError(
            f"{path}: reads the beginning of a text both ways, and says nothing of where it ends: no engine is asked so"
        )
    named = {kind: name for name, kind in TYPES.items()}
    kind = TYPES[arithmetic] if arithmetic else next(stored.parameters()).dtype
    kept = TYPES[cache] if cache else kind
    exact = stored if next(stored.parameters()).dtype == torch.float32 else load(path, plan=PLAN, dtype=torch.float32)[0]
    facts = ModelFacts.of(stored.architecture, tokenizer, Conventions.of(beside(path)), longest=longest, chunk=chunk)
    rounded = None
    if bound is None and (kind, kept) != (torch.float32, torch.float32):
        rounded = Reference(load(path, plan=PLAN, dtype=kind)[0], top, kept if kept != kind else None)
    words = f"fixed at {bound:.2g} nats" if bound is not None else f"{named.get(kind, kind)}, cache in {named.get(kept, kept)}"
    found = golden_cases(cases, facts, Reference(exact, top), rounded, bound, tell)
    return GoldenVectors(str(path), facts.vocabulary, words, found)


def held_layers(path: str | Path, file: Path, *, arithmetic: str | None = None) -> tuple[LayerGap, ...]:
    """The layers of a file of an engine's hidden states (`layers`) beside those of the model at `path` in fp32."""
    stored, _ = load(path, plan=PLAN)
    check(stored.architecture)
    kind = TYPES[arithmetic] if arithmetic else next(stored.parameters()).dtype
    exact, rounded = (load(path, plan=PLAN, dtype=each)[0] for each in (torch.float32, kind))
    return layer_gaps(file, exact, None if kind == torch.float32 else rounded)


def conform(
    server: CompletionServer,
    golden: GoldenVectors,
    cases: Sequence[ConformCase],
    *,
    top: int = TOP,
    tell: Tell = lambda line: None,
) -> ConformReport:
    """Ask an engine the cases and hold its answers against golden vectors. Cases that the vectors lack are not asked."""
    if server.vocabulary is not None and server.vocabulary != golden.vocabulary:
        raise EngineError(
            f"{server.called} serves {server.model} with {server.vocabulary:,} tokens, and {golden.model} has "
            f"{golden.vocabulary:,}: is this the same model?"
        )
    known = {case.name: case for case in golden.cases}
    found = []
    for number, case in enumerate(cases, 1):
        tell(f"asking {server.called} {number}/{len(cases)}: {case.name}")
        wanted = known.get(case.name, GoldenCase(case.name, skipped="the golden vectors have no such case"))
        found.append(_asked(server, wanted, min(top, golden.vocabulary), golden.vocabulary))
    return ConformReport(f"{server.called}, model {server.model}", golden.model, golden.arithmetic, tuple(found))


def _asked(server: CompletionServer, case: GoldenCase, top: int, vocabulary: int) -> CaseVerdict:
    if case.skipped is not None:
        return skipped_verdict(case, case.skipped)
    case = _fitting(case, server.longest)
    if not case.rounds:
        return skipped_verdict(case, f"its texts are longer than the {server.longest} tokens that the engine reads")
    answers = [server.ask_together([golden.request for golden in requests], top) for requests in case.rounds]
    return case_verdict(case, answers, vocabulary)


def _fitting(case: GoldenCase, longest: int | None) -> GoldenCase:
    """The case with the requests that an engine can read."""
    if longest is None:
        return case
    kept = (tuple(each for each in requests if each.request.length + each.request.count <= longest) for requests in case.rounds)
    return replace(case, rounds=tuple(requests for requests in kept if requests))
