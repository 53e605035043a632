"""The formulas of objectives of tokens, written out: equal losses and gradients, on rows with holes and padding."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from anyformer.data import IGNORED, RecordBatch
from anyformer.model.transformer import build
from anyformer.objectives import (
    CTCObjective,
    DiffusionObjective,
    DPOObjective,
    InstructionObjective,
    ORPOObjective,
    SimPOObjective,
    SpeechToTextObjective,
)
from anyformer.objectives.pair_losses import PairLoss
from anyformer.objectives.token_loss import TokenObjective
from anyformer.parts import Head
from anyformer.plan import Plan
from anyformer.testing.objectives import ObjectiveTwin, signal_equals_its_twin, with_holes
from objectives import test_instruction as instruction
from objectives import test_preferences as preferences
from objectives import test_sounds as sounds
from objectives.test_text_objectives import CASES, LENGTH
from objectives.windows import batch, setting, small

TOKENS = {name: case for name, case in CASES.items() if isinstance(case[0], TokenObjective)}
SMOOTHING, Z_LOSS = 0.1, 0.01


def log_p(logits: Tensor, token: int) -> Tensor:
    """log p(token) of logits (V,)."""
    return logits[token] - logits.exp().sum().log()


def cross_entropy(objective: TokenObjective, logits: Tensor, targets: Tensor, weights: Tensor | None = None) -> Tensor:
    """sum_i (1 - s) (-log p(y_i)) + s mean_v (-log p(v)) + z log^2 Z, s the smoothing."""
    total, s = logits.new_zeros(()), objective.label_smoothing
    for (row, t), token in np.ndenumerate(targets.numpy()):
        if token != IGNORED:
            z = logits[row, t]
            even = -sum(log_p(z, v) for v in range(len(z))) / len(z) if s else 0.0
            nll = (1 - s) * -log_p(z, token) + s * even
            total = total + (1 if weights is None else weights[row, t]) * nll + objective.z_loss * z.exp().sum().log() ** 2
    return total


LOSSES: dict[str, ObjectiveTwin] = {}
"""The formula of each kind of token objective whose loss is no cross-entropy."""


def answers(logits: Tensor, targets: Tensor) -> list[tuple[Tensor, int]]:
    """log p and the number of tokens of every answer, the chosen one before the rejected one."""
    found = []
    for row, wanted in zip(logits, targets.tolist(), strict=True):
        said = [(z, token) for z, token in zip(row, wanted, strict=True) if token != IGNORED]
        found.append((sum((log_p(z, token) for z, token in said), logits.new_zeros(())), max(len(said), 1)))
    return found


def log_sigmoid(x: Tensor) -> Tensor:
    return -(1 + (-x).exp()).log()


def simpo(objective: SimPOObjective, logits: Tensor, targets: Tensor) -> Tensor:
    rewards = [objective.beta * total / count for total, count in answers(logits, targets)]
    return -sum(log_sigmoid(w - r - objective.gamma) for w, r in zip(rewards[::2], rewards[1::2], strict=True))


def orpo(objective: ORPOObjective, logits: Tensor, targets: Tensor) -> Tensor:
    means = [total / count for total, count in answers(logits, targets)]
    odds = [mean - (1 - mean.exp()).log() for mean in means]
    pairs = zip(means[::2], odds[::2], odds[1::2], strict=True)
    return sum(-mean - objective.weight * log_sigmoid(w - r) for mean, w, r in pairs)


def preferred():
    return preferences.DPOObjective().examples(preferences.batch_of(preferences.table()), preferences.Setting(None, 12))


@pytest.mark.parametrize("name", TOKENS)
def test_cross_entropy(name):
    """Also of rows that end early, and of one without text."""
    plain, model = TOKENS[name]
    objective = plain.but(z_loss=Z_LOSS)
    window = objective.window(LENGTH)
    examples = objective.examples(batch([20, 0, window], window, [5, 6, 8]), setting(objective, LENGTH))
    model = build(small(model), Plan(precision="fp32", compile="off"), seed=3)
    for given in (examples, with_holes(examples)):
        signal_equals_its_twin(objective, model, given, LOSSES.get(objective.kind, cross_entropy))


@pytest.mark.parametrize("smoothing", [0.0, SMOOTHING])
def test_instruction_tuning(smoothing):
    objective, table = InstructionObjective(label_smoothing=smoothing, z_loss=Z_LOSS), instruction.conversation(3)
    rows = tuple((table[number],) for number in range(len(table)))
    examples = objective.examples(RecordBatch(rows, np.arange(len(table))), instruction.setting(16))
    signal_equals_its_twin(objective, build(instruction.LLAMA, seed=1), with_holes(examples), cross_entropy)


def test_a_transcript_is_predicted_token_after_token(tmp_path):
    objective = SpeechToTextObjective(features=sounds.FEATURES, label_smoothing=SMOOTHING, z_loss=Z_LOSS)
    examples = sounds.heard(objective, sounds.SPEECH, tmp_path, 16).held_out[0]
    signal_equals_its_twin(objective, build(sounds.WHISPER, seed=1), with_holes(examples), cross_entropy)


def test_diffusion_weighs_each_row():
    objective = DiffusionObjective(z_loss=Z_LOSS)
    examples = objective.examples(batch([20, 9, LENGTH], LENGTH, [5, 6, 8]), setting(objective, LENGTH))
    model = build(small("llada-8b"), Plan(precision="fp32", compile="off"), seed=3)

    def twin(objective: DiffusionObjective, logits: Tensor, targets: Tensor) -> Tensor:
        return cross_entropy(objective, logits, targets, examples.weights)

    signal_equals_its_twin(objective, model, with_holes(examples), twin)


def test_ctc(tmp_path):
    """The forward recursion of Graves et al. 2006, section 4.1, over the symbols with blanks between them."""
    ready = sounds.ctc(tmp_path, "characters", outputs=20)
    examples, blank = ready.held_out[0], ready.setting.tokenizer.vocab_size
    heard = (13 - examples.padding[:, ::2].sum(1)).tolist()

    def twin(objective: CTCObjective, logits: Tensor, targets: Tensor) -> Tensor:
        total = logits.new_zeros(())
        for row, wanted, positions in zip(logits, targets.tolist(), heard, strict=True):
            said = [symbol for symbol in wanted if symbol != IGNORED]
            between = [blank, *(each for symbol in said for each in (symbol, blank))]
            ways: list[Tensor | None] = [log_p(row[0], between[0]), log_p(row[0], between[1])]
            ways += [None] * (len(between) - 2)
            for t in range(1, positions):
                before = ways
                ways = []
                for place, symbol in enumerate(between):
                    skips = place > 1 and symbol not in (blank, between[place - 2])
                    steps = before[max(0, place - (2 if skips else 1)) : place + 1]
                    known = [step for step in steps if step is not None]
                    ways.append(torch.stack(known).logsumexp(0) + log_p(row[t], symbol) if known else None)
            total = total - torch.stack([way for way in ways[-2:] if way is not None]).logsumexp(0)
        return total

    signal_equals_its_twin(CTCObjective(), build(sounds.hearing(Head(outputs=20)), seed=1), examples, twin)


@pytest.mark.parametrize(("objective", "twin"), [(SimPOObjective(beta=2.5, gamma=0.3), simpo), (ORPOObjective(), orpo)])
def test_preferences(objective, twin):
    model = build(preferences.LLAMA, seed=3)
    for examples in (preferred(), with_holes(preferred())):
        signal_equals_its_twin(objective, model, examples, twin)


LOSSES_OF_PAIRS = {
    "logistic": lambda m, beta: -log_sigmoid(m),
    "smoothed": lambda m, beta: -0.8 * log_sigmoid(m) - 0.2 * log_sigmoid(-m),
    "robust": lambda m, beta: (-0.8 * log_sigmoid(m) + 0.2 * log_sigmoid(-m)) / 0.6,
    "squared": lambda m, beta: (m / beta - 1 / (2 * beta)) ** 2,
    "hinge": lambda m, beta: (1 - m) * (m < 1),
}
"""The published loss of a margin m of rewards, by kind; of those that expect exchanged pairs with a share of 0.2."""


@pytest.mark.parametrize("per_token", [False, True], ids=["total", "per_token"])
@pytest.mark.parametrize("kind", PairLoss.kinds)
def test_preferences_beside_a_reference(kind, per_token):
    """DPO, cDPO, robust DPO, IPO and SLiC with log p of the reference's own logits."""
    more = {"flipped": 0.2} if "flipped" in PairLoss.kinds[kind].model_fields else {}
    objective = DPOObjective(beta=0.3, loss=PairLoss.parse({"kind": kind, **more}), per_token=per_token)
    examples, reference = with_holes(preferred()), build(preferences.LLAMA, seed=4).eval()
    with torch.no_grad():
        before = answers(reference(examples.tokens).double(), examples.targets)

    def twin(objective: DPOObjective, logits: Tensor, targets: Tensor) -> Tensor:
        both = zip(answers(logits, targets), before, strict=True)
        rewards = [0.3 * (mine - old) / (count if per_token else 1) for (mine, count), (old, _) in both]
        return sum(LOSSES_OF_PAIRS[kind](w - r, 0.3) for w, r in zip(rewards[::2], rewards[1::2], strict=True))

    signal_equals_its_twin(objective, build(preferences.LLAMA, seed=3), examples, twin, {"reference": reference})
    _, baseline = objective.baseline(None, 1, None, 1, 261)
    assert baseline == pytest.approx(float(LOSSES_OF_PAIRS[kind](torch.zeros(()), 0.3)))
