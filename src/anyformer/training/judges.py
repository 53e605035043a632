"""The reward models of a reward, read and ready to grade."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from anyformer.data import IGNORED, Preferences
from anyformer.data.columns import padded
from anyformer.data.turns import is_turns
from anyformer.describe import UserError
from anyformer.loading import architecture_of, load, trained_in
from anyformer.model.transformer import Transformer
from anyformer.objectives import Examples, RewardObjective
from anyformer.objectives.recorded import recorded
from anyformer.objectives.sequences import outputs, pooled
from anyformer.parts.call.reports import Auxiliary
from anyformer.plan import Plan
from anyformer.quantising.tensor import stored_bytes
from anyformer.requirements.needs import needs_one_number
from anyformer.rewards.reward import Judge, Pair, RewardError
from anyformer.text import Tokenizer
from anyformer.text.chat import templates
from anyformer.text.tokenizers import TokenArray


@dataclass(frozen=True)
class ModelJudge:
    """A reward model that grades answers: a number each, the rewards of `RewardObjective` bit for bit at one answer a time."""

    path: str
    model: Transformer
    tokenizer: Tokenizer
    data: Preferences

    @property
    def held(self) -> int:
        return sum(map(stored_bytes, self.model.parameters()))

    def __call__(self, pairs: Sequence[Pair]) -> list[float]:
        rows = [self.tokens(pair) for pair in pairs]
        for (query, _), row in zip(pairs, rows, strict=True):
            most = self.model.architecture.output_stack.max_length
            if most is not None and len(row) > most:
                raise RewardError(
                    f"reward model {self.path}: the prompt {query.shown} and its answer take {len(row):,} positions, and the "
                    f"model reads {most:,}: sample fewer tokens, or take another model"
                )
        lines = torch.from_numpy(padded([row.astype(np.int64) for row in rows], max(map(len, rows)), IGNORED))
        padding = lines == IGNORED
        examples = Examples(
            lines.clamp(min=0), torch.zeros(len(rows), dtype=torch.int64), None, torch.arange(len(rows)), padding=padding
        ).to(self.model.device)
        with torch.no_grad():
            given = pooled(outputs(self.model, examples, None, Auxiliary(None)), examples)[:, 0].double().tolist()
        for (query, _), number in zip(pairs, given, strict=True):
            if not math.isfinite(number):
                raise RewardError(f"reward model {self.path}: gives {number} for the prompt {query.shown}; is it whole?")
        return [float(number) for number in given]

    def tokens(self, pair: Pair) -> TokenArray:
        """What the model reads of a prompt and its answer."""
        query, response = pair
        own = query.record.get(self.data.prompt)
        if is_turns(own) or self.data.turns:
            prompt = own if is_turns(own) else [{"role": "user", "content": query.text}]
            answer = [{"role": "assistant", "content": response.text}]
            record = {"prompt": prompt, "chosen": answer, "rejected": answer}
        else:
            record = {"prompt": query.text, "chosen": response.text, "rejected": response.text}
        pieces = self.tokenizer.encode_batch(self.data.pieces(record, self.tokenizer), threads=False)
        found: TokenArray = np.asarray(self.data.numbers(record, pieces, self.tokenizer, {})["chosen"], dtype=np.uint32)
        return found


def judge_at(path: str, plan: Plan, device: torch.device | str = "cpu") -> ModelJudge:
    """The reward model at a path. `UserError` says what there is no reward model, or has no tokenizer."""
    check_judges([path])
    model, tokenizer = load(path, plan=plan, device=device)
    if tokenizer is None:
        raise UserError(f"{path}: has no tokenizer, and a reward model reads text: put its tokenizer.json into the directory")
    trained = recorded(trained_in(path), RewardObjective, Preferences)
    data = Preferences(paths=(path,), turns=bool(templates(tokenizer))) if trained is None else trained[1]
    return ModelJudge(path, model.eval(), tokenizer, data.but(margin=None, agreement=None))


def check_judges(paths: Iterable[str]) -> None:
    """Refuse what is no reward model, by descriptions alone: `UserError` says what there is."""
    for path in paths:
        try:
            needs_one_number("reward", architecture_of(path))
        except ValueError as error:
            raise UserError(f"{path}: is no reward model: {error}") from None


def judges_at(paths: Iterable[str], plan: Plan, device: torch.device | str = "cpu") -> dict[str, Judge]:
    """The judges at some paths, such as `Reward.models`, as `Reward.grades` takes them."""
    return {path: judge_at(path, plan, device) for path in paths}
