"""Our own layout in the tools that build on transformers, in a program that does not import this package.

Every tool opens the directory by the files in it (`trust_remote_code=True`): it continues prompts, trains, saves what can be
opened again, scores choices. Tokens, logits, losses and log-likelihoods are held to what this package computes of the same
directory, or of the one that the tool saved.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from benchmarks.engines.engine import Engine
from benchmarks.engines.models import NEW, PROMPTS, exported, made
from benchmarks.engines.ours import greedy, log_probabilities, logits
from benchmarks.engines.row import Row
from benchmarks.engines.scratch import Scratch

import anyformer as af
from anyformer.data import Bytes
from anyformer.data.vocabulary import make_tokenizer
from anyformer.describe import change
from anyformer.text import Tokenizer

READER = Path(__file__).with_name("read_elsewhere.py")
LAYOUTS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "full attention": ("llama-12m", {}),
    "sandwich norms, mixed windows, capped logits": ("gemma-2-2b", {}),
    "experts behind a latent": ("deepseek-v3", {}),
    "delta rule beside gated attention": ("qwen3-next-80b-a3b", {}),
    "state space": ("mamba2-130m", {}),
}
"""Row -> the catalogue entry whose tiny form is written in our own layout."""
TEXTS = ("the first text is the longest of all", "a second one", "x")
CHOICES = (" yes", " no", " perhaps so")
PACKAGES = ("transformers", "peft", "trl", "lm-eval", "datasets", "accelerate", "torch")
TOOL = {"pipeline": "transformers", "Trainer": "transformers", "PEFT": "peft", "TRL": "trl", "lm-evaluation-harness": "lm-eval"}
"""Tool -> its package."""


def model_of(name: str) -> af.Transformer:
    """The tiny random model of a row, over bytes and an end of text."""
    entry, changes = LAYOUTS[name]
    architecture = change(af.architecture(entry, tiny=True), "embedding.vocab", 257)
    for path, value in changes.items():
        architecture = change(architecture, path, value)
    return made(architecture, sharp=2.0)


def targets(model: af.Transformer) -> list[str]:
    """Two names that linear modules of the first layer have, and no other module."""
    ends = [(name.rpartition(".")[2], name, isinstance(module, torch.nn.Linear)) for name, module in model.named_modules()]
    others = {end for end, _, linear in ends if not linear}
    return sorted({end for end, name, linear in ends if linear and "layers.0." in name} - others)[:2]


def held(model: af.Transformer, answer: Mapping[str, Any]) -> tuple[int, int, float]:
    """Tokens that a tool's model continues prompts with, how many are ours, and the largest difference of logits."""
    own = [token for prompt in PROMPTS for token in greedy(model, prompt, NEW)]
    theirs = [token for tokens in answer["tokens"] for token in tokens]
    apart = [
        (logits(model, prompt) - torch.tensor(given)).abs().max()
        for prompt, given in zip(PROMPTS, answer["logits"], strict=True)
    ]
    return len(own), sum(left == right for left, right in zip(own, theirs, strict=True)), float(max(apart))


@torch.no_grad()
def loss_of(model: af.Transformer, batch: Mapping[str, Any]) -> float:
    """The mean loss of the first batch of a training, whose padding stands on the right."""
    tokens, labels = (torch.tensor(batch[name]) for name in ("input_ids", "labels"))
    padding = torch.tensor(batch["attention_mask"]) == 0 if "attention_mask" in batch else None
    read = model(tokens, padding=padding)
    return float(F.cross_entropy(read[:, :-1].flatten(0, 1), labels[:, 1:].flatten(), ignore_index=-100))


def scored(model: af.Transformer, tokenizer: Tokenizer, answer: Mapping[str, Any]) -> tuple[int, int, float]:
    """Choices, how many texts prefer the one that ours does, and the largest difference of log-likelihoods."""
    apart, equal = [0.0], 0
    for text, given in zip(TEXTS, answer["choices"], strict=True):
        own = []
        for choice in CHOICES:
            first, whole = tokenizer.encode(text), tokenizer.encode(text + choice)
            places = torch.arange(len(first) - 1, len(whole) - 1)
            own.append(float(log_probabilities(model, whole)[places, whole[len(first) :]].sum()))
        apart += [abs(left - right) for left, right in zip(own, given, strict=True)]
        equal += max(range(len(own)), key=own.__getitem__) == max(range(len(given)), key=given.__getitem__)
    return len(TEXTS), equal, max(apart)


def row(version: str, model: af.Transformer, tokenizer: Tokenizer, answer: Mapping[str, Any]) -> Row:
    """A tool's answer about one layout."""
    name, tool = answer["name"], answer["tool"]
    if "error" in answer:
        return Row(name, tool, "f32", version, reason=answer["error"])
    if "choices" in answer:
        count, equal, apart = scored(model, tokenizer, answer)
        return Row(name, tool, "f32", version, ("choices",), count, equal, apart, note="tokens: texts, by their best choice")
    saved, _ = af.load(answer["saved"])
    count, equal, apart = held(saved, answer)
    cases, note = ("saved again", "continued", "logits"), ""
    if "said" in answer:
        own = [greedy(model, tokenizer.encode(text), NEW) for text in TEXTS]
        count += sum(map(len, own))
        equal += sum(
            a == b for mine, theirs in zip(own, answer["said"], strict=True) for a, b in zip(mine, theirs, strict=True)
        )
        cases = ("padded batch", *cases)
    if "losses" in answer:
        first = loss_of(model, answer["batch"])
        apart, cases = max(apart, abs(first - answer["losses"][0])), ("first loss", *cases)
        note = f"losses {', '.join(f'{loss:.3f}' for loss in answer['losses'])}"
    return Row(name, tool, "f32", version, cases, count, equal, apart, "logits", note=note)


def rows(scratch: Scratch) -> Iterator[Row]:
    """A row for every layout and tool."""
    versions, tokenizer = scratch.versions(*PACKAGES), make_tokenizer(Bytes(), lambda: iter(()), lambda: iter(()))
    for name in scratch.names:
        model = model_of(name)
        place = scratch.place / name.replace(" ", "_").replace(",", "")
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        directory = exported(model, place / "own", model_type="anyformer", tokenizer=tokenizer)
        asked = {
            "directories": {name: str(directory)}, "prompts": PROMPTS, "new": NEW, "texts": TEXTS, "choices": CHOICES,
            "targets": targets(model), "folder": str(place / "saved"),
        }  # fmt: skip
        here = {"PYTHONPATH": str(Path(af.__file__).parents[1]), "HF_MODULES_CACHE": str(scratch.place / "modules")}
        for answer in scratch.answers(READER, asked, environment=here, folder=place):
            yield row(versions[TOOL[answer["tool"]]], model, tokenizer, answer)


ENGINE = Engine(tuple(LAYOUTS), PACKAGES, rows)
