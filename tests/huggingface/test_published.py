"""Configurations of published encoders, old spellings and all: read without refusal, with the published number of weights."""

from __future__ import annotations

import pytest

from anyformer import huggingface
from anyformer.operations import Shape

BERT = {
    "attention_probs_dropout_prob": 0.1, "gradient_checkpointing": False, "hidden_act": "gelu", "hidden_dropout_prob": 0.1,
    "hidden_size": 768, "initializer_range": 0.02, "intermediate_size": 3072, "layer_norm_eps": 1e-12,
    "max_position_embeddings": 512, "num_attention_heads": 12, "num_hidden_layers": 12, "pad_token_id": 0,
    "position_embedding_type": "absolute", "transformers_version": "4.6.0", "type_vocab_size": 2, "use_cache": True,
}  # fmt: skip
BASE = {name: BERT[name] for name in BERT if name not in ("position_embedding_type", "gradient_checkpointing", "use_cache")}
TEXT = ("max_position_embeddings", "type_vocab_size", "pad_token_id")

PUBLISHED = {
    "bert-base-uncased": (
        BERT | {"model_type": "bert", "architectures": ["BertForMaskedLM"], "vocab_size": 30522},
        109_514_298,
    ),
    "roberta-base": (
        BASE | {
            "model_type": "roberta", "architectures": ["RobertaForMaskedLM"], "vocab_size": 50265, "layer_norm_eps": 1e-5,
            "max_position_embeddings": 514, "type_vocab_size": 1, "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2,
        },
        124_697_433,
    ),
    "distilbert-base-uncased": (
        {
            "activation": "gelu", "architectures": ["DistilBertForMaskedLM"], "attention_dropout": 0.1, "dim": 768,
            "dropout": 0.1, "hidden_dim": 3072, "initializer_range": 0.02, "max_position_embeddings": 512,
            "model_type": "distilbert", "n_heads": 12, "n_layers": 6, "pad_token_id": 0, "qa_dropout": 0.1,
            "seq_classif_dropout": 0.2, "sinusoidal_pos_embds": False, "tie_weights_": True,
            "transformers_version": "4.10.0", "vocab_size": 30522,
        },
        66_985_530,
    ),
    "electra-small-discriminator": (
        BASE | {
            "model_type": "electra", "architectures": ["ElectraForPreTraining"], "vocab_size": 30522, "embedding_size": 128,
            "hidden_size": 256, "intermediate_size": 1024, "num_attention_heads": 4,
        },
        13_549_057,
    ),
    "albert-base-v2": (
        BASE | {
            "model_type": "albert", "architectures": ["AlbertForMaskedLM"], "vocab_size": 30000, "embedding_size": 128,
            "hidden_act": "gelu_new", "hidden_dropout_prob": 0, "attention_probs_dropout_prob": 0, "inner_group_num": 1,
            "num_hidden_groups": 1, "num_memory_blocks": 0, "net_structure_type": 0, "gap_size": 0, "down_scale_factor": 1,
            "classifier_dropout_prob": 0.1, "bos_token_id": 2, "eos_token_id": 3,
        },
        11_221_680,
    ),
    "deberta-v3-base": (
        BASE | {
            "model_type": "deberta-v2", "architectures": ["DebertaV2Model"], "vocab_size": 128100, "layer_norm_eps": 1e-7,
            "type_vocab_size": 0, "relative_attention": True, "position_buckets": 256, "norm_rel_ebd": "layer_norm",
            "share_att_key": True, "pos_att_type": "p2c|c2p", "max_relative_positions": -1, "position_biased_input": False,
        },
        183_831_552,
    ),
    "ModernBERT-base": (
        {
            "model_type": "modernbert", "architectures": ["ModernBertForMaskedLM"], "vocab_size": 50368, "hidden_size": 768,
            "intermediate_size": 1152, "num_hidden_layers": 22, "num_attention_heads": 12, "hidden_activation": "gelu",
            "max_position_embeddings": 8192, "global_attn_every_n_layers": 3, "global_rope_theta": 160000.0,
            "local_rope_theta": 10000.0, "local_attention": 128, "norm_eps": 1e-5, "norm_bias": False, "mlp_bias": False,
            "attention_bias": False, "attention_dropout": 0.0, "mlp_dropout": 0.0, "embedding_dropout": 0.0,
            "decoder_bias": True, "classifier_bias": False, "classifier_pooling": "mean", "classifier_dropout": 0.0,
            "classifier_activation": "gelu", "deterministic_flash_attn": False, "initializer_cutoff_factor": 2.0,
            "layer_norm_eps": 1e-5, "position_embedding_type": "absolute", "tie_word_embeddings": True, "pad_token_id": 50283,
        },
        149_655_232,
    ),
    "esm2_t6_8M_UR50D": (
        {name: BASE[name] for name in BASE if name != "type_vocab_size"} | {
            "model_type": "esm", "architectures": ["EsmForMaskedLM"], "vocab_size": 33, "hidden_size": 320,
            "intermediate_size": 1280, "num_hidden_layers": 6, "num_attention_heads": 20, "max_position_embeddings": 1026,
            "layer_norm_eps": 1e-5, "position_embedding_type": "rotary", "token_dropout": True, "mask_token_id": 32,
            "pad_token_id": 1, "emb_layer_norm_before": False, "is_folding_model": False, "esmfold_config": None,
            "vocab_list": None, "classifier_dropout": None,
        },
        7_512_474 - (6 * 20 + 1),  # without the regression over attention maps that predicts contacts
    ),
    "vit-base-patch16-224": (
        {name: BASE[name] for name in BASE if name not in TEXT} | {
            "model_type": "vit", "architectures": ["ViTForImageClassification"], "image_size": 224, "patch_size": 16,
            "num_channels": 3, "qkv_bias": True, "id2label": {str(i): f"class {i}" for i in range(1000)}, "label2id": {},
        },
        86_567_656,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_encoder_has_its_number_of_weights(name):
    config, count = PUBLISHED[name]
    architecture, _ = huggingface.read_architecture(huggingface.Config(config))
    weights = architecture.cost(Shape()).weights
    assert sum(weight.count for weight in weights.values()) == count


def test_kinds_of_layers_said_by_a_number_or_one_by_one():
    old, _ = PUBLISHED["ModernBERT-base"]
    kinds = ["sliding_attention" if i % 3 else "full_attention" for i in range(22)]
    rope = {"full_attention": {"rope_theta": 160000.0}, "sliding_attention": {"rope_theta": 10000.0}}
    gone = ("global_attn_every_n_layers", "global_rope_theta", "local_rope_theta")
    new = {key: old[key] for key in old if key not in gone} | {"layer_types": kinds, "rope_parameters": rope}
    assert huggingface.read_architecture(huggingface.Config(new)) == huggingface.read_architecture(huggingface.Config(old))
