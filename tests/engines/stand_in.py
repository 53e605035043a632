"""An engine whose file is the weights again, and whose numbers are those of the model, or a little wrong."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

import torch
from safetensors.torch import load_file, save_file

from anyformer.describe import from_json
from anyformer.engines.converting import ConvertingEngine
from anyformer.engines.engine import EngineRefusedError
from anyformer.engines.stored_form import stored_form
from anyformer.generation.state_rows import state_rows
from anyformer.model import Architecture
from anyformer.model.transformer import Transformer


@dataclass
class WrongPlaces:
    """Rows of a decode state; from `after` steps on, the logits of one row are moved by so much of the largest."""

    rows: object
    wrong: float
    after: int
    steps: int = 0

    @property
    def count(self):
        return self.rows.count

    @property
    def device(self):
        return self.rows.device

    def enter(self, at, numbers):
        return self._moved(self.rows.enter(at, numbers))

    def advance(self, tokens):
        return self._moved(self.rows.advance(tokens))

    def leave(self, at):
        self.rows.leave(at)

    def _moved(self, logits):
        self.steps += 1
        if self.steps > self.after:
            logits = logits.clone()
            logits[-1, 0] += self.wrong * logits[-1].abs().max()
        return logits


@dataclass
class StandInFile:
    """A file that was read."""

    model: Transformer
    wrong: float
    after: int

    def __call__(self, prompts, count, most):
        return WrongPlaces(state_rows(self.model, prompts, count, most), self.wrong, self.after)

    def logits(self, rows, last):
        with torch.inference_mode():
            for row, count in zip(rows, last, strict=True):
                yield self.model(torch.tensor([list(row)]))[0, -count:]


@dataclass
class StandInEngine(ConvertingEngine):
    """`does`: what it was asked to do, in order."""

    version: str = "1.0"
    wrong: float = 0.0
    after: int = 0
    installed: bool = True
    knows: bool = True
    scores: bool = True
    serves: bool = True
    does: list = field(default_factory=list)
    name, suffix, same, plain, remedy = "stand-in", ".safetensors", ("f32",), ("f32", "bf16"), "make one"

    def versions(self):
        return [self.version]

    def form(self, asked):
        return stored_form(asked.place)

    def own_file(self, place):
        return False

    def write(self, model, place, path, form):
        if not self.knows:
            raise EngineRefusedError("it does not know this type")
        self.does.append("write")
        save_file({name: value.detach().contiguous() for name, value in model.named_parameters()}, path)

    def size(self, model, form):
        return sum(value.nbytes for value in model.parameters())

    def read(self, path, form):
        self.does.append("read")
        model = Transformer(from_json(Architecture, (path.parent / "architecture.json").read_text())).eval()
        model.load_state_dict(load_file(path), strict=False)
        model = model.to(torch.float32)
        return StandInFile(model, self.wrong, self.after)

    def reader(self, places):
        return places.logits if self.scores else None

    def sequences(self, places):
        return partial(StandInSequences, places.model)

    def reference(self, path):
        raise AssertionError("all of its forms are plain")


class StandInSequences:
    """A decode state for every row; a row is begun anew when it was forgotten. `rows`: of every pass, in order."""

    def __init__(self, model, rows, length):
        self.model, self.length, self.states, self.rows = model, length, {}, []

    def read(self, row, tokens, last):
        state = self.states.setdefault(row, self.model.state(1, self.length))
        with torch.inference_mode():
            features = self.model.features(torch.tensor([list(tokens)]), state=state)
            return self.model.logits(features)[0, len(tokens) - last :]

    def advance(self, tokens):
        assert tokens.keys() <= self.states.keys(), "a text goes on whose prompt was not read"
        self.rows.append(sorted(tokens))
        return {row: self.read(row, [token], 1) for row, token in tokens.items()}

    def forget(self, row):
        self.states.pop(row, None)
