"""Published configurations of encoder-decoders, all of their keys, give models of the published size."""

from __future__ import annotations

import pytest

from anyformer import huggingface
from anyformer.operations import Shape

FLAN_T5_SMALL = {
    "model_type": "t5", "architectures": ["T5ForConditionalGeneration"], "d_ff": 1024, "d_kv": 64, "d_model": 512,
    "decoder_start_token_id": 0, "dropout_rate": 0.1, "eos_token_id": 1, "feed_forward_proj": "gated-gelu",
    "initializer_factor": 1.0, "is_encoder_decoder": True, "layer_norm_epsilon": 1e-6, "n_positions": 512,
    "num_decoder_layers": 8, "num_heads": 6, "num_layers": 8, "output_past": True, "pad_token_id": 0,
    "relative_attention_max_distance": 128, "relative_attention_num_buckets": 32, "task_specific_params": {},
    "tie_word_embeddings": False, "transformers_version": "4.23.1", "use_cache": True, "vocab_size": 32128,
}  # fmt: skip
WHISPER_LARGE_V3 = {
    "model_type": "whisper", "architectures": ["WhisperForConditionalGeneration"], "activation_dropout": 0.0,
    "activation_function": "gelu", "apply_spec_augment": False, "attention_dropout": 0.0,
    "begin_suppress_tokens": [220, 50257], "bos_token_id": 50257, "classifier_proj_size": 256, "d_model": 1280,
    "decoder_attention_heads": 20, "decoder_ffn_dim": 5120, "decoder_layerdrop": 0.0, "decoder_layers": 32,
    "decoder_start_token_id": 50258, "dropout": 0.0, "encoder_attention_heads": 20, "encoder_ffn_dim": 5120,
    "encoder_layerdrop": 0.0, "encoder_layers": 32, "eos_token_id": 50257, "init_std": 0.02, "is_encoder_decoder": True,
    "mask_feature_length": 10, "mask_feature_min_masks": 0, "mask_feature_prob": 0.0, "mask_time_length": 10,
    "mask_time_min_masks": 2, "mask_time_prob": 0.05, "max_length": 448, "max_source_positions": 1500,
    "max_target_positions": 448, "median_filter_width": 7, "num_hidden_layers": 32, "num_mel_bins": 128,
    "pad_token_id": 50256, "scale_embedding": False, "torch_dtype": "float16", "use_cache": True,
    "use_weighted_layer_sum": False, "vocab_size": 51866,
}  # fmt: skip


@pytest.mark.parametrize(
    ("config", "parameters"),
    # Whisper's count is without the encoder's sinusoids, which are stored and never trained.
    [(FLAN_T5_SMALL, 76_961_152), (WHISPER_LARGE_V3, 1_543_490_560 - 1500 * 1280)],
    ids=["flan-t5-small", "whisper-large-v3"],
)
def test_published_sizes(config, parameters):
    architecture, _ = huggingface.read_architecture(huggingface.Config(config))
    assert architecture.cost(Shape()).parameters == parameters
