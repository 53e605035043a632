"""The gate of decoding: near ties of routers pass, and no wrong model does."""

from __future__ import annotations

from itertools import combinations

import pytest
import torch
from benchmarks.cases import DECODERS
from benchmarks.decoding_gate import Gate, Kept, Measured, Reading, Trials
from benchmarks.ours_models import decoder

from anyformer.describe import change
from anyformer.generation import Sampling, decode, generating
from anyformer.generation.decode import continued
from anyformer.model.transformer import Transformer, build
from anyformer.parts.call.choices import NO_CHOICE

ALLOWED = 0.05
PROMPT = list(range(3, 12))


def model(apart: float = 1.0) -> Transformer:
    """A small decoder whose experts weigh as much as a large one's; routers score the first two alike, but for a share."""
    described = change(decoder(DECODERS["experts"].tiny), "decoder.layer.experts.router.bias", True)
    made = build(described, seed=0).eval().requires_grad_(False)
    for name, value in made.named_parameters():
        if name.endswith(".down"):
            value *= 8
    for weight in routers(made):
        weight[1] = weight[0] + apart * (weight[1] - weight[0])
    return generating(made, "fp32")


def routers(of: Transformer) -> list[torch.Tensor]:
    return [value for name, value in of.named_parameters() if name.endswith("router.weight")]


def swap(weight: torch.Tensor, one: int = 0, other: int = 1) -> None:
    """Two experts change places in a tensor of all."""
    weight[[one, other]] = weight[[other, one]]


def measured(of: Transformer, new: int) -> Measured:
    """A greedy text."""
    kept = Kept(of, [0])
    steps = continued(of, [PROMPT], sampling=Sampling(temperature=0), max_tokens=new, step=decode)
    (text,) = kept.texts([PROMPT], [next_B.tolist() for next_B in kept.of(steps)])
    return text


def own_gap(gate: Gate, text: Measured) -> float:
    """The largest gap where the exact model takes its own choice everywhere."""
    with torch.inference_mode():
        return float(gate._read(text, torch.full((2, len(text.tokens), 2), NO_CHOICE)).gap.max())


def test_a_near_tie_that_falls_otherwise_passes_and_is_told():
    """The exact model has the scores of two experts that nearly tie the other way round."""
    ours = model(apart=0.02)
    gate, text = Gate(ours, ALLOWED), measured(ours, 32)
    assert gate.outcome([text])["near_ties"]["parted"] == 0
    for weight in routers(gate.exact):
        swap(weight)
    assert own_gap(gate, text) > 2 * ALLOWED, "else there is nothing that the near ties explain"
    said = gate.outcome([text])
    assert said["gap_to_fp32"] < ALLOWED / 2
    assert said["near_ties"]["choices"] == 2 * (len(PROMPT) + 31)
    assert said["near_ties"]["parted"] >= 4
    assert 0 < said["near_ties"]["behind"] < ALLOWED


def test_another_router_is_refused():
    ours = model()
    gate, text = Gate(ours, ALLOWED), measured(ours, 32)
    swap(routers(gate.exact)[1])
    with pytest.raises(SystemExit, match=r"the uncached fp32 model's by .* whichever experts are taken at near ties"):
        gate.outcome([text])


def test_an_expert_that_is_far_behind_is_refused_however_near_the_logits_are(monkeypatch):
    """As where the exact model is told what a prompt's reading took."""
    gate = Gate(model(), ALLOWED)
    scores = torch.tensor([2.0, 1.0, 0.76]).expand(2, 9, 3)
    far = Reading(torch.tensor([0, 2]).expand(2, 9, 2), scores, torch.zeros(9))
    monkeypatch.setattr(gate, "_nearest", lambda text: far)
    with pytest.raises(SystemExit, match=r"whose score is 0\.12 of the largest behind that of one left out, where 0\.1 is"):
        gate.outcome([Measured(PROMPT, torch.zeros(1, 1), ())])


@pytest.mark.parametrize("layer", [0, 1])
def test_a_bias_of_a_router_is_refused(layer):
    ours = model()
    gate, text = Gate(ours, ALLOWED), measured(ours, 32)
    gate.exact.get_parameter(f"decoder.layers.{layer}.experts.sublayer.router.bias")[3] += 0.2
    with pytest.raises(SystemExit, match=r"differ from|an expert was taken"):
        gate.outcome([text])


@pytest.mark.parametrize("matrix", ["up", "gate", "down"])
@pytest.mark.parametrize("layer", [0, 1])
@pytest.mark.parametrize("apart", [0.02, 1.0])
def test_experts_in_each_others_place_are_refused(matrix, layer, apart):
    """Near ties or none, in one matrix of one layer."""
    ours = model(apart)
    gate, text = Gate(ours, ALLOWED), measured(ours, 32)
    found = gate.exact.get_parameter(f"decoder.layers.{layer}.experts.sublayer.{matrix}")
    swap(found, 2, 5)
    swap(found, 3, 4)
    with pytest.raises(SystemExit, match="differ from the uncached fp32 model's"):
        gate.outcome([text])


def test_how_far_an_expert_taken_is_behind_one_left_out():
    scores = torch.tensor([1.0, -2.0, 0.6, 0.59, 0.55])
    for taken in combinations(range(5), 2):
        reading = Reading(torch.tensor(taken)[None, None], scores[None, None], torch.zeros(1))
        out = max(float(scores[x]) for x in range(5) if x not in taken)
        worst = min(float(scores[x]) for x in taken)
        assert reading.behind.item() == pytest.approx(max(0.0, out - worst) / 2.0)
    own = Reading(torch.full((1, 1, 2), NO_CHOICE), scores[None, None], torch.zeros(1))
    assert own.behind.item() == 0.0
    assert [(layer, sorted(taken)) for layer, _, taken in own.ties(0, 0.03)] == [(0, [0, 3]), (0, [0, 4])]
    assert [round(margin, 4) for _, margin, _ in own.ties(0, 0.03)] == [0.005, 0.025]


def test_what_near_ties_let_take_is_tried_once_the_nearest_first():
    trial, given = Trials(), torch.full((3, 2), NO_CHOICE)
    ties = [(0, 0.03, (1, 2)), (1, 0.01, (3, 4)), (2, 0.015, (5, 6))]
    tried = []
    while True:
        trial.meet(1.0 - len(trial.now) / 10, ties)
        told = trial.turned(given, last=False)
        if trial.now in trial.met:
            break
        tried.append(tuple(layer for layer in range(3) if told[layer, 0] != NO_CHOICE))
    assert tried == [(1,), (2,), (1, 2), (0,), (0, 1), (0, 2), (0, 1, 2)]
    assert told.tolist() == [[1, 2], [3, 4], [5, 6]], "what came nearest"
    assert trial.failed(0.5)
    assert not trial.failed(0.8)
