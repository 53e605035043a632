"""Theirs beside ours: whole, padded and token by token; and whether theirs is moved."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from benchmarks.drift.outcome import Outcome, TimeIsUpError, of_input, said
from benchmarks.drift.rounding import alone_gap, is_rounding
from torch import Tensor

from anyformer.describe import UserError
from anyformer.model.transformer import Transformer
from huggingface import nearness, parity
from huggingface.nearness import Nearness, Values
from huggingface.parity import Pair


class Comparison:
    """What was computed of the unmoved configuration, that moved ones are held against. `ours`: its model here."""

    def __init__(self) -> None:
        self.ours: Transformer | None = None
        self._theirs: dict[str, Values] = {}
        self._answers: dict[Any, Values] = {}

    def gaps(self, pair: Pair, whole: bool, move: Mapping[str, Any]) -> Outcome:
        """The comparisons; `whole`: token by token too, which another architecture may change; `move`: what was moved."""
        moves, why = False, ""
        for name, compared in _asked(pair, whole):
            try:
                theirs = compared.theirs(pair)
            except TimeIsUpError:
                raise
            except Exception as error:  # whatever their computation says
                if name == "padded":
                    continue
                return Outcome("transformers refuses", said(error))
            if name == "whole" and not all(each.isfinite().all() for each in theirs.values()):
                return Outcome("transformers refuses", "numbers that are not finite")
            moves |= self._moved(name, theirs)
            try:
                found = compared.gap(self._ours(name, compared, pair), theirs)
            except TimeIsUpError:
                raise
            except UserError as error:
                refused = of_input(error, move) if name == "whole" else Outcome("refused by name", said(error))
                return Outcome(refused.ended, f"{name}: {refused.why}", moves)
            except Exception as error:
                return Outcome("crash", f"{name}: {said(error)}", moves)
            if name == "padded" and not found <= pair.case.logits and alone_gap(pair) <= pair.case.logits:
                why = f"padded: transformers differs by {found:.1e} from its own result of the row alone, which is ours"
            elif not found <= pair.case.logits and not is_rounding(compared, pair):
                return Outcome("drift", f"{name}: {found:.1e}", moves)
        return Outcome("equal", why, moves)

    def _moved(self, name: str, theirs: Values) -> bool:
        """Whether theirs differ from those of the first that was compared, which is unmoved."""
        before = self._theirs.setdefault(name, theirs)
        return any(value.shape != before[key].shape or not torch.equal(value, before[key]) for key, value in theirs.items())

    def _ours(self, name: str, compared: Nearness, pair: Pair) -> Values:
        """What ours computes; of the unmoved model each batch once."""
        if pair.ours is not self.ours:
            return compared.ours(pair)
        batch = (name, getattr(pair.theirs.config, "pad_token_id", None), *map(_bits, parity.inputs(pair)))
        if batch not in self._answers:
            self._answers[batch] = compared.ours(pair)
        return self._answers[batch]


def _asked(pair: Pair, whole: bool) -> list[tuple[str, Nearness]]:
    asked = [("whole", nearness.LOGITS)]
    if parity.pads(pair):
        asked.append(("padded", nearness.PADDED))
    if whole and parity.decodes(pair):
        asked.append(("token by token", nearness.CACHED))
    return asked


def _bits(tensor: Tensor) -> tuple[torch.Size, bytes]:
    return tensor.shape, tensor.numpy().tobytes()
