"""Training attention that chooses its keys, through the normal loop: the loss of index scores, and layers computed again."""

from __future__ import annotations

import pytest
import torch
from rich.console import Console

from anyformer.describe import Named, UserError, change_all
from anyformer.mesh import Mesh
from anyformer.model import decoder_only
from anyformer.model.transformer import build
from anyformer.parts import Embedding, FeedForward, Indexer, LatentAttention, RMSNorm, Rotary, SharedIndex, pre_norm
from anyformer.training import train
from anyformer.training.parallel import Alone, check_mesh

QUIET = Console(quiet=True)


def model_with():
    latent = LatentAttention(heads=2, kv_rank=12, q_rank=12, nope_width=8, rope_width=4, value_width=8, rotary=Rotary())
    own = latent.but(choice=Indexer(keep=6, heads=4, head_width=8))
    taken = latent.but(choice=SharedIndex(variant="own", keep=6))
    blocks = [pre_norm(RMSNorm(), each, FeedForward(width=32)) for each in (own, taken)]
    return decoder_only(Embedding(vocab=257), 32, blocks, names=Named(own=blocks[0], taken=blocks[1]), final_norm=RMSNorm())


def alone():
    own = model_with().decoder.variants["own"]
    return decoder_only(Embedding(vocab=257), 32, [own] * 2)


def trained(run, directory, **changes):
    model = train(change_all(run.but(architecture=model_with(), steps=4), changes), directory, console=QUIET).model
    return {name: weight.detach().clone() for name, weight in model.named_parameters()}


def test_the_index_learns_from_its_own_loss_alone(tiny, tmp_path):
    start = dict(build(model_with(), tiny.plan, seed=tiny.seed).named_parameters())
    learnt, still = (trained(tiny, tmp_path / name, **{"objective.index_loss": f}) for name, f in (("own", 1.0), ("no", 0.0)))
    index = [name for name in start if ".choice." in name]
    assert index
    for name in index:
        assert not torch.equal(learnt[name], start[name]), name
        assert torch.equal(still[name], start[name]), name


def test_a_pipeline_is_refused(tiny):
    """Only the last process of a pipeline computes the loss, and would not have that of the others' index scores."""
    run = tiny.but(architecture=alone(), plan=tiny.plan.but(mesh=Mesh(pipeline=2)))
    with pytest.raises(UserError, match=r"layers choose keys by index scores, whose loss no process sends on"):
        check_mesh(run, Alone(size=2))


def test_layers_computed_again_give_the_same_weights(tiny, tmp_path):
    saved = trained(tiny, tmp_path / "saved")
    for how in ("full", "selective"):
        again = trained(tiny, tmp_path / how, **{"plan.checkpointing": how})
        assert all(torch.equal(again[name], weight) for name, weight in saved.items()), how
