"""Stages of layers: which layer is where, what cannot be divided, and what is sent."""

from __future__ import annotations

import pytest
import torch

from anyformer.api import architecture
from anyformer.describe import UserError, change_all
from anyformer.mesh import Mesh
from anyformer.plan import Plan
from anyformer.planning.collectives import Workload, exchanged
from anyformer.planning.held_weights import held
from anyformer.planning.staged import Staged, stages_of
from anyformer.training import load_run
from anyformer.training.parallel import Alone, check_mesh
from anyformer.training.precision import Host, resolve


def test_stages_are_as_even_as_can_be():
    assert stages_of(8, 2) == (range(4), range(4, 8))
    assert stages_of(5, 3) == (range(2), range(2, 4), range(4, 5))
    assert stages_of(3, 3) == (range(1), range(1, 2), range(2, 3))


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


def test_stages_are_not_compiled():
    machine = Host(torch.device("cpu"), {"fp32": 1e9})
    staged = Plan(precision="fp32", mesh=Mesh(pipeline=2))
    plan, notes = resolve(staged, machine, "bf16", long=True)
    assert plan.compile == "off"
    assert any("the stages of plan.mesh.pipeline are not compiled yet" in note for note in notes)
    with pytest.raises(UserError, match=r"stages of plan\.mesh\.pipeline are not compiled yet"):
        resolve(staged.but(compile="on"), machine, "bf16", long=True)
