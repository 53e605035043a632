"""Value embeddings: rows of a table of tokens added to values, with and without a gate."""

from __future__ import annotations

from math import prod

import pytest
import torch

from anyformer.describe import DescriptionError, InputError
from anyformer.model import decoder_only
from anyformer.model.transformer import Transformer, build
from anyformer.operations import Shape
from anyformer.parts import (
    Attention,
    Embedding,
    FeedForward,
    Gate,
    Projection,
    RMSNorm,
    ValueEmbedding,
    pre_norm,
)
from anyformer.plan import Plan
from anyformer.testing.around import LOUD

D, V = 24, 37
X = torch.randint(0, V, (2, 9), generator=torch.Generator().manual_seed(0))
ROWS = ValueEmbedding(vocab=V)
READS = Attention(heads=4, kv_heads=2, project=Projection(adjust=ROWS))


def made(attention: Attention) -> Transformer:
    layer = pre_norm(RMSNorm(), attention, FeedForward(width=20))
    return build(decoder_only(Embedding(vocab=V), D, [layer], initialisation=LOUD)).eval()


def given(model: Transformer, **numbers: float) -> Transformer:
    """The model with these numbers in the weights whose names end so."""
    with torch.no_grad():
        for name, weight in model.named_parameters():
            for end, number in numbers.items():
                if name.endswith(f".value_embedding.{end.replace('_', '.')}"):
                    weight.fill_(number)
    return model


@torch.no_grad()
def test_rows_of_zeros_are_plain_attention():
    plain, reads = made(READS.but(value_embedding=None)), given(made(READS), table=0.0)
    plain.load_state_dict({name: each for name, each in reads.state_dict().items() if ".value_embedding." not in name})
    assert torch.equal(reads(X), plain(X))


@torch.no_grad()
def test_a_gate_of_one_half_at_scale_2_is_none():
    gated = given(made(READS.but(value_embedding=ROWS.but(gate=Gate(per="head"), scale=2.0))), gate_projection_weight=0.0)
    free = made(READS)
    free.load_state_dict({name: each for name, each in gated.state_dict().items() if ".value_embedding.gate." not in name})
    torch.testing.assert_close(gated(X), free(X))


@torch.no_grad()
def test_a_row_reaches_its_token_and_what_follows():
    reads, x = made(READS), X[:1]
    before = reads(x)
    (table,) = (each for name, each in reads.named_parameters() if name.endswith(".value_embedding.table"))
    table[x[0, 4]] += 1
    changed = (reads(x) - before).abs().amax((0, 2)) > 1e-6
    first = (x[0] == x[0, 4]).nonzero()[0].item()
    assert changed.nonzero().flatten().tolist() == list(range(first, 9))


def test_its_table_is_cut_with_the_heads_of_values():
    whole, half = (part.cost(D, Shape(batch=1, length=2), Plan()).weights for part in (READS, READS.narrowed(D, 2)))
    assert whole["value_embedding.table"].shape == (V, 2 * 6)
    assert prod(half["value_embedding.table"].shape) == V * 6


def test_a_row_costs_no_product():
    shape = Shape(batch=2, length=5)
    one, other = (part.cost(D, shape, Plan()).total_flops for part in (READS, READS.but(value_embedding=None)))
    assert one == other


def test_tokens_beyond_its_table_are_refused():
    with pytest.raises(InputError, match="tokens of a value embedding run from 0 to 36, and the table has rows 0 to 29"):
        made(READS.but(value_embedding=ROWS.but(vocab=30)))(torch.arange(V)[None])


def test_a_layer_without_values_of_its_own_refuses_it():
    with pytest.raises(DescriptionError, match="no keys and values of its own: leave value_embedding out"):
        READS.but(keys_from="other")
