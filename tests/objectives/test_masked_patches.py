"""Masked patches: what is hidden, the loss and its gradients against plain loops, the decoder, the price, refusals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers import ViTMAEConfig, ViTMAEForPreTraining

from anyformer.catalogue import architecture
from anyformer.catalogue.vit import vit
from anyformer.data import IGNORED, RecordBatch, UnlabelledImages
from anyformer.describe import DescriptionError, change_all
from anyformer.model.transformer import build
from anyformer.objectives import Examples, MaskedPatchesObjective, Setting, loss_of
from anyformer.objectives.masked_patches import normalised
from anyformer.objectives.objective import added
from anyformer.parts import Head
from anyformer.parts.call.reports import Auxiliary
from anyformer.parts.embedding.patches_module import cut
from anyformer.training import default_run
from anyformer.training.priced import counted_flops, step_of

DINO = architecture("dinov2-registers-base", tiny=True)
CELLS = DINO.embedding.cells
SIDE = 3 * CELLS.size


def examples_of(objective, rows=(4, 9), model=DINO):
    draws = np.random.default_rng(0)
    images = draws.integers(0, 256, (len(rows), 3, SIDE, SIDE), dtype=np.uint8)
    batch = RecordBatch(tuple(({"image": image},) for image in images), np.array(rows))
    return objective.examples(batch, Setting(None, CELLS.front + 9, 3, architecture=model))


@pytest.fixture(scope="module")
def models():
    objective = MaskedPatchesObjective()
    return build(DINO, seed=1).eval(), build(objective.decoder_of(DINO), seed=2).eval()


@pytest.mark.parametrize(("rate", "hidden"), [(0.75, 7), (0.5, 5), (0.01, 1), (0.99, 8)])
def test_the_same_share_of_every_image_is_hidden_by_the_samples_number(rate, hidden):
    """Of nine patches as many stay as MAE keeps, int(9 * (1 - rate)), at least one and not all."""
    objective = MaskedPatchesObjective(rate=rate)
    found = examples_of(objective, rows=tuple(range(40))).targets != IGNORED
    assert found.sum(1).tolist() == [hidden] * 40
    assert torch.equal(examples_of(objective, rows=(4, 9)).targets != IGNORED, found[[4, 9]])
    assert len(found.unique(dim=0)) >= 9
    assert found.float().mean(0).sub(hidden / 9).abs().max() < 0.3, "every place is hidden about as often"


@pytest.mark.parametrize("normalise", [True, False])
def test_loss_and_gradients_are_those_of_plain_loops(models, normalise):
    """A patch at a time: the encoder of an image that has the seen patches alone, its features in the decoder's rows."""
    model, decoder = models
    objective = MaskedPatchesObjective(normalise=normalise)
    examples = examples_of(objective)
    weights = [*model.parameters(), *decoder.parameters()]
    ours = loss_of(objective, model, examples, partners={"decoder": decoder})
    total = 0.0
    for row, image in enumerate(examples.tokens):
        hidden = [n for n in range(9) if examples.targets[row, n] != IGNORED]
        seen = [n for n in range(9) if n not in hidden]
        p, front = CELLS.size, CELLS.front
        squares = [image[:, n // 3 * p : n // 3 * p + p, n % 3 * p : n % 3 * p + p] for n in range(9)]
        places = torch.tensor([[*range(front), *(front + n for n in seen)]])
        features = model.features(torch.cat([squares[n] for n in seen], 2)[None], positions=places)[0]
        given = torch.zeros(1, front + 9, DINO.width + 1)
        for at, place in enumerate(places[0].tolist()):
            given[0, place, :-1] = features[at]
        for n in hidden:
            given[0, front + n, -1] = 1.0
        said = decoder(given)[0, front:]
        for n in hidden:
            pixels = squares[n].flatten()
            if normalise:
                pixels = (pixels - pixels.mean()) / (pixels.var() + 1e-6).sqrt()
            total = total + ((said[n] - pixels) ** 2).mean()
    torch.testing.assert_close(ours, total, rtol=1e-5, atol=1e-5)
    both = [torch.autograd.grad(loss, weights, allow_unused=True) for loss in (ours, total)]
    for one, other in zip(*both, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-5)
    assert all(grad is not None for grad in both[0]), "every weight of both models learns"


def test_hidden_pixels_have_no_influence_but_as_targets(models):
    model, decoder = models
    objective = MaskedPatchesObjective()
    examples = examples_of(objective)
    tokens = examples.tokens.clone().requires_grad_()
    loss_of(objective, model, replace(examples, tokens=tokens), partners={"decoder": decoder}).backward()
    p = CELLS.size
    touched = tokens.grad.unfold(2, p, p).unfold(3, p, p).abs().sum((1, 4, 5)).flatten(1) > 0
    assert torch.equal(touched, examples.targets == IGNORED)


def test_figures_are_those_of_all_patches_at_once(models):
    model, decoder = models
    objective = MaskedPatchesObjective()
    batches = [examples_of(objective, rows=rows) for rows in ((1, 2, 3), (4, 5))]
    with torch.no_grad():
        pairs = [objective.reconstructed(model, decoder, each, None, None) for each in batches]
    totals = added(objective.statistics(model, each, Auxiliary(), {"decoder": decoder}) for each in batches)
    said, real = (torch.cat(parts).flatten(0, 1).double() for parts in zip(*pairs, strict=True))
    explained = 1 - (said - real).square().mean() / (real - real.mean(0)).square().mean()
    assert objective.metrics(totals, {})["explained"] == pytest.approx(float(explained), rel=1e-5)
    assert float(totals["loss"]) / sum(each.count for each in batches) == pytest.approx(float((said - real).square().mean()))


def test_normalised_patches_have_no_mean_and_deviation_one_and_flat_ones_are_zero():
    patches = torch.stack([torch.randn(12, generator=torch.Generator().manual_seed(0)) * 3 + 5, torch.full((12,), 4.0)])
    found = normalised(patches)
    assert found[0].mean().item() == pytest.approx(0, abs=1e-5)
    assert found[0].std().item() == pytest.approx(1, abs=1e-5)
    assert (found[1] == 0).all()


@pytest.mark.parametrize("name", ["dinov2-small", "dinov3-small-16", "dinov2-registers-base"])
def test_image_encoders_without_a_head_are_trained_so_and_priced_exactly(name):
    """The encoder at the positions that it reads, the decoder at all: FLOPs as counted, forward and backward."""
    model = architecture(name, tiny=True)
    run = default_run(model, ("shapes",), MaskedPatchesObjective())
    assert isinstance(run.data, UnlabelledImages)
    patches = run.length - model.embedding.cells.front
    assert run.piece.length == run.length - patches + int(patches / 4)
    step = step_of(run.but(batch=2, accumulation=1))
    shape = step.shape(2, run.length)
    assert step.flops(shape, run.plan) == counted_flops(step, shape, run.plan)
    assert step.peak(shape, run.plan).total > 0


def test_what_cannot_be_trained_so_is_refused_in_words():
    objective = MaskedPatchesObjective()
    with pytest.raises(ValueError, match=r"a head that it would leave untrained: take it out with architecture.head = none"):
        objective.check(architecture("vit-base-16", tiny=True))
    objective.check(architecture("vit-base-16", tiny=True).but(head=None))
    with pytest.raises(ValueError, match="a latent array reads its patches"):
        objective.check(architecture("siglip-vision-base-16", tiny=True))
    with pytest.raises(ValueError, match="gives the model an image, and this model reads tokens"):
        objective.check(architecture("bert-base-uncased", tiny=True))
    own = objective.decoder_of(DINO)
    for wrong, words in (
        (change_all(own, {"embedding.features": 7}), rf"embedding.features = {DINO.width + 1}"),
        (own.but(head=Head(outputs=5)), rf"head = {{outputs = {CELLS.numbers}}}"),
        (own.but(head=None), "numbers of a patch at every position"),
        (architecture("bert-base-uncased", tiny=True), "should be an encoder of vectors"),
    ):
        with pytest.raises(ValueError, match=words):
            objective.but(decoder=wrong).check(DINO)
    run = default_run(DINO, ("shapes",), MaskedPatchesObjective())
    with pytest.raises(DescriptionError, match="an image of one patch leaves nothing to be seen"):
        change_all(run, {"length": CELLS.front + 1, "data.height": CELLS.size, "data.width": CELLS.size})
    short = change_all(own, {"encoder.position.length": 12})
    with pytest.raises(DescriptionError, match=r"longer than the position table of objective.decoder \(12\)"):
        run.but(objective=objective.but(decoder=short))


def as_vit_mae(state):
    """Weights of transformers' `ViTMAEForPreTraining` by the names of our encoder and of our decoder."""
    sides = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "o_proj"}
    names = {f"attention.sublayer.{own}": f"attention.{theirs}" for own, theirs in sides.items()} | {
        "attention.norm_before": "layernorm_before", "feedforward.norm_before": "layernorm_after",
        "feedforward.sublayer.up": "mlp.fc1", "feedforward.sublayer.down": "mlp.fc2",
    }  # fmt: skip

    def stack(layers, norm):
        kinds = ("weight", "bias")
        own = {
            f"encoder.layers.0.{name}.{kind}": state[f"{layers}.0.{theirs}.{kind}"]
            for name, theirs in names.items()
            for kind in kinds
        }
        return own | {f"encoder.final_norm.{kind}": state[f"{norm}.{kind}"] for kind in kinds}

    patches, inside = "vit.embeddings.patch_embeddings.projection", state["decoder.decoder_embed.weight"]
    encoder = {
        "embedding.class_tokens": state["vit.embeddings.cls_token"][0],
        "embedding.projection.weight": state[f"{patches}.weight"].flatten(1),
        "embedding.projection.bias": state[f"{patches}.bias"],
        "encoder.position.weight": state["vit.embeddings.position_embeddings"][0],
        **stack("vit.layers", "vit.layernorm"),
    }
    # The vector of hidden patches is the bias and the column that says so. Pixels of a patch stand by channel here.
    masked = state["decoder.mask_token"][0, 0] - state["decoder.decoder_embed.bias"]
    order = torch.arange(48).view(4, 4, 3).permute(2, 0, 1).flatten()
    decoder = {
        "embedding.projection.weight": torch.cat([inside, masked[:, None]], 1),
        "embedding.projection.bias": state["decoder.decoder_embed.bias"],
        "encoder.position.weight": state["decoder.decoder_pos_embed"][0],
        "head.weight": state["decoder.decoder_pred.weight"][order],
        "head.bias": state["decoder.decoder_pred.bias"][order],
        **stack("decoder.decoder_layers", "decoder.decoder_norm"),
    }
    return encoder, decoder


@pytest.mark.parametrize("normalise", [True, False])
def test_the_loss_for_given_noise_is_that_of_transformers(normalise):
    sizes = {"hidden_size": 24, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 96, "image_size": 12}
    deep = {"hidden_size": 12, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 48}
    torch.manual_seed(0)
    theirs = ViTMAEForPreTraining(
        ViTMAEConfig(
            **sizes, patch_size=4, layer_norm_eps=1e-6, norm_pix_loss=normalise, **{f"decoder_{k}": v for k, v in deep.items()}
        )
    ).eval()
    with torch.no_grad():
        for weight in theirs.parameters():
            weight.add_(0.2 * torch.randn_like(weight))
    encoder = vit(width=24, depth=1, heads=4, patch=4, image=12).but(head=None)
    objective = MaskedPatchesObjective(depth=1, normalise=normalise)
    models = build(encoder).eval(), build(objective.decoder_of(encoder)).eval()
    for model, weights in zip(models, as_vit_mae(theirs.state_dict()), strict=True):
        model.load_state_dict(weights)
    images, noise = torch.randn(3, 3, 12, 12), torch.rand(3, 9)
    found = theirs(images, noise=noise)
    pixels = cut(images, 4)
    targets = torch.where(found.mask.bool(), 0, IGNORED)
    examples = Examples(images, targets, None, torch.arange(3), facts=normalised(pixels) if normalise else pixels)
    ours = loss_of(objective, models[0], examples, partners={"decoder": models[1]}) / examples.count
    torch.testing.assert_close(ours, found.loss, rtol=1e-5, atol=1e-5)
    assert examples.count == 21
