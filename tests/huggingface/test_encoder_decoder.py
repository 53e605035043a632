"""Pairs of an encoder and a decoder that are refused, and what older files hold of those that are read."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import load_file, save_file

from anyformer import huggingface
from anyformer.describe import change
from anyformer.huggingface import Config, HuggingFaceError
from anyformer.model.transformer import build
from huggingface.cases.encoder_decoder import CASES, GPT2
from huggingface.parity import pair

PLAIN = CASES[0].config


def table(side: str = "", /, **changes):
    """The first pair with changes at the top, or of one side."""
    sides = {name: PLAIN[name] | (changes if name == side else {}) for name in ("encoder", "decoder")}
    return {"model_type": "encoder-decoder", **sides, **({} if side else changes)}


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (table("encoder", model_type="t5"), "encoder: t5 as one side of two is not known here, only bert, bert-generation"),
        (table("decoder", model_type="xglm"), "decoder: xglm as one side of two is not known here, only bert, .* gpt2"),
        (table("decoder", model_type=None), "decoder: None as one side"),
        (table("encoder", hidden_size=32), "the encoder has 32 features and the decoder 24"),
        (table("decoder", add_cross_attention=False), "add_cross_attention should be true, for otherwise no layer reads"),
        (table("decoder", is_decoder=False), "decoder: is_decoder should be true"),
        (table("encoder", is_decoder=True), "encoder: is_decoder should be false"),
        (table("decoder", cross_attention_hidden_size=32), "cross_attention_hidden_size = 32 is not supported"),
        (table(tie_encoder_decoder=True), "layers that both sides share are not known here"),
        (table("encoder", use_task_id=True), "use_task_id = true is not supported"),
        (table("decoder", frobnication_factor=3), "config.json: decoder: bert has keys .* frobnication_factor = 3"),
        (table(decoder=None), "decoder is missing|decoder = null should be a table"),
    ],
)
def test_what_is_not_known_is_refused_by_side_and_reason(config, words):
    with pytest.raises(HuggingFaceError, match=words):
        huggingface.read_architecture(Config(config))


def test_the_class_that_a_side_was_saved_from_is_of_no_account():
    plain, _ = huggingface.read_architecture(Config(table()))
    for side in ("encoder", "decoder"):
        saved = table(side, architectures=["BertForMaskedLM"], tie_encoder_decoder=False, cross_attention_hidden_size=None)
        assert huggingface.read_architecture(Config(saved))[0] == plain


def test_a_pooler_and_copies_of_the_tied_head_are_passed_over(tmp_path):
    both = pair(CASES[0])
    tensors = load_file(both.directory / "model.safetensors")
    tensors["encoder.pooler.dense.weight"] = torch.ones(24, 24)
    tensors["decoder.cls.predictions.decoder.weight"] = tensors["decoder.bert.embeddings.word_embeddings.weight"].clone()
    tensors["decoder.bert.embeddings.position_ids"] = torch.arange(19)[None]
    (tmp_path / "config.json").write_text((both.directory / "config.json").read_text())
    save_file(tensors, tmp_path / "model.safetensors")
    again, _ = huggingface.load(tmp_path)
    ours = dict(both.ours.named_parameters())
    assert all(torch.equal(value, ours[name]) for name, value in again.named_parameters())


@pytest.mark.parametrize("decoder", [PLAIN["decoder"], {**GPT2}], ids=["bert", "gpt2"])
def test_cross_attention_unlike_the_attention_before_it_has_no_configuration(decoder, tmp_path):
    architecture, _ = huggingface.read_architecture(Config({**table(), "decoder": decoder}))
    path = "decoder.variants.layer.steps.1.branches.cross_attention.sublayer.dropout"
    other = change(architecture, path, 0.5)
    with pytest.raises(HuggingFaceError, match=r"encoder-decoder cannot express this architecture: .*cross_attention"):
        huggingface.export(build(other), tmp_path / "exported", model_type="encoder-decoder")
