"""Hashed n-grams: the hash is the published one, a token reads a row of each table, and the state is the latest tokens."""

from __future__ import annotations

import pytest
import torch
from naive.ngrams import numbers

import anyformer as af
from anyformer.costs.inference import read_per_step
from anyformer.describe import DescriptionError, Named, change
from anyformer.model import Architecture, decoder_only
from anyformer.model.transformer import build
from anyformer.operations import Shape
from anyformer.parts import (
    Attention,
    Branch,
    Constant,
    Embedding,
    Engram,
    FeedForward,
    HashedNgrams,
    Head,
    Initialisation,
    Ngrams,
    Normal,
    RMSNorm,
    ShortConvolution,
    Step,
    pre_norm,
)
from anyformer.parts.call.context import Context
from anyformer.plan import Plan
from anyformer.quantising import FORMATS
from anyformer.resizing.tiny import tiny

V, D = 37, 24
NGRAMS = Ngrams(vocab=V, rows=101, heads=4)
CONVOLUTION = ShortConvolution(kernel=4, dilation=3, activation="silu")
ENGRAM = Engram(ngrams=NGRAMS, width=3, convolution=CONVOLUTION)


def model(part, depth: int = 2) -> Architecture:
    """The part stands in the first layer alone."""
    block = pre_norm(RMSNorm(), Attention(heads=4), FeedForward(width=32))
    first = Step(branches=Named(ngrams=Branch(sublayer=part)))
    starts = Initialisation(matrix=Normal(std=0.3), embedding=Normal(std=1.0))
    blocks = [block.but(steps=(first, *block.steps)), *[block] * (depth - 1)]
    return decoder_only(Embedding(vocab=V), D, blocks, final_norm=RMSNorm(), head=Head(), initialisation=starts)


def context(tokens, *, positions=None, documents=None) -> Context:
    positions = torch.arange(tokens.shape[1])[None] if positions is None else positions
    return Context(positions, Plan(), padded=bool((positions < 0).any()), documents=documents, tokens=tokens)


def hashed(part: Ngrams, tokens, **more):
    made = part.build(1)
    made.table.data = torch.arange(part.total, dtype=torch.float64)[:, None]
    return made(context(tokens, **more))[..., 0].long()


def test_the_hash_is_that_of_the_formula():
    assert Ngrams(vocab=1000, rows=20, heads=2).sizes == (23, 29, 31, 37)
    assert Ngrams(vocab=1000, rows=20, heads=2, index=1).sizes == (41, 43, 47, 53)
    assert Ngrams(vocab=1000, rows=20, heads=2, multiple=64).total == 128
    for part in (NGRAMS, NGRAMS.but(index=3, seed=5, longest=5, shortest=3, heads=2), NGRAMS.but(ends=4, before=9)):
        assert all(each % 2 and each * (V - 1) < 2**63 for each in part.factors)
        tokens = torch.randint(V, (2, 30), generator=torch.Generator().manual_seed(1))
        found = hashed(part, tokens)
        assert found.tolist() == [[numbers(part, row, t) for t in range(30)] for row in tokens.tolist()]
        assert found.min() >= 0
        assert found.max() < part.total


def test_it_is_the_same_on_every_machine():
    """A table that is learnt is worth nothing under another hash."""
    assert Ngrams(vocab=129_280, rows=20_000_000).factors == (54_067_005_324_903, 30_818_245_655_497, 34_854_680_695_413)
    assert Ngrams(vocab=129_280, rows=20_000_000).sizes[0] == 20_000_003
    assert hashed(NGRAMS, torch.tensor([[5, 1, 2, 5, 1]])).tolist()[0][4] == [99, 107, 220, 362, 461, 592, 769, 867]


def test_documents_and_padding_are_not_reached_over():
    tokens = torch.randint(V, (1, 12), generator=torch.Generator().manual_seed(2))
    documents = torch.tensor([[0] * 5 + [1] * 7])
    both = hashed(NGRAMS, tokens, documents=documents)
    assert torch.equal(both, torch.cat([hashed(NGRAMS, tokens[:, :5]), hashed(NGRAMS, tokens[:, 5:])], 1))
    gaps = torch.tensor([[-1, 0, 1, -1, -1, 2, 3, 4, -1, 5, 6, 7]])
    told = gaps[0] >= 0
    assert torch.equal(hashed(NGRAMS, tokens, positions=gaps)[:, told], hashed(NGRAMS, tokens[:, told]))
    ended = NGRAMS.but(ends=int(tokens[0, 4]), before=int(tokens[0, 4]))
    assert torch.equal(hashed(ended, tokens)[:, 5:], hashed(ended, tokens[:, 5:])), "as documents that the token ends"


@pytest.mark.parametrize(
    "part", [HashedNgrams(ngrams=NGRAMS), ENGRAM, ENGRAM.but(convolution=None)], ids=lambda each: each.kind
)
def test_the_state_is_the_latest_tokens_whatever_the_length(part):
    made = build(model(part), seed=1).eval()
    tokens = torch.randint(V, (2, 20), generator=torch.Generator().manual_seed(3))
    small, large = (part.state(D, 2, capacity, 0, torch.float32, torch.device("cpu")) for capacity in (4, 4000))
    declared = part.cost(D, Shape(batch=2, length=1, past=9), Plan(precision="fp32")).total_state_bytes
    assert small.nbytes == large.nbytes == declared
    assert declared >= 2 * 2 * 8
    state, out = made.state(2, 20), []
    for t in range(20):
        out.append(made(tokens[:, t : t + 1], state=state))
    torch.testing.assert_close(torch.cat(out, 1), made(tokens), rtol=1e-4, atol=1e-5)
    held = state.layers[0]["ngrams"]
    recent = held.recent if part.kind == "hashed_ngrams" else held["tokens"].recent
    assert torch.equal(recent, tokens[:, -2:])


def test_a_token_reads_a_row_of_each_table_and_multiplies_none():
    plain, large, larger = (
        af.cost(model(HashedNgrams(ngrams=NGRAMS.but(rows=rows))), mode="decode", length=64, plan=Plan(precision="fp32"))
        for rows in (11, 1009, 100_003)
    )
    assert larger.params.total > 50 * large.params.total
    assert larger.params.active == large.params.active == plain.params.active
    part = HashedNgrams(ngrams=NGRAMS)
    tally = part.cost(D, Shape(batch=3, length=5), Plan())
    assert tally.total_flops.dense == 0
    weight = tally.weights["ngrams.table"]
    assert (weight.count, weight.active) == (NGRAMS.total * D, NGRAMS.tables * D)
    assert large.flops.forward.exact == larger.flops.forward.exact
    tally = ENGRAM.cost(D, Shape(batch=3, length=5), Plan())
    assert tally.total_flops.dense == 2 * 15 * 2 * (8 * 3) * D, "key and value of eight rows of three"


def test_decoding_reads_as_many_rows_as_tables():
    made, bare = model(HashedNgrams(ngrams=NGRAMS)), model(Constant())
    of_all, of_one = (read_per_step(each, FORMATS["bf16"], length=10).weights for each in (made, bare))
    assert of_all - of_one == 2 * D * (NGRAMS.tables - 1), "a constant is one row"


def test_the_gate_follows_the_stream():
    made = ENGRAM.but(convolution=None).build(D, Plan(), "engram")
    torch.manual_seed(0)
    for each in made.parameters():
        torch.nn.init.normal_(each)
    tokens = torch.randint(V, (1, 6))
    x = torch.randn(1, 6, D)
    key = made.key(made.ngrams(context(tokens)).flatten(2))
    towards, away = (made.gate(sign * made.key_norm(key) / made.query_norm.weight, key) for sign in (1, -1))
    assert (towards > 0.5).all()
    torch.testing.assert_close(towards + away, torch.ones_like(away))
    assert not torch.allclose(made(x, context(tokens)), made(-x, context(tokens)))


def test_a_tiny_variant_has_small_tables():
    published = NGRAMS.but(vocab=129_280, rows=20_000_000, multiple=128, heads=8, before=128_000, ends=128_000)
    large = change(model(ENGRAM.but(ngrams=published)), "embedding.vocab", 129_280)
    small = tiny(large)
    found = small.decoder.variants["layer_a"].branches["ngrams"].sublayer.ngrams
    assert (found.vocab, found.rows, found.before, found.ends) == (288, 32, 287, 287)
    assert small.cost(Shape()).parameters < 30_000


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"shortest": 4}, "shortest = 4 is more than longest = 3: exchange them"),
        ({"ends": V}, f"ends = {V} is no token of a vocabulary of {V}"),
        ({"before": 99}, f"before = 99 is no token of a vocabulary of {V}"),
    ],
)
def test_what_does_not_fit_is_refused(changes, told):
    with pytest.raises(DescriptionError, match=told):
        NGRAMS.but(**changes)


def qwen():
    from transformers.models.qwen4_exp.configuration_qwen4_exp import Qwen4ExpTextConfig

    sizes = {"vocab_size": V, "hidden_size": D, "num_hidden_layers": 4, "ple_embed_dim": 24, "ngram_size": 3}
    made = Qwen4ExpTextConfig(
        **sizes, heads_per_ngram=4, ngram_vocab_size_base=101, make_ngram_vocab_size_divisible_by=64, seed=11,
        ple_layer_ids=[1, 3], ple_conv_kernel_size=4, eos_token_id=7, layer_types=["linear_attention"] * 4,
    )  # fmt: skip
    made.hc_count = 1  # which the configuration refuses for a whole model
    return made


@pytest.mark.parametrize("index", [0, 1])
def test_one_stream_of_qwen4_exp_is_the_same(index):
    """transformers' `Qwen4ExpTextPLELayer`: outputs and gradients, and what texts that an end token separates read."""
    from transformers.models.qwen4_exp.modeling_qwen4_exp import Qwen4ExpTextPLELayer

    config = qwen()
    theirs = Qwen4ExpTextPLELayer(config, 2 * index, index).double()
    ngrams = NGRAMS.but(seed=11, index=index, multiple=64, before=7, ends=7)
    norm = RMSNorm(eps=config.rms_norm_eps, gain="one_plus_weight")
    ours = Engram(ngrams=ngrams, width=3, norm=norm, convolution=CONVOLUTION).build(D, Plan(), "engram").double()
    torch.manual_seed(index)
    for each in theirs.parameters():
        torch.nn.init.normal_(each, std=0.5)
    names = {
        "ngrams.table": "ple_embedding.ngram_embedding.weight", "key.weight": "key_proj.weight",
        "value.weight": "value_proj.weight", "query_norm.weight": "norm_query.weight", "key_norm.weight": "norm_key.weight",
        "convolution_norm.weight": "norm_conv.weight", "convolution.weight": "conv1d.weight",
    }  # fmt: skip
    given = dict(theirs.named_parameters())
    assert set(names.values()) == set(given)
    own = dict(ours.named_parameters())
    for name, other in names.items():
        own[name].data = given[other].data.reshape(own[name].shape).clone()
    tokens, x = torch.randint(V, (2, 40)), torch.randn(2, 40, D, dtype=torch.float64, requires_grad=True)
    tokens[:, [9, 10, 25]] = 7
    again = x.detach().clone().requires_grad_()
    y, expected = ours(x, context(tokens)), theirs(again, tokens, None)
    torch.testing.assert_close(y, expected, rtol=1e-5, atol=1e-6)
    weights = torch.randn_like(expected)
    (y * weights).sum().backward()
    (expected * weights).sum().backward()
    torch.testing.assert_close(x.grad, again.grad, rtol=1e-4, atol=1e-5)
    for name, other in names.items():
        torch.testing.assert_close(own[name].grad, given[other].grad.view_as(own[name]), rtol=1e-4, atol=1e-4)
