"""Stages of layers: which layer is where, what cannot be divided, and what is sent."""

from __future__ import annotations

from fractions import Fraction

import pytest
import torch
from torch.distributed.pipelining import ScheduleInterleaved1F1B, ScheduleInterleavedZeroBubble
from torch.distributed.pipelining.schedules import _Action

from anyformer.api import architecture
from anyformer.describe import UserError, change_all
from anyformer.mesh import Mesh
from anyformer.model import Architecture
from anyformer.plan import Plan
from anyformer.planning.collectives import Workload, exchanged
from anyformer.planning.communication import bubble
from anyformer.planning.dealing import dealt
from anyformer.planning.held_weights import held
from anyformer.planning.layout import Layout
from anyformer.planning.rank import in_flight
from anyformer.planning.staged import Staged, chunks_of, read_again
from anyformer.planning.stages import row_of
from anyformer.training import load_run
from anyformer.training.parallel import Alone, check_mesh
from anyformer.training.precision import Host, resolve


def deep(name: str, depth: int) -> Architecture:
    """A tiny architecture with so many layers."""
    model = architecture(name, tiny=True)
    return change_all(model, {f"{list(model.stacks)[-1]}.order": f"({model.output_stack.layers[0]})*{depth}"})


def test_chunks_are_as_even_as_can_be():
    assert chunks_of(8, 2) == (range(4), range(4, 8))
    assert chunks_of(5, 3) == (range(2), range(2, 4), range(4, 5))
    assert chunks_of(3, 3) == (range(1), range(1, 2), range(2, 3))


def test_chunks_are_dealt_in_turn():
    staged = Staged(deep("llama-3-8b", 6), 2, 2)
    weights = [f"decoder.layers.{i}.attention.sublayer.query.weight" for i in range(6)]
    assert [staged.stage_of(name) for name in weights] == [0, 0, 1, 1, 0, 1]
    assert staged.learning("decoder.final_norm.weight") == {3}, "the last chunk alone has the head"
    assert Staged(deep("t5-small", 4), 2, 2).learning("decoder.score_bias.weight") == {0, 1, 2, 3}, "every chunk reads it"


def test_processes_of_a_pipeline_compute_the_same_rows():
    mesh = Mesh(pipeline=2, shard=2, tensor=2).over(16)
    assert (mesh.data, mesh.replicas, mesh.divided, mesh.stage, mesh.alike) == (2, 4, 8, 4, 2)


def test_a_weight_learns_where_it_is_read():
    gpt2, t5 = Staged(architecture("gpt2", tiny=True), 2), Staged(architecture("t5-small", tiny=True), 2)
    assert [gpt2.stage_of(f"decoder.layers.{i}.attention.sublayer.query.weight") for i in (0, 1)] == [0, 1]
    assert gpt2.stage_of("embedding.weight") is gpt2.stage_of("decoder.layers.11.attention.sublayer.query.weight") is None
    assert gpt2.learning("embedding.weight") == {0, 1}, "the last stage has the head, which is tied to it"
    assert gpt2.learning("decoder.position.weight") == {0}
    assert gpt2.learning("decoder.final_norm.weight") == {1}
    assert t5.learning("encoder.layers.0.attention.sublayer.query.weight") == {0, 1}, "all stages read the source"
    assert t5.learning("decoder.score_bias.weight") == {0, 1}
    assert Staged(architecture("llama-3-8b", tiny=True), 2).learning("embedding.weight") == {0}
    assert Staged(architecture("deepseek-v3", tiny=True), 2).learning("embedding.weight") == {0, 1}, "later tokens read it"
    edge = Staged(architecture("gemma-4-e2b", tiny=True), 2)
    assert edge.learning("decoder.layer_inputs.projection.weight") == edge.learning("embedding.weight") == {0, 1}


def test_the_bytes_of_a_pipeline_are_those_of_the_stream_and_of_what_every_stage_has():
    model = architecture("llama-3-8b", tiny=True)
    found = exchanged(model, Mesh(data=1, pipeline=2), Workload(3, 2, 32, 0), vocabulary=True)
    beside = 2 * model.embedding.vocab * model.width + model.width
    # 4 bytes; 3 pieces there and back, each with 3 penalties; both stages add up gradients and a loss of 8 bytes.
    assert found == {
        ("send", "pipeline"): 2 * 3 * (2 * 32 * model.width + 3) * 4, ("all-reduce", "pipeline"): 2 * (beside * 4 + 8)
    }  # fmt: skip
    whole, half = (held(model, Mesh(data=1, pipeline=count), vocabulary=True) for count in (1, 2))
    assert half == beside * 4 + (whole - beside * 4) / 2


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"accumulation": 1}, r"need as many pieces of a batch .* accumulation = 1: set accumulation to 2 or more"),
        ({"plan.mesh.pipeline": 3, "batch": 6, "accumulation": 3}, r"divides layers, and the model has 2: choose no more"),
        (
            {"architecture.decoder.layer.steps.0.residual": "detached"},
            r"a layer takes the stream as a constant, and would send",
        ),
        ({"architecture.decoder.shared_weights": ("layer",)}, r"layer 1 has the weights of layer 0, and both would be in"),
        ({"plan.mesh.chunks": 2}, r"2 x 2 chunks need as many layers, and the model has 2: leave plan.mesh.chunks out"),
        (
            {"plan.mesh.chunks": 2, "architecture.decoder.order": "(layer)*4", "batch": 6, "accumulation": 3},
            r"chunks = 2 goes through the pieces of a batch 2 at a time, and accumulation = 3: set it to a multiple of .* = 2",
        ),
        ({"plan.mesh.schedule": "zero_bubble", "batch": 6, "accumulation": 3}, r"schedule = 'zero_bubble' goes through"),
        (
            {"plan.mesh.schedule": "zero_bubble", "plan.checkpointing": "full"},
            r"would compute layers again for both halves .* leave it out, or plan.checkpointing = 'full'",
        ),
    ],
)
def test_what_a_pipeline_cannot_divide_is_refused(run_of, changes, says):
    run = change_all(load_run(run_of("llama-3-8b")), {"plan.mesh.pipeline": 2, **changes})
    with pytest.raises(UserError, match=says):
        check_mesh(run, Alone(size=run.plan.mesh.pipeline))


def test_a_layer_that_reads_another_is_refused(run_of):
    run = load_run(run_of("llama-3-8b"))
    layer = run.architecture.decoder.variants["layer"]
    reader = change_all(layer, {"attention.sublayer.keys_from": "layer"})
    stack = run.architecture.decoder.but(variants={"layer": layer, "reader": reader}, order="layer reader")
    run = run.but(architecture=run.architecture.but(decoder=stack), plan=run.plan.but(mesh=Mesh(pipeline=2)))
    with pytest.raises(UserError, match=r"layers read 'keys and values' of layers 'layer', which another process may have"):
        check_mesh(run, Alone(size=2))


def test_what_zero_bubble_cannot_compute_apart_is_refused(run_of):
    bias = architecture("t5-small", tiny=True).output_stack.score_bias
    changes = {"plan.mesh.pipeline": 2, "plan.mesh.schedule": "zero_bubble", "architecture.decoder.score_bias": bias}
    with pytest.raises(UserError, match=r"'zero_bubble': several layers read 'score_bias', which has weights too, whose"):
        check_mesh(change_all(load_run(run_of("llama-3-8b")), changes), Alone(size=2))
    whole = {name: read_again(architecture(name, tiny=True)) for name in ("llama-3-8b", "deepseek-v3", "bloom-560m")}
    assert not any(whole.values()), "a bias by distance has no weights, and one prediction of later tokens reads no other"
    assert "layers share weights" in read_again(architecture("albert-base-v2", tiny=True))
    assert "'layer_inputs'" in read_again(architecture("gemma-4-e2b", tiny=True))


@pytest.mark.parametrize("changes", [{"chunks": 2}, {"schedule": "zero_bubble"}])
def test_chunks_and_schedules_are_of_a_pipeline(changes):
    with pytest.raises(ValueError, match=r"is of a pipeline, and pipeline = 1: set pipeline, or leave it out"):
        Mesh(**changes)


def test_zero_bubble_is_not_compiled():
    machine = Host(torch.device("cpu"), {"fp32": 1e9})
    staged = Plan(precision="fp32", mesh=Mesh(pipeline=2, schedule="zero_bubble"))
    plan, notes = resolve(staged, machine, "bf16", long=True)
    assert plan.compile == "off"
    assert any("zero_bubble' cuts backward passes in two, which torch does not compile yet" in note for note in notes)
    with pytest.raises(UserError, match=r"cuts backward passes in two"):
        resolve(staged.but(compile="on"), machine, "bf16", long=True)


@pytest.mark.parametrize(("p", "v", "rounds"), [(2, 1, 1), (2, 2, 2), (4, 1, 4), (4, 3, 2)])
@pytest.mark.parametrize("schedule", ["1f1b", "zero_bubble"])
def test_torchs_orders_idle_and_keep_what_is_foretold(p, v, rounds, schedule):
    m = p * rounds
    idle, most = played(orders(schedule, p, m, v), p, v)
    assert idle == bubble([3 * m * v] * p, m, v, schedule)
    # torch's own 1F1B of one chunk, another class, keeps fewer: what `in_flight` says is held against it elsewhere.
    if v > 1 or schedule == "zero_bubble":
        layout = Layout(pp=p, chunks=v, micro_batches=m, schedule=schedule)
        assert [Fraction(*in_flight(layout, stage)) for stage in range(p)] == [Fraction(each, v) for each in most]


def orders(schedule: str, p: int, m: int, v: int) -> list[list[_Action]]:
    """What torch has each process of a pipeline compute, without processes."""
    made = object.__new__(ScheduleInterleavedZeroBubble if schedule == "zero_bubble" else ScheduleInterleaved1F1B)
    made.pp_group_size, made.n_local_stages, made._n_microbatches, made.microbatches_per_round = p, v, m, p
    return [[each for each in made._calculate_single_rank_operations(rank) if each is not None] for rank in range(p)]


def played(orders: list[list[_Action]], p: int, v: int) -> tuple[int, list[int]]:
    """The time that processes idle, where a forward pass and each half of a backward pass of a chunk take 1; and of how many
    chunks each process keeps activations at most."""
    ended: dict[tuple[int, str, int], int] = {}
    clock, kept, most = [0] * p, [0] * p, [0] * p
    left = [list(each) for each in orders]
    work = sum(3 for each in orders[0] if each.computation_type.value == "F")
    while any(left):
        for rank in range(p):
            while left[rank] and (begins := begin(left[rank][0], ended, p * v - 1)) is not None:
                each = left[rank].pop(0)
                kind = each.computation_type.value
                clock[rank] = max(clock[rank], begins) + (2 if kind == "B" else 1)
                ended[each.stage_index, kind, each.microbatch_index] = clock[rank]
                kept[rank] += {"F": 1, "I": 0, "W": -1, "B": -1}[kind]
                most[rank] = max(most[rank], kept[rank])
    return max(clock) - work, most


def begin(each: _Action, ended: dict[tuple[int, str, int], int], last: int) -> int | None:
    """When all that an action needs is there; None before it is known."""
    chunk, kind, piece = each.stage_index, each.computation_type.value, each.microbatch_index
    if kind == "F":
        needs = [(chunk - 1, "F", piece)] if chunk > 0 else []
    elif kind == "W":
        needs = [(chunk, "I", piece)]
    else:
        needs = [(chunk, "F", piece), *([(chunk + 1, kind, piece)] if chunk < last else [])]
    return max((ended[need] for need in needs), default=0) if all(need in ended for need in needs) else None


@pytest.mark.parametrize("chunks", [1, 2])
def test_the_planner_deals_as_a_run_does(chunks):
    model = deep("llama-3-8b", 5)
    row = row_of(model, 32, Plan(precision="fp32"))
    parts = dealt(row, Staged(model, 2, chunks))
    mesh = Mesh(data=1, pipeline=2, chunks=chunks)
    assert 4 * max(part.parameters.total for part in parts) == held(model, mesh, vocabulary=True)
    assert [sum(unit.layer for unit in part.units) for part in parts] == [3, 2]
    assert [unit.name for unit in parts[0].units].count("entrance") == chunks, "each chunk begins with the embeddings"
