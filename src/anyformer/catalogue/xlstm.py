"""xLSTM: recurrent networks with matrix memories."""

from __future__ import annotations

from anyformer.catalogue.entry import Entry
from anyformer.model import Architecture, decoder_only
from anyformer.parts import MLSTM, Embedding, FeedForward, GroupedLayerNorm, Head, RMSNorm, pre_norm


def xlstm_7b() -> Architecture:
    """Beck et al. 2025 (arXiv 2503.13427), section 2: mLSTM with keys of half a head, then a network."""
    norm = RMSNorm(eps=1e-6)
    inner = GroupedLayerNorm(groups=8, eps=1e-6, bias=False, cast="before_gain")
    block = pre_norm(norm, MLSTM(heads=8, key_width=256, value_width=512, norm=inner), FeedForward(width=10_944))
    head = Head(softcap=30.0)
    return decoder_only(Embedding(vocab=50_304), 4096, [block] * 32, final_norm=norm, head=head)


ENTRIES = (
    Entry("xlstm-7b", 2025, "mLSTM, capped exponential gates", "arXiv 2503.13427, section 2; released configuration xLSTM-7b",
          xlstm_7b),
)  # fmt: skip
