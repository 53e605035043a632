"""Every objective: the loss falls on one repeated batch, and a run that was killed ends with the same bits."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from zoo_images import CLIP

from anyformer import checkpoint
from anyformer.catalogue import architecture
from anyformer.describe import change_all
from anyformer.model import Architecture, dictionary_alone
from anyformer.model.transformer import build
from anyformer.objectives import DiffusionObjective, Objective
from anyformer.parts import (
    BatchTopKCode,
    Causal,
    Dictionary,
    GatedCode,
    Head,
    JumpReLUCode,
    MeanLength,
    Prefix,
    ReLUCode,
    Revival,
    TopKCode,
)
from anyformer.parts.dictionary.codes import Code
from anyformer.testing import runs
from anyformer.testing.objectives import evaluated_loss_is_a_likelihood
from anyformer.training import Run
from covering import Mechanism, but_slow, cover
from stand_ins import few_records


@dataclass(frozen=True)
class Case:
    """A tiny run: an architecture, an objective, and rows of its kind of data (texts for running text).

    `teacher`: the model that stands at the path "teacher" before the run.
    """

    model: Architecture
    objective: dict[str, Any]
    data: dict[str, Any]
    rows: list[dict[str, Any]]
    length: int = 32
    accumulation: int = 2
    teacher: Architecture | None = None


def tiny(name: str, **changes: Any) -> Architecture:
    return change_all(architecture(name, tiny=True), changes)


def encoder(head: Head | None = None) -> Architecture:
    """A small BERT, with another head if one is given."""
    made = architecture("bert-base-uncased", tiny=True)
    return made if head is None else made.but(head=head)


def hearing(head: Head) -> Architecture:
    """The encoder of a small Whisper, with a head."""
    return architecture("whisper-tiny", tiny=True).but(decoder=None, decoder_embedding=None, head=head)


def sparse(code: Code, paths: int = 1, **fields: Any) -> Architecture:
    """A small dictionary of the activations at so many paths of the small Llama."""
    return dictionary_alone(Dictionary(features=96, code=code, **fields), paths * tiny("llama-2-7b").width)


def prefix_model() -> Architecture:
    return tiny("llama-2-7b", **{"decoder.layer.attention.mask": Causal() | Prefix()})


TEXTS = [{"text": f"the {n} words of text {n * n % 97} are not many, but they say {n % 7} things. "} for n in range(200)]
PAIRS = [{"source": f"number {n}", "target": f"{n * 3 % 101} is its answer"} for n in range(120)]
LABELLED = [{"text": f"{'even' if n % 2 else 'odd'} things {n}", "label": "ab"[n % 2]} for n in range(120)]
SCORED = [{"text": f"{'many' if n % 2 else 'few'} things", "value": n % 2 + n % 3 / 10} for n in range(120)]
WORDS = [{"words": ["Ada", "saw", str(n)], "labels": ["B-PER", "O", "B-NUM" if n % 2 else "O"]} for n in range(120)]
ANSWERS = [
    {"context": f"it is {n} and red", "question": "what?", "answer": "red", "start": len(f"it is {n} and ")} for n in range(120)
]
SIMILAR = [{"text": f"number {n}", "positive": f"{n} is it"} for n in range(120)]
VECTORS = [{"array": [[n % 2, 0.1 * row, 1.0] for row in range(1 + n % 4)], "label": n % 2} for n in range(120)]
DIGITS = {"kind": "images", "paths": ["digits"], "height": 12, "width": 12}
SPOKEN = [
    {
        "sound": {"array": [((k * (n % 7 + 3)) % 19) / 20 for k in range(90 + 10 * (n % 9))], "sampling_rate": 1000},
        "text": "ab"[n % 2] * (1 + n % 3), "label": "ab"[n % 2],
    }
    for n in range(120)
]  # fmt: skip
HEARD = {"features": {"rate": 1000, "window": 32, "hop": 8, "bins": 6, "high": 500.0}}
SHORT = {"rate": 1000, "seconds": 0.2}
SHOWN = {"kind": "captions", "paths": ["shapes"], "height": 12, "width": 12}
ASKED_ABOUT = {"kind": "questions_about_images", "paths": ["shapes-questions"], "height": 4, "width": 4}
ASKED = [{"prompt": f"{n}?", "answer": f"{n * 3 % 101}.", "worse": f"no {n}"} for n in range(120)]
CHATS = [
    {"messages": [{"role": "user", "content": row["prompt"]}, {"role": "assistant", "content": row["answer"]}]} for row in ASKED
]
SOLVED = [
    {"prompt": row["prompt"], "completions": [row["worse"], row["answer"]], "labels": [n % 3 == 0, True]}
    for n, row in enumerate(ASKED)
]
JUDGED = [
    {"prompt": row["prompt"], "completion": row[name], "label": name == "answer"}
    for row in ASKED
    for name in ("answer", "worse")
]
PREFERRED = {"kind": "preferences", "chosen": "answer", "rejected": "worse"}
RUNNING = {"kind": "text"}
OUT = "decoder.layer[{}].output"
SAE = {"kind": "sae", "source": "teacher", "path": OUT.format(1)}
KEPT = {"kind": "distillation", "teacher": "teacher", "alpha": 0.5, "kept": 5}
MIXTURE = {"kind": "mixture", "of": "text"}
SMALL_RECALL = {"kind": "mqar", "pairs": 4, "keys": 8, "values": 8}
CASES = {
    "causal": Case(tiny("llama-2-7b"), {"kind": "causal"}, RUNNING, TEXTS),
    "prefix": Case(prefix_model(), {"kind": "prefix"}, RUNNING, TEXTS),
    "masked": Case(encoder(), {"kind": "masked", "unit": "words"}, RUNNING, TEXTS),
    "span_corruption": Case(tiny("t5-small"), {"kind": "span_corruption"}, RUNNING, TEXTS),
    "ul2": Case(tiny("t5-small"), {"kind": "ul2"}, RUNNING, TEXTS),
    "ul2-prefix": Case(prefix_model(), {"kind": "ul2", "target": "same_sequence"}, RUNNING, TEXTS),
    "denoising": Case(tiny("bart-base"), {"kind": "denoising"}, RUNNING, TEXTS),
    "replaced_tokens": Case(tiny("electra-small"), {"kind": "replaced_tokens"}, RUNNING, TEXTS),
    "diffusion": Case(tiny("llada-8b"), {"kind": "diffusion"}, RUNNING, TEXTS),
    "seq2seq": Case(tiny("t5-small"), {"kind": "seq2seq"}, {"kind": "pairs"}, PAIRS),
    "classification": Case(encoder(Head(pool="first", outputs=2)), {"kind": "classification"}, {"kind": "labelled"}, LABELLED),
    "regression": Case(encoder(Head(pool="mean", outputs=1)), {"kind": "regression"}, {"kind": "scored"}, SCORED),
    "token_labels": Case(encoder(Head(outputs=4)), {"kind": "token_labels"}, {"kind": "word_labels"}, WORDS),
    "spans": Case(encoder(Head(outputs=2)), {"kind": "spans", "windows": 2, "overlap": 4}, {"kind": "answers"}, ANSWERS, 24),
    "contrastive": Case(tiny("sentence-bert-base"), {"kind": "contrastive"}, {"kind": "similar"}, SIMILAR, 32, 1),
    "images": Case(tiny("vit-base-16"), {"kind": "image_classification", "shift": 0.1, "flip": True}, DIGITS, [], 5),
    "image_features": Case(
        tiny("dinov2-small", **{"embedding.size": 6}), {"kind": "image_features", "pool": "mean"}, DIGITS, [], 5, 1
    ),
    "image_regression": Case(
        tiny("vit-base-16", head=Head(outputs=2, pool="mean")),
        {"kind": "image_regression"},
        {"kind": "measured_images", "paths": ["shape-boxes"], "values": ["left", "top"], "height": 12, "width": 12},
        [],
        5,
    ),
    "masked_patches": Case(tiny("dinov2-small"), {"kind": "masked_patches", "shift": 0.1}, DIGITS, [], 5),
    "segmentation": Case(
        tiny("vit-base-16", head=Head(outputs=4)),
        {"kind": "segmentation", "dice": 1.0, "flip": True},
        {
            "kind": "image_masks",
            "paths": ["ellipses"],
            "labels": ["background", "body", "organ", "spot"],
            "height": 12,
            "width": 12,
        },
        [],
        5,
    ),
    "flow_matching": Case(
        tiny("dit-s-2", **{"embedding.channels": 3, "head.outputs": 12, "encoder.position.columns": 6}),
        {"kind": "flow_matching", "times": {"kind": "logit_normal"}},
        DIGITS,
        [],
        36,
    ),
    "speech_to_text": Case(tiny("whisper-tiny"), {"kind": "speech_to_text", **HEARD}, {"kind": "speech", **SHORT}, SPOKEN, 12),
    "sound_to_text": Case(tiny("qwen2-audio-7b"), {"kind": "sound_to_text", **HEARD}, {"kind": "speech", **SHORT}, SPOKEN, 32),
    "ctc": Case(hearing(Head(outputs=258)), {"kind": "ctc", **HEARD}, {"kind": "speech", **SHORT}, SPOKEN, 13),
    "sounds": Case(
        hearing(Head(pool="mean", outputs=4)),
        {"kind": "sound_classification", "padding": "silence", **HEARD},
        {"kind": "sounds", **SHORT},
        SPOKEN,
        13,
    ),
    "captions": Case(tiny("blip-caption-base"), {"kind": "captions"}, SHOWN, [], 48),
    "captions of vectors": Case(tiny("llama-3.2-11b-vision"), {"kind": "captions"}, SHOWN, [], 48),
    "captions of a tower": Case(tiny("llama-2-7b", images=CLIP), {"kind": "captions"}, ASKED_ABOUT, [], 64),
    "vectors": Case(
        tiny("set-transformer-modelnet40"), {"kind": "vector_classification"}, {"kind": "arrays", "features": 3}, VECTORS, 8
    ),
    "task": Case(tiny("llama-2-7b"), {"kind": "task"}, {"kind": "task", "task": SMALL_RECALL}, []),
    "task_packed": Case(
        tiny("llama-2-7b"), {"kind": "task", "pack": True}, {"kind": "task", "task": "parity", "shortest": 5, "longest": 15}, []
    ),
    "policy": Case(
        tiny("llama-2-7b", **{"embedding.vocab": 40}),
        {
            "kind": "policy",
            "group": 4,
            "loss": "grpo",
            "rollouts": {"top_p": 0.9, "temperature": 0.9},
            "reward": {"kind": "task", "counts": "share"},
        },
        {"kind": "task", "task": {"kind": "sorting", "numbers": 4}, "shortest": 8, "longest": 12},
        [],
    ),
    "policy of values": Case(
        tiny("llama-2-7b", **{"embedding.vocab": 40}),
        {"kind": "policy", "group": 2, "loss": "ppo", "reward": {"kind": "task", "counts": "share"}},
        {"kind": "task", "task": {"kind": "copying", "letters": 4}, "longest": 12},
        [],
    ),
    "policy of chats": Case(
        tiny("gpt2"),
        {"kind": "policy", "group": 2, "loss": "expert_iteration", "reward": "exact_match", "rollouts": {"tokens": 5}},
        {"kind": "prompts"},
        ASKED,
    ),
    "task_seq2seq": Case(
        tiny("t5-small"),
        {"kind": "task_seq2seq"},
        {"kind": "task", "task": {"kind": "sorting", "numbers": 9}, "shortest": 8},
        [],
    ),
    "mixture": Case(tiny("llama-2-7b"), {"kind": "causal"}, MIXTURE, TEXTS),
    "mixture of pairs": Case(tiny("t5-small"), {"kind": "seq2seq"}, MIXTURE | {"of": "pairs"}, PAIRS),
    "instruction": Case(tiny("llama-2-7b"), {"kind": "instruction"}, {"kind": "chats"}, CHATS),
    "instruction_alone": Case(tiny("gpt2"), {"kind": "instruction", "pack": False}, {"kind": "prompts"}, ASKED),
    "dpo": Case(tiny("llama-2-7b"), {"kind": "dpo", "beta": 1.0}, PREFERRED, ASKED),
    "simpo": Case(tiny("llama-2-7b"), {"kind": "simpo"}, PREFERRED, ASKED),
    "reward": Case(
        tiny("llama-2-7b", head=Head(outputs=1, pool="last")),
        {"kind": "reward", "centre": 0.01},
        PREFERRED | {"margin": "by", "agreement": "agreed"},
        [row | {"by": n % 3, "agreed": 1 - n % 2 / 10} for n, row in enumerate(ASKED)],
    ),
    "step_rewards": Case(tiny("llama-2-7b", head=Head(outputs=1)), {"kind": "step_rewards"}, {"kind": "step_labels"}, SOLVED),
    "kto": Case(tiny("llama-2-7b"), {"kind": "kto", "beta": 1.0}, {"kind": "judgements"}, JUDGED, accumulation=1),
    "orpo": Case(tiny("llama-2-7b"), {"kind": "orpo"}, PREFERRED, ASKED),
    "distillation": Case(
        tiny("llama-2-7b"),
        {"kind": "distillation", "teacher": "teacher", "alpha": 0.5},
        RUNNING,
        TEXTS,
        teacher=tiny("llama-2-7b"),
    ),
    "distillation_kept": Case(tiny("llama-2-7b"), KEPT, RUNNING, TEXTS, teacher=tiny("llama-2-7b")),
    "distillation_kept of masked": Case(encoder(), KEPT | {"of": {"kind": "masked"}}, RUNNING, TEXTS, teacher=encoder()),
    "sae": Case(
        sparse(TopKCode(k=8), unit=True, length=MeanLength(), revival=Revival(after=300)),
        SAE | {"revival": 1.0},
        RUNNING,
        TEXTS,
        teacher=tiny("llama-2-7b"),
    ),
    "sae of jump_relu": Case(
        sparse(JumpReLUCode()), SAE | {"sparsity": 0.1, "rise": 8}, RUNNING, TEXTS, teacher=tiny("llama-2-7b")
    ),
    "sae of batch_top_k": Case(sparse(BatchTopKCode(k=8.0)), SAE, RUNNING, TEXTS, teacher=tiny("llama-2-7b")),
    "transcoder": Case(
        sparse(GatedCode(), centred=False, detached=True),
        {"kind": "transcoder", "source": "teacher", "path": OUT.format(0), "target": OUT.format(1), "sparsity": 0.1},
        RUNNING,
        TEXTS,
        teacher=tiny("llama-2-7b"),
    ),
    "crosscoder": Case(
        sparse(ReLUCode(), paths=2, blocks=2, length=MeanLength()),
        {"kind": "crosscoder", "source": "teacher", "paths": [OUT.format(0), OUT.format(1)], "sparsity": 0.1},
        RUNNING,
        TEXTS,
        teacher=tiny("llama-2-7b"),
    ),
}


def data_of(case: Case, folder: Path) -> dict[str, Any]:
    """The case's data in a file; of a mixture every third row in a file of its own; of a task, which is made, as it is."""
    if case.data["kind"] == "task":
        return case.data
    held_out, tokenizer = {"validation": 0.2}, {"tokenizer": {"kind": "bytes"}}
    if case.data["kind"] != "mixture":
        return {**tokenizer, **held_out, "paths": [written(folder, case.rows)], **case.data}
    few, many = case.rows[::3], [row for number, row in enumerate(case.rows) if number % 3]
    parts = [
        {"data": {"kind": case.data["of"], **held_out, "paths": [written(folder, rows)]}, **more}
        for rows, more in ((few, {"weight": 0.5, "repeats": 0.1}), (many, {"weight": 0.5}))
    ]
    return {"kind": "mixture", "parts": parts, **tokenizer}


def written(folder: Path, rows: list[dict[str, Any]]) -> str:
    """The file of these rows, named by what it says: the same rows are the same file."""
    text = "".join(json.dumps(row) + "\n" for row in rows)
    path = folder / f"{hashlib.sha256(text.encode()).hexdigest()[:12]}.jsonl"
    if not path.exists():
        path.write_text(text)
    return str(path)


@pytest.fixture(scope="module")
def shared(tmp_path_factory) -> Iterator[Path]:
    """Where all cases prepare their data, so that those of the same data do it once."""
    folder = tmp_path_factory.mktemp("data")
    with few_records(), mock.patch.dict(os.environ, {"ANYFORMER_CACHE": str(folder / "cache")}):
        yield folder


def resumed(case: Case) -> frozenset[Mechanism]:
    """What a run takes up again of a case: what its objective defines for itself, which class feeds it, what its second models
    are, whether it learns from its own samples, how often, and of a mixture; and what kind of model learns."""
    kind = Objective.kinds[case.objective["kind"]]
    objective = kind.parse(case.objective)
    own = kind.__mro__[: kind.__mro__.index(Objective)]
    partners = {
        ("partner", each.name, str(value) if isinstance(value := getattr(partner, each.name), bool) else str(value is None))
        for partner in objective.partners.values()
        for each in fields(partner)
    }
    return frozenset(
        {(name,) for base in own for name in vars(base) if name in vars(Objective)}
        | {("feed", next(base.__name__ for base in own if "feed" in vars(base)))}
        | {("samples", str(objective.traits.own_samples is not None), str(objective.traits.uses > 1))}
        | {("shape", case.model.shape_of_model), ("mixture", str(case.data["kind"] == "mixture"))}
        | {("teacher", str(case.teacher is not None)), ("pieces", str(case.accumulation))}
        | partners
    )


@pytest.fixture(params=CASES, scope="module")
def run(request, shared, tmp_path_factory) -> Iterator[Run]:
    """A run of each case, whose data are prepared once for all tests of it."""
    case, folder = CASES[request.param], tmp_path_factory.mktemp("case")
    if case.teacher is not None:
        checkpoint.save(build(case.teacher, seed=99), folder / "teacher")
    plain = {
        "steps": runs.STEPS, "batch": 4, "accumulation": case.accumulation, "length": case.length, "seed": 7,
        "objective": case.objective, "data": data_of(case, shared), "architecture": case.model.plain(),
    }  # fmt: skip
    with contextlib.chdir(folder):
        yield Run.parse(plain)


@pytest.mark.parametrize("run", but_slow(CASES, cover(CASES, resumed)), indirect=True, scope="module")
def test_killed_and_resumed_equals_never_interrupted(run):
    """Asked here of cases that have together all that a run takes up again; of the others in `make test-slow`."""
    trained = runs.killed_and_resumed_equals_never_interrupted(run)
    assert trained.validation is not None
    assert trained.baseline is not None


def test_the_loss_falls_on_one_repeated_batch(run):
    runs.loss_falls_on_one_repeated_batch(run)


def test_a_loss_that_is_called_a_likelihood_is_one(run):
    if isinstance(run.objective, DiffusionObjective):
        pytest.skip("its loss is a bound on -log p, each row weighed by the share that is hidden")
    evaluated_loss_is_a_likelihood(run)


def test_the_loss_of_divided_logits_is_that_of_whole_ones(run):
    runs.loss_of_divided_logits_is_that_of_whole_ones(run)
