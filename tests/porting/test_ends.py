"""What stands around the layers, and numbers that are measured: hidden types ported from families that differ there."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from anyformer import build
from anyformer.describe import change, get
from anyformer.model import decoder_only
from anyformer.parts import Attention, Embedding, FeedForward, Head, RMSNorm, Rotary, SinusoidalPosition, pre_norm
from anyformer.porting import proposal
from anyformer.porting.factors import factors
from anyformer.porting.probes import Probe, watched
from anyformer.porting.reference import TinyReference, without_marks
from anyformer.porting.tensors import idle, modules_of
from anyformer.porting.unread import unread
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


SMALL = decoder_only(
    Embedding(vocab=31),
    16,
    [pre_norm(RMSNorm(), Attention(heads=2, place=Rotary()), FeedForward(width=24))] * 2,
    final_norm=RMSNorm(),
    head=Head(),
)


@pytest.mark.parametrize(
    ("path", "value", "where"),
    [
        ("embedding.scale", 0.88, "decoder.layers.0.attention.norm_before"),
        ("decoder.layer.attention.multiplier", 1.9, "decoder.layers.0.feedforward.norm_before"),
        ("decoder.layer.feedforward.multiplier", 0.7, "decoder.layers.1.attention.norm_before"),
        ("head.scale", 0.0625, None),
    ],
)
def test_a_factor_is_measured_where_the_stream_departs(path, value, where):
    mine, theirs = (build(each, seed=0).eval() for each in (SMALL, change(SMALL, path, value)))
    theirs.load_state_dict(mine.state_dict())
    tokens = torch.arange(14).reshape(2, 7)
    (ours, here), (other, there) = (watched(model, lambda model=model: model(tokens)) for model in (mine, theirs))
    first = None if where is None else Probe(where, "input", 1.0)
    entering = None if where is None else there.inputs[where]
    (hint,) = factors(SMALL, here, entering, first, (ours, other))
    (put,) = hint.changes
    assert (path.endswith(put.path), put.value) == (True, pytest.approx(value, rel=1e-5))
    # What no factor explains is left alone.
    noisy = None if entering is None else entering + torch.randn_like(entering)
    assert not list(factors(SMALL, here, noisy, first, (ours, other + torch.randn_like(other))))


def test_keys_that_a_family_does_not_read_are_put_at_the_place_that_they_have_in_others(tmp_path):
    more = {"head_dim": 6, "query_pre_attn_scalar": 9, "attn_logit_softcapping": 3.0, "final_logit_softcapping": 2.0}
    directory = tiny("gemma2", tmp_path / "model", sliding_window=4, **more)
    with without("gemma2"):
        found = proposal(directory, among=["olmo2", "glm4"])
    heads = [get(found.architecture, f"decoder.{name}.attention") for name in found.architecture.decoder.layers]
    assert [get(each, "scale") for each in heads] == [pytest.approx(1 / 3)] * 2
    assert [get(each, "softcap") for each in heads] == [3.0] * 2
    assert [get(each, "mask").window for each in heads] == [4, None]
    assert found.architecture.head.softcap == 2.0
    assert "windows of 4 tokens in 1 layers, by layer_types" in found.certain


class Pooled(nn.Module):
    """Logits of tokens and of stored waves; a pooler that nothing asks."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.pooler = nn.Embedding(31, 8), nn.Linear(8, 8)
        waves = SinusoidalPosition(layout="halves", spacing="inclusive").vectors(torch.arange(20), 8)
        self.waves = nn.Parameter(waves, requires_grad=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return (self.table(tokens) + self.waves[: tokens.shape[1]]) @ self.table.weight.T


def test_what_no_logit_follows_from_and_what_a_formula_gives_needs_no_place(tmp_path):
    model = Pooled()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    modules = modules_of({name: tuple(tensor.shape) for name, tensor in before.items()})
    found = unread(TinyReference("x", model, tmp_path, {}), SMALL, modules.values())
    assert {each.name for each in found} == {"pooler", "waves"}
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert {each.name for each in modules.values() if idle(each, [r"pooler\..*"])} == {"pooler"}


def test_marks_are_none_of_the_tokens_that_are_compared():
    tokens = torch.arange(8)[None]
    assert without_marks(tokens, {"pad_token_id": 3, "mask_token_id": 7}, 8).tolist() == [[0, 1, 2, 6, 4, 5, 6, 6]]
    assert without_marks(tokens, {}, 8) is tokens
