"""Every mixer trains through the normal loop, and what it learnt generates.

Some in each run of the tests; there the contracts hold every mixer's gradients against its twin, and the catalogue trains it.
"""

from __future__ import annotations

import pytest
from rich.console import Console
from zoo import LATENT
from zoo_recurrent import HYBRIDS, MIXERS

from anyformer.data import Text
from anyformer.generation import Sampling, generate
from anyformer.model import decoder_only
from anyformer.parts import (
    ALiBi,
    Attention,
    Causal,
    Chunk,
    Differential,
    Disentangled,
    Embedding,
    Experts,
    FeedForward,
    Fixed,
    Head,
    HyperConnections,
    RelativeBuckets,
    RelativeTable,
    RMSNorm,
    Rotary,
    Score,
    Strided,
    TransformerXL,
    Window,
    pre_norm,
)
from anyformer.training import AdamW, Checkpoints, Evaluation, Run, train
from anyformer.training.journal import read_metrics

ATTENTION = Attention(heads=2, place=Rotary())
KINDS = {
    "window": ATTENTION.but(mask=Window(size=8)),
    "strided": ATTENTION.but(mask=Window(size=4) | (Causal() & Strided(stride=4))),
    "fixed": ATTENTION.but(mask=Causal() & (Chunk(size=8) | Fixed(size=8))),
    "sink": ATTENTION.but(sink="head"),
    "alibi": Attention(heads=2, score=Score(terms=ALiBi())),
    "buckets": Attention(heads=2, score=Score(terms=RelativeBuckets())),
    "transformer_xl": Attention(heads=2, score=Score(terms=TransformerXL())),
    "disentangled": Attention(heads=2, score=Score(terms=Disentangled(span=16))),
    "virtual_tokens": ATTENTION.but(virtual_tokens=2),
    "differential": Attention(heads=4, place=Rotary(), weigh=Differential()),
    "latent": LATENT,
    "streams": ATTENTION,
    **{mixer.kind: mixer for mixer in reversed(MIXERS.values())},
    **{name: MIXERS[name] for name in HYBRIDS},
}


FAST = ("window", "latent", "virtual_tokens", "streams", "experts", next(iter(HYBRIDS)))


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in FAST else pytest.mark.slow) for name in [*KINDS, "experts"]]
)
def test_it_trains_and_generates(name, tiny, tmp_path):
    feed = Experts(experts=4, chosen=2, width=16) if name == "experts" else FeedForward(width=32)
    around = {"relative": RelativeTable(span=16)} if name == "disentangled" else {}
    if name == "streams":
        around["streams"] = HyperConnections(count=2)
    architecture = decoder_only(
        Embedding(vocab=257), 24, [pre_norm(RMSNorm(), KINDS.get(name, ATTENTION), feed)] * 2,
        final_norm=RMSNorm(), head=Head(tied=True), **around,
    )  # fmt: skip
    run: Run = tiny.but(
        architecture=architecture, steps=40, accumulation=1, data=Text(paths=tiny.data.paths, tokenizer=tiny.data.tokenizer),
        optimiser=AdamW(learning_rate=1e-2), checkpoints=Checkpoints(every=40), evaluation=Evaluation(every=40, baseline=False),
    )  # fmt: skip
    trained = train(run, tmp_path / "run", console=Console(quiet=True))
    losses = [row["loss"] for row in read_metrics(tmp_path / "run") if row["kind"] == "train"]
    # Uniform bytes are ln 257 = 5.55; the text's letter frequencies alone are about 3.2.
    assert losses[0] > 5
    assert sum(losses[-5:]) / 5 < 3.0
    text = generate(trained.model, trained.tokenizer, ["def f", "x"], max_tokens=12, sampling=Sampling(temperature=0))
    assert all(len(piece) > 0 for piece in text)
