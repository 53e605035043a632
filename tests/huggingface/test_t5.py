"""What T5's files mean where transformers 5 reads them differently."""

from __future__ import annotations

import pytest

from anyformer import huggingface

PUBLISHED = {
    "vocab_size": 53, "d_model": 16, "d_kv": 4, "d_ff": 12, "num_layers": 1, "num_heads": 2, "tie_word_embeddings": False,
}  # fmt: skip


@pytest.mark.parametrize("model_type", ["t5", "mt5", "umt5"])
def test_files_that_say_untied_mean_logits_without_a_factor(model_type):
    architecture, _ = huggingface.read_architecture(huggingface.Config(PUBLISHED | {"model_type": model_type}))
    assert architecture.head.scale == 1.0
    assert not architecture.head.tied


def test_an_umt5_whose_logits_transformers_would_scale_is_not_exported():
    architecture, family = huggingface.read_architecture(huggingface.Config(PUBLISHED | {"model_type": "umt5"}))
    with pytest.raises(huggingface.HuggingFaceError, match=r"head\.scale"):
        family.write(architecture)
