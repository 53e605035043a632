"""Measuring finds every prediction right on models of every kind, and finds it out when one is wrong."""

from __future__ import annotations

from itertools import product

import pytest
import torch
from zoo import ZOO

from anyformer.catalogue import architecture
from anyformer.costs import hardware_of
from anyformer.costs.available import free_memory
from anyformer.costs.counted import CountComparison
from anyformer.costs.counts import located
from anyformer.costs.memory_check import NotEnoughMemoryError
from anyformer.costs.saved.measured import saved_by_label, saved_bytes
from anyformer.measuring.measure import measure
from anyformer.measuring.trial import TrainingStep, trial_of
from anyformer.model import Architecture
from anyformer.operations import Address, Shape, Tally
from anyformer.plan import Plan
from covering import covering, rest_slow

H100, GB = hardware_of("h100"), 10**9
CPU = torch.device("cpu")
QUANTITIES = (
    "parameters", "forward FLOPs", "backward FLOPs", "decode state", "saved for backward", "peak of a step", "time of a step",
)  # fmt: skip
KINDS = (
    "llama", "grouped", "latent", "window", "shared_keys", "shared_layers", "streams", "experts", "encoder", "original",
    "pair_pre_norm", "perceiver", "vision", "speech_to_text", "alibi", "buckets", "gated_convolution", "head_options",
    "delta_gated", "linear_elu", "lightning", "transformer_xl", "pair_prefix",
)  # fmt: skip


def measured(name: str, precision: str = "fp32"):
    return measure(ZOO[name], batch=2, length=11, plan=Plan(precision=precision, attention="sdpa"), hardware=lambda: H100)


@pytest.mark.parametrize(
    ("name", "precision"), rest_slow(product(KINDS, ("fp32", "bf16")), covering(KINDS, ("fp32", "bf16"), together=1))
)
def test_every_prediction_holds(name, precision):
    found = measured(name, precision)
    wrong = [one for one in found.comparisons if not one.holds and one.quantity != "peak of a step"]
    assert found.exact
    assert not wrong
    assert found.reduced == ""
    assert {one.quantity for one in found.comparisons} == set(QUANTITIES) - (set() if not found.notes else {"decode state"})


def test_the_measured_peak_has_what_stays_between_steps(monkeypatch):
    monkeypatch.setattr("anyformer.measuring.measure.peak_above", lambda call, device: 1000)
    (peak,) = (one for one in measured("llama").comparisons if one.quantity == "peak of a step")
    stays = 12 * sum(weight.count for weight in ZOO["llama"].cost(Shape()).weights.values())  # a weight and two moments in fp32
    assert peak.measured == stays + 1000


@pytest.mark.parametrize("name", ["llama", "experts", "original"])
def test_components_add_up(name):
    found = measured(name).comparisons
    for quantity in ("parameters", "forward FLOPs", "decode state", "saved for backward"):
        whole, *parts = (one for one in found if one.quantity == quantity)
        assert whole.component == ""
        assert len(parts) > 1
        assert sum(part.predicted for part in parts) == whole.predicted
        assert sum(part.measured for part in parts) == whole.measured


def test_a_wrong_declaration_is_found(monkeypatch):
    honest = Architecture.trained_cost

    def doubled(self, *arguments, **more) -> Tally:
        tally = honest(self, *arguments, **more)
        work, rest = tally.without("state", "weights", "limits"), tally.without("work")
        more = {f"{name}_again": each for name, each in work.inner.items()}
        return Tally(inner={**tally.inner, **more}) if rest.inner else tally

    monkeypatch.setattr(Architecture, "trained_cost", doubled)
    found = measured("llama")
    assert not found.exact
    assert {one.quantity for one in found.comparisons if not one.holds} == {"forward FLOPs", "backward FLOPs"}
    assert next(one for one in found.comparisons if one.quantity == "forward FLOPs").difference == 1.0


def test_tolerances():
    assert CountComparison("a", "", "", 100, 101, 0.01).holds
    assert not CountComparison("a", "", "", 100, 102, 0.01).holds
    assert not CountComparison("a", "", "", 100, 101, 0).holds
    assert CountComparison("a", "", "", 100, 500, None).holds
    assert CountComparison("a", "", "", 0, 0, 0).holds
    assert not CountComparison("a", "", "", 1, 0, 0).holds


def test_numbers_for_json():
    import json

    found = measured("llama")
    data = json.loads(json.dumps(found.data()))
    assert data["exact"] is True
    assert len(data["comparisons"]) == len(found.comparisons)
    assert data["comparisons"][0]["difference"] == 0


def test_components_of_parameters_and_modules():
    find = located(ZOO["original"].cost(Shape()))
    assert find("decoder.layers.1.attention.sublayer.query.weight")[0].component == "decoder.attention"
    assert find("decoder.layers.0.step_0_norm_after.weight")[0].component == "decoder.norm_after"
    assert find("decoder.layers.0.attention.sublayer.scores.inputs") == (
        Address("decoder", "0", "attention", True),
        "scores.inputs",
    )
    assert find("loss.softmax") == (Address(), "loss.softmax")


@pytest.mark.parametrize("name", ["llama", "original", "streams"])
def test_labels_share_out_what_is_kept(name):
    step = TrainingStep(ZOO[name], Shape(batch=2, length=5, source=5), Plan(precision="fp32"), CPU)
    labels = saved_by_label(step.model, lambda name: name.split(".")[0] or "outside", step.loss)
    assert sum(labels.values()) == saved_bytes(step.model, step.loss)
    assert {"decoder", "outside"} <= set(labels)


def test_an_update_changes_weights_and_leaves_no_gradients():
    step = TrainingStep(ZOO["llama"], Shape(batch=2, length=5), Plan(precision="fp32"), CPU)
    before = {name: parameter.detach().clone() for name, parameter in step.model.named_parameters()}
    step.update()
    for name, parameter in step.model.named_parameters():
        assert parameter.grad is None
        assert not torch.equal(parameter, before[name]), name


def test_what_is_measured_drops_as_training_does():
    step = TrainingStep(ZOO["dropout"], Shape(batch=2, length=5), Plan(precision="fp32"), CPU)
    assert step.model.training
    assert step.loss() != step.loss()


def test_what_fits_is_run():
    made, shape, plan = architecture("gemma-2-2b"), Shape(batch=1, length=64), Plan(precision="fp32")
    whole = trial_of(made, shape, plan, 100 * GB)
    assert whole.architecture == made
    assert whole.reduced == ""
    assert whole.bytes > 16 * 2_614_341_888
    assert trial_of(made, shape, plan, int(whole.bytes / 0.79)) == whole
    assert trial_of(made, shape, plan, int(whole.bytes / 0.81)).reduced, "a fifth of the memory stays free"
    blocks = trial_of(made, shape, plan, 24 * GB)
    assert blocks.reduced == "one block of each kind"
    assert blocks.architecture.decoder.layers == ("local", "global")
    small = trial_of(made, shape, plan, 8 * GB)
    assert small.architecture.embedding.symbols == 32_768
    assert "32,768" in small.reduced
    with pytest.raises(NotEnoughMemoryError, match=r"needs \d+\.\d GB.*0\.5 GB that are free.*--batch or --length"):
        trial_of(made, shape, plan, GB // 2)


@pytest.mark.parametrize("name", ["shared_keys", "local_global", "original", "shared_layers"])
def test_one_block_of_each_kind_is_a_model_of_its_own(name):
    """Of layers that read the keys of another, too: the other comes first, as in the whole."""
    shape, plan = Shape(batch=2, length=5, source=5 if ZOO[name].two_inputs else 0), Plan(precision="fp32")
    whole = trial_of(ZOO[name], shape, plan, 1 << 60)
    piece = trial_of(ZOO[name], shape, plan, int((whole.bytes - 1) / 0.8))
    assert piece.reduced == "one block of each kind"
    assert all(len(set(stack.layers)) == stack.depth for stack in piece.architecture.stacks.values())
    TrainingStep(piece.architecture, shape, plan, CPU).update()


def test_some_memory_is_free():
    assert 10**8 < free_memory(CPU) < 1 << 60
