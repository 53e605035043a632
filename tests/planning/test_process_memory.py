"""What a process of a mesh holds is what the model's own weights and saved tensors give."""

from __future__ import annotations

import pytest

from anyformer.catalogue import architecture as catalogue
from anyformer.costs.activations import activations
from anyformer.costs.fine_tuning import Method
from anyformer.costs.member import Member
from anyformer.costs.step import PricedStep
from anyformer.describe import change_all
from anyformer.mesh import Mesh
from anyformer.model import Architecture
from anyformer.operations import Shape
from anyformer.plan import Plan
from anyformer.planning.held_weights import held
from anyformer.planning.process_memory import members
from anyformer.quantising import FORMATS
from anyformer.tuning import AdamW, Lora, Tuning

PLAN = Plan(precision="fp32")
LENGTH = 32


def of(name: str, **mesh: int) -> tuple[Member, ...]:
    return of_mesh(catalogue(name, tiny=True), Mesh(**mesh))


def of_mesh(architecture: Architecture, mesh: Mesh) -> tuple[Member, ...]:
    shape = Shape(batch=1, length=LENGTH, source=LENGTH if architecture.two_inputs else 0)
    return members(architecture, mesh, activations(architecture, shape, PLAN), shape, PLAN, vocabulary=True)


def deep(name: str, depth: int) -> Architecture:
    """A tiny architecture with so many layers."""
    model = catalogue(name, tiny=True)
    return change_all(model, {f"{list(model.stacks)[-1]}.order": f"({model.output_stack.layers[0]})*{depth}"})


def sizes(name: str) -> dict[str, int]:
    """Bytes of each weight."""
    return {path: 4 * weight.count for path, weight in catalogue(name, tiny=True).trained_cost(Shape(source=1)).weights.items()}


def saved_in_layers(name: str) -> int:
    found = activations(catalogue(name, tiny=True), Shape(batch=1, length=LENGTH), PLAN)
    return sum(tensor.bytes for tensor in found.tensors if tensor.layer and not tensor.loss)


def test_layers_are_gathered_and_what_stands_outside_them():
    weights = sizes("llama-3-8b")
    layers = {path: size for path, size in weights.items() if ".layers." in path}
    outside = sum(weights.values()) - sum(layers.values())
    (one,) = of("llama-3-8b", shard=2)
    assert one.gathered.root == outside
    assert one.gathered.head == weights["head.weight"] + weights["decoder.final_norm.weight"]
    assert one.gathered.layer == sum(size for path, size in layers.items() if ".layers.0." in path)
    assert (one.gathered.tied, one.gathered.ways) == (0, 2)
    assert (one.saved, one.logits, one.flight.pieces) == (1, 1, 1)
    # A table that is read twice gets two gradients, and their sum is a third.
    (tied,) = of("gpt2", shard=2)
    assert tied.gathered.tied == tied.twice == 2 * sizes("gpt2")["embedding.weight"]
    final = sum(size for path, size in sizes("gpt2").items() if "final_norm" in path)
    assert tied.gathered.head == sizes("gpt2")["embedding.weight"] + final


@pytest.mark.parametrize("mesh", [{"data": 2}, {"shard": 4}, {"tensor": 2}, {"context": 2}, {"pipeline": 2, "shard": 2}])
def test_what_stays_is_what_a_process_holds(mesh):
    """Of the fullest stage of a pipeline, as exchanges count it."""
    whole = sum(sizes("llama-3-8b").values())
    expected = held(catalogue("llama-3-8b", tiny=True), Mesh(**mesh), vocabulary=True)
    assert max(each.kept for each in of("llama-3-8b", **mesh)) == pytest.approx(expected / whole)


def test_what_is_saved_is_of_own_positions_and_what_is_gathered():
    """In processes of `context` all keys and values; in those of `tensor` what goes into a column matrix."""
    whole, layers = sizes("llama-3-8b"), saved_in_layers("llama-3-8b")
    architecture = catalogue("llama-3-8b", tiny=True)
    saved = activations(architecture, Shape(batch=1, length=LENGTH), PLAN)
    (apart,), (by_heads,) = of("llama-3-8b", context=2), of("llama-3-8b", tensor=2)
    attention = architecture.stacks["decoder"].variants["layer"].branches["attention"].sublayer
    keys = 4 * LENGTH * attention.gathers(architecture.width) * architecture.stacks["decoder"].depth
    assert apart.saved * saved.saved == pytest.approx(saved.saved - layers / 2 + keys / 2)
    inputs = sum(tensor.bytes for tensor in saved.tensors if ".sublayer" in tensor.path and tensor.layer and not tensor.divided)
    assert by_heads.saved * saved.saved == pytest.approx(saved.saved - (layers - inputs) / 2)
    # Logits of own positions; of own tokens, beside their exponentials.
    assert (apart.logits, apart.of_logits) == (0.5, 0.5)
    assert (by_heads.logits, by_heads.of_logits) == (1.0, 0.5)
    assert by_heads.gathered.head == whole["head.weight"] // 2 + whole["decoder.final_norm.weight"]


def test_stages_hold_their_layers_and_pieces():
    first, last = of("llama-3-8b", pipeline=2)
    assert (first.flight.pieces, last.flight.pieces) == (2, 1)
    assert (first.logits, last.logits) == (0, 1)
    layers = saved_in_layers("llama-3-8b")
    whole = activations(catalogue("llama-3-8b", tiny=True), Shape(batch=1, length=LENGTH), PLAN).saved
    assert first.saved + last.saved == pytest.approx(2 - layers / whole)
    assert first.saved == pytest.approx(last.saved, rel=0.05)
    # The embedding learns in the first stage alone, and the head in the last one.
    weights = sizes("llama-3-8b")
    every = sum(weights.values())
    assert first.kept - first.learnt == pytest.approx((weights["head.weight"] + weights["decoder.final_norm.weight"]) / every)
    assert last.kept - last.learnt == pytest.approx(weights["embedding.weight"] / every)


def test_chunks_are_of_one_process():
    """Each holds the layers of its chunks, and of micro-batches as many chunks as torch's order keeps."""
    model = deep("llama-3-8b", 5)
    first, last = of_mesh(model, Mesh(pipeline=2, chunks=2))
    assert [(each.flight.pieces, each.flight.chunks) for each in (first, last)] == [(5, 2), (3, 2)]
    layer = sizes_of(model)["decoder.layers.0"]
    whole = sum(sizes_of(model).values()) + sum(outside_of(model).values())
    # Chunks of two layers and of one, three times: 0 and 2 are of the first process.
    assert (first.kept - last.kept) * whole == pytest.approx(layer)
    saved = activations(model, Shape(batch=1, length=LENGTH), PLAN)
    layers = dict.fromkeys(sizes_of(model), 0)
    for tensor in saved.tensors:
        if tensor.layer and not tensor.loss:
            layers[tensor.layer] += tensor.bytes
    assert (first.saved - last.saved) * saved.saved == pytest.approx(layers["decoder.layers.0"])
    assert first.kept - first.learnt == pytest.approx((outside_of(model)["head"] + outside_of(model)["decoder"]) / whole)
    # Every chunk computes the encoder.
    model = deep("t5-small", 4)
    once, twice = (of_mesh(model, Mesh(pipeline=2, chunks=chunks))[0] for chunks in (1, 2))
    shape = Shape(batch=1, length=LENGTH, source=LENGTH)
    saved = activations(model, shape, PLAN)
    encoder = sum(x.bytes for x in saved.tensors if x.layer and x.layer.startswith("encoder") and not x.loss)
    assert (twice.saved - once.saved) * saved.saved == pytest.approx(encoder)


def test_weights_and_gradients_of_zero_bubble_stay_whole():
    model = catalogue("llama-3-8b", tiny=True)
    parts = {"pipeline": 2, "shard": 2}
    usual, whole = of("llama-3-8b", **parts), of_mesh(model, Mesh(**parts, schedule="zero_bubble"))
    assert [each.kept for each in usual] == [each.kept for each in whole]
    assert [each.learnt / 2 for each in whole] == pytest.approx([each.learnt for each in usual])
    layers, outside = sum(sizes_of(model).values()), sum(outside_of(model).values())
    assert [each.gathered.kept for each in whole] == [layers // 2] * 2
    assert [(each.flight.pieces, each.flight.halves) for each in whole] == [(2, 0), (2, 2)]
    # All weights and all gradients; as its part of these comes, they go.
    assert whole[0].gathered.end == 2 * (outside + layers // 2) - (outside + layers // 2) // 2 + outside // 2


def sizes_of(model: Architecture) -> dict[str, int]:
    """Bytes of the weights of each layer."""
    return _grouped(model, layers=True)


def outside_of(model: Architecture) -> dict[str, int]:
    """Bytes of the weights outside the layers, by the first word of their names."""
    return _grouped(model, layers=False)


def _grouped(model: Architecture, *, layers: bool) -> dict[str, int]:
    found: dict[str, int] = {}
    for path, weight in model.trained_cost(Shape(source=1)).weights.items():
        if (".layers." in path) == layers:
            key = ".".join(path.split(".")[: 3 if layers else 1])
            found[key] = found.get(key, 0) + 4 * weight.count
    return found


def test_experts_are_divided_once_more():
    (alone,), (divided,) = of("mixtral-8x7b", shard=2), of("mixtral-8x7b", shard=2, expert=2)
    assert alone.kept == pytest.approx(divided.kept)
    inside = {path: size for path, size in sizes("mixtral-8x7b").items() if ".layers.0.experts.sublayer." in path}
    experts = sum(size for path, size in inside.items() if "router" not in path)
    assert alone.gathered.layer - divided.gathered.layer == experts // 2


@pytest.mark.parametrize(("base", "most"), [("fp32", 4.0), ("bf16", 2.0), ("nf4", 2.0)])
def test_a_frozen_base_is_held_as_it_is_stored_and_has_no_gradients(base, most):
    """Beside an adapter: the table that is read twice gets none, nor does anything else outside the layers."""
    model, tuning, shape = catalogue("gpt2", tiny=True), Tuning(adapter=Lora(rank=2), base=base), Shape(batch=1, length=LENGTH)
    tuned = tuning.of(model.trained_cost(Shape(source=1)))
    saved = activations(model, shape, PLAN)
    (one,) = members(model, Mesh(shard=2), saved, shape, PLAN, vocabulary=True, tuned=tuned)
    weights = model.trained_cost(Shape(source=1)).weights
    outside = sum(weight.count for path, weight in weights.items() if ".layers." not in path)
    assert one.gathered.root == most * outside
    assert (one.gathered.root_gradients, one.gathered.head, one.gathered.tied, one.twice) == (0, 0, 0, 0)
    added = {path: 4 * weight.count for path, weight in tuned.added.items()}
    assert one.gathered.layer_gradients == sum(size for path, size in added.items() if ".layers.0." in path)
    inside = {path: weight for path, weight in weights.items() if ".layers.0." in path}
    matrices = sum(FORMATS[base].bytes(weight) for weight in inside.values())
    assert one.gathered.layer == pytest.approx(matrices + one.gathered.layer_gradients, abs=len(inside))
    assert (one.kept, one.learnt) == (pytest.approx(0.5, rel=0.01), pytest.approx(0.5, rel=0.01))
    # Of two processes one takes no more than the one that is alone, but for what it gathers.
    peak = PricedStep(model, method=Method("", tuning, AdamW())).peak(shape, PLAN)
    assert 0 < one.most(peak, 1) < peak.total + one.gathered.start
    # Where all learn, nothing is another than without a tuning.
    every = Tuning(train_only=("*",)).of(model.trained_cost(Shape(source=1)))
    assert members(model, Mesh(shard=2), saved, shape, PLAN, vocabulary=True, tuned=every) == of("gpt2", shard=2)
