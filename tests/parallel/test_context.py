"""Context parallelism without processes: what each of them computes of a row's positions, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from anyformer.api import architecture
from anyformer.describe import Digested, UserError, change_all
from anyformer.mesh import Mesh
from anyformer.parts import (
    Attention,
    ForgettingGate,
    Projection,
    RMSNorm,
    Score,
    ValueResidual,
    pre_norm,
)
from anyformer.parts.attention.attend import attend
from anyformer.parts.call.context import Context
from anyformer.parts.call.noise import Dropout, DropPath, InputDropout, Noise, Span, TensorPart, bits
from anyformer.parts.call.state import EMPTY
from anyformer.parts.feedforward.feedforward import FeedForward
from anyformer.parts.masks.simple import Causal, Window
from anyformer.plan import Plan
from anyformer.planning.collectives import Workload, exchanged
from anyformer.training import load_run
from anyformer.training.parallel import Alone, check_mesh
from anyformer.training.parallel.adapted import of_positions

LENGTH, EACH = 10, 4
PARTS = torch.arange(3 * EACH).chunk(3)
"""The positions of three processes, of which the last two of the last one are padding."""


def noise(rows: int = 2) -> Noise:
    return Noise.at(1, 0, torch.arange(rows))


def of(positions: torch.Tensor) -> Noise:
    return Noise(noise().key, noise().rows, Span(positions, LENGTH))


def context_of(positions: torch.Tensor, documents: torch.Tensor | None = None, *, aligned: bool = True) -> Context:
    whole = Context(torch.arange(LENGTH)[None], Plan(), aligned=aligned, padded=False, documents=documents, noise=noise())
    return whole.of_positions(positions, lambda x: x)


def test_processes_drop_what_one_drops():
    for along, shape in ((1, (2, LENGTH, 6)), (2, (2, 3, LENGTH, 7))):
        x, drop = torch.ones(shape), Dropout(0.4, "here", along=along).train()
        padded = torch.cat([x, x], along)
        found = torch.cat([drop(padded.index_select(along, own), of(own)) for own in PARTS], along)
        assert torch.equal(found.narrow(along, 0, LENGTH), drop(x, noise()))
    path = DropPath(0.5, "path").train()
    rows = torch.ones(2, LENGTH, 6)
    assert torch.equal(path(rows[:, :EACH], of(PARTS[1])), path(rows, noise())[:, :EACH])


def test_parts_by_heads_and_by_positions_have_the_bits_of_the_whole():
    shape, positions = torch.Size((2, 6, LENGTH, 5)), PARTS[1]
    whole = bits(noise(), 3, shape)[:, 2:4, positions]
    assert torch.equal(bits(of(positions), 3, torch.Size((2, 2, EACH, 5)), TensorPart(1, 1, 3), along=2), whole)


@pytest.mark.parametrize("kernel", ["plain", "sdpa"])
def test_some_queries_drop_the_attention_weights_that_all_drop(kernel):
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 2, 4, LENGTH, 8)
    dropout = Dropout(0.3, "here", along=2).train()

    def attended(queries: torch.Tensor, context: Context) -> torch.Tensor:
        visible = context.visible(Digested.of(Causal()), context.keys)
        return attend(queries, k, v, visible, scale=0.5, drop=dropout.drop(context.noise), kernel=kernel)

    whole = Context(torch.arange(LENGTH)[None], Plan(), padded=False, noise=noise())
    found = torch.cat([attended(torch.cat([q, q], 2)[:, :, own], context_of(own)) for own in PARTS], 2)
    torch.testing.assert_close(found[:, :, :LENGTH], attended(q, whole))


@pytest.mark.parametrize("mask", [Causal(), Window(size=3)])
@pytest.mark.parametrize("packed", [False, True])
def test_queries_of_a_process_see_the_keys_of_all(mask, packed):
    documents = torch.tensor([[0] * 6 + [1] * 4]) if packed else None
    whole = Context(torch.arange(LENGTH)[None], Plan(), aligned=not packed, padded=False, documents=documents)
    seen = whole.visible(Digested.of(mask), whole.keys).dense(LENGTH, torch.device("cpu"))
    found = []
    for own in PARTS:
        context = context_of(own, documents, aligned=not packed)
        found.append(context.visible(Digested.of(mask), context.keys, banded=True).allowed)
    joined = torch.cat(found, 2)
    assert torch.equal(joined[:, :, :LENGTH], seen.expand_as(joined[:, :, :LENGTH]))
    assert joined[:, :, LENGTH:].all(), "padding sees every key, so that its softmax is a number"


def test_the_context_of_all_positions_is_as_before():
    own = context_of(PARTS[2])
    assert own.positions.tolist() == [[8, 9, EMPTY, EMPTY]]
    back = own.of_all_positions()
    assert back.positions.shape == (1, LENGTH)
    assert back.share is None
    assert back.noise is not None
    assert back.noise.span is None
    assert back.shared is own.shared


def test_processes_of_a_context_are_one_replica():
    mesh = Mesh(shard=2, context=2).over(8)
    assert (mesh.data, mesh.replicas, mesh.divided, mesh.weights, mesh.alike) == (2, 4, 4, 4, 2)


def test_the_bytes_of_a_context_are_those_of_keys_values_and_the_stream():
    """Each layer gathers 2 K E features, the stream leaves the layers once, and two numbers of each position the head."""
    model = architecture("llama-3-8b", tiny=True)
    attention = model.decoder.variants["layer"].branches["attention"].sublayer
    features = model.decoder.depth * 2 * attention.groups * attention.width_of_head(model.width) + model.width + 2
    found = exchanged(model, Mesh(data=1, shard=2, context=4), Workload(2, 3, 30, 0), vocabulary=True)
    # 30 positions are 8 of each process; 4 bytes; 2 pieces, of each of which every process gathers.
    assert found["all-gather", "context"] == found["reduce-scatter", "context"] == 3 * 32 * features * 4 * 2 * 4
    assert {dimension for _, dimension in found} == {"context", "weights"}
    assert exchanged(model, Mesh(data=1, shard=2), Workload(2, 3, 30, 0), vocabulary=True).keys() == {
        ("all-gather", "shard"), ("reduce-scatter", "shard")
    }  # fmt: skip


def test_a_part_of_a_part_of_the_positions_drops_what_the_whole_row_does():
    """Seven positions for two processes, each of whose four a group of three divides: the last have padding twice."""
    dropout = Dropout(0.5, "here").train()
    expected = dropout(torch.ones(2, 7, 3), noise())
    found = []
    for own in (torch.arange(4), torch.arange(4, 8)):
        for number in range(3):
            dropout.divide(number, 3)
            part = dropout(torch.ones(2, 2, 3), replace(noise(), span=Span(own, 7)))
            found += [part[:, i] for i in range(2) if number * 2 + i < len(own) and own[number * 2 + i] < 7]
    assert torch.stack(found, 1).equal(expected)


def test_experts_are_divided_by_processes_of_shard_and_context():
    assert Mesh(shard=1, context=4, expert=2).sizes == {"context": 4, "expert": 2}
    with pytest.raises(ValueError, match=r"some of those of shard \* context = 6, which it must divide"):
        Mesh(shard=3, context=2, expert=4)
    with pytest.raises(ValueError, match=r"some of those of shard = 3, which it must divide: set shard to a multiple of 2"):
        Mesh(shard=3, expert=2)


def test_inputs_of_an_adapter_are_dropped_in_parts_as_in_one():
    """Vectors of two processes of positions, each of whose features three divide; the last vectors are padding."""
    x, dropout = torch.ones(2, 7, 6), InputDropout(0.4, "here").train()
    dropout.noise = noise()
    expected, padded, found = dropout(x), torch.ones(2, 8, 6), torch.empty(2, 8, 6)
    for vectors in range(2):
        for features in range(3):
            part = InputDropout(0.4, "here").train()
            part.noise, part.vectors = noise(), vectors
            part.divide(features, 3)
            own = slice(vectors * 4, vectors * 4 + 4), slice(features * 2, features * 2 + 2)
            # A map of a network reads its vectors one after the other.
            found[:, own[0], own[1]] = part(padded[:, own[0], own[1]].flatten(0, 1)).view(2, 4, 2)
    assert found[:, :7].equal(expected)


@pytest.mark.parametrize(
    ("name", "branch", "of_all"),
    [
        ("t5-small", "cross", {"key", "value"}),
        ("deepseek-v3", "latent_attention", {"key_up", "value_up"}),
        ("llama-3-8b", "attention", set()),
    ],
)
def test_which_maps_read_other_positions_too(name, branch, of_all):
    model = architecture(name, tiny=True)
    sublayers = [
        each.sublayer for block in model.output_stack.variants.values() for key, each in block.branches.items() if branch in key
    ]
    for sublayer in sublayers:
        linear = {
            name for name, module in sublayer.build(model.width, Plan(), "").named_modules() if type(module) is torch.nn.Linear
        }
        assert {f"{name}.weight" for name in linear - of_all} == of_positions(sublayer, model.width), name
        assert of_all <= linear
    assert sublayers


def test_values_of_all_positions_are_no_values_of_some(run_of):
    """A layer with a forgetting gate computes all positions in every process, and its values are not those of a share."""
    first = Attention(heads=4, kv_heads=2, score=Score(terms=ForgettingGate()))
    later = Attention(heads=4, kv_heads=2, project=Projection(adjust=ValueResidual(variant="first")))
    variants = {name: pre_norm(RMSNorm(), part).plain() for name, part in (("first", first), ("layer", later))}
    changes = {"architecture.decoder.variants": variants, "architecture.decoder.order": "first layer"}
    run = change_all(load_run(run_of("llama-3-8b")), changes)
    with pytest.raises(
        UserError, match=r"layers 'layer' read 'values' of layers 'first', and some of them compute all positions"
    ):
        check_mesh(change_all(run, {"plan.mesh.context": 2}), Alone(size=2))


def test_a_model_without_positions_to_divide_is_refused(run_of, monkeypatch):
    run = change_all(load_run(run_of("llama-3-8b")), {"plan.mesh.context": 2})
    check_mesh(run, Alone(size=2))
    for part in (Attention, FeedForward):
        monkeypatch.setattr(part, "gathers", lambda self, width: None)
    with pytest.raises(UserError, match=r"divides positions of attention and of feed-forward networks, and the model has none"):
        check_mesh(run, Alone(size=2))


def test_filters_behind_branches_are_refused(run_of):
    """Each process has a share of the positions that such a filter reads."""
    filtered = {"architecture.decoder.layer.feedforward.residual_convolution": {"kernel": 3}}
    run = change_all(load_run(run_of("llama-3-8b")), filtered)
    check_mesh(run, Alone(size=2))
    with pytest.raises(UserError, match=r"layer\.feedforward\.residual_convolution reads the positions before each"):
        check_mesh(change_all(run, {"plan.mesh.context": 2}), Alone(size=2))
