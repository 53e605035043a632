"""Types of transformers 5.24, which the tests' own version does not have: held against what it has of the same layers.

Their logits were held against the classes of 5.24 itself: sarvam_mla, sarvam_moe, exaone, lara_mini, apertus1p5, hy_v4_vl and
omniasr, the last three as composites too, differ by 2e-06 at most.
"""

from __future__ import annotations

import pytest

from anyformer import Architecture, cost
from anyformer.huggingface import Config, HuggingFaceError, read_architecture

PUBLISHED = {  # sarvamai/sarvam-105b
    "model_type": "sarvam_mla", "vocab_size": 262_144, "hidden_size": 4096, "intermediate_size": 16_384, "num_experts": 128,
    "moe_intermediate_size": 2048, "num_hidden_layers": 32, "num_attention_heads": 64, "num_experts_per_tok": 8,
    "num_shared_experts": 1, "first_k_dense_replace": 1, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
    "q_head_dim": 192, "v_head_dim": 128, "head_dim": 576, "routed_scaling_factor": 2.5, "initializer_range": 0.006,
    "max_position_embeddings": 131_072, "rope_theta": 10_000.0, "moe_router_enable_expert_bias": True, "use_qk_norm": True,
    "rope_scaling": {
        "type": "deepseek_yarn", "factor": 40, "mscale": 1.0, "mscale_all_dim": 1.0, "beta_fast": 32, "beta_slow": 1,
        "original_max_position_embeddings": 4096,
    },
}  # fmt: skip


def of(**keys: object) -> Architecture:
    return read_architecture(Config(keys))[0]


def test_sarvam_is_deepseek_v3_by_other_names():
    renamed = {"num_experts": "n_routed_experts", "num_shared_experts": "n_shared_experts"}
    beside = ("q_head_dim", "head_dim", "moe_router_enable_expert_bias", "use_qk_norm")
    same = {renamed.get(key, key): value for key, value in PUBLISHED.items() if key not in beside}
    scaling = {**PUBLISHED["rope_scaling"], "type": "yarn"}
    more = {"q_lora_rank": None, "n_group": 1, "topk_group": 1, "num_nextn_predict_layers": 0}
    assert of(**PUBLISHED) == of(**{**same, **more, "model_type": "deepseek_v3", "rope_scaling": scaling})


def test_sarvam_refuses_layers_that_predict_later_tokens():
    with pytest.raises(HuggingFaceError, match="num_mtp_layers"):
        of(**PUBLISHED, num_mtp_layers=1)


SIZES = {"vocab_size": 53, "hidden_size": 32, "intermediate_size": 40, "num_attention_heads": 4, "num_key_value_heads": 2}


def test_exaone_has_two_spellings():
    published = of(model_type="exaone", num_layers=3, layer_norm_epsilon=1e-3, activation_function="gelu", **SIZES)
    assert (
        of(model_type="exaone", num_hidden_layers=3, rms_norm_eps=1e-3, hidden_act="gelu", mlp_bias=False, **SIZES) == published
    )
    with pytest.raises(HuggingFaceError, match="mlp_bias"):
        of(model_type="exaone", num_hidden_layers=3, mlp_bias=True, **SIZES)


def test_sarvam_30b_has_two_spellings():
    sizes = SIZES | {"num_hidden_layers": 3, "head_dim": 8, "moe_intermediate_size": 12}
    published = of(model_type="sarvam_moe", num_experts=6, num_shared_experts=2, use_qkv_bias=False, rope_theta=300.0, **sizes)
    rope = {"rope_type": "default", "rope_theta": 300.0, "partial_rotary_factor": 1.0}
    later = {"n_routed_experts": 6, "n_shared_experts": 2, "attention_bias": False, "rope_parameters": rope}
    assert of(model_type="sarvam_moe", **later, **sizes) == published


def test_apertus_1p5_has_a_head_without_rows_for_codes():
    sizes = SIZES | {"num_hidden_layers": 3}
    plain, pruned = of(model_type="apertus", **sizes), of(model_type="apertus1p5_text", output_vocab_size=47, **sizes)
    assert of(model_type="apertus1p5_text", **sizes) == plain
    assert pruned == plain.but(head=plain.head.but(outputs=47))
    whole = of(model_type="apertus1p5", text_config={"model_type": "apertus1p5_text", "output_vocab_size": 47, **sizes})
    assert whole == pruned
    for refused, why in (
        ({"output_vocab_size": 54}, "54"),
        ({"output_vocab_size": 47, "tie_word_embeddings": True}, "tie_word"),
    ):
        with pytest.raises(HuggingFaceError, match=why):
            of(model_type="apertus1p5_text", **refused, **sizes)
    # Apertus1p5TextForCausalLM of transformers 5.24 on the meta device.
    made = of(model_type="apertus1p5_text", num_key_value_heads=8, intermediate_size=21_504, output_vocab_size=131_072)
    assert cost(made, batch=1, length=8).params.total == 8_609_083_456


def test_hy4_with_images_turns_neighbours_and_has_one_epsilon():
    sizes = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "rms_norm_eps": 1e-3, "q_lora_rank": 12}
    made = of(model_type="hy_v4_vl", text_config={"model_type": "hy_v4_vl_text", **sizes})
    same = of(model_type="hy_v4", index_n_heads=32, moe_intermediate_size=2048, intermediate_size=18_432, **sizes)
    layers = made.decoder.variants.values()
    assert {block.branches["latent_attention"].sublayer.rotary.pairing for block in layers} == {"adjacent"}
    assert {block.branches["latent_attention"].sublayer.norm.eps for block in layers} == {1e-3}
    assert cost(made, batch=1, length=8).params.total == cost(same, batch=1, length=8).params.total
    # HYV4VLTextModel of transformers 5.24 on the meta device, a head, and what routers are corrected by, its buffers.
    whole = cost(of(model_type="hy_v4_vl_text"), batch=1, length=8).params.total
    assert whole == 769_164_997_277 + 120_832 * 6144 + 77 * 256


def test_lara_mini_turns_queries_and_keys_in_windows_alone():
    made = of(model_type="lara_mini")
    assert made.decoder is not None
    layers = [made.decoder.variants[name] for name in made.decoder.layers]
    mixers = [next(iter(block.branches)) for block in layers[:5]]
    assert mixers == ["delta_attention", "attention", "delta_attention", "attention", "attention"]
    window, full = (layers[i].branches["attention"].sublayer for i in (1, 3))
    assert window.mask.window == 512
    assert window.place
    assert full.mask.window is None
    assert not full.place
    # LaraMiniForCausalLM of transformers 5.24 on the meta device.
    assert cost(made, batch=1, length=8).params.total == 7_281_684_672
