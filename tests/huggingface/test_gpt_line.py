"""GPT's line as released: configurations with the keys their files have, names without the base, and the catalogue's rows."""

from __future__ import annotations

import json
import shutil

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

import anyformer as af
from anyformer import huggingface
from anyformer.describe import diff
from anyformer.parts import Initialisation
from covering import rest_slow
from huggingface.case import Case
from huggingface.cases import gpt2, gpt_neox, opt
from huggingface.parity import given, pair

SUMMARY = {
    "summary_activation": None, "summary_first_dropout": 0.1, "summary_proj_to_labels": True, "summary_type": "cls_index",
    "summary_use_proj": True,
}  # fmt: skip
RELEASED = {
    "gpt2": {
        "activation_function": "gelu_new", "attn_pdrop": 0.1, "embd_pdrop": 0.1, "initializer_range": 0.02,
        "layer_norm_epsilon": 1e-05, "model_type": "gpt2", "n_ctx": 1024, "n_embd": 768, "n_head": 12, "n_layer": 12,
        "n_positions": 1024, "resid_pdrop": 0.1, "vocab_size": 50257, "task_specific_params": {}, **SUMMARY,
    },
    "gpt-neo-125m": {
        "activation_function": "gelu_new", "attention_dropout": 0, "attention_layers": ["global", "local"] * 6,
        "attention_types": [[["global", "local"], 6]], "embed_dropout": 0, "hidden_size": 768, "intermediate_size": None,
        "layer_norm_epsilon": 1e-05, "max_position_embeddings": 2048, "model_type": "gpt_neo", "num_heads": 12,
        "num_layers": 12, "resid_dropout": 0, "vocab_size": 50257, "window_size": 256, **SUMMARY,
    },
    "gpt-j-6b": {
        "activation_function": "gelu_new", "attn_pdrop": 0.0, "embd_pdrop": 0.0, "layer_norm_epsilon": 1e-05,
        "model_type": "gptj", "n_embd": 4096, "n_head": 16, "n_inner": None, "n_layer": 28, "n_positions": 2048,
        "resid_pdrop": 0.0, "rotary": True, "rotary_dim": 64, "scale_attn_weights": True, "tie_word_embeddings": False,
        "vocab_size": 50400, **SUMMARY,
    },
    "pythia-70m": {
        "hidden_act": "gelu", "hidden_size": 512, "intermediate_size": 2048, "layer_norm_eps": 1e-05,
        "max_position_embeddings": 2048, "model_type": "gpt_neox", "num_attention_heads": 8, "num_hidden_layers": 6,
        "rotary_emb_base": 10000, "rotary_pct": 0.25, "tie_word_embeddings": False, "use_parallel_residual": True,
        "vocab_size": 50304,
    },
    "bloom-560m": {
        "apply_residual_connection_post_layernorm": False, "attention_dropout": 0.0, "attention_softmax_in_fp32": True,
        "bias_dropout_fusion": True, "hidden_dropout": 0.0, "layer_norm_epsilon": 1e-05, "masked_softmax_fusion": True,
        "model_type": "bloom", "n_embed": 1024, "n_inner": None, "n_layer": 24, "num_attention_heads": 16,
        "offset_alibi": 100, "pretraining_tp": 1, "seq_length": 2048, "skip_bias_add": True, "skip_bias_add_qkv": False,
        "vocab_size": 250880,
    },
    "opt-125m": {
        "_remove_final_layer_norm": False, "activation_dropout": 0.0, "activation_function": "relu", "attention_dropout": 0.0,
        "do_layer_norm_before": True, "dropout": 0.1, "ffn_dim": 3072, "hidden_size": 768, "init_std": 0.02, "layerdrop": 0.0,
        "max_position_embeddings": 2048, "model_type": "opt", "num_attention_heads": 12, "num_hidden_layers": 12,
        "prefix": "</s>", "vocab_size": 50272, "word_embed_proj_dim": 768,
    },
    "mpt-7b": {
        "attn_config": {
            "alibi": True, "alibi_bias_max": 8, "attn_impl": "torch", "attn_pdrop": 0, "attn_type": "multihead_attention",
            "attn_uses_sequence_id": False, "clip_qkv": None, "prefix_lm": False, "qk_ln": False, "softmax_scale": None,
        },
        "d_model": 4096, "emb_pdrop": 0, "embedding_fraction": 1.0, "expansion_ratio": 4, "init_device": "cpu",
        "init_config": {"name": "kaiming_normal_"}, "learned_pos_emb": True, "logit_scale": None, "max_seq_len": 2048,
        "model_type": "mpt", "n_heads": 32, "n_layers": 32, "no_bias": True, "norm_type": "low_precision_layernorm",
        "resid_pdrop": 0, "tokenizer_name": "EleutherAI/gpt-neox-20b", "verbose": 0, "vocab_size": 50432,
    },
    "falcon-7b": {
        "alibi": False, "apply_residual_connection_post_layernorm": False, "attention_dropout": 0.0, "bias": False,
        "hidden_dropout": 0.0, "hidden_size": 4544, "layer_norm_epsilon": 1e-05, "model_type": "falcon", "multi_query": True,
        "new_decoder_architecture": False, "num_attention_heads": 71, "num_hidden_layers": 32, "parallel_attn": True,
        "vocab_size": 65024,
    },
    "starcoder": {
        "activation_function": "gelu_pytorch_tanh", "attention_softmax_in_fp32": True, "attn_pdrop": 0.1, "embd_pdrop": 0.1,
        "inference_runner": 0, "layer_norm_epsilon": 1e-05, "max_batch_size": None, "max_sequence_length": None,
        "model_type": "gpt_bigcode", "multi_query": True, "n_embd": 6144, "n_head": 48, "n_inner": 24576, "n_layer": 40,
        "n_positions": 8192, "pad_key_length": True, "pre_allocate_kv_cache": False, "resid_pdrop": 0.1,
        "scale_attention_softmax_in_fp32": True, "scale_attn_weights": True, "validate_runner_input": True,
        "vocab_size": 49152, **SUMMARY,
    },
}  # fmt: skip
"""Keys of released files, without names, ids of special tokens and versions."""
TYPES = {
    "gpt-1": "openai-gpt", "gpt2": "gpt2", "gpt2-xl": "gpt2", "gpt-neo-125m": "gpt_neo", "gpt-j-6b": "gptj",
    "gpt-neox-20b": "gpt_neox", "pythia-70m": "gpt_neox", "opt-125m": "opt", "opt-66b": "opt", "bloom-560m": "bloom",
    "bloom-176b": "bloom", "santacoder": "gpt_bigcode", "starcoder": "gpt_bigcode", "falcon-7b": "falcon",
    "falcon-40b": "falcon", "falcon-180b": "falcon", "falcon2-11b": "falcon", "mpt-7b": "mpt", "mpt-30b": "mpt",
}  # fmt: skip
"""The catalogue's row -> the model type that an export of it gets."""
FIRST = {of: (name, of) for name, of in reversed(TYPES.items())}
"""One row of each model type."""
WHOLE = (
    "bert-generation", "biogpt", "bloom", "codegen", "ctrl", "falcon", "flaubert", "gpt2", "gpt_bigcode", "gpt_neo",
    "gpt_neox", "gpt_neox_japanese", "gptj", "imagegpt", "mpt", "openai-gpt", "opt", "xglm", "xlm", "xlnet",
)  # fmt: skip
"""Families of this line: no key of theirs must be there."""


@pytest.mark.parametrize("name", RELEASED)
def test_a_released_configuration_is_the_row_of_the_catalogue(name):
    read, _ = huggingface.read_architecture(huggingface.Config(RELEASED[name]))
    differences = diff(af.architecture(name), read)
    assert [path for path, *_ in differences if not path.endswith("dropout") and not path.startswith("initialisation")] == []


@pytest.mark.parametrize("model_type", WHOLE)
def test_a_key_that_is_absent_has_the_default_of_the_configuration_class(model_type):
    full = json.loads(transformers.AutoConfig.for_model(model_type).to_json_string(use_diff=False))
    read = huggingface.family(model_type).read
    assert read(huggingface.Config({"model_type": model_type})) == read(huggingface.Config(full))


@pytest.mark.parametrize(("name", "model_type"), rest_slow(TYPES.items(), FIRST.values()))
def test_a_row_of_the_catalogue_is_expressed_by_its_own_family(name, model_type):
    architecture = af.architecture(name)
    _, config = huggingface.find_family(architecture, model_type)
    again, _ = huggingface.read_architecture(huggingface.Config(config))
    assert again.but(initialisation=Initialisation()) == architecture.but(initialisation=Initialisation())


@pytest.mark.slow
@pytest.mark.parametrize(("name", "model_type"), TYPES.items())
def test_no_family_before_it_expresses_a_row_of_the_catalogue(name, model_type):
    """All those before are tried, a second for some."""
    assert huggingface.find_family(af.architecture(name))[0].model_type == model_type


@pytest.mark.parametrize(
    "case",
    [
        Case("gpt2", {"vocab_size": 53, **gpt2.BASE}),
        Case("gpt_neox", {"vocab_size": 53, **gpt_neox.BASE}),
        Case("opt", {"vocab_size": 53, **opt.BASE}),
    ],
    ids=str,
)
def test_names_may_lack_the_base(case, tmp_path):
    """As the files of gpt2, bloom and the first opt have it."""
    directory, base = tmp_path / "bare", huggingface.family(case.model_type).base
    shutil.copytree(pair(case).directory, directory)
    tensors = load_file(directory / "model.safetensors")
    bare = {name.removeprefix(base): tensor for name, tensor in tensors.items()}
    assert bare.keys() != tensors.keys()
    save_file(bare, directory / "model.safetensors")
    x = given(case)
    assert torch.equal(af.load(directory)[0](x), pair(case).ours(x))
    save_file(bare | {"h.0.attn.stranger": torch.ones(2)}, directory / "model.safetensors")
    with pytest.raises(huggingface.HuggingFaceError, match="stranger"):
        af.load(directory)


def test_two_spellings_that_disagree_are_refused():
    with pytest.raises(huggingface.HuggingFaceError, match="hidden_size and n_embed"):
        huggingface.read_architecture(huggingface.Config(RELEASED["bloom-560m"] | {"hidden_size": 512}))
    huggingface.read_architecture(huggingface.Config(RELEASED["bloom-560m"] | {"hidden_size": 1024}))


def test_layers_of_gpt_neo_must_fill_the_depth():
    config = json.loads(json.dumps(RELEASED["gpt-neo-125m"])) | {"num_layers": 11}
    with pytest.raises(huggingface.HuggingFaceError, match="num_layers = 11"):
        huggingface.read_architecture(huggingface.Config(config))
