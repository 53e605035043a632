"""What stands around the layers, and numbers that are measured: hidden types ported from families that differ there."""

from __future__ import annotations

import pytest

from anyformer.porting import proposal
from porting.hidden import tiny, without

BART = {"d_model": 24, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4}
BART |= {"encoder_ffn_dim": 40, "decoder_ffn_dim": 40, "decoder_start_token_id": 0, "forced_eos_token_id": 2}
DISTILBERT = {"dim": 24, "n_heads": 4, "n_layers": 2, "hidden_dim": 40}


@pytest.mark.parametrize(
    ("model_type", "task", "among", "more", "says"),
    [
        ("biogpt", "CausalLM", ["xglm"], {}, "a table of 66 learned positions, the first 2 unused"),
        ("xlm-roberta-xl", "MaskedLM", ["megatron-bert"], {"pad_token_id": 3}, "positions begin at row 4 of their table"),
        ("electra", "MaskedLM", ["bert"], {"embedding_size": 12}, "embeddings of 12 features, and electra.embeddings_project"),
        ("distilbert", "MaskedLM", ["eurobert", "bert"], DISTILBERT, "vocab_transform"),
        ("marian", "Seq2SeqLM", ["bart"], BART, "sinusoids in halves"),
    ],
)  # fmt: skip
def test_what_stands_around_the_layers_is_found(model_type, task, among, more, says, tmp_path):
    directory = tiny(model_type, tmp_path / "model", task, **more)
    with without(model_type):
        found = proposal(directory, "transformers", among=among)
    assert found.proof.equal, (found.proof.first, found.proof.failed, found.fit.left, found.fit.missing)
    assert any(says in reason for reason in (*found.certain, *found.guessed))
