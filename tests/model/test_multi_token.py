"""Predictions of later tokens: what authors count, what is refused, and what a sheet counts beside the model."""

from __future__ import annotations

import pytest
import torch

import anyformer as af
from anyformer.catalogue.bert import ENTRIES as ENCODERS
from anyformer.catalogue.llama import llama
from anyformer.describe import DescriptionError, InputError, change_all
from anyformer.model.transformer import build
from anyformer.parts import Bidirectional, ParallelPrediction, Prefix, RMSNorm, SequentialPrediction
from anyformer.resizing.sizes import Sizes, resized

LLAMA = llama(width=16, depth=2, heads=4, kv_heads=2, ffn=24, vocab=19)
MODULES = SequentialPrediction(depth=2, norm=RMSNorm())


def test_parameters_are_those_that_the_authors_count():
    """DeepSeek-V3 (its README_WEIGHTS.md): 671 B, and 11.5 B of the module without projection, table and head.
    GLM 4.5 (arXiv 2508.06471, table 1): 355 B with the module, without table and head."""
    v3, glm = af.architecture("deepseek-v3"), af.architecture("glm-4.5")
    params = af.cost(v3).params
    assert params.total == pytest.approx(671e9, rel=1e-3)
    assert params.mtp - 2 * v3.width**2 == pytest.approx(11.5e9, rel=1e-3)
    with_module = af.cost(glm).params
    assert with_module.total + with_module.mtp - 2 * glm.embedding.vocab * glm.width == pytest.approx(355e9, rel=1e-3)


@pytest.mark.parametrize("part", [MODULES, ParallelPrediction(depth=2)], ids=["modules", "heads"])
def test_only_training_counts_them(part):
    plain, whole = (af.cost(made, batch=2, length=32) for made in (LLAMA, LLAMA.but(mtp=part)))
    assert whole.params.total == plain.params.total
    assert whole.params.mtp == sum(p.numel() for p in build(LLAMA.but(mtp=part), device="meta").mtp.parameters())
    for mode in ("prefill", "decode"):
        ours, theirs = whole.of(mode), plain.of(mode)
        assert (ours.flops, ours.weights, ours.state, ours.required_bytes) == (
            theirs.flops, theirs.weights, theirs.state, theirs.required_bytes,
        )  # fmt: skip
    ours, theirs = whole.of("train"), plain.of("train")
    assert ours.flops.total.dense > theirs.flops.total.dense
    assert ours.memory.total > theirs.memory.total
    assert ours.activations.saved > theirs.activations.saved


def test_the_layer_of_another_mask_is_refused():
    for mask, reason in ((Bidirectional(), "lets a token see later ones"), (Prefix(), "a prefix mask shows a token")):
        block = change_all(LLAMA, {"decoder.layer.attention.mask": mask}).decoder.variants["layer"]
        with pytest.raises(DescriptionError, match=f"mtp: the layer shows a token those to predict.*{reason}"):
            LLAMA.but(mtp=MODULES.but(block=block))


def test_models_that_write_no_text_are_refused():
    encoder = next(entry for entry in ENCODERS if entry.name == "bert-base-uncased").make()
    with pytest.raises(DescriptionError, match="mtp: a decoder of one text, with logits, predicts later tokens"):
        encoder.but(mtp=MODULES)


def test_calls_that_predict_nothing_are_refused():
    model, x = build(LLAMA.but(mtp=MODULES)), torch.zeros(1, 2, dtype=torch.int64)
    with pytest.raises(InputError, match=r"2 tokens after the next one are to be predicted .* the rows have 2 in all"):
        model.predictions(x)
    with pytest.raises(InputError, match="leave the state out"):
        model.predictions(x, state=model.state(1, 4))


def test_without_the_part_the_predictions_are_the_forward_pass():
    model, x = build(LLAMA), torch.arange(6)[None]
    (only,) = model.predictions(x)
    assert torch.equal(only, model(x))


def test_a_block_of_its_own_is_resized_with_the_rest():
    own = LLAMA.but(mtp=MODULES.but(block=LLAMA.decoder.variants["layer"]))
    wide = resized(own, Sizes(width=32, depth=3, ffn=48))
    assert wide.mtp.block == wide.decoder.variants["layer"]
    assert build(wide)(torch.zeros(1, 4, dtype=torch.int64)).shape == (1, 4, 19)
