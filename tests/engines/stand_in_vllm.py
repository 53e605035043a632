"""A stand-in for the package vllm: its engine computes by a model of ours, and moves the rows of its batch about."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from enum import Enum, auto
from types import ModuleType, SimpleNamespace

import torch


class MoveDirectionality(Enum):
    UNIDIRECTIONAL = auto()
    SWAP = auto()


class LogitsProcessor:
    pass


@dataclass
class BatchUpdate:
    removed: list
    added: list
    moved: list


class EngineArgs(SimpleNamespace):
    pass


class SamplingParams(SimpleNamespace):
    pass


class LLMEngine:
    """Requests in a batch whose first and last rows change places before every second step."""

    model = None
    made = 0
    dies_at = None

    @classmethod
    def from_engine_args(cls, wanted):
        cls.made += 1
        return cls(wanted)

    def __init__(self, wanted):
        self.wanted = wanted
        self.rows, self.waiting, self.texts, self.params = [], [], {}, {}
        (kind,) = wanted.logits_processors
        self.processor = kind(None, torch.device("cpu"), False)
        self.removed, self.steps = [], 0

    def add_request(self, name, prompt, params):
        assert len(prompt["prompt_token_ids"]) + params.max_tokens <= self.wanted.max_model_len
        self.waiting.append(name)
        self.texts[name], self.params[name] = list(prompt["prompt_token_ids"]), params
        return f"{name}-internal"

    def abort_request(self, names):
        for name in names:
            self._remove(name)

    def has_unfinished_requests(self):
        return bool(self.waiting) or any(self.rows)

    @torch.inference_mode()
    def step(self):
        self.steps += 1
        if type(self).dies_at == self.steps:
            raise RuntimeError("out of memory")
        self.processor.update_state(self._update())
        logits = torch.stack([self.model(torch.tensor([self.texts[name]]))[0, -1] for name in self.rows])
        chosen = self.processor.apply(logits).argmax(-1).tolist()
        for name, token in zip(list(self.rows), chosen, strict=True):
            self.texts[name].append(token)
            self.params[name].max_tokens -= 1
            if not self.params[name].max_tokens:
                self._remove(name)

    def _update(self):
        """What became of rows: those that come take free places, later ones move up, the first and the last change places."""
        update = BatchUpdate(self.removed, [], [])
        self.removed = []
        for name in self.waiting:
            row = self.rows.index(None) if None in self.rows else len(self.rows)
            self.rows[row : row + 1] = [name]
            update.added.append((row, self.params[name], None, []))
        self.waiting = []
        while None in self.rows:
            row, name = self.rows.index(None), self.rows.pop()
            if name is not None:
                update.moved.append((len(self.rows), row, MoveDirectionality.UNIDIRECTIONAL))
                self.rows[row] = name
        if self.steps % 2 == 0 and len(self.rows) > 1:
            self.rows[0], self.rows[-1] = self.rows[-1], self.rows[0]
            update.moved.append((0, len(self.rows) - 1, MoveDirectionality.SWAP))
        return update

    def _remove(self, name):
        row = self.rows.index(name)
        self.removed.append(row)
        self.rows[row] = None


def installed(monkeypatch, model):
    """Let `import vllm` find it."""
    place = "vllm.v1.sample.logits_processor.interface"
    parts = {
        "vllm": {"EngineArgs": EngineArgs, "SamplingParams": SamplingParams},
        "vllm.v1": {}, "vllm.v1.engine": {}, "vllm.v1.engine.llm_engine": {"LLMEngine": LLMEngine},
        "vllm.v1.sample": {}, "vllm.v1.sample.logits_processor": {},
        place: {"BatchUpdate": BatchUpdate, "LogitsProcessor": LogitsProcessor, "MoveDirectionality": MoveDirectionality},
    }  # fmt: skip
    for name, held in parts.items():
        module = ModuleType(name)
        vars(module).update(held)
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(LLMEngine, "model", model)
    monkeypatch.setattr(LLMEngine, "made", 0)
    return LLMEngine
