"""Times and classes of rows, and the layers that they modulate."""

from __future__ import annotations

import naive
import pytest
import torch
from zoo_conditions import CONDITIONED, MODULATED_DECODERS

from anyformer.catalogue import architecture
from anyformer.describe import DescriptionError, InputError, change_all
from anyformer.model import Architecture
from anyformer.model.transformer import Transformer, build
from anyformer.operations import Shape
from anyformer.parts import Condition, LayerNorm, Modulation, SinusoidalGrid
from anyformer.parts.embedding.condition_module import time_waves
from anyformer.parts.layers.modulation_module import applied
from anyformer.planning.staged import Staged
from anyformer.testing.models import evaluated

DIT, TEXT = CONDITIONED["diffusion_transformer"], MODULATED_DECODERS["modulated_decoder"]
TIMES, CLASSES = torch.tensor([0.25, 0.9], dtype=torch.float64), torch.tensor([2, 0])
IMAGES = torch.randn(2, 1, 4, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def model_of(described: Architecture = DIT) -> Transformer:
    """In float64, its weights away from the zeros they start at."""
    return evaluated(described, dtype=torch.float64)


def test_every_row_has_its_own_time_and_class():
    """As the twin computes them, one row after the other, and so are the gradients."""
    model = model_of(DIT)
    weights = {name: weight.detach().clone().requires_grad_() for name, weight in model.named_parameters()}
    found = model(IMAGES, times=TIMES, classes=CLASSES)
    rows = [(image, float(time), int(kind)) for image, time, kind in zip(IMAGES, TIMES, CLASSES, strict=True)]
    wanted = torch.stack([naive.forward(DIT, weights, image, time=time, kind=kind) for image, time, kind in rows])
    # Waves are computed in fp32 at any type of weights.
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)
    found.square().sum().backward()
    wanted.square().sum().backward()
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parameter.grad, weights[name].grad, rtol=1e-4, atol=1e-4, msg=name)


def test_without_either_a_row_is_clean_and_of_the_null_class():
    model = model_of()
    given = {"times": torch.zeros(2, dtype=torch.float64), "classes": torch.tensor([3, 3])}
    torch.testing.assert_close(model(IMAGES), model(IMAGES, **given))
    assert not torch.allclose(model(IMAGES), model(IMAGES, classes=torch.tensor([3, 1])))


def test_a_block_adds_nothing_at_first():
    """adaLN-Zero: gates start at 0."""
    model, passed = build(DIT), []
    model.encoder.layers[1].register_forward_hook(lambda module, given, made: passed.append((given[0], made)))
    model(IMAGES.float(), times=TIMES.float())
    assert torch.equal(*passed[0])


def test_published_adaptive_norms():
    """Those of Qwen2.5-Omni's diffusion transformer: one map of six parts, which ours are the halves of."""
    from transformers.models.qwen2_5_omni import modeling_qwen2_5_omni as published

    theirs, D = published.Qwen2_5_OmniAdaLayerNormZero(8), 8
    x, c = torch.randn(2, 3, D), torch.randn(2, D)
    normed, gate, *second, last = theirs(x, c)
    first_half, second_half = Modulation().build(D), Modulation().build(D)
    with torch.no_grad():
        for half, module in enumerate((first_half, second_half)):
            rows = slice(3 * D * half, 3 * D * (half + 1))
            module.projection.weight.copy_(theirs.linear.weight[rows])
            module.projection.bias.copy_(theirs.linear.bias[rows])
    shift, scale, own_gate = first_half(c)
    norm = LayerNorm(gain="none", bias=False, eps=1e-6).build(D)
    torch.testing.assert_close(applied(norm(x), shift, scale), normed)
    torch.testing.assert_close(own_gate[:, 0], gate)
    for ours, other in zip(second_half(c), (*second, last), strict=True):
        torch.testing.assert_close(ours[:, 0], other)


def test_the_grid_of_published_sinusoids():
    """Those of MAE, which DiT has too."""
    from transformers.models.vit_mae.modeling_vit_mae import ViTMAEConfig, ViTMAEEmbeddings

    theirs = ViTMAEEmbeddings(ViTMAEConfig(hidden_size=16, image_size=12, patch_size=4))
    theirs.initialize_weights()
    found = SinusoidalGrid(columns=3).vectors(torch.arange(9), 16)
    torch.testing.assert_close(found, theirs.position_embeddings[0, 1:], rtol=0, atol=1e-6)


def test_waves_are_cosines_and_then_sines():
    angles = torch.tensor([3.0, 0.3])
    wanted = torch.stack([torch.tensor([1.0, 1.0, 0.0, 0.0]), torch.cat([angles.cos(), angles.sin()])])
    torch.testing.assert_close(time_waves(torch.tensor([0.0, 3.0]), 4, 100.0), wanted)


@pytest.mark.parametrize(
    ("described", "given", "said"),
    [
        (DIT.but(encoder=DIT.encoder.but(condition=Condition())), {"classes": CLASSES}, "reads classes: leave them out"),
        (DIT, {"times": TIMES[:1]}, "times are one per row, of shape .2,., got .1,."),
        (DIT, {"times": torch.tensor([0, 1])}, "real numbers from 0 to 1"),
        (DIT, {"classes": TIMES}, "classes should be whole numbers"),
        (DIT, {"classes": torch.tensor([0, 4])}, "classes run from 0 to 4, and the table has rows 0 to 3"),
    ],
)
def test_what_no_condition_reads_is_refused(described, given, said):
    with pytest.raises(InputError, match=said):
        model_of(described)(IMAGES, **given)


def test_a_state_keeps_no_condition():
    model, tokens = model_of(TEXT), torch.tensor([[1, 2]])
    with pytest.raises(InputError, match="decode state keeps no condition"):
        model(tokens, times=torch.zeros(1), state=model.state(1, 4))


UNREAD = {f"{name}.{branch}.modulation": None for name, block in TEXT.decoder.variants.items() for branch in block.branches}


@pytest.mark.parametrize(
    ("stack", "changes", "said"),
    [
        (DIT.encoder, {"condition": None}, "reads the stack's condition, and there is none: set condition"),
        (DIT.encoder, {"final_modulation": Modulation()}, "set gate = false"),
        (TEXT.decoder, {"condition": None}, "reads 'condition' of its stack, .*: set condition in the stack"),
        (TEXT.decoder, UNREAD, "no part of the stack has a modulation"),
    ],
)
def test_descriptions_that_cannot_be(stack, changes, said):
    with pytest.raises(DescriptionError, match=said):
        change_all(stack, changes)


def test_every_stage_that_reads_the_condition_learns_it():
    staged = Staged(DIT, 2)
    assert staged.learning("encoder.condition.input.weight") == {0, 1}
    assert staged.learning("encoder.final_modulation.projection.weight") == {1}


@pytest.mark.parametrize(
    ("name", "published"), [("dit-s-2", 6.06), ("dit-b-2", 23.01), ("dit-b-4", 5.56), ("dit-l-2", 80.71), ("dit-xl-2", 118.64)]
)
def test_published_multiplications(name, published):
    """Those of the paper's table 4, in billions of products; it also counts smaller work."""
    made = architecture(name)
    found = made.cost(Shape(length=made.encoder.max_length)).total_flops.exact / 2e9
    assert found == pytest.approx(published, abs=0.02)
