"""Lenses: the last line is what the model says, a line by hand, and a trained lens that is nearer than the untrained one."""

from __future__ import annotations

import pytest
import torch

from anyformer.catalogue import architecture
from anyformer.catalogue.llama import llama
from anyformer.describe import InputError
from anyformer.inspecting import TunedLens, draw_reading, logit_lens, read_out, streams, tuned_lens
from anyformer.inspecting.tuned_lens import translated
from anyformer.model.transformer import build

TOKENS = torch.tensor([[1, 5, 2, 7, 3], [4, 4, 6, 1, 2]])


@pytest.fixture(scope="module")
def model():
    made = build(llama(width=16, depth=2, heads=2, kv_heads=1, ffn=24, vocab=23), seed=3).eval()
    with torch.no_grad():
        for name, weight in made.named_parameters():
            weight.mul_(1 if "norm" in name else 12)
    return made


def test_a_line_is_the_stream_through_norm_and_head(model):
    found = logit_lens(model, TOKENS, keep=3)
    with torch.no_grad(), model.watch("decoder.layer[0].output") as seen:
        last = model(TOKENS)
    x = seen["decoder.layer[0].output"]
    norm, head = model.decoder.final_norm, model.head.weight
    scaled = x / (x.square().mean(-1, keepdim=True) + norm.norm.eps).sqrt() * norm.weight
    said = (scaled @ head.mT).log_softmax(-1)
    at = found.paths.index("decoder.layer[0].output")
    best = said.sort(-1, descending=True)
    assert torch.equal(found.tokens_LBTk[at], best.indices[..., :3])
    assert torch.allclose(found.probabilities_LBTk[at], best.values[..., :3].exp(), atol=1e-6)
    truth = last.log_softmax(-1)
    assert torch.allclose(found.divergence_LBT[at], (truth.exp() * (truth - said)).sum(-1), atol=1e-5)
    assert torch.allclose(found.entropy_LBT[at], torch.distributions.Categorical(logits=said).entropy(), atol=1e-5)
    wanted = last.argmax(-1)
    assert torch.equal(found.wanted_BT, wanted)
    for row in range(2):
        for place in range(5):
            ranked = best.indices[row, place].tolist()
            assert found.rank_LBT[at, row, place] == ranked.index(int(wanted[row, place]))


@pytest.mark.parametrize("name", ["gpt2", "gemma-2-2b", "deepseek-v3", "bert-base-uncased", "t5-small", "mamba-130m"])
def test_the_last_lines_are_what_any_model_says(name):
    model = build(architecture(name, tiny=True), seed=0).eval()
    from anyformer.inspecting import CallInputs

    given = CallInputs(TOKENS, TOKENS[:, :3]) if model.architecture.two_inputs else TOKENS
    found = logit_lens(model, given)
    assert found.paths == (*streams(model), "head.logits")
    assert torch.equal(found.tokens_LBTk[-1], found.tokens_LBTk[-2])
    assert found.divergence_LBT[-2:].abs().max() < 1e-5
    assert not found.rank_LBT[-1].any()
    assert "head.logits" in [str(cell) for cell in found.table().columns[0].cells]


def test_a_trained_lens_is_nearer_to_the_model_and_is_read_again(model, tmp_path):
    torch.manual_seed(0)
    lens = tuned_lens(model, [torch.randint(23, (16, 8)) for _ in range(60)], learning_rate=1e-2)
    assert lens.paths == streams(model)[:-1]
    assert (lens.after_L < 0.6 * lens.before_L).all()
    lens.save(tmp_path / "lens.safetensors")
    again = TunedLens.load(tmp_path / "lens.safetensors")
    assert again.paths == lens.paths
    assert torch.equal(again.read(model, TOKENS).divergence_LBT, lens.read(model, TOKENS).divergence_LBT)
    (tmp_path / "other").write_bytes(b"no lens")
    with pytest.raises(InputError, match="is not a tuned lens"):
        TunedLens.load(tmp_path / "other")


def test_an_untrained_lens_is_the_logit_lens(model):
    lens = tuned_lens(model, [TOKENS], learning_rate=0.0)
    assert torch.equal(lens.before_L, lens.after_L)
    plain, tuned = logit_lens(model, TOKENS, lens.paths), lens.read(model, TOKENS)
    assert torch.equal(plain.probabilities_LBTk, tuned.probabilities_LBTk)
    with model.watch(*lens.paths) as seen, torch.no_grad():
        model(TOKENS)
    assert torch.equal(lens.translated(1, seen[lens.paths[1]]), seen[lens.paths[1]])
    assert read_out(model, seen[lens.paths[1]]).shape == (2, 5, 23)


def test_a_stream_is_translated_by_rows_of_the_matrix():
    stream, matrix, bias = torch.randn(2, 3, 4), torch.randn(4, 4), torch.randn(4)
    wanted = stream + torch.einsum("btj,ij->bti", stream, matrix) + bias
    assert torch.allclose(translated(stream, matrix, bias), wanted, atol=1e-5)


def test_no_batch_is_refused(model):
    with pytest.raises(InputError, match="there is none"):
        tuned_lens(model, [])


def test_two_tokens_are_compared_at_every_path_and_drawn(model, tmp_path):
    wanted, other = torch.full_like(TOKENS, 3), torch.full_like(TOKENS, 4)
    found = logit_lens(model, TOKENS, wanted=wanted, other=other)
    with torch.no_grad():
        logits = model(TOKENS)
    assert torch.allclose(found.difference_LBT[-1], logits[..., 3] - logits[..., 4], atol=1e-4)
    assert "logit less 4" in [str(column.header) for column in found.table().columns]
    words, drawn = [str(token) for token in TOKENS[0].tolist()], {}
    for asked, reading in (("", found), ("3", logit_lens(model, TOKENS, wanted=wanted)), ("3 less 4", found)):
        draw_reading(reading, words, str, tmp_path / "lens.png", title="lens", asked=asked)
        drawn[asked] = (tmp_path / "lens.png").read_bytes()
    assert len(set(drawn.values())) == 3
