"""Vision-language entries against the published implementations: the same weights give the same logits."""

from __future__ import annotations

import re

import pytest
import torch
from transformers import BlipConfig, BlipForConditionalGeneration, MllamaForCausalLM
from transformers.models.mllama.configuration_mllama import MllamaTextConfig

import anyformer as af
from anyformer.catalogue import architecture
from anyformer.catalogue.vision_language import blip, llama_vision
from anyformer.model.transformer import build
from anyformer.operations import Shape

HEADS, VOCAB, WIDTH, FEATURES = 4, 31, 32, 20
KIND = "(weight|bias)"
ROTARY = {
    "rope_type": "llama3", "rope_theta": 500_000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}  # fmt: skip


def loud(module):
    generator = torch.Generator().manual_seed(0)
    for weight in module.parameters():
        torch.nn.init.normal_(weight, std=0.3, generator=generator)
    return module.eval()


def parts_of(theirs):
    """Their weights by name, with one name for each third of a projection of queries, keys and values together."""
    for name, weight in theirs.named_parameters():
        if ".qkv." in name:
            yield from (
                (name.replace("qkv", kind), w) for kind, w in zip(("query", "key", "value"), weight.chunk(3), strict=True)
            )
        else:
            yield name, weight


def loaded(made, theirs, names, **others):
    """Our model with their weights. `names`: patterns of ours, with the name of theirs; `others`: weights of ours alone."""
    ours, given, weights, used = build(made), dict(parts_of(theirs)), dict(others), set()
    for path, parameter in ours.named_parameters():
        if path not in weights:
            name = next(re.sub(pattern, name, path) for pattern, name in names.items() if re.fullmatch(pattern, path))
            weights[path] = given[name].view(parameter.shape)
            used.add(name)
    assert used == set(given), f"a weight that nothing of ours is: {set(given) - used}"
    ours.load_state_dict(weights)
    return ours.eval()


def test_a_caption_is_the_published_one():
    sizes = {"hidden_size": WIDTH, "num_attention_heads": HEADS, "intermediate_size": 4 * WIDTH, "num_hidden_layers": 2}
    tokens = {"vocab_size": VOCAB, "encoder_hidden_size": WIDTH, "bos_token_id": 1, "pad_token_id": 0, "sep_token_id": 2}
    config = BlipConfig(vision_config=sizes | {"image_size": 8, "patch_size": 4}, text_config=sizes | tokens)
    theirs = loud(BlipForConditionalGeneration(config))
    layer, bert = r"encoder\.layers\.(\d+)\.", r"decoder\.layers\.(\d+)\."
    see, read = r"vision_model.encoder.layers.\1.", r"text_decoder.bert.encoder.layer.\1."
    names = {
        r"embedding\.class_tokens": "vision_model.embeddings.class_embedding",
        rf"embedding\.projection\.{KIND}": r"vision_model.embeddings.patch_embedding.\1",
        r"encoder\.position\.weight": "vision_model.embeddings.position_embedding",
        rf"{layer}attention\.norm_before\.{KIND}": rf"{see}layer_norm1.\2",
        rf"{layer}attention\.sublayer\.output\.{KIND}": rf"{see}self_attn.projection.\2",
        rf"{layer}attention\.sublayer\.(query|key|value)\.{KIND}": rf"{see}self_attn.\2.\3",
        rf"{layer}feedforward\.norm_before\.{KIND}": rf"{see}layer_norm2.\2",
        rf"{layer}feedforward\.sublayer\.up\.{KIND}": rf"{see}mlp.fc1.\2",
        rf"{layer}feedforward\.sublayer\.down\.{KIND}": rf"{see}mlp.fc2.\2",
        rf"encoder\.final_norm\.{KIND}": r"vision_model.post_layernorm.\1",
        r"decoder_embedding\.weight": "text_decoder.bert.embeddings.word_embeddings.weight",
        r"decoder\.position\.weight": "text_decoder.bert.embeddings.position_embeddings.weight",
        rf"decoder\.input_norm\.{KIND}": r"text_decoder.bert.embeddings.LayerNorm.\1",
        rf"{bert}attention\.sublayer\.(query|key|value)\.{KIND}": rf"{read}attention.self.\2.\3",
        rf"{bert}attention\.sublayer\.output\.{KIND}": rf"{read}attention.output.dense.\2",
        rf"{bert}step_0_norm_after\.{KIND}": rf"{read}attention.output.LayerNorm.\2",
        rf"{bert}cross_attention\.sublayer\.(query|key|value)\.{KIND}": rf"{read}crossattention.self.\2.\3",
        rf"{bert}cross_attention\.sublayer\.output\.{KIND}": rf"{read}crossattention.output.dense.\2",
        rf"{bert}step_1_norm_after\.{KIND}": rf"{read}crossattention.output.LayerNorm.\2",
        rf"{bert}feedforward\.sublayer\.up\.{KIND}": rf"{read}intermediate.dense.\2",
        rf"{bert}feedforward\.sublayer\.down\.{KIND}": rf"{read}output.dense.\2",
        rf"{bert}step_2_norm_after\.{KIND}": rf"{read}output.LayerNorm.\2",
        rf"head\.transform\.dense\.{KIND}": r"text_decoder.cls.predictions.transform.dense.\1",
        rf"head\.transform\.norm\.{KIND}": r"text_decoder.cls.predictions.transform.LayerNorm.\1",
        r"head\.bias": "text_decoder.cls.predictions.bias",
    }
    made = blip(width=WIDTH, depth=2, heads=HEADS, image=8, patch=4, vocab=VOCAB)
    ours = loaded(made, theirs, names)
    image, tokens = torch.randn(2, 3, 8, 8), torch.tensor([[1, 5, 9, 4], [1, 7, 7, 30]])
    logits = theirs(pixel_values=image, input_ids=tokens).logits
    torch.testing.assert_close(ours(image, tokens), logits, rtol=1e-4, atol=1e-4)


def test_text_reads_the_image_as_published():
    """Of five layers the fourth; both gates are moved from 0, where the image would change nothing."""
    config = MllamaTextConfig(
        hidden_size=WIDTH, num_attention_heads=HEADS, num_key_value_heads=2, intermediate_size=48, num_hidden_layers=5,
        cross_attention_layers=[3], vocab_size=VOCAB, pad_token_id=0, bos_token_id=1, eos_token_id=2, rope_parameters=ROTARY,
        attn_implementation="eager",  # without a mask, sdpa takes reading the image for causal attention
    )  # fmt: skip
    theirs = loud(MllamaForCausalLM(config))
    layer, their = r"decoder\.layers\.(\d+)\.", r"model.layers.\1."
    letters = {"query": "q", "key": "k", "value": "v", "output": "o"}
    names = {
        r"decoder_embedding\.weight": "model.embed_tokens.weight",
        r"decoder\.final_norm\.weight": "model.norm.weight",
        r"head\.weight": "lm_head.weight",
        rf"{layer}(?:attention|cross_attention)\.norm_before\.weight": rf"{their}input_layernorm.weight",
        rf"{layer}feedforward\.norm_before\.weight": rf"{their}post_attention_layernorm.weight",
        rf"{layer}feedforward\.sublayer\.(gate|up|down)\.weight": rf"{their}mlp.\2_proj.weight",
        rf"{layer}cross_attention\.gain": rf"{their}cross_attn_attn_gate",
        rf"{layer}feedforward\.gain": rf"{their}cross_attn_mlp_gate",
        **{
            rf"{layer}{own}\.sublayer\.{name}\.weight": rf"{their}{other}.{letter}_proj.weight"
            for own, other in (("attention", "self_attn"), ("cross_attention", "cross_attn"))
            for name, letter in letters.items()
        },
        rf"{layer}cross_attention\.sublayer\.query_norm\.weight": rf"{their}cross_attn.q_norm.weight",
        rf"{layer}cross_attention\.sublayer\.key_norm\.weight": rf"{their}cross_attn.k_norm.weight",
    }
    made = llama_vision(width=WIDTH, depth=5, heads=HEADS, kv_heads=2, ffn=48, features=FEATURES, vocab=VOCAB)
    projector = {"embedding.projection.weight": torch.randn(WIDTH, FEATURES), "embedding.projection.bias": torch.randn(WIDTH)}
    ours = loaded(made, theirs, names, **projector)
    image, tokens = torch.randn(2, 7, FEATURES), torch.randint(0, VOCAB, (2, 9), generator=torch.Generator().manual_seed(1))
    seen = torch.nn.functional.linear(image, *projector.values())
    logits = ours(image, tokens)
    torch.testing.assert_close(logits, theirs(input_ids=tokens, cross_attention_states=seen).logits, rtol=1e-3, atol=1e-3)
    assert (ours(image + 1, tokens) - logits).abs().max() > 0.1, "another image"


def test_before_training_the_text_model_is_as_it_was():
    made = llama_vision(width=WIDTH, depth=5, heads=HEADS, kv_heads=2, ffn=48, features=FEATURES, vocab=VOCAB)
    model, tokens = build(made).eval(), torch.arange(8)[None]
    one, other = (model(torch.randn(1, 6, FEATURES, generator=torch.Generator().manual_seed(seed)), tokens) for seed in (0, 1))
    assert torch.equal(one, other)


@pytest.mark.parametrize("name", ["blip-caption-base", "llama-3.2-11b-vision", "llama-3.2-90b-vision"])
def test_an_image_is_priced(name):
    """The image is read once; a token of the answer keeps its own keys alone."""
    made = architecture(name)
    sheet = af.cost(made, length=32, source_length=577)
    assert sheet.flops.forward.exact > af.cost(made, length=32, source_length=257).flops.forward.exact
    assert sheet.of("decode").state_bytes_per_token > 0
    first, later = (sum(f.exact for f in made.cost(Shape(source=577, past=past)).flops.values()) for past in (0, 32))
    assert first > later


def test_the_image_layers_stand_where_they_are_published():
    for name, depth in (("llama-3.2-11b-vision", 40), ("llama-3.2-90b-vision", 100)):
        layers = architecture(name).decoder.layers
        assert [i for i, variant in enumerate(layers) if variant == "image"] == list(range(3, depth, 5))
