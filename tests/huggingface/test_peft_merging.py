"""Adapters of PEFT on whatever it adapts, against the real package: the logits of both are the same."""

from __future__ import annotations

import json

import peft
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

import anyformer as af
from anyformer import huggingface
from anyformer.huggingface.peft_config import ALPHA

TOKENS = torch.tensor([[3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5]])
USUAL = {
    "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 99,
    "num_key_value_heads": 2, "pad_token_id": 0, "attention_bias": True,
}  # fmt: skip
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 8, "decoder_sparse_step": 1}
GPT = {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 99, "bos_token_id": 0, "eos_token_id": 0}
OSS = {
    "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "head_dim": 8, "vocab_size": 99, "num_local_experts": 4, "num_experts_per_tok": 2, "pad_token_id": 0, "sliding_window": 5,
}  # fmt: skip
BASES = {
    "llama": ("llama", USUAL),
    "tied": ("llama", {**USUAL, "tie_word_embeddings": True}),
    "without biases": ("llama", {**USUAL, "attention_bias": False}),
    "gpt2": ("gpt2", GPT),
    "experts": ("qwen3_moe", USUAL | EXPERTS),
    "turned experts": ("gpt_oss", OSS),
}
BOTH = ["mlp.experts.gate_up_proj", "mlp.experts.down_proj"]
CASES = {
    "table": ("llama", {"target_modules": ["embed_tokens", "q_proj"]}),
    "table that was tied": ("tied", {"target_modules": ["embed_tokens", "q_proj"]}),
    "head that was tied": ("tied", {"target_modules": ["lm_head", "q_proj"]}),
    "dora of a table": ("llama", {"target_modules": ["embed_tokens", "o_proj"], "use_dora": True}),
    "head": ("llama", {"target_modules": ["lm_head"], "use_rslora": True}),
    "whole modules": ("llama", {"target_modules": ["q_proj"], "modules_to_save": ["lm_head", "embed_tokens"]}),
    "whole head that was tied": ("tied", {"target_modules": ["q_proj"], "modules_to_save": ["lm_head"]}),
    "rows": ("llama", {"target_modules": ["q_proj"], "trainable_token_indices": [1, 5]}),
    "rows of tied tables": ("tied", {"target_modules": ["q_proj"], "trainable_token_indices": {"embed_tokens": [5, 9]}}),
    "all biases": ("llama", {"target_modules": ["q_proj"], "bias": "all"}),
    "biases of what is adapted": ("llama", {"target_modules": ["q_proj"], "bias": "lora_only"}),
    "bias of B": ("llama", {"target_modules": ["q_proj"], "lora_bias": True}),
    "some layers": ("llama", {"target_modules": ["q_proj", "down_proj"], "layers_to_transform": [1]}),
    "ranks of their own": (
        "llama",
        {"target_modules": ["q_proj", "v_proj"], "rank_pattern": {"v_proj": 5}, "alpha_pattern": {"q_proj": 3}},
    ),
    "transposed": ("gpt2", {"target_modules": ["c_attn", "c_proj", "wte"], "fan_in_fan_out": True}),
    "experts": ("experts", {"target_modules": ["q_proj"], "target_parameters": BOTH}),
    "turned experts": ("turned experts", {"target_modules": ["q_proj"], "target_parameters": BOTH}),
}


def base_of(name: str, directory) -> None:
    model_type, config = BASES[name]
    torch.manual_seed(0)
    made = transformers.AutoConfig.for_model(model_type, **config)
    transformers.AutoModelForCausalLM.from_config(made).save_pretrained(directory)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.filterwarnings("ignore")
def test_merged_it_gives_the_logits_of_peft(case, tmp_path):
    name, options = CASES[case]
    base_of(name, tmp_path / "base")
    bare = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "base", attn_implementation="eager").eval()
    before = bare(TOKENS).logits
    model = peft.get_peft_model(bare, peft.LoraConfig(r=4, lora_alpha=6, task_type="CAUSAL_LM", **options)).eval()
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.add_(0.1 * torch.randn(parameter.shape))
    model.save_pretrained(tmp_path / "adapter")
    expected = model(TOKENS).logits
    assert not torch.allclose(before, expected, atol=1e-3)
    ours, _ = af.load(tmp_path / "base", adapter=tmp_path / "adapter")
    torch.testing.assert_close(ours(TOKENS), expected, atol=2e-5, rtol=2e-5)


@pytest.mark.filterwarnings("ignore")
def test_what_has_no_place_is_named(tmp_path):
    base_of("llama", tmp_path / "base")
    model, _ = af.load(tmp_path / "base")
    bare = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "base")
    peft.get_peft_model(bare, peft.LoraConfig(r=2, target_modules=["q_proj"])).save_pretrained(tmp_path / "adapter")
    weights = tmp_path / "adapter" / "adapter_model.safetensors"
    tensors = load_file(weights)
    family, parameters = huggingface.family("llama"), dict(model.named_parameters())
    for name, message in (
        ("base_model.model.score.weight", r"the adapter of score has no place in this architecture \\(llama\\)"),
        ("base_model.model.model.layers.0.self_attn.q_proj.strange", "q_proj.strange is no parameter of an adapter"),
    ):
        save_file({**tensors, name: torch.ones(2, 32)}, weights)
        with pytest.raises(huggingface.HuggingFaceError, match=message.replace("\\\\", "\\")):
            huggingface.merge_adapter(tmp_path / "adapter", model.architecture, family, parameters)


LAYER = "base_model.model.model.layers.{}.self_attn.q_proj."


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A llama without biases, and the tensors and the configuration of an adapter of its queries."""
    place = tmp_path_factory.mktemp("small")
    base_of("without biases", place / "base")
    model, _ = af.load(place / "base")
    width = model.architecture.width
    halves = {"lora_A.weight": (2, width), "lora_B.weight": (width, 2)}
    tensors = {LAYER.format(i) + ending: torch.ones(shape) for i in (0, 1) for ending, shape in halves.items()}
    config = {"peft_type": "LORA", "r": 2, "lora_alpha": 4, "target_modules": ["q_proj"], "bias": "none"}
    return model, tensors, config


def merged(small, place, tensors, **more):
    model, _, config = small
    (place / "adapter_config.json").write_text(json.dumps(config | more))
    save_file(tensors, place / "adapter_model.safetensors")
    return huggingface.merge_adapter(place, model.architecture, huggingface.family("llama"), dict(model.named_parameters()))


def test_an_adapter_of_the_right_names_is_merged(small, tmp_path):
    merged(small, tmp_path, small[1])
    first = {name: x for name, x in small[1].items() if ".0." in name}
    merged(small, tmp_path, first, layers_to_transform=[0])


@pytest.mark.parametrize(
    ("gone", "put", "said"),
    [
        ("1.self_attn.q_proj.lora_A", {}, "layers.1.self_attn.q_proj lacks lora_A or lora_B"),
        ("1.self_attn.q_proj.lora", {}, r"names model.layers.1.self_attn.q_proj in target_modules, and .* no adapter of it"),
        ("lora", {"bias": (32,)}, "the adapter of model.layers.0.self_attn.q_proj has no place"),
        ("lora", {"lora_magnitude_vector": (32,)}, "layers.0.self_attn.q_proj lacks lora_A or lora_B"),
        ("-", {"lora_B.bias": (32,)}, "lora_B.bias of model.layers.0.self_attn.q_proj has no place"),
        ("-", {"lora_A.weight": (2, 3)}, r"does not fit model.layers.0.self_attn.q_proj.weight of shape"),
        ("-", {"lora_A.weight": (2, 1)}, r"does not fit model.layers.0.self_attn.q_proj.weight of shape"),
        ("-", {"lora_magnitude_vector": (1,)}, r"does not fit model.layers.0.self_attn.q_proj.weight of shape"),
        ("-", {"lora_embedding_A": (2, 32)}, "layers.0.self_attn.q_proj lacks lora_A or lora_B"),
        ("-", {"lora_A.weight": None}, r"q_proj.lora_A.weight: not finite, .* the first nan"),
        ("-", {"lora_A.weight": ()}, r"q_proj.lora_A.weight has the shape \(\), and no adapter has"),
        ("-", {"lora_A.weight": (0, 32)}, r"q_proj.lora_A.weight has the shape \(0, 32\), and no adapter has"),
    ],
)
def test_no_tensor_of_an_adapter_is_ignored_and_none_may_be_missing(small, tmp_path, gone, put, said):
    """Most of these left the model as it was without a word."""
    tensors = {name: x for name, x in small[1].items() if gone not in name}
    for ending, shape in put.items():
        tensors[LAYER.format(0) + ending] = torch.full((2, 32), torch.nan) if shape is None else torch.ones(shape)
    with pytest.raises(huggingface.HuggingFaceError, match=said):
        merged(small, tmp_path, tensors)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"lora_alpha": "4"}, "lora_alpha is '4', and must be a finite number other than 0"),
        ({"lora_alpha": [4]}, "lora_alpha is .4., and must be a finite number"),
        ({"lora_alpha": 0}, "lora_alpha is 0, and must be a finite number other than 0"),
        ({"lora_alpha": 10**400}, "lora_alpha is 1000.*, and must be a finite number other than 0"),
        ({"alpha_pattern": [4]}, "alpha_pattern is .4., and must be a table"),
        ({"alpha_pattern": {"q_proj": None}}, "alpha_pattern is .*None.*, and must be a table"),
        ({"alpha_pattern": {"(": 4}}, r"adapter_config.json: alpha_pattern: '.*\(.*' is no pattern"),
        (
            {"alpha_pattern": {"(.|[a-z._0-9])*[^a-z0-9._]": 4}},
            r"alpha_pattern: .* takes over 1 s on .model.layers.0.self_attn.q_proj.",
        ),
        ({"use_rslora": "yes"}, "use_rslora is 'yes', and must be true or false"),
        ({"trainable_token_indices": [1.5]}, "trainable_token_indices is .1.5., and must be a list of rows"),
        ({"trainable_token_indices": {"embed_tokens": 3}}, "trainable_token_indices is .*, and must be a list of rows"),
    ],
)
def test_a_setting_of_another_kind_is_refused(small, tmp_path, settings, said):
    """A table in the place of a number was a TypeError, and a slow pattern had no end."""
    with pytest.raises(huggingface.HuggingFaceError, match=said):
        merged(small, tmp_path, small[1], **settings)


def test_without_alpha_it_is_that_of_peft(small, tmp_path):
    assert peft.LoraConfig().lora_alpha == ALPHA
    _, tensors, _ = small
    _, usual = merged(small, tmp_path, tensors, lora_alpha=ALPHA)
    _, without = merged(small, tmp_path, tensors, lora_alpha=None)
    assert all(torch.equal(usual[name], without[name]) for name in usual)


def test_shapes_of_an_adapter_beside_a_model_are_refused(small, tmp_path):
    model, tensors, _ = small
    merged(small, tmp_path, {**tensors, LAYER.format(0) + "lora_A.weight": torch.ones(3, 32)[:2]})
    for shape in ((3, 32), (32,)):
        save_file({**tensors, LAYER.format(0) + "lora_A.weight": torch.ones(shape)}, tmp_path / "adapter_model.safetensors")
        with pytest.raises(huggingface.HuggingFaceError, match=r"q_proj has lora_A \(.*\) and lora_B \(32, 2\), and must have"):
            huggingface.read_adapter(tmp_path, model.architecture, huggingface.family("llama"))
