"""One account of time and one of memory: the same question gives the same number at every address that answers it."""

from __future__ import annotations

from dataclasses import asdict, replace
from itertools import product

import pytest

import anyformer as af
from anyformer.catalogue import architecture
from anyformer.cli.pages import lines
from anyformer.cli.summary import short_costs
from anyformer.costs import budget_of, peak_memory, step_time
from anyformer.costs.figures import flops, size
from anyformer.costs.fine_tuning import FineTuning, Method
from anyformer.costs.memory_check import TOKEN_BYTES, _Request
from anyformer.costs.named_hardware import hardware_of
from anyformer.costs.step import PricedStep
from anyformer.measuring.measure import predicted_saved
from anyformer.measuring.trial import trial_of
from anyformer.operations import Shape
from anyformer.plan import Plan
from anyformer.planning import Layout, price_layout
from anyformer.training.summary import update_figures
from anyformer.tuning import AdamW, Tuning
from covering import covering, rest_slow

KINDS = {
    "dense, tied": "gpt2",
    "grouped keys": "llama-3-8b",
    "windows": "gemma-2-2b",
    "latent attention, experts": "deepseek-v3",
    "experts": "mixtral-8x7b",
    "recurrent": "qwen3-next-80b-a3b",
    "linear": "minimax-text-01",
    "encoder": "bert-base-uncased",
    "encoder-decoder": "t5-small",
    "vision": "vit-base-16",
}
BATCH, LENGTH = 2, 16
WAYS = ("none", "selective", "full")


by_turns = pytest.mark.parametrize(
    ("kind", "checkpointing"), rest_slow(product(KINDS, WAYS), covering(KINDS, WAYS, together=1))
)


def asked(kind: str, checkpointing: str) -> tuple[af.Architecture, Plan, af.CostSheet]:
    made, plan = architecture(KINDS[kind], tiny=True), Plan(precision="bf16", checkpointing=checkpointing)
    return made, plan, af.cost(made, batch=BATCH, length=LENGTH, plan=plan, hardware="h100")


@by_turns
def test_every_address_says_the_same_memory(kind, checkpointing):
    """By sheet, plan, foretelling, trial, summary of a run and fine-tuning of all weights."""
    made, plan, sheet = asked(kind, checkpointing)
    total, peak = sheet.memory.total, sheet.peak
    assert total == peak.total == sheet.required_bytes == max(peak.forward, peak.loss, peak.backward, peak.update)
    assert sum(asdict(sheet.memory).values()) == sum(sheet.memory.named.values()) == total
    assert total >= 16 * sheet.params.total, "the gradients of all weights are there at the update"
    layout = Layout(micro_batch=BATCH, checkpointing=checkpointing)
    assert price_layout(made, layout, length=LENGTH, plan=plan).memory == sheet.memory
    assert peak_memory(made, batch=BATCH, length=LENGTH, plan=plan) == sheet.peak
    assert _Request(PricedStep(made), BATCH, LENGTH, plan, 1).bytes == total + BATCH * (LENGTH + 1) * TOKEN_BYTES
    # Fine-tuning leaves predictions of later tokens out.
    bare = peak_memory(made.but(mtp=None), batch=BATCH, length=LENGTH, plan=plan)
    assert FineTuning(made, Method("all weights", Tuning(), AdamW()), LENGTH, plan).peak(BATCH) == bare


@by_turns
def test_every_address_says_the_same_time(kind, checkpointing):
    """By sheet, plan, roofline and fine-tuning of all weights; in pieces the optimiser's share comes once."""
    made, plan, sheet = asked(kind, checkpointing)
    on, seconds = hardware_of("h100"), sheet.time.seconds
    layout = Layout(micro_batch=BATCH, checkpointing=checkpointing)
    shape = Shape(batch=BATCH, length=LENGTH, source=made.source_of(LENGTH))
    assert price_layout(made, layout, length=LENGTH, plan=plan).time.total == pytest.approx(seconds, rel=1e-9)
    assert step_time(made, shape, plan, on, "train") == sheet.time
    tuned = FineTuning(made, Method("all weights", Tuning(), AdamW()), LENGTH, plan)
    bare = step_time(made.but(mtp=None), shape, plan, on, "train")
    assert tuned.seconds(BATCH, on) == pytest.approx(bare.seconds, rel=1e-9)
    pieces = price_layout(made, replace(layout, micro_batches=3), length=LENGTH, plan=plan)
    update = step_time(made, shape, plan, on, "train", accumulation=3)
    assert update.seconds == pytest.approx(pieces.time.total, rel=1e-9)
    assert update.flops.exact == pieces.flops == 3 * sheet.flops.total.exact
    assert update.tokens == 3 * sheet.tokens


@pytest.mark.parametrize("kind", KINDS)
def test_every_address_says_the_same_counts(kind):
    """Parameters, FLOPs and bytes read: by sheet, budget of a search, `show` and the summary of a run."""
    made, plan, sheet = asked(kind, "none")
    budget = budget_of(made, length=LENGTH)
    assert (budget.parameters, budget.active) == (sheet.params.total, sheet.params.active)
    assert budget.training_flops == af.cost(made, length=LENGTH).flops.total.exact // LENGTH
    shown = " ".join(" ".join(line.text for line in lines(short_costs(made, BATCH, LENGTH), 80)).split())
    prefill = sheet.of("prefill")
    assert f"parameters {sheet.params.total:,} " in shown
    assert f"weights {size(sheet.weights['bf16'])} " in shown
    assert f"forward pass {flops(prefill.flops.total.exact)}FLOP" in shown
    if "decode" in sheet.modes:
        assert budget.decode_bytes == af.cost(made, length=LENGTH, mode="decode").reading.total
    if not made.two_inputs and made.decoder is not None:
        piece = Shape(batch=BATCH, length=LENGTH, source=made.source_of(LENGTH))
        seen, peak = update_figures(PricedStep(made, AdamW()), piece, 1, plan)
        # A counter does not see the products that no gradient asks for.
        no_gradient = made.cost(sheet.shape, plan).total_flops.no_gradient
        assert (seen.predicted, peak) == (sheet.flops.total.dense - no_gradient, sheet.peak.total)


@pytest.mark.parametrize("kind", ["experts", "encoder-decoder"])
def test_a_measurement_predicts_what_the_sheet_says(kind):
    made, plan, sheet = asked(kind, "full")
    shape = Shape(batch=BATCH, length=LENGTH, source=made.source_of(LENGTH))
    kept = predicted_saved(made, shape, plan)
    assert sum(kept.values()) == sheet.activations.saved + sheet.activations.loss + sheet.activations.casts
    assert trial_of(made, shape, plan, free=1 << 40).bytes == sheet.memory.total


def test_a_source_and_a_prefix_are_part_of_the_question():
    for made, more in ((architecture("t5-small", tiny=True), {"source_length": 40}), (af.architecture("gpt2"), {"prefix": 9})):
        plan = Plan(precision="bf16")
        sheet = af.cost(made, length=LENGTH, plan=plan, hardware="h100", **more)
        planned = price_layout(made, Layout(), length=LENGTH, plan=plan, **more)
        assert planned.memory == sheet.memory
        assert planned.time.total == pytest.approx(sheet.time.seconds, rel=1e-9)
        assert planned.flops == sheet.flops.total.exact


def test_a_plan_is_in_the_precision_of_its_hardware():
    """Where a machine has no faster bf16, an open precision is fp32 for memory and time alike."""
    made = architecture("gpt2", tiny=True)
    sheet = af.cost(made, length=LENGTH, hardware="m1")
    planned = price_layout(made, Layout(), length=LENGTH, hardware="m1", plan=Plan())
    assert sheet.precision == planned.machine.precision.kind == "fp32"
    assert planned.memory == sheet.memory
    assert planned.memory.copies == 0
