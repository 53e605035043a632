"""Names and keys of files that bring code of their own, held against the model of transformers that computes the same."""

from __future__ import annotations

import json
import math

import pytest
import torch
import transformers
from safetensors.torch import save_file

from anyformer import huggingface
from anyformer.describe import Notice
from anyformer.parts import LengthTemperature

V, D, L, H, K, F = 53, 32, 2, 4, 2, 40
SIZES = {"vocab_size": V, "hidden_size": D, "num_hidden_layers": L, "num_attention_heads": H, "intermediate_size": F}
TWIN = {**SIZES, "num_key_value_heads": K, "max_position_embeddings": 64, "rms_norm_eps": 1e-3, "rope_theta": 300.0}
LLAMA = {"num_key_value_heads": K, "max_position_embeddings": 64, "rms_norm_eps": 1e-3, "rope_theta": 300.0, **SIZES}
TOKENS = torch.randint(5, V, (2, 13), generator=torch.Generator().manual_seed(0))


def twin_of(model_type: str, **config: object) -> torch.nn.Module:
    """A tiny random model of transformers, loud enough that every part leaves a trace."""
    torch.manual_seed(0)
    made = transformers.AutoConfig.for_model(model_type, **config)
    model = transformers.AutoModelForCausalLM.from_config(made, attn_implementation="eager").eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            weight.normal_(1.0 if "norm" in name else 0.0, 0.2)
        for name, buffer in model.named_buffers():
            if name.endswith("correction_bias"):
                buffer.normal_(0.0, 0.2)
    return model


def weights_of(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in model.state_dict().items() if "inv_freq" not in name}


def renamed(weights: dict[str, torch.Tensor], *pairs: tuple[str, str]) -> dict[str, torch.Tensor]:
    found = {}
    for name, value in weights.items():
        for old, new in pairs:
            name = name.replace(old, new)
        found[name] = value
    return found


def written(directory, config: dict, weights: dict[str, torch.Tensor]):
    save_file({name: value.contiguous() for name, value in weights.items()}, directory / "model.safetensors", {"format": "pt"})
    (directory / "config.json").write_text(json.dumps(config))
    return directory


def assert_equal(directory, theirs: torch.Tensor) -> None:
    model, _ = huggingface.load(directory)
    with torch.no_grad():
        ours = model(TOKENS)
    assert (ours - theirs).abs().max() <= 5e-6 * theirs.abs().max()
    config = json.loads((directory / "config.json").read_text())
    with pytest.raises(huggingface.HuggingFaceError, match="frobnication_factor"):
        huggingface.read_architecture(huggingface.Config({**config, "frobnication_factor": 3}))


def logits(model: torch.nn.Module, **more) -> torch.Tensor:
    with torch.no_grad():
        return model(TOKENS, **more).logits


def fused(weights: dict[str, torch.Tensor], old: str, new: str, order=("q", "k", "v")) -> None:
    """Projections of every layer, `old` with their letter for `*`, joined row by row."""
    for layer in range(L):
        for leaf in ("weight", "bias"):
            names = [f"model.layers.{layer}.{old.replace('*', side)}.{leaf}" for side in order]
            if names[0] in weights:
                weights[f"model.layers.{layer}.{new}.{leaf}"] = torch.cat([weights.pop(name) for name in names])


GPT = (("model.embed_tokens", "transformer.wte"), ("model.norm", "transformer.ln_f"), ("model.layers", "transformer.h"),
       ("input_layernorm", "ln_1"), ("post_attention_layernorm", "ln_2"))  # fmt: skip


def test_exaone(tmp_path):
    twin = twin_of("llama", **TWIN)
    weights = renamed(
        weights_of(twin), *GPT, ("self_attn.o_proj", "attn.attention.out_proj"), ("self_attn.", "attn.attention."),
        ("mlp.gate_proj", "mlp.c_fc_0"), ("mlp.up_proj", "mlp.c_fc_1"), ("mlp.down_proj", "mlp.c_proj"),
    )  # fmt: skip
    config = {**SIZES, "model_type": "exaone", "num_layers": L, "num_key_value_heads": K, "activation_function": "silu",
              "layer_norm_epsilon": 1e-3, "rope_theta": 300.0, "max_position_embeddings": 64,
              "tie_word_embeddings": False}  # fmt: skip
    del config["num_hidden_layers"]
    assert_equal(written(tmp_path, config, weights), logits(twin))


def test_qwen_1(tmp_path):
    twin = twin_of("qwen2", **{**TWIN, "num_key_value_heads": H, "tie_word_embeddings": False})
    weights = weights_of(twin)
    fused(weights, "self_attn.*_proj", "attn.c_attn")
    weights = renamed(weights, *GPT, ("self_attn.o_proj", "attn.c_proj"), ("mlp.gate_proj", "mlp.w2"),
                      ("mlp.up_proj", "mlp.w1"), ("mlp.down_proj", "mlp.c_proj"))  # fmt: skip
    config = {**SIZES, "model_type": "qwen", "intermediate_size": 2 * F, "layer_norm_epsilon": 1e-3, "rotary_emb_base": 300.0,
              "kv_channels": D // H, "seq_length": 20, "use_dynamic_ntk": True, "use_logn_attn": True, "no_bias": True,
              "bf16": True, "max_position_embeddings": 64}  # fmt: skip
    with pytest.warns(Notice, match="seq_length = 20"):
        assert_equal(written(tmp_path, config, weights), logits(twin))
    architecture, _ = huggingface.read_architecture(huggingface.Config({**config, "use_dynamic_ntk": False}))
    heads = architecture.output_stack.variants["layer"].branches["attention"].sublayer
    assert heads.place["temperature"] == LengthTemperature(trained=20)


def test_minicpm(tmp_path):
    scales = {"embedding_multiplier": 12.0, "residual_multiplier": 1.4 / math.sqrt(L), "logits_scaling": D / 16}
    twin = twin_of("granite", **TWIN, **scales, attention_multiplier=(D // H) ** -0.5, tie_word_embeddings=False)
    config = {**LLAMA, "model_type": "minicpm", "scale_emb": 12, "scale_depth": 1.4, "dim_model_base": 16}
    assert_equal(written(tmp_path, config, weights_of(twin)), logits(twin))


def test_internlm_1(tmp_path):
    twin = twin_of("llama", **{**TWIN, "num_key_value_heads": H, "attention_bias": True, "rope_theta": 10_000.0})
    config = {**SIZES, "model_type": "internlm", "bias": True, "rotary": {"base": 10000, "type": "dynamic"},
              "max_position_embeddings": 64, "rms_norm_eps": 1e-3}  # fmt: skip
    assert_equal(written(tmp_path, config, weights_of(twin)), logits(twin))


def test_internlm_2(tmp_path):
    """Each group of heads holds its queries, then its key and its value."""
    twin = twin_of("llama", **TWIN)
    weights, E = weights_of(twin), D // H
    for layer in range(L):
        q, k, v = (weights.pop(f"model.layers.{layer}.self_attn.{side}_proj.weight") for side in "qkv")
        groups = [torch.cat([q.view(K, H // K * E, D)[g], k.view(K, E, D)[g], v.view(K, E, D)[g]]) for g in range(K)]
        weights[f"model.layers.{layer}.attention.wqkv.weight"] = torch.cat(groups)
    weights = renamed(
        weights, ("self_attn.o_proj", "attention.wo"), ("mlp.gate_proj", "feed_forward.w1"), ("mlp.up_proj", "feed_forward.w3"),
        ("mlp.down_proj", "feed_forward.w2"), ("input_layernorm", "attention_norm"), ("post_attention_layernorm", "ffn_norm"),
        ("model.embed_tokens", "model.tok_embeddings"), ("lm_head", "output"),
    )  # fmt: skip
    scaling = {"type": "dynamic", "factor": 2.0}
    config = {**LLAMA, "model_type": "internlm2", "bias": False, "rope_scaling": scaling, "attn_implementation": "eager"}
    assert_equal(written(tmp_path, config, weights), logits(twin))


@pytest.mark.parametrize("second", [False, True])
def test_baichuan_7b(second, tmp_path):
    """Baichuan 2, known by the size of its vocabulary, normalises the rows of its head."""
    vocab = 125_696 if second else V
    twin = twin_of("llama", **{**TWIN, "num_key_value_heads": H, "vocab_size": vocab, "rope_theta": 10_000.0})
    weights = weights_of(twin)
    fused(weights, "self_attn.*_proj", "self_attn.W_pack")
    if second:
        twin.lm_head.weight.data = torch.nn.functional.normalize(twin.lm_head.weight.data)
    config = {**SIZES, "vocab_size": vocab, "model_type": "baichuan", "max_position_embeddings": 64, "rms_norm_eps": 1e-3,
              "model_max_length": 64, "z_loss_weight": 0}  # fmt: skip
    assert_equal(written(tmp_path, config, weights), logits(twin))


def test_baichuan_13b(tmp_path):
    """ALiBi: the twin turns nothing at position 0, and adds the bias to its mask."""
    twin = twin_of("llama", **{**TWIN, "num_key_value_heads": H})
    weights = weights_of(twin)
    fused(weights, "self_attn.*_proj", "self_attn.W_pack")
    T = TOKENS.shape[1]
    distance = torch.arange(T)[:, None] - torch.arange(T)
    slopes = torch.tensor([2.0 ** (-8 * (head + 1) / H) for head in range(H)])
    mask = torch.where(distance >= 0, -slopes[:, None, None] * distance, -torch.inf)[None].repeat(2, 1, 1, 1)
    theirs = logits(twin, attention_mask=mask, position_ids=torch.zeros_like(TOKENS))
    config = {**SIZES, "model_type": "baichuan", "model_max_length": 64, "rms_norm_eps": 1e-3}
    assert_equal(written(tmp_path, config, weights), theirs)


def test_mimo(tmp_path):
    twin = twin_of("qwen2", **TWIN, tie_word_embeddings=False)
    weights = weights_of(twin) | {"model.mtp_layers.0.input_proj.weight": torch.zeros(D, 2 * D)}
    config = {**LLAMA, "model_type": "mimo", "head_dim": D // H, "attention_bias": True, "num_nextn_predict_layers": 1,
              "use_sliding_window": False, "sliding_window": 32768, "max_window_layers": L}  # fmt: skip
    assert_equal(written(tmp_path, config, weights), logits(twin))


def test_nemotron_nas(tmp_path):
    """In the twin, layers without attention or network are those with outputs of zero, and fewer heads of keys are repeated."""
    wide = {**TWIN, "hidden_size": 32, "intermediate_size": 512, "num_hidden_layers": 3, "num_key_value_heads": 4}
    twin, E = twin_of("llama", **wide), 8
    own, zero = twin.state_dict(), {"model.layers.0.self_attn.o_proj.weight", "model.layers.1.mlp.down_proj.weight"}
    for name in zero:
        own[name].zero_()
    for side in "kv":  # layer 1 has two heads of keys, each of which serves two of queries
        weight = own[f"model.layers.1.self_attn.{side}_proj.weight"].view(2, 2, E, 32)
        weight.copy_(weight[:, :1].expand_as(weight).clone())
    own["model.layers.2.mlp.down_proj.weight"][:, 256:].zero_()
    weights = {name: value for name, value in weights_of(twin).items()
               if not name.startswith(("model.layers.0.self_attn", "model.layers.0.input", "model.layers.1.mlp",
                                       "model.layers.1.post"))}  # fmt: skip
    for side in "kv":
        name = f"model.layers.1.self_attn.{side}_proj.weight"
        weights[name] = weights[name].view(2, 2, E, 32)[:, 0].reshape(2 * E, 32)
    for side in ("gate", "up"):
        name = f"model.layers.2.mlp.{side}_proj.weight"
        weights[name] = weights[name][:256]
    name = "model.layers.2.mlp.down_proj.weight"
    weights[name] = weights[name][:, :256]
    off = {"replace_with_linear": False, "window_length": None}
    blocks = [
        {"attention": {"n_heads_in_group": None, "no_op": True, **off}, "ffn": {"ffn_mult": 20.0, "no_op": False}},
        {"attention": {"n_heads_in_group": 2, "no_op": False, **off}, "ffn": {"ffn_mult": None, "no_op": True}},
        {"attention": {"n_heads_in_group": 1, "no_op": False, **off}, "ffn": {"ffn_mult": 2.625, "no_op": False}},
    ]
    config = {**LLAMA, "model_type": "nemotron-nas", "num_hidden_layers": 3, "block_configs": blocks,
              "intermediate_size": None, "num_key_value_heads": None}  # fmt: skip
    assert_equal(written(tmp_path, config, weights), logits(twin))
    blocks[0]["attention"]["replace_with_linear"] = True
    with pytest.raises(huggingface.HuggingFaceError, match=r"block_configs\.0\.attention\.replace_with_linear"):
        huggingface.read_architecture(huggingface.Config(config))


def test_deepseek_1(tmp_path):
    experts = {"moe_num_experts": 5, "moe_topk": 2, "moe_num_shared_experts": 2, "intermediate_size": 12}
    twin = twin_of("aria_text", **{**TWIN, **experts, "pad_token_id": 0})
    weights = renamed(weights_of(twin), ("mlp.router", "mlp.gate"))
    for layer in range(L):
        inside = f"model.layers.{layer}.mlp.experts."
        both, down = weights.pop(inside + "gate_up_proj"), weights.pop(inside + "down_proj")
        for expert in range(5):
            for side, matrix in zip(("gate", "up", "down"), (*both[expert].chunk(2, -1), down[expert]), strict=True):
                weights[f"{inside}{expert}.{side}_proj.weight"] = matrix.mT
    config = {**LLAMA, "model_type": "deepseek", "moe_intermediate_size": 12, "n_routed_experts": 5, "num_experts_per_tok": 2,
              "n_shared_experts": 2, "first_k_dense_replace": 0, "norm_topk_prob": True, "scoring_func": "softmax",
              "moe_layer_freq": 1, "aux_loss_alpha": 0.001, "seq_aux": True}  # fmt: skip
    assert_equal(written(tmp_path, config, weights), logits(twin))


def test_sarvam(tmp_path):
    experts = {"moe_intermediate_size": 12, "n_routed_experts": 6, "num_experts_per_tok": 2, "n_shared_experts": 1,
               "first_k_dense_replace": 1, "routed_scaling_factor": 2.5, "n_group": 1, "topk_group": 1,
               "head_dim": 8}  # fmt: skip
    twin = twin_of("dots1", **TWIN, **experts, norm_topk_prob=True, tie_word_embeddings=False)
    weights = weights_of(twin)
    for layer in range(1, L):
        inside = f"model.layers.{layer}.mlp.experts."
        both, down = weights.pop(inside + "gate_up_proj"), weights.pop(inside + "down_proj")
        for expert in range(6):
            for side, matrix in zip(("gate", "up", "down"), (*both[expert].chunk(2), down[expert]), strict=True):
                weights[f"{inside}{expert}.{side}_proj.weight"] = matrix
    fused(weights, "self_attn.*_proj", "attention.query_key_value")
    weights = renamed(
        weights, ("self_attn.o_proj", "attention.dense"), ("self_attn.q_norm", "attention.query_layernorm"),
        ("self_attn.k_norm", "attention.key_layernorm"), ("gate.e_score_correction_bias", "gate.expert_bias"),
        ("model.embed_tokens", "model.word_embeddings"),
    )  # fmt: skip
    config = {**LLAMA, "model_type": "sarvam_moe", "moe_intermediate_size": 12, "num_experts": 6, "num_experts_per_tok": 2,
              "num_shared_experts": 1, "first_k_dense_replace": 1, "routed_scaling_factor": 2.5, "n_group": 1, "topk_group": 1,
              "head_dim": 8, "use_qk_norm": True, "moe_router_enable_expert_bias": True, "max_window_layers": 19}  # fmt: skip
    assert_equal(written(tmp_path, config, weights), logits(twin))


def test_an_export_writes_a_type_that_transformers_loads(tmp_path):
    twin = twin_of("llama", **TWIN)
    weights = renamed(
        weights_of(twin), *GPT, ("self_attn.o_proj", "attn.attention.out_proj"), ("self_attn.", "attn.attention."),
        ("mlp.gate_proj", "mlp.c_fc_0"), ("mlp.up_proj", "mlp.c_fc_1"), ("mlp.down_proj", "mlp.c_proj"),
    )  # fmt: skip
    config = {**SIZES, "model_type": "exaone", "num_layers": L, "num_key_value_heads": K, "layer_norm_epsilon": 1e-3,
              "rope_theta": 300.0, "max_position_embeddings": 64, "tie_word_embeddings": False}  # fmt: skip
    del config["num_hidden_layers"]
    (tmp_path / "exaone").mkdir()
    model, _ = huggingface.load(written(tmp_path / "exaone", config, weights))
    assert huggingface.export(model, tmp_path / "again").model_type == "llama"
    again = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "again")
    assert (logits(again) - logits(twin)).abs().max() <= 5e-6 * logits(twin).abs().max()
    with pytest.raises(huggingface.HuggingFaceError, match="leave --family out"):
        huggingface.export(model, tmp_path / "exaone-again", model_type="exaone")


def test_every_name_has_a_test():
    tested = {name.removeprefix("test_") for name in globals() if name.startswith("test_")}
    spelled = {"qwen": "qwen_1", "internlm": "internlm_1", "internlm2": "internlm_2", "baichuan": "baichuan_7b",
               "nemotron-nas": "nemotron_nas", "deepseek": "deepseek_1", "sarvam_moe": "sarvam"}  # fmt: skip
    later = {"sarvam_mla", "lara_mini", "apertus1p5_text", "hy_v4_vl_text"}  # which test_later_types.py tries
    later |= {"dory", "inkling2_loop_text"}  # which have tests of their own
    inner = {composite.text for composite in huggingface.COMPOSITES.values()}  # which test_composites.py tries
    remote = {name for types in huggingface.READ_ONLY.values() for name in types} - inner - later
    assert {spelled.get(name, name) for name in remote} <= tested
