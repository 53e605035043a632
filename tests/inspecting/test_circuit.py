"""Circuits: a planted one is found, edge for edge; cuts are what a model written out in parts gives."""

from __future__ import annotations

from copy import deepcopy

import pytest
import torch
from tests.inspecting.plain_circuit import CLEAN, CORRUPTED, model_of, written_out

from anyformer.catalogue import architecture
from anyformer.describe import InputError
from anyformer.inspecting import LogitDifference, find_circuit
from anyformer.inspecting.call_inputs import CallInputs
from anyformer.inspecting.edges import EdgeRun
from anyformer.inspecting.graph import INPUT, OUTPUT, SIDES, Edge, made_of_sides
from anyformer.model import decoder_only
from anyformer.model.transformer import build
from anyformer.parts import Attention, Embedding, FeedForward, Head, RMSNorm, pre_norm, residual

EYE = torch.eye(4)
FROM, VIA, ASIDE, TO = (slice(4 * at, 4 * at + 4) for at in range(4))
"""Quarters of the stream: where tokens stand, what is in between, what nobody reads, and what the head reads."""


def planted(sublayer):
    """A model of three such sublayers whose stream of 16 features is in four parts; tokens stand in the first."""
    arch = decoder_only(Embedding(vocab=4), 16, [residual(sublayer)] * 3, final_norm=None, head=Head())
    model = build(arch, seed=0).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        model.embedding.weight[:, FROM] = 5 * EYE
        model.head.weight[:, TO] = EYE
    return model


@pytest.fixture(scope="module")
def networks():
    """Layer 0 moves FROM to VIA, layer 1 FROM to ASIDE, which nobody reads, layer 2 VIA to TO."""
    model = planted(FeedForward(width=4, activation="relu", gated=False))
    with torch.no_grad():
        for layer, (read, write) in enumerate(((FROM, VIA), (FROM, ASIDE), (VIA, TO))):
            network = model.get_submodule(f"decoder.layers.{layer}.feedforward.sublayer")
            network.up.weight[:, read] = EYE
            network.down.weight[write] = EYE
    return model


@pytest.fixture(scope="module")
def heads():
    """Heads that look at all before alike: head 1 of layer 0 moves FROM to VIA, head 0 of layer 1 VIA to TO."""
    model = planted(Attention(heads=2, kv_heads=2, head_width=4))
    with torch.no_grad():
        for layer, moves in enumerate(
            (
                ((FROM, ASIDE), (FROM, VIA)),
                ((VIA, TO), (FROM, ASIDE)),
                ((FROM, ASIDE), (VIA, ASIDE)),
            )
        ):
            attention = model.get_submodule(f"decoder.layers.{layer}.attention.sublayer")
            for head, (read, write) in enumerate(moves):
                own = slice(4 * head, 4 * head + 4)
                attention.value.weight[own, read] = EYE
                attention.output.weight[write, own] = EYE
    return model


def test_a_planted_circuit_is_found(networks):
    found = find_circuit(networks, CLEAN, CORRUPTED, threshold=1e-4)
    first, _, last = (f"decoder.layer[{layer}].feedforward" for layer in range(3))
    assert [(edge.sender, edge.receiver) for edge, _ in found.edges] == [(INPUT, first), (first, last), (last, OUTPUT)]
    assert found.considered == 10
    assert found.divergence == pytest.approx(0, abs=1e-6)
    assert all(cost == pytest.approx(found.empty, rel=1e-4) and cost > 0.1 for _, cost in found.edges)
    assert found.nodes == (INPUT, first, last, OUTPUT)
    assert found.has(first, last)
    assert not found.has(INPUT, OUTPUT)
    assert found.table().row_count == 3


def test_a_planted_circuit_of_heads_is_found(heads):
    found = find_circuit(heads, CLEAN, CORRUPTED, threshold=1e-4, by_input=False)
    first, second = "decoder.layer[0].attention 1", "decoder.layer[1].attention 0"
    assert [(edge.sender, edge.receiver) for edge, _ in found.edges] == [(INPUT, first), (first, second), (second, OUTPUT)]
    whole = find_circuit(heads, CLEAN, CORRUPTED, threshold=1e-4, by_head=False)
    assert [edge.receiver for edge, _ in whole.edges] == ["decoder.layer[0].attention", "decoder.layer[1].attention", OUTPUT]
    assert not find_circuit(heads, CLEAN, CORRUPTED, threshold=100.0).edges


def test_the_planted_circuit_keeps_all_and_no_circuit_nothing(heads):
    metric = LogitDifference(CLEAN[:, -1], CORRUPTED[:, -1])
    found = find_circuit(heads, CLEAN, CORRUPTED, threshold=1e-4)
    assert found.faithfulness(heads, CLEAN, CORRUPTED, metric) == pytest.approx(1, abs=1e-5)
    assert find_circuit(heads, CLEAN, CORRUPTED, threshold=100.0).faithfulness(heads, CLEAN, CORRUPTED, metric) == 0
    whole = find_circuit(heads, CLEAN, CORRUPTED, threshold=1e-4, by_head=False)
    assert whole.faithfulness(heads, CLEAN.flip(0), CORRUPTED.flip(0), LogitDifference(1, 2)) == pytest.approx(1, abs=1e-5)
    with pytest.raises(InputError, match="a circuit has nothing to keep"):
        found.faithfulness(heads, CLEAN, CORRUPTED, LogitDifference(1, 1))


def test_a_planted_circuit_enters_heads_by_what_they_mix(heads):
    """Heads that look at all before alike have no use for queries and keys."""
    found = find_circuit(heads, CLEAN, CORRUPTED, threshold=1e-4)
    first, second = "decoder.layer[0].attention 1", "decoder.layer[1].attention 0"
    assert [edge.to for edge, _ in found.edges] == [f"{first} value", f"{second} value", OUTPUT]
    assert found.has(first, second)
    assert found.has(first, second, "value")
    assert not found.has(first, second, "query")
    assert found.nodes == (INPUT, first, second, OUTPUT)
    assert found.considered == 3 * (2 * 1 + 2 * 3 + 2 * 5) + 7


def test_a_planted_head_is_told_where_to_look_by_its_keys(heads):
    """Head 0 of layer 1 looks for the mark that head 1 of layer 0 leaves, as an induction head does, and copies the tokens."""
    model = deepcopy(heads)
    attention = model.get_submodule("decoder.layers.1.attention.sublayer")
    with torch.no_grad():
        attention.query.weight[:4, FROM] = 4 * EYE
        attention.key.weight[:4, VIA] = 4 * EYE
        attention.value.weight[:4] = 0
        attention.value.weight[:4, FROM] = EYE
    found = find_circuit(model, CLEAN, CORRUPTED, threshold=1e-4)
    first, second = "decoder.layer[0].attention 1", "decoder.layer[1].attention 0"
    assert found.has(first, second, "key")
    assert not found.has(first, second, "query")
    assert not found.has(first, second, "value")
    assert found.has(INPUT, second, "value")


@pytest.fixture(scope="module")
def trained():
    return model_of()


@pytest.mark.parametrize(
    "cut",
    [
        {("input", "decoder.layer[0].attention 0")},
        {("input", "decoder.layer[0].attention 1"), ("decoder.layer[0].attention 0", "decoder.layer[0].feedforward")},
        {("decoder.layer[0].attention 1", "decoder.layer[1].attention 0"), ("input", "decoder.layer[1].attention 1")},
        {("decoder.layer[0].feedforward", "decoder.layer[1].attention 1"), ("decoder.layer[0].attention 0", OUTPUT)},
        {("input", "decoder.layer[0].attention 1 key")},
        {("input", "decoder.layer[0].attention 0 value"), ("input", "decoder.layer[0].attention 1 query")},
        {
            ("decoder.layer[0].attention 0", "decoder.layer[1].attention 0 query"),
            ("input", "decoder.layer[1].attention 0 value"),
            ("decoder.layer[0].feedforward", "decoder.layer[1].attention 1 key"),
            ("input", "decoder.layer[1].attention 1 key"),
            ("input", "decoder.layer[0].feedforward"),
        },
    ],
)
@pytest.mark.parametrize("by_input", [True, False])
def test_cuts_are_those_of_a_model_written_out(trained, cut, by_input):
    runs = EdgeRun.of(trained, CallInputs(CLEAN), CallInputs(CORRUPTED), by_head=True, by_input=by_input)
    chosen = frozenset(edge for edge in runs.edges if {(edge.sender, edge.receiver), (edge.sender, edge.to)} & cut)
    assert {edge.sender for edge in chosen} == {sender for sender, _ in cut} or not by_input
    cut = {(edge.sender, edge.to) for edge in chosen}
    with torch.no_grad():
        assert torch.allclose(runs.logits(chosen), written_out(trained, CLEAN, CORRUPTED, cut), atol=1e-5)
        assert torch.allclose(runs.logits(frozenset()), trained(CLEAN), atol=1e-6)
        assert torch.allclose(runs.logits(frozenset(runs.edges)), trained(CORRUPTED), atol=1e-5)


def test_faithfulness_is_that_of_a_model_written_out(trained):
    found, metric = find_circuit(trained, CLEAN, CORRUPTED, threshold=0.02, by_input=False), LogitDifference([2, 1], [3, 2])
    kept = {(edge.sender, edge.receiver) for edge, _ in found.edges}
    every = EdgeRun.of(trained, CallInputs(CLEAN), CallInputs(CORRUPTED), by_head=True, by_input=False).edges
    cut = {(edge.sender, edge.receiver) for edge in every} - kept
    with torch.no_grad():
        calls = trained(CLEAN), written_out(trained, CLEAN, CORRUPTED, cut), trained(CORRUPTED)
    clean, alone, none = (float(metric(logits).mean()) for logits in calls)
    said = found.faithfulness(trained, CLEAN, CORRUPTED, metric)
    assert said == pytest.approx((alone - none) / (clean - none), abs=1e-4)
    assert not 0.999 < said < 1.001, "a circuit that loses something tells the two apart"


def test_edges_lead_forward(trained):
    runs = EdgeRun.of(trained, CallInputs(CLEAN), CallInputs(CORRUPTED), by_head=True, by_input=False)
    assert Edge(INPUT, OUTPUT, 4) in runs.edges
    assert not any(
        edge.sender == "decoder.layer[0].attention 0" and edge.receiver == "decoder.layer[0].attention 1" for edge in runs.edges
    )
    assert len(runs.edges) == 2 * 1 + 3 + 2 * 4 + 6 + 7
    by_input = EdgeRun.of(trained, CallInputs(CLEAN), CallInputs(CORRUPTED), by_head=True)
    assert len(by_input.edges) == 6 * 1 + 3 + 6 * 4 + 6 + 7
    assert Edge(INPUT, "decoder.layer[0].attention 1", 0, "key") in by_input.edges


@pytest.mark.parametrize("by_input", [True, False])
def test_the_search_is_that_of_a_plain_loop(trained, by_input):
    """From the output back, an edge goes if what is lost grows by less than the threshold, on top of what is cut already."""
    runs = EdgeRun.of(trained, CallInputs(CLEAN), CallInputs(CORRUPTED), by_head=True, by_input=by_input)
    threshold = 0.02
    cut, lost, kept = set(), 0.0, {}
    with torch.no_grad():
        truth = trained(CLEAN)[:, -1].softmax(-1)
        for edge in reversed(runs.edges):
            said = runs.logits(frozenset({*cut, edge}))[:, -1].log_softmax(-1)
            now = float((truth * (truth.log() - said)).sum(-1).mean())
            heard = edge.receiver == OUTPUT or any(other.sender == edge.receiver for other in kept)
            if heard and now - lost >= threshold:
                kept[edge] = now - lost
            else:
                cut.add(edge)
                lost = now if heard else lost
    found = find_circuit(trained, CLEAN, CORRUPTED, threshold=threshold, by_input=by_input)
    assert {edge: pytest.approx(cost, abs=1e-5) for edge, cost in found.edges} == kept
    assert 0 < len(kept) < len(runs.edges)
    assert found.divergence == pytest.approx(lost, abs=1e-5)
    assert lost > threshold, "many small losses have added up"


@pytest.mark.parametrize("by_head", [True, False])
def test_residual_multipliers_are_part_of_what_is_sent(by_head):
    norm = RMSNorm()
    blocks = [pre_norm(norm, Attention(heads=2, kv_heads=2), FeedForward(width=8), multiplier=0.5)] * 2
    model = build(decoder_only(Embedding(vocab=4), 8, blocks, final_norm=norm, head=Head()), seed=1).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            weight.mul_(1 if "norm" in name else 20)
        runs = EdgeRun.of(model, CallInputs(CLEAN), CallInputs(CORRUPTED), by_head=by_head)
        assert torch.allclose(runs.logits(frozenset(runs.edges)), model(CORRUPTED), atol=1e-5)


@pytest.mark.parametrize("by_head", [True, False])
@pytest.mark.parametrize(
    "name", ["parallel_one_norm", "hashed_ngrams", "compressed", "pair_pre_norm", "experts_top_1", "gate", "latent"]
)
def test_all_edges_cut_is_the_other_call_and_none_this_one(name, by_head):
    from zoo import ZOO

    from anyformer.testing.inputs import inputs

    model, (*source, tokens) = build(ZOO[name], seed=0).eval(), inputs(ZOO[name])
    clean, corrupted = (CallInputs(*source, each) for each in (tokens, tokens.roll(1, 0)))
    with torch.no_grad():
        runs = EdgeRun.of(model, clean, corrupted, by_head=by_head)
        assert torch.allclose(runs.logits(frozenset()), clean.logits(model), atol=1e-5)
        assert torch.allclose(runs.logits(frozenset(runs.edges)), corrupted.logits(model), atol=1e-4)


@pytest.mark.parametrize(
    ("name", "split"),
    [("lightning", 1), ("gate", 0), ("latent", 0), ("rwkv7", 0), ("pair_recurrent", 2)],
)
def test_heads_of_more_than_queries_keys_and_values_have_one_input(name, split):
    from zoo import ZOO

    from anyformer.testing.inputs import inputs

    model, (*source, tokens) = build(ZOO[name], seed=0).eval(), inputs(ZOO[name])
    clean, corrupted = (CallInputs(*source, each) for each in (tokens, tokens.roll(1, 0)))
    assert len(made_of_sides(model, clean, corrupted)) == split
    runs = EdgeRun.of(model, clean, corrupted, by_head=True)
    head = next(node.name for node in runs.nodes if node.head is not None and node.place > 0)
    into = {edge.into for edge in runs.edges if edge.receiver == head}
    assert into in ({""}, set(SIDES))
    whole = EdgeRun.of(model, clean, corrupted, by_head=True, by_input=False)
    with torch.no_grad():
        one, other = (run.logits(frozenset(edge for edge in run.edges if edge.receiver == head)) for run in (runs, whole))
    assert torch.allclose(one, other, atol=1e-5)


def test_layers_that_read_keys_of_other_layers_are_refused():
    from zoo import ZOO

    model = build(ZOO["shared_keys"], seed=0).eval()
    with pytest.raises(InputError, match="an edge can be cut where"):
        find_circuit(model, CLEAN, CORRUPTED)


@pytest.mark.parametrize("name", ["bert-base-uncased", "gemma-2-2b"])
def test_a_stream_that_is_no_sum_is_refused(name):
    model = build(architecture(name, tiny=True), seed=0).eval()
    with pytest.raises(InputError, match="an edge can be cut where"):
        find_circuit(model, CLEAN, CORRUPTED)


def test_a_model_that_drops_values_is_told_to_stop():
    model = build(architecture("gpt2", tiny=True), seed=0).train()
    with pytest.raises(InputError, match=r"model\.eval\(\) first"):
        find_circuit(model, CLEAN, CORRUPTED)
