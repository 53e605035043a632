"""Encoders after BERT by other makers: more languages, relative or rotary positions, permuted or local attention."""

from __future__ import annotations

from functools import partial

from anyformer.catalogue.bert import SMALL_NORMAL, bert, masked_head, post_norm_encoder
from anyformer.catalogue.entry import Entry
from anyformer.describe import change, change_all
from anyformer.model import Architecture, encoder_only
from anyformer.parts import (
    AdaptedNorm,
    Attention,
    Bidirectional,
    Embedding,
    FeedForward,
    Head,
    InputProjection,
    LayerNorm,
    LearnedPosition,
    Projection,
    RelativeBuckets,
    Rotary,
    Score,
    SharedBias,
    Softmax,
    Transform,
    TransformerXL,
    Window,
    post_norm,
    pre_norm,
)
from anyformer.parts.attention.projection import PROJECTIONS


def xlm_roberta_xl(*, width: int, depth: int, heads: int) -> Architecture:
    """Goyal et al. 2021 (arXiv 2105.00572), section 3: RoBERTa with norms before sublayers and one at the end; FFN 4 D."""
    norm = LayerNorm(eps=1e-5)
    attention = Attention(heads=heads, mask=Bidirectional(), project=Projection(bias=PROJECTIONS), weigh=Softmax(dropout=0.1))
    network = FeedForward(width=4 * width, activation="gelu", gated=False, bias=("up", "down"))
    block = change(pre_norm(norm, attention, network), "attention.dropout", 0.1)
    return encoder_only(
        Embedding(vocab=250_880, types=1),
        width,
        [block] * depth,
        position=LearnedPosition(length=512, offset=2),
        dropout=0.1,
        final_norm=norm,
        head=masked_head(norm, "gelu"),
        initialisation=SMALL_NORMAL,
    )


def mpnet() -> Architecture:
    """Song et al. 2020 (arXiv 2004.09297), section 2.2: BERT with T5's buckets of relative positions beside learned ones."""
    norm = LayerNorm(eps=1e-12)
    return encoder_only(
        Embedding(vocab=30_527),
        768,
        [post_norm_encoder(norm, Attention(heads=12, project=Projection(bias=PROJECTIONS)), 3072, "gelu", 0.1)] * 12,
        position=LearnedPosition(length=510, offset=2),
        score_bias=SharedBias(heads=12, buckets=RelativeBuckets(two_sided=True)),
        input_norm=norm,
        dropout=0.1,
        head=masked_head(norm, "gelu"),
        initialisation=SMALL_NORMAL,
    )


def rembert() -> Architecture:
    """Chung et al. 2020 (arXiv 2010.12821), section 6: narrow embeddings going in, a wide head of its own coming out."""
    norm = LayerNorm(eps=1e-12)
    return encoder_only(
        Embedding(vocab=250_300, types=2),
        1152,
        [post_norm_encoder(norm, Attention(heads=18, project=Projection(bias=PROJECTIONS)), 4608, "gelu", 0.0)] * 32,
        embedding_width=256,
        input_projection=InputProjection(),
        position=LearnedPosition(length=512),
        input_norm=norm,
        head=Head(bias=True, transform=Transform(activation="gelu", norm=norm, width=1664)),
        initialisation=SMALL_NORMAL,
    )


def roformer() -> Architecture:
    """Su et al. 2021 (arXiv 2104.09864), section 4.5: BERT with rotary positions in place of learned ones."""
    norm = LayerNorm(eps=1e-12)
    attention = Attention(heads=12, project=Projection(bias=PROJECTIONS), place=Rotary(theta=10_000.0, pairing="adjacent"))
    return encoder_only(
        Embedding(vocab=50_000, types=2),
        768,
        [post_norm_encoder(norm, attention, 3072, "gelu", 0.1)] * 12,
        input_norm=norm,
        dropout=0.1,
        head=masked_head(norm, "gelu"),
        initialisation=SMALL_NORMAL,
    )


def xlm() -> Architecture:
    """Conneau & Lample 2019 (arXiv 1901.07291), section 5.1: BERT's layers, and a head of the table alone."""
    made = bert(width=2048, depth=12, heads=16, ffn=8192, vocab=30_145, types=0)
    return made.but(head=Head(tied=True, bias=True))


def xlnet(*, width: int, depth: int, heads: int) -> Architecture:
    """Yang et al. 2019 (arXiv 1906.08237), section 2: Transformer-XL's positions, post-norm; FFN 4 D.

    It learns to predict tokens in any order; whole texts are read both ways.
    """
    norm = LayerNorm(eps=1e-12)
    attention = Attention(heads=heads, mask=Bidirectional(), score=Score(terms=TransformerXL()), weigh=Softmax(dropout=0.1))
    network = FeedForward(width=4 * width, activation="gelu", gated=False, bias=("up", "down"), dropout=0.1)
    return encoder_only(
        Embedding(vocab=32_000),
        width,
        [post_norm(norm, attention, network, dropout=0.1)] * depth,
        dropout=0.1,
        head=Head(tied=True, bias=True),
        initialisation=SMALL_NORMAL,
    )


def longformer(*, width: int, depth: int, heads: int) -> Architecture:
    """Beltagy et al. 2020 (arXiv 2004.05150), section 3.1: RoBERTa for 4,096 tokens, each of which sees 256 each way.

    Tokens that see all, and their second set of projections, are left aside.
    """
    made = bert(width=width, depth=depth, heads=heads, ffn=4 * width, vocab=50_265, types=1, offset=2, eps=1e-5)
    changes = {"encoder.layer.attention.mask": Window(size=257, after=256), "encoder.position.length": 4096}
    return change_all(made, changes)


_SPOKEN = """
    en_XX id_ID vi_VN ru_RU fa_IR sv_SE ja_XX fr_XX de_DE ro_RO ko_KR hu_HU es_XX fi_FI uk_UA da_DK pt_XX no_XX th_TH
    pl_PL bg_BG nl_XX zh_CN he_IL el_GR it_IT sk_SK hr_HR tr_TR ar_AR cs_CZ lt_LT hi_IN zh_TW ca_ES ms_MY sl_SI lv_LV
    ta_IN bn_IN et_EE az_AZ sq_AL sr_RS kk_KZ ka_GE tl_XX ur_PK is_IS hy_AM ml_IN mk_MK be_BY la_VA te_IN eu_ES gl_ES
    mn_MN kn_IN ne_NP sw_KE si_LK mr_IN af_ZA gu_IN cy_GB eo_EO km_KH ky_KG uz_UZ ps_AF pa_IN ga_IE ha_NG am_ET lo_LA
    ku_TR so_SO my_MM or_IN sa_IN
"""
"""The languages of X-MOD, in the order of its adapters."""


def xmod(*, width: int, depth: int, heads: int) -> Architecture:
    """Pfeiffer et al. 2022 (arXiv 2205.06266), section 3: XLM-RoBERTa with an adapter for each language behind each network."""
    made = _XLM_R(width=width, depth=depth, heads=heads, ffn=4 * width)
    norm = AdaptedNorm(norm=LayerNorm(eps=1e-5), rank=width // 2, languages=tuple(_SPOKEN.split()))
    return change(made, "encoder.layer.steps.1.norm_after", norm)


_XLM_R = partial(bert, vocab=250_002, types=1, offset=2, eps=1e-5)
_OF_XLM_R = "arXiv 1911.02116, appendix; released configuration xlm-roberta-{}"
_OF_XL = "arXiv 2105.00572, section 3; released configuration xlm-roberta-{}"
_LANGUAGES = "RoBERTa in 100 languages"

ENTRIES = (
    Entry("xlm-mlm-en-2048", 2019, "BERT's layers, 2,048 wide",
          "arXiv 1901.07291, section 5.1; transformers 5.23, defaults of XLMConfig (FacebookAI/xlm-mlm-en-2048)", xlm,
          organisation="Meta"),
    Entry("xlnet-base", 2019, "Transformer-XL's positions, tokens in any order",
          "arXiv 1906.08237, appendix A.4; released configuration xlnet-base-cased",
          partial(xlnet, width=768, depth=12, heads=12), organisation="Carnegie Mellon and Google"),
    Entry("xlnet-large", 2019, "Transformer-XL's positions, tokens in any order",
          "arXiv 1906.08237, appendix A.4; released configuration xlnet-large-cased",
          partial(xlnet, width=1024, depth=24, heads=16), organisation="Carnegie Mellon and Google"),
    Entry("xlm-roberta-base", 2019, _LANGUAGES, _OF_XLM_R.format("base"),
          partial(_XLM_R, width=768, depth=12, heads=12, ffn=3072), organisation="Meta"),
    Entry("xlm-roberta-large", 2019, _LANGUAGES, _OF_XLM_R.format("large"),
          partial(_XLM_R, width=1024, depth=24, heads=16, ffn=4096), organisation="Meta"),
    Entry("xlm-roberta-xl", 2021, _LANGUAGES + ", pre-norm", _OF_XL.format("xl"),
          partial(xlm_roberta_xl, width=2560, depth=36, heads=32), organisation="Meta"),
    Entry("xlm-roberta-xxl", 2021, _LANGUAGES + ", pre-norm", _OF_XL.format("xxl"),
          partial(xlm_roberta_xl, width=4096, depth=48, heads=32), organisation="Meta"),
    Entry("xmod-base", 2022, "RoBERTa with adapters for 81 languages, of which one is spoken",
          "arXiv 2205.06266, section 3; released configuration xmod-base",
          partial(xmod, width=768, depth=12, heads=12), organisation="Meta"),
    Entry("longformer-base-4096", 2020, "RoBERTa that sees 256 tokens each way",
          "arXiv 2004.05150, section 5; released configuration longformer-base-4096",
          partial(longformer, width=768, depth=12, heads=12), organisation="Ai2"),
    Entry("longformer-large-4096", 2020, "RoBERTa that sees 256 tokens each way",
          "arXiv 2004.05150, section 5; released configuration longformer-large-4096",
          partial(longformer, width=1024, depth=24, heads=16), organisation="Ai2"),
    Entry("mpnet-base", 2020, "BERT with relative positions beside learned ones",
          "arXiv 2004.09297, section 3.1; transformers 5.23, defaults of MPNetConfig (microsoft/mpnet-base)", mpnet,
          organisation="Microsoft"),
    Entry("rembert", 2020, "embeddings 256 wide, a head 1,664 wide, in 110 languages",
          "arXiv 2010.12821, section 6; transformers 5.23, defaults of RemBertConfig (google/rembert)", rembert,
          organisation="Google"),
    Entry("roformer-chinese-base", 2021, "BERT with rotary positions",
          "arXiv 2104.09864, section 4.5; transformers 5.23, defaults of RoFormerConfig (junnyu/roformer_chinese_base)",
          roformer, organisation="Zhuiyi"),
)  # fmt: skip
