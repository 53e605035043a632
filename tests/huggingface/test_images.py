"""Composites read whole, with their images, against transformers: logits, decoding, gradients, files."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

import anyformer as af
from anyformer import checkpoint, huggingface
from anyformer.describe import InputError, diff
from anyformer.huggingface.canonical import canonical
from anyformer.huggingface.files import Stored
from anyformer.huggingface.fused import as_stored
from anyformer.huggingface.rules import rules
from anyformer.huggingface.vision.models import VISION
from anyformer.model.transformer import build
from anyformer.operations import Shape
from anyformer.parts.images.encoder_module import Images
from anyformer.parts.images.grid import GridTower
from covering import but_slow, cover, covering, rest_slow
from huggingface.parity import gap
from huggingface.whole import CASES, TOKEN, Whole, any_size, arguments, leaves, moves, pixels, text, their_logits, tiled, whole

TOLERANCE = 1e-5
ROUGH = {"qwen3_5": 2e-5, "qwen3_5_moe": 1e-4}
"""Case -> its tolerance, where rounding weighs more: behind a delta rule the two are 1.1e-5 apart on a processor with AVX2
alone, and behind one and experts both are 3e-5 from our result in fp64."""
every = pytest.mark.parametrize("name", CASES)
KINDS = (
    "llava", "gemma3", "qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe", "mistral3",
    "lighton_ocr", "paligemma", "idefics3", "smolvlm", "aya_vision", "cohere2_vision", "glm4v", "glm46v", "glm4v_moe",
    "glm_ocr", "vipllava", "deepseek_vl", "internvl", "exaone4_5", "janus", "lfm2_vl", "paddleocr_vl", "llama4",
    "llava_next", "llava_onevision",
)  # fmt: skip
TWINS = (
    "qianfan_ocr", "shieldgemma2", "glmga", "video_llava", "cosmos3_omni", "hyperclovax_vision_v2", "llava_next_video",
    "video_llama_3",
)  # fmt: skip
"""Types that differ from one of those above in names of weights, in absent keys or by a part less."""
types = pytest.mark.parametrize("name", [*KINDS, *TWINS])


READ = {
    name: huggingface.read_architecture(huggingface.Config({**config, "model_type": model_type}), images=True)[0].images
    for name, (model_type, config) in CASES.items()
}
TOWERS = cover({name: READ[name] for name in KINDS})
"""Of these a few with every mechanism of a tower; `make test-slow` asks of all what depends on the tower alone."""
TURNED = rest_slow(product(KINDS, ("published", "five")), covering(KINDS, ("published", "five"), together=1))
"""Each with one of two layouts of names by turns."""
FEW = cover(READ)
few = pytest.mark.parametrize("name", but_slow(CASES, FEW))
SHOWN = ((1, 0, 2), (0,), (1,), (2,))
"""Images of each row: in each run of all types the first, of a few no image at all."""
towers = pytest.mark.parametrize("name", but_slow(KINDS, TOWERS))
alike = pytest.mark.parametrize("name", but_slow((*KINDS, *TWINS), TOWERS))


def wide(tokens: torch.Tensor, by: int = 3) -> tuple[torch.Tensor, torch.Tensor]:
    """The first row `by` tokens shorter and padded on the left; and the padding."""
    padding = torch.zeros_like(tokens, dtype=torch.bool)
    padding[0, :by] = True
    moved = tokens.clone()
    moved[0, by:], moved[0, :by] = tokens[0, :-by], 0
    return moved, padding


@pytest.mark.parametrize(
    ("name", "images"), rest_slow(product(CASES, SHOWN), {*product(CASES, SHOWN[:1]), *product(FEW, SHOWN[1:2])}), ids=str
)
def test_logits(name, images):
    both = whole(name)
    tokens, shown = text(both, images), pixels(both, sum(images)) if sum(images) else None
    with torch.no_grad():
        assert gap(both.ours(tokens, images=shown), their_logits(both, tokens, shown)) <= ROUGH.get(name, TOLERANCE)


@few
def test_a_padded_row(name):
    both = whole(name)
    tokens, padding = wide(text(both, (1, 1)))
    shown = pixels(both, 2)
    with torch.no_grad():
        ours, theirs = both.ours(tokens, images=shown, padding=padding), their_logits(both, tokens, shown, padding)
    assert gap(ours[~padding], theirs[~padding]) <= ROUGH.get(name, TOLERANCE)


@few
def test_prefill_and_then_token_by_token(name):
    """Images of two chunks, a padded row, and a state that holds them; as their whole forward."""
    both = whole(name)
    tokens, padding = wide(text(both, (2, 1), length=44))
    shown = pixels(both, 3)
    sizes = both.tower.sizes(shown)
    with torch.no_grad():
        theirs = their_logits(both, tokens, shown, padding)
        state = both.ours.state(2, 44)
        first = both.ours(tokens[:, :40], images=shown, padding=padding[:, :40], state=state)
        rest = [both.ours(piece, state=state) for piece in tokens[:, 40:].split(1, 1)]
        assert gap(torch.cat([first, *rest], 1)[~padding], theirs[~padding]) <= ROUGH.get(name, TOLERANCE)
        row, state = tokens[1:], both.ours.state(1, 44)
        cut = min(3 + sizes[2] + 2, 40)
        chunks = [both.ours(row[:, :cut], images=shown[2:], state=state), both.ours(row[:, cut:], state=state)]
        assert gap(torch.cat(chunks, 1), theirs[1:]) <= ROUGH.get(name, TOLERANCE)


@towers
def test_an_image_in_a_later_chunk(name):
    both = whole(name)
    tokens, shown = text(both, (2,)), pixels(both, 2)
    cut = 2 + both.tower.sizes(shown)[0] + 1
    state = both.ours.state(1, 40)
    with torch.no_grad():
        pieces = [both.ours(tokens[:, :cut], images=shown[:1], state=state)]
        pieces.append(both.ours(tokens[:, cut:], images=shown[1:], state=state))
        assert gap(torch.cat(pieces, 1), their_logits(both, tokens, shown)) <= ROUGH.get(name, TOLERANCE)


def test_paligemma_reads_a_prompt_with_its_images_both_ways():
    both = whole("paligemma")
    tokens, shown = text(both, (1, 1)), pixels(both, 2)
    prefix = torch.tensor([20, 25])
    later = (torch.arange(tokens.shape[1]) >= prefix[:, None]).long()
    with torch.no_grad():
        theirs = both.theirs(input_ids=tokens, token_type_ids=later, **arguments(both, tokens, shown)).logits
        assert gap(both.ours(tokens, images=shown, prefix=prefix), theirs) <= TOLERANCE
        assert gap(both.ours(tokens, images=shown), theirs) > 1e-2


@alike
def test_transformers_generates_the_same(name):
    both = whole(name)
    tokens, shown = text(both, (1, 1), length=20), pixels(both, 2)
    with torch.no_grad():
        theirs = both.theirs.generate(
            input_ids=tokens,
            max_new_tokens=6,
            do_sample=False,
            eos_token_id=-1,  # none
            attention_mask=torch.ones_like(tokens),
            **arguments(both, tokens, shown),
        )
        state, pieces = both.ours.state(2, 26), []
        logits = both.ours(tokens, images=shown, state=state)
        for _ in range(6):
            pieces.append(logits[:, -1].argmax(-1, keepdim=True))
            logits = both.ours(pieces[-1], state=state)
    assert torch.equal(torch.cat(pieces, 1), theirs[:, 20:])


@few
def test_gradients_of_every_weight_and_of_the_images(name, tmp_path):
    both = whole(name)
    tokens = text(both, (1, 2))
    both.ours.zero_grad()
    both.theirs.zero_grad()
    ours, theirs = pixels(both, 3), pixels(both, 3)
    for image in (*leaves(ours), *leaves(theirs)):
        image.requires_grad_()
    for logits in (both.ours(tokens, images=ours), their_logits(both, tokens, theirs)):
        logits.square().mean().sqrt().backward()
    if not any_size(both):  # the patches that their processor makes of images are constants
        assert all(gap(one.grad, other.grad) <= 1e-4 for one, other in zip(leaves(ours), leaves(theirs), strict=True))
    assert all(float(image.grad.abs().sum()) > 0 for image in leaves(ours))
    kept = {name: parameter.data for name, parameter in both.theirs.named_parameters()}
    for parameter in both.theirs.parameters():
        parameter.data = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
    both.theirs.save_pretrained(tmp_path)
    for name_of, parameter in both.theirs.named_parameters():
        parameter.data = kept[name_of]
    read = gradients(both, tmp_path)
    scale = max(float(value.abs().max()) for value in read.values())
    for name_of, parameter in both.ours.named_parameters():
        if "correction" in name_of:  # which no gradient reaches
            assert parameter.grad is None
            continue
        size = max(float(read[name_of].abs().max()), 1e-3 * scale)
        assert float((parameter.grad - read[name_of]).abs().max()) / size <= 1e-3, name_of


def gradients(both: Whole, directory: Path) -> dict[str, torch.Tensor]:
    """Their gradients by our names, read by the rules of the weights."""
    architecture = both.ours.architecture
    shapes = {name: weight.shape for name, weight in architecture.cost(Shape()).weights.items()}
    family = huggingface.read_architecture(huggingface.read_config(directory), images=True)[1]
    stored, found = Stored(directory, text_name=family.text_name), {}
    for rule in as_stored(rules(family.names_of(architecture), shapes), stored):
        read = rule.op.read([stored.tensor(name) for name in rule.stored], [shapes[name] for name in rule.parameters])
        found |= dict(zip(rule.parameters, read, strict=True))
    return found


@every
def test_its_files_are_written_again_bit_for_bit(name, tmp_path):
    both = whole(name)
    huggingface.export(both.ours, tmp_path / "again", towers=both.directory)
    before, after = (load_file(path / "model.safetensors") for path in (both.directory, tmp_path / "again"))
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name_of], after[name_of]) for name_of in before)
    written, config = (json.loads((path / "config.json").read_text()) for path in (tmp_path / "again", both.directory))
    assert written == config


def class_that_loads(name: str) -> Any:
    """The class by which transformers loads a type's files: those of ShieldGemma 2 hold Gemma 3 within a classifier."""
    known = {"shieldgemma2": transformers.ShieldGemma2ForImageClassification}
    return known.get(name, transformers.AutoModelForImageTextToText)


@alike
def test_a_changed_tower_is_what_transformers_loads(name, tmp_path):
    both = whole(name)
    changed = build(both.ours.architecture, seed=3).eval()
    huggingface.export(changed, tmp_path / "again", towers=both.directory)
    kind = class_that_loads(name)
    theirs = kind.from_pretrained(tmp_path / "again", attn_implementation="eager").eval()
    theirs = theirs.model if kind is transformers.ShieldGemma2ForImageClassification else theirs
    tokens, shown = text(both, (1,)), pixels(both, 1)
    with torch.no_grad():
        assert gap(changed(tokens, images=shown), their_logits(Whole(theirs, changed, tmp_path), tokens, shown)) <= ROUGH.get(
            name, TOLERANCE
        )


@pytest.mark.parametrize(("name", "layout"), TURNED)
def test_names_of_published_files_and_of_transformers_5(name, layout, tmp_path):
    both = whole(name)
    source = Path(shutil.copytree(both.directory, tmp_path / "other"))
    tensors = {}
    for old, tensor in load_file(source / "model.safetensors").items():
        if moves(both) or name in ("lighton_ocr", "exaone4_5"):
            tensors[_of_qwen(old, layout)] = tensor
            continue
        new = old.replace("vision_tower.", "vision_tower.vision_model.") if layout == "published" else f"model.{old}"
        new = new.removeprefix("model.") if old.startswith(("language_model.lm_head", "lm_head")) else new
        new = new.replace("model.language_model.model.", "model.language_model.") if layout == "five" else new
        tensors[new.replace("model.model.", "model.", 1) if new.startswith("model.model.") else new] = tensor
    save_file(tensors, source / "model.safetensors", metadata={"format": "pt"})
    ours, _ = af.load(source, images=True)
    tokens, shown = text(both, (1,)), pixels(both, 1)
    with torch.no_grad():
        assert torch.equal(ours(tokens, images=shown), both.ours(tokens, images=shown))


def _of_qwen(saved: str, layout: str) -> str:
    """A name of Qwen-VL's as published (`visual`, `model.layers`), or of transformers 5 (`model.visual`)."""
    bare = saved.removeprefix("model.").removeprefix("language_model.").removeprefix("model.")
    if bare.startswith("lm_head"):
        return bare
    tower = bare.startswith(("visual.", "vision_", "mlp_AR."))
    if layout == "published":
        return bare if tower else f"model.{bare}"
    return f"model.{bare.replace('mlp_AR.', 'projector.')}" if tower else f"model.language_model.{bare}"


def test_text_alone_is_what_is_read_by_default():
    both = whole("gemma3")
    alone, _ = af.load(both.directory)
    assert alone.architecture == both.ours.architecture.but(images=None)
    tokens = text(both, (0,))
    with torch.no_grad():
        assert torch.equal(alone(tokens), both.ours(tokens))


@towers
def test_a_checkpoint_keeps_the_images(name, tmp_path):
    both = whole(name)
    checkpoint.save(both.ours, tmp_path / "kept")
    again, _ = af.load(tmp_path / "kept")
    tokens, shown = text(both, (1,)), pixels(both, 1)
    with torch.no_grad():
        # Weights stand elsewhere in memory, for which the last bit of a product may differ.
        assert gap(again.eval()(tokens, images=shown), both.ours(tokens, images=shown)) <= TOLERANCE


@types
def test_parameters_are_those_of_transformers_but_for_what_nothing_reads(name):
    both, of_clip = whole(name), ("vision_tower.encoder.layers.2.", "vision_tower.post_layernorm")
    unread = {
        **dict.fromkeys(("llava", "vipllava", "llava_next", "llava_next_video"), of_clip),
        "video_llava": ("video_tower.", "image_tower.encoder.layers.2.", "image_tower.post_layernorm"),
        "janus": ("vqmodel.", "generation_"),
        "llava_onevision": ("vision_tower.post_layernorm",),
        "deepseek_vl": ("vision_model.head.",),
        "aya_vision": ("vision_tower.head.", "vision_tower.post_layernorm"),
        **dict.fromkeys(("gemma3", "shieldgemma2", "paligemma", "cohere2_vision", "lfm2_vl"), ("vision_tower.head.",)),
    }
    theirs = {
        name_of: parameter.numel()
        for name_of, parameter in both.theirs.named_parameters()
        if not name_of.removeprefix("model.").startswith(unread.get(name, ()))
    }
    correction = [buffer.numel() for of, buffer in both.theirs.named_buffers() if of.endswith("e_score_correction_bias")]
    assert af.cost(both.ours.architecture).params.total == sum(theirs.values()) + sum(correction)


PUBLISHED = {
    "llava": {  # llava-hf/llava-1.5-7b-hf
        "ignore_index": -100, "image_token_index": 32_000, "pad_token_id": 32_001, "projector_hidden_act": "gelu",
        "text_config": {
            "max_position_embeddings": 4096, "model_type": "llama", "rms_norm_eps": 1e-5, "torch_dtype": "float16",
            "vocab_size": 32_064,
        },
        "tie_word_embeddings": False, "torch_dtype": "float16", "vision_feature_layer": -2,
        "vision_config": {
            "hidden_size": 1024, "image_size": 336, "intermediate_size": 4096, "model_type": "clip_vision_model",
            "num_attention_heads": 16, "num_hidden_layers": 24, "patch_size": 14, "projection_dim": 768, "vocab_size": 32_000,
        },
        "vision_feature_select_strategy": "default", "vocab_size": 32_064,
    },
    "gemma3": {  # google/gemma-3-4b-it
        "boi_token_index": 255_999, "eoi_token_index": 256_000, "image_token_index": 262_144, "mm_tokens_per_image": 256,
        "text_config": {
            "hidden_size": 2560, "intermediate_size": 10_240, "model_type": "gemma3_text", "num_hidden_layers": 34,
            "rope_scaling": {"factor": 8.0, "rope_type": "linear"}, "sliding_window": 1024,
        },
        "vision_config": {
            "hidden_size": 1152, "image_size": 896, "intermediate_size": 4304, "model_type": "siglip_vision_model",
            "num_attention_heads": 16, "num_hidden_layers": 27, "patch_size": 14, "vision_use_head": False,
        },
    },
    "qwen2_vl": {  # Qwen/Qwen2-VL-7B-Instruct
        "attention_dropout": 0.0, "bos_token_id": 151_643, "eos_token_id": 151_645, "hidden_act": "silu", "hidden_size": 3584,
        "image_token_id": 151_655, "initializer_range": 0.02, "intermediate_size": 18_944, "max_position_embeddings": 32_768,
        "max_window_layers": 28, "num_attention_heads": 28, "num_hidden_layers": 28, "num_key_value_heads": 4,
        "rms_norm_eps": 1e-6, "rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]}, "rope_theta": 1e6,
        "sliding_window": 32_768, "tie_word_embeddings": False, "torch_dtype": "bfloat16", "use_cache": True,
        "use_sliding_window": False, "video_token_id": 151_656, "vision_end_token_id": 151_653,
        "vision_start_token_id": 151_652, "vision_token_id": 151_654, "vocab_size": 152_064,
        "vision_config": {
            "depth": 32, "embed_dim": 1280, "hidden_size": 3584, "in_chans": 3, "mlp_ratio": 4, "num_heads": 16,
            "patch_size": 14, "spatial_merge_size": 2, "spatial_patch_size": 14, "temporal_patch_size": 2,
        },
    },
    "qwen2_5_vl": {  # Qwen/Qwen2.5-VL-3B-Instruct
        "attention_dropout": 0.0, "bos_token_id": 151_643, "eos_token_id": 151_645, "hidden_act": "silu", "hidden_size": 2048,
        "image_token_id": 151_655, "initializer_range": 0.02, "intermediate_size": 11_008, "max_position_embeddings": 128_000,
        "max_window_layers": 70, "num_attention_heads": 16, "num_hidden_layers": 36, "num_key_value_heads": 2,
        "rms_norm_eps": 1e-6, "rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]}, "rope_theta": 1e6,
        "sliding_window": 32_768, "tie_word_embeddings": True, "torch_dtype": "bfloat16", "use_sliding_window": False,
        "video_token_id": 151_656, "vision_end_token_id": 151_653, "vision_start_token_id": 151_652,
        "vision_token_id": 151_654, "vocab_size": 151_936,
        "vision_config": {
            "depth": 32, "fullatt_block_indexes": [7, 15, 23, 31], "hidden_act": "silu", "hidden_size": 1280, "in_chans": 3,
            "intermediate_size": 3420, "num_heads": 16, "out_hidden_size": 2048, "patch_size": 14, "spatial_merge_size": 2,
            "spatial_patch_size": 14, "temporal_patch_size": 2, "tokens_per_second": 2, "window_size": 112,
        },
    },
    "qwen3_vl": {  # Qwen/Qwen3-VL-8B-Instruct
        "image_token_id": 151_655, "tie_word_embeddings": False, "video_token_id": 151_656, "vision_end_token_id": 151_653,
        "vision_start_token_id": 151_652,
        "text_config": {
            "attention_bias": False, "attention_dropout": 0.0, "bos_token_id": 151_643, "dtype": "bfloat16",
            "eos_token_id": 151_645, "head_dim": 128, "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02,
            "intermediate_size": 12_288, "max_position_embeddings": 262_144, "model_type": "qwen3_vl_text",
            "num_attention_heads": 32, "num_hidden_layers": 36, "num_key_value_heads": 8, "rms_norm_eps": 1e-6,
            "rope_scaling": {"mrope_interleaved": True, "mrope_section": [24, 20, 20], "rope_type": "default"},
            "rope_theta": 5_000_000, "use_cache": True, "vocab_size": 151_936,
        },
        "vision_config": {
            "deepstack_visual_indexes": [8, 16, 24], "depth": 27, "hidden_act": "gelu_pytorch_tanh", "hidden_size": 1152,
            "in_channels": 3, "initializer_range": 0.02, "intermediate_size": 4304, "model_type": "qwen3_vl", "num_heads": 16,
            "num_position_embeddings": 2304, "out_hidden_size": 4096, "patch_size": 16, "spatial_merge_size": 2,
            "temporal_patch_size": 2,
        },
    },
    "mistral3": {  # mistralai/Mistral-Small-3.1-24B-Instruct-2503
        "image_token_index": 10, "multimodal_projector_bias": False, "projector_hidden_act": "gelu", "spatial_merge_size": 2,
        "tie_word_embeddings": False, "torch_dtype": "bfloat16", "vision_feature_layer": -1,
        "text_config": {
            "attention_dropout": 0.0, "head_dim": 128, "hidden_act": "silu", "hidden_size": 5120, "initializer_range": 0.02,
            "intermediate_size": 32_768, "max_position_embeddings": 131_072, "model_type": "mistral", "num_attention_heads": 32,
            "num_hidden_layers": 40, "num_key_value_heads": 8, "rms_norm_eps": 1e-5, "rope_theta": 1e9, "sliding_window": None,
            "use_cache": True, "vocab_size": 131_072,
        },
        "vision_config": {
            "attention_dropout": 0.0, "head_dim": 64, "hidden_act": "silu", "hidden_size": 1024, "image_size": 1540,
            "initializer_range": 0.02, "intermediate_size": 4096, "model_type": "pixtral", "num_attention_heads": 16,
            "num_channels": 3, "num_hidden_layers": 24, "patch_size": 14, "rope_theta": 10_000.0,
        },
    },
    "paligemma": {  # google/paligemma-3b-pt-224
        "bos_token_id": 2, "eos_token_id": 1, "hidden_size": 2048, "ignore_index": -100, "image_token_index": 257_152,
        "pad_token_id": 0, "projection_dim": 2048, "vocab_size": 257_216,
        "text_config": {
            "hidden_size": 2048, "intermediate_size": 16_384, "model_type": "gemma", "num_attention_heads": 8,
            "num_hidden_layers": 18, "num_image_tokens": 256, "num_key_value_heads": 1, "vocab_size": 257_216,
        },
        "vision_config": {
            "hidden_size": 1152, "intermediate_size": 4304, "model_type": "siglip_vision_model", "num_attention_heads": 16,
            "num_hidden_layers": 27, "num_image_tokens": 256, "patch_size": 14, "projection_dim": 2048,
            "projector_hidden_act": "gelu_fast", "vision_use_head": False,
        },
    },
    "llava_next": {  # llava-hf/llava-v1.6-mistral-7b-hf
        "ignore_index": -100, "image_grid_pinpoints": [[336, 672], [672, 336], [672, 672], [1008, 336], [336, 1008]],
        "image_token_index": 32_000, "projector_hidden_act": "gelu", "tie_word_embeddings": False,
        "text_config": {
            "intermediate_size": 14_336, "max_position_embeddings": 32_768, "model_type": "mistral",
            "num_key_value_heads": 8, "rms_norm_eps": 1e-5, "rope_theta": 1e6, "sliding_window": None, "vocab_size": 32_064,
        },
        "use_image_newline_parameter": True, "vision_feature_layer": -2, "vision_feature_select_strategy": "default",
        "vision_config": {
            "hidden_size": 1024, "image_size": 336, "intermediate_size": 4096, "model_type": "clip_vision_model",
            "num_attention_heads": 16, "num_hidden_layers": 24, "patch_size": 14, "projection_dim": 768, "vocab_size": 32_000,
        },
    },
    "llava_onevision": {  # llava-hf/llava-onevision-qwen2-7b-ov-hf
        "image_token_index": 151_646, "projector_hidden_act": "gelu", "tie_word_embeddings": False,
        "text_config": {
            "hidden_size": 3584, "intermediate_size": 18_944, "max_position_embeddings": 32_768, "max_window_layers": 28,
            "model_type": "qwen2", "num_attention_heads": 28, "num_hidden_layers": 28, "num_key_value_heads": 4,
            "rope_theta": 1e6, "vocab_size": 152_000,
        },
        "use_image_newline_parameter": True, "video_token_index": 151_647, "vision_aspect_ratio": "anyres_max_9",
        "vision_config": {
            "hidden_size": 1152, "image_size": 384, "intermediate_size": 4304, "model_type": "siglip_vision_model",
            "num_attention_heads": 16, "num_hidden_layers": 26, "patch_size": 14, "vision_use_head": False,
        },
        "vision_feature_layer": -1, "vision_feature_select_strategy": "full",
    },
    "video_llava": {  # LanguageBind/Video-LLaVA-7B-hf
        "ignore_index": -100, "image_token_index": 32_000, "projector_hidden_act": "gelu", "video_token_index": 32_001,
        "text_config": {
            "max_position_embeddings": 4096, "model_type": "llama", "rms_norm_eps": 1e-5, "torch_dtype": "float16",
            "vocab_size": 32_064,
        },
        "vision_config": {
            "hidden_size": 1024, "image_size": 224, "intermediate_size": 4096, "model_type": "clip_vision_model",
            "num_attention_heads": 16, "num_hidden_layers": 24, "patch_size": 14, "projection_dim": 768, "vocab_size": 32_000,
        },
        "vision_feature_layer": -2, "vision_feature_select_strategy": "default",
    },
    "llama4": {  # meta-llama/Llama-4-Scout-17B-16E
        "boi_token_index": 200_080, "eoi_token_index": 200_081, "image_token_index": 200_092, "tie_word_embeddings": False,
        "text_config": {
            "attention_chunk_size": 8192, "attn_scale": 0.1, "attn_temperature_tuning": True, "floor_scale": 8192,
            "head_dim": 128, "hidden_size": 5120, "interleave_moe_layer_step": 1, "intermediate_size": 8192,
            "intermediate_size_mlp": 16_384, "max_position_embeddings": 262_144, "model_type": "llama4_text",
            "num_attention_heads": 40, "num_experts_per_tok": 1, "num_hidden_layers": 48, "num_key_value_heads": 8,
            "num_local_experts": 16, "pad_token_id": 200_018, "rms_norm_eps": 1e-5, "rope_theta": 500_000.0,
            "rope_scaling": {
                "factor": 16.0, "high_freq_factor": 1.000001, "low_freq_factor": 1.0,
                "original_max_position_embeddings": 8192, "rope_type": "llama3",
            },
            "use_qk_norm": True, "vocab_size": 202_048,
        },
        "vision_config": {
            "attention_dropout": 0.0, "hidden_act": "gelu", "hidden_size": 1408, "image_size": 336, "intermediate_size": 5632,
            "model_type": "llama4_vision_model", "multi_modal_projector_bias": False, "norm_eps": 1e-5,
            "num_attention_heads": 16, "num_channels": 3, "num_hidden_layers": 34, "patch_size": 14,
            "pixel_shuffle_ratio": 0.5, "projector_dropout": 0.0, "projector_input_dim": 4096, "projector_output_dim": 4096,
            "rope_theta": 10_000, "vision_feature_select_strategy": "default", "vision_output_dim": 4096,
        },
    },
    "janus": {  # deepseek-community/Janus-Pro-7B, without its tower for images that it writes
        "image_token_id": 100_581, "tie_word_embeddings": False,
        "text_config": {
            "hidden_size": 4096, "intermediate_size": 11_008, "max_position_embeddings": 16_384, "model_type": "llama",
            "num_attention_heads": 32, "num_hidden_layers": 30, "num_key_value_heads": 32, "vocab_size": 102_400,
        },
        "vision_config": {
            "attention_bias": True, "depth": 2, "hidden_act": "gelu", "hidden_dropout_rate": 0.0, "hidden_size": 1024,
            "image_size": 384, "mlp_ratio": 4.0, "model_type": "janus_vision_model", "num_attention_heads": 16,
            "num_hidden_layers": 24, "patch_size": 16, "projection_dim": 4096, "projection_dropout": 0.0, "use_qk_norm": False,
        },
    },
    "internvl": {  # OpenGVLab/InternVL3-8B-hf
        "downsample_ratio": 0.5, "image_seq_length": 256, "image_token_id": 151_667, "projector_hidden_act": "gelu",
        "tie_word_embeddings": False, "vision_feature_layer": -1, "vision_feature_select_strategy": "default",
        "text_config": {
            "hidden_size": 3584, "intermediate_size": 18_944, "max_position_embeddings": 32_768, "max_window_layers": 70,
            "model_type": "qwen2", "num_attention_heads": 28, "num_hidden_layers": 28, "num_key_value_heads": 4,
            "rms_norm_eps": 1e-6, "rope_theta": 1e6, "vocab_size": 151_674,
        },
        "vision_config": {
            "attention_bias": True, "hidden_size": 1024, "image_size": [448, 448], "intermediate_size": 4096,
            "layer_norm_eps": 1e-6, "layer_scale_init_value": 0.1, "model_type": "internvl_vision", "norm_type": "layer_norm",
            "num_attention_heads": 16, "num_channels": 3, "num_hidden_layers": 24, "patch_size": [14, 14],
            "use_absolute_position_embeddings": True, "use_mask_token": False, "use_mean_pooling": True, "use_qk_norm": False,
        },
    },
}  # fmt: skip
IN_THE_CATALOGUE = {
    "llava": "llava-1.5-7b", "qwen2_vl": "qwen2-vl-7b", "qwen3_vl": "qwen3-vl-8b", "mistral3": "mistral-small-3.1-24b",
    "paligemma": "paligemma-3b-224", "internvl": "internvl3-8b", "video_llava": "video-llava-7b",
    "llava_next": "llava-1.6-mistral-7b", "llava_onevision": "llava-onevision-7b",
    "llama4": "llama-4-scout-images", "janus": "janus-pro-7b",
}  # fmt: skip
"""Model type -> the entry of the catalogue that its published configuration is."""
TOKENS = {
    "llava": 576, "qwen3_vl": 196, "mistral3": 3025, "llama4": 144, "janus": 576, "llava_next": 2928, "llava_onevision": 3699,
}  # fmt: skip
"""Model type -> the tokens of an image of its tower's usual size, where these are not 256."""


@pytest.mark.parametrize("name", IN_THE_CATALOGUE)
def test_entries_of_the_catalogue_are_what_is_read(name):
    config = huggingface.Config({**PUBLISHED[name], "model_type": name})
    read, entry = huggingface.read_architecture(config, images=True)[0], af.architecture(IN_THE_CATALOGUE[name])
    assert diff(canonical(read), canonical(entry)) == []


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_configurations(name):
    """The tokens of an image, and all parameters but those of LLaVA's last layer and the norm behind it."""
    config = {**PUBLISHED[name], "model_type": name}
    architecture, family = huggingface.read_architecture(huggingface.Config(config), images=True)
    assert architecture.images.tokens == TOKENS.get(name, 256)
    with torch.device("meta"):
        theirs = transformers.AutoModelForImageTextToText.from_config(transformers.AutoConfig.for_model(**config))
    read = {name_of: p.numel() for name_of, p in theirs.named_parameters() if family.text_name(name_of) is not None}
    assert af.cost(architecture).params.total == sum(read.values())
    left = {name_of for name_of, _ in theirs.named_parameters()} - read.keys()
    aside = (".23.", "post_layernorm", "video_tower.", "vqmodel.", "generation_")
    assert all(any(word in name_of for word in aside) for name_of in left)


def test_what_cannot_be_read_says_why(tmp_path):
    config = json.loads((whole("llava").directory / "config.json").read_text())

    def refused(of: dict[str, Any] = config, **changes: object) -> str:
        with pytest.raises(huggingface.HuggingFaceError) as error:
            huggingface.read_architecture(huggingface.Config({**of, **changes}), images=True)
        return str(error.value)

    assert "only clip_vision_model" in refused(vision_config={**config["vision_config"], "model_type": "sam_vision_model"})
    assert "frobnication" in refused(vision_config={**config["vision_config"], "frobnication": 1})
    assert "layer -5" in refused(vision_feature_layer=[-2, -5])
    assert "vision_feature_layer" in refused(vision_feature_layer="last")
    assert "layer -9" in refused(vision_feature_layer=-9)
    assert "vision_config = null should be a table" in refused(vision_config=None)
    assert "attention_dropout" in refused(vision_config={**config["vision_config"], "attention_dropout": 0.1})
    assert "images of fuyu are not read" in refused(model_type="fuyu")
    assert "only pixtral" in refused(model_type="mistral3")
    janus = json.loads((whole("janus").directory / "config.json").read_text())
    for key, value, message in (
        ("use_qk_norm", True, "use_qk_norm"),
        ("depth", 3, "its projector has two layers"),
        ("projection_dim", 32, "should be hidden_size = 40 of the text_config"),
        ("hidden_dropout_rate", 0.1, "towers are computed without dropout"),
        ("model_type", "clip_vision_model", "only janus_vision_model"),
    ):
        assert message in refused(janus, vision_config={**janus["vision_config"], key: value})
    for name, changes, message in (
        ("llama4", {"pixel_shuffle_ratio": 0.4}, "1 / n, of squares"),
        ("llama4", {"projector_output_dim": 32, "vision_output_dim": 32}, "which its second matrix reads"),
        ("llama4", {"intermediate_size": 48}, "128, the features of a square"),
        ("llama4", {"projector_dropout": 0.1}, "towers are computed without dropout"),
        ("llama4", {"rope_parameters": {"rope_type": "llama3", "rope_theta": 3.0}}, "rope_type 'default' and rope_theta alone"),
        ("lfm2_vl", {"num_patches": 50}, "a square, the rows and columns of a table"),
        ("lfm2_vl", {"model_type": "siglip_vision_model"}, "only siglip2_vision_model"),
        ("paddleocr_vl", {"rope_parameters": {"rope_type": "axial", "factor": 3}}, "rope_theta alone"),
        ("exaone4_5", {"window_size": 3}, "no square of patches"),
        ("qianfan_ocr", {"norm_type": "batch_norm"}, "layer_norm or rms_norm"),
        ("cosmos3_omni", {"deepstack_visual_indexes": [1, 0]}, "each once, ascending"),
    ):
        written = json.loads((whole(name).directory / "config.json").read_text())
        assert message in refused(written, vision_config={**written["vision_config"], **changes})
    tiles = json.loads((whole("llava_onevision").directory / "config.json").read_text())
    assert "anyres_max_N" in refused(tiles, vision_aspect_ratio="anyres")
    assert "multiples of the tower's 15 pixels" in refused(tiles, image_grid_pinpoints=[[30, 31]])
    assert "a list of [height, width]" in refused(tiles, image_grid_pinpoints=[[30]])
    assert "'full': rows of tiles" in refused(tiles, vision_feature_select_strategy="default")
    rounded = {**config["vision_config"], "model_type": "idefics3_vision", "image_size": 19 * 4, "patch_size": 4}
    assert "19 patches a side" in refused(
        model_type="idefics3",
        image_token_id=TOKEN,
        scale_factor=19,
        vision_config={key: value for key, value in rounded.items() if key != "projection_dim"},
    )
    with pytest.raises(huggingface.HuggingFaceError, match="no tower for images"):
        huggingface.read_architecture(huggingface.Config({**config["text_config"]}), images=True)


def test_towers_beside_weights_in_few_bits(tmp_path):
    """Text and a part of the tower in fp8: written plain, the rest of the tower as it was, for transformers to load."""
    both = whole("qwen2_vl")
    source = Path(shutil.copytree(both.directory, tmp_path / "fp8"))
    tensors, generator = {}, torch.Generator().manual_seed(4)
    for name, tensor in load_file(source / "model.safetensors").items():
        tensors[name] = tensor
        if "mlp" in name and tensor.dim() == 2 and "merger" not in name and "blocks.0" not in name:
            scale = 0.5 + torch.rand(-(-tensor.shape[0] // 16), -(-tensor.shape[1] // 16), generator=generator)
            tensors |= {name: tensor.to(torch.float8_e4m3fn), f"{name}_scale_inv": scale}
    save_file(tensors, source / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((source / "config.json").read_text())
    for at in ("whole", "text"):
        said = {"quant_method": "fp8", "weight_block_size": [16, 16], "activation_scheme": "dynamic"}
        table = {**config, "quantization_config": said}
        if at == "text":
            table = {**config, "text_config": {**config["text_config"], "quantization_config": said}}
            (source / "hf_quant_config.json").unlink()
        else:
            (source / "hf_quant_config.json").write_text("{}")
        (source / "config.json").write_text(json.dumps(table))
        ours = huggingface.load(source, dtype=torch.float32, images=True)[0].eval()
        alone = huggingface.load(source, dtype=torch.float32)[0].eval()
        tokens, shown = text(both, (1,)), pixels(both, 1)
        for number, model in enumerate((ours, alone)):
            place = tmp_path / f"{at}{number}"
            huggingface.export(model, place, towers=source)
            written = load_file(place / "model.safetensors")
            assert not any(name.endswith("_scale_inv") for name in written)
            assert torch.equal(written["visual.blocks.0.mlp.fc1.weight"], tensors["visual.blocks.0.mlp.fc1.weight"])
            assert "quantization_config" not in (place / "config.json").read_text()
            assert not (place / "hf_quant_config.json").exists()
            theirs = transformers.AutoModelForImageTextToText.from_pretrained(
                place, attn_implementation="eager", dtype=torch.float32
            )
            with torch.no_grad():
                logits = their_logits(Whole(theirs.eval(), both.ours, place), tokens, shown)
                assert gap(ours(tokens, images=shown), logits) <= (TOLERANCE if number == 0 else 2e-2)


def test_another_tower_than_that_of_the_files_is_not_written(tmp_path):
    both = whole("gemma3")
    changed = af.architecture(both.ours.architecture, changes={"images.seen": "earlier"})
    with pytest.raises(huggingface.HuggingFaceError, match="the tower for images of this model is not that of the files"):
        huggingface.export(build(changed), tmp_path / "again", towers=both.directory)


def changed(both: Whole, images: Images, by: Callable[[torch.Tensor], torch.Tensor]) -> Images:
    """Images with other numbers."""
    if tiled(both):
        return tuple(replace(image, pixels=by(image.pixels)) for image in images)
    return tuple(map(by, images)) if any_size(both) else by(images)


@towers
def test_images_that_do_not_fit_the_text_are_refused(name):
    both = whole(name)
    tokens, shown = text(both, (1,)), pixels(both, 1)
    with pytest.raises(InputError, match="tokens 59"):
        both.ours(tokens, images=pixels(both, 2))
    with pytest.raises(InputError, match="should have shape"):
        both.ours(tokens, images=changed(both, shown, lambda image: image[..., :-1]))
    with pytest.raises(InputError, match="real numbers"):
        both.ours(tokens, images=changed(both, shown, lambda image: image.long()))
    with pytest.raises(InputError, match="reads no images"):
        af.load(both.directory)[0](tokens, images=shown)


def test_every_composite_with_images_is_a_composite():
    assert VISION.keys() <= huggingface.COMPOSITES.keys()


@towers
def test_verify_compares_the_tower_too(name, monkeypatch):
    """Images of any size are small ones here: the usual side is 12,544 patches of these towers."""
    example = GridTower.example
    monkeypatch.setattr(GridTower, "example", lambda tower, *given: example(tower.but(image=8 * tower.unit), *given))
    both = whole(name)
    verdict = huggingface.verify(both.directory, images=True, length=9)
    assert verdict.agrees
    layers = [drift for drift in verdict.drifts if drift.where.startswith("images.stack layer")]
    assert len(layers) == both.tower.stack.depth
    assert all(drift.agrees for drift in verdict.drifts)
