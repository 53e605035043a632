"""Tiny architectures for every kind of input, way of reading a source, and shape of embedding and head."""

from __future__ import annotations

from anyformer.model import Architecture, decoder_only, encoder_decoder, encoder_only
from anyformer.parts import (
    Attention,
    AudioFrames,
    Axial,
    Bidirectional,
    Causal,
    Centred,
    ConvolutionalPosition,
    CrossAttention,
    Embedding,
    EncodedImages,
    EncodedWaves,
    Features,
    FeedForward,
    GappedPosition,
    GatedFrames,
    Head,
    InputProjection,
    Latents,
    LayerNorm,
    LearnedPosition,
    MarkedEmbedding,
    Marks,
    MarkSpan,
    MaskedTokens,
    NarrowTable,
    Patches,
    Prefix,
    RMSNorm,
    Rotary,
    RowNorm,
    SinusoidalPosition,
    Transform,
    TreePlacedEmbedding,
    WaveLayer,
    Waves,
    Window,
    post_norm,
    pre_norm,
    stack,
)
from anyformer.testing.around import LOUD, VOCAB, WIDTH

NARROW = 10
RMS, LAYER = RMSNorm(), LayerNorm()
FEED, PLAIN_FEED = FeedForward(width=20), FeedForward(width=20, activation="gelu", gated=False, bias=("up", "down"))
SELF, BOTH = Attention(heads=4, place=Rotary()), Attention(heads=4, mask=Bidirectional())
CROSS = CrossAttention(heads=4, kv_heads=2)
READER = pre_norm(RMS, BOTH.but(rotary=Rotary()), FEED)
PREFIXED = pre_norm(RMS, SELF.but(mask=Causal() | Prefix()), FEED)
SHORT_WAVES = Waves(layers=(WaveLayer(kernel=5, stride=3, channels=6), WaveLayer(kernel=2, norm=LAYER)), norm=LAYER)

NARROW_DECODERS = {
    "narrow_first": decoder_only(
        Embedding(vocab=VOCAB),
        WIDTH,
        [pre_norm(LAYER, BOTH.but(mask=Causal()), FEED)] * 2,
        embedding_width=NARROW,
        input_projection=InputProjection(place="first", bias=False),
        position=LearnedPosition(length=32),
        head=Head(tied=True, transform=Transform(bias=False)),
        initialisation=LOUD,
    ),
}

NARROW_ENCODERS = {
    "narrow_last": encoder_only(
        Embedding(vocab=VOCAB, types=2),
        WIDTH,
        [post_norm(LAYER, BOTH, PLAIN_FEED)] * 2,
        embedding_width=NARROW,
        input_projection=InputProjection(),
        position=LearnedPosition(length=32),
        input_norm=LAYER,
        head=Head(tied=True, bias=True, transform=Transform(activation="gelu", norm=LAYER)),
        initialisation=LOUD,
    ),
    "trigrams": encoder_only(
        Embedding(vocab=VOCAB, types=2, scale=1.3, narrow=NarrowTable(width=NARROW, around=1)),
        WIDTH,
        [post_norm(LAYER, BOTH, PLAIN_FEED)],
        position=LearnedPosition(length=32),
        head=Head(tied=True, own=WIDTH - NARROW, bias=True, transform=Transform(activation="relu", norm=LAYER)),
        initialisation=LOUD,
    ),
    "narrow_table": encoder_only(
        Embedding(vocab=VOCAB, narrow=NarrowTable(width=NARROW)), WIDTH, [READER], head=Head(), initialisation=LOUD
    ),
    "transform": encoder_only(
        Embedding(vocab=VOCAB, types=1),
        WIDTH,
        [post_norm(LAYER, BOTH, PLAIN_FEED)],
        position=SinusoidalPosition(),
        head=Head(tied=True, bias=True, transform=Transform(activation="gelu", norm=LAYER)),
        initialisation=LOUD,
    ),
    "narrow_labels": encoder_only(
        Embedding(vocab=VOCAB),
        WIDTH,
        [READER],
        embedding_width=NARROW,
        input_projection=InputProjection(),
        head=Head(bias=True, transform=Transform(activation="gelu", norm=LAYER, width=WIDTH + 3, inner=WIDTH + 5)),
        initialisation=LOUD,
    ),
    "marked_tokens": encoder_only(
        MarkedEmbedding(
            vocab=VOCAB,
            types=2,
            scale=1.3,
            masked=MaskedTokens(token=27, share=0.3),
            marks=(
                Marks(rows=9, of=(0, 2)),
                Marks(rows=7, spans=(MarkSpan(first=0, last=2), MarkSpan(first=1, last=3))),
                Marks(rows=5, of=(1,), width=6),
            ),
        ),
        WIDTH,
        [READER],
        head=Head(tied=True),
        initialisation=LOUD,
    ),
    "tree_placed_tokens": encoder_only(
        TreePlacedEmbedding(
            vocab=VOCAB,
            types=2,
            scale=1.3,
            masked=MaskedTokens(token=27, share=0.3),
            narrow=NarrowTable(width=NARROW),
            depth=3,
            tags=5,
            subscripts=7,
            features=4,
            inner=9,
            no_tag=3,
            no_subscript=2,
        ),
        WIDTH,
        [READER],
        head=Head(),
        initialisation=LOUD,
    ),
    "marked_narrow_tokens": encoder_only(
        MarkedEmbedding(vocab=VOCAB, narrow=NarrowTable(width=NARROW), marks=(Marks(rows=9, of=(0,)),)),
        WIDTH,
        [READER],
        head=Head(),
        initialisation=LOUD,
    ),
    "masked_tokens": encoder_only(
        Embedding(vocab=VOCAB, types=2, masked=MaskedTokens(token=27, share=0.3)),
        WIDTH,
        [READER],
        head=Head(tied=True),
        initialisation=LOUD,
    ),
    "labels": encoder_only(Embedding(vocab=VOCAB), WIDTH, [READER], head=Head(outputs=3, bias=True), initialisation=LOUD),
}

TEXT_PAIRS = {
    "pair_prefix": encoder_decoder(
        Embedding(vocab=VOCAB), WIDTH, stack([READER]), stack([PREFIXED] * 2), source="prefix", initialisation=LOUD
    ),
    "pair_without_encoder": Architecture(
        width=WIDTH,
        embedding=Embedding(vocab=VOCAB),
        decoder_embedding=Embedding(vocab=29),
        decoder=stack([pre_norm(RMS, SELF, CROSS, FEED)]),
        head=Head(tied=True),
        initialisation=LOUD,
    ),
}

SOURCES = {
    "text_of_features": Architecture(
        width=WIDTH,
        embedding=Features(features=5, norm=RMS),
        decoder_embedding=Embedding(vocab=VOCAB),
        decoder=stack([pre_norm(RMS, SELF, CROSS, FEED)] * 2),
        head=Head(),
        initialisation=LOUD,
    ),
    "features_before_text": Architecture(
        width=WIDTH,
        embedding=Features(features=5),
        decoder_embedding=Embedding(vocab=VOCAB),
        decoder=stack([PREFIXED, pre_norm(RMS, SELF.but(mask=Window(size=4)), FEED)], final_norm=RMS),
        source="prefix",
        head=Head(tied=True),
        initialisation=LOUD,
    ),
    "image_before_text": encoder_decoder(
        Patches(size=2, class_tokens=1),
        WIDTH,
        stack([pre_norm(LAYER, BOTH, PLAIN_FEED)], position=LearnedPosition(length=20)),
        stack([PREFIXED] * 2, final_norm=RMS),
        decoder_embedding=Embedding(vocab=VOCAB),
        source="prefix",
        initialisation=LOUD,
    ),
    "image_of_another_width": Architecture(
        width=WIDTH,
        embedding=EncodedImages(
            width=20,
            patches=Patches(size=2, class_tokens=1),
            stack=stack([pre_norm(LAYER, BOTH, PLAIN_FEED)] * 2, position=LearnedPosition(length=20), final_norm=LAYER),
        ),
        decoder_embedding=Embedding(vocab=VOCAB),
        decoder=stack(
            [
                pre_norm(LAYER, SELF, CROSS.but(source_width=20), PLAIN_FEED),
                pre_norm(LAYER, SELF, CROSS.but(source_width=20, source_norm=LAYER), PLAIN_FEED),
            ]
        ),
        head=Head(tied=True),
        initialisation=LOUD,
    ),
    "image_projected": Architecture(
        width=WIDTH,
        embedding=EncodedImages(
            width=20,
            patches=Patches(size=2, class_tokens=1, coordinates=Centred()),
            stack=stack([pre_norm(LAYER, BOTH.but(head_width=8, rotary=Rotary(theta=100.0, axes=Axial())), PLAIN_FEED)]),
            projected=True,
        ),
        decoder_embedding=Embedding(vocab=VOCAB),
        decoder=stack([pre_norm(LAYER, SELF, CROSS, PLAIN_FEED)]),
        initialisation=LOUD,
    ),
    "waves_of_another_width": Architecture(
        width=WIDTH,
        embedding=EncodedWaves(
            width=20,
            narrow=NARROW,
            waves=SHORT_WAVES,
            stack=stack([post_norm(LAYER, BOTH, PLAIN_FEED)], input_projection=InputProjection(place="first")),
        ),
        decoder_embedding=Embedding(vocab=VOCAB),
        decoder=stack([pre_norm(LAYER, SELF, CROSS.but(source_width=20), PLAIN_FEED)]),
        head=Head(tied=True),
        initialisation=LOUD,
    ),
    "waves_projected": Architecture(
        width=WIDTH,
        embedding=EncodedWaves(
            width=20, waves=SHORT_WAVES, stack=stack([pre_norm(LAYER, BOTH, PLAIN_FEED)] * 2, final_norm=LAYER), projected=True
        ),
        decoder_embedding=Embedding(vocab=VOCAB),
        decoder=stack([pre_norm(LAYER, SELF, CROSS, PLAIN_FEED)]),
        initialisation=LOUD,
    ),
    "speech_to_text": encoder_decoder(
        AudioFrames(features=6),
        WIDTH,
        stack([pre_norm(LAYER, BOTH, PLAIN_FEED)], position=SinusoidalPosition(), final_norm=LAYER),
        stack([pre_norm(LAYER, BOTH.but(mask=Causal()), CROSS, PLAIN_FEED)], position=LearnedPosition(length=32)),
        decoder_embedding=Embedding(vocab=VOCAB),
        head=Head(tied=True),
        initialisation=LOUD,
    ),
}

ALONE = {
    "vision": encoder_only(
        Patches(size=2, class_tokens=1),
        WIDTH,
        [pre_norm(LAYER, BOTH, PLAIN_FEED)] * 2,
        position=LearnedPosition(length=20),
        final_norm=LAYER,
        head=Head(outputs=7, pool="first", bias=True),
        initialisation=LOUD,
    ),
    "registers": encoder_only(
        Patches(size=2, class_tokens=3),
        WIDTH,
        [pre_norm(LAYER, BOTH, PLAIN_FEED)],
        position=GappedPosition(length=22, gap=2),
        final_norm=LAYER,
        head=Head(outputs=7, pool="first_and_mean", front=3, bias=True),
        initialisation=LOUD,
    ),
    "registers_at_first": encoder_only(
        Patches(size=2, class_tokens=1),
        WIDTH,
        [READER],
        position=GappedPosition(length=20, start=0, gap=1),
        head=Head(outputs=7, pool="mean", front=1, transform=Transform(activation="tanh")),
        initialisation=LOUD,
    ),
    "centred_patches": encoder_only(
        Patches(size=2, class_tokens=2, coordinates=Centred(turns=0.5)),
        WIDTH,
        [pre_norm(LAYER, BOTH.but(head_width=8, rotary=Rotary(theta=100.0, axes=Axial())), PLAIN_FEED)] * 2,
        head=Head(outputs="features", pool="first_and_mean", front=2),
        initialisation=LOUD,
    ),
    "patches_without_class": encoder_only(
        Patches(size=3, channels=1, bias=False), WIDTH, [READER], head=Head(outputs=5), initialisation=LOUD
    ),
    "pooled_mean": encoder_only(
        Features(features=5, bias=False),
        WIDTH,
        [READER],
        head=Head(outputs=4, pool="mean", transform=Transform(activation="tanh")),
        initialisation=LOUD,
    ),
    "pooled_text": encoder_only(
        Embedding(vocab=VOCAB), WIDTH, [READER], head=Head(outputs=4, pool="first"), initialisation=LOUD
    ),
    "pooler": encoder_only(
        Embedding(vocab=VOCAB),
        WIDTH,
        [READER],
        head=Head(outputs="features", pool="first", transform=Transform(activation="tanh")),
        initialisation=LOUD,
    ),
    "sentences": encoder_only(
        Embedding(vocab=VOCAB), WIDTH, [READER], head=Head(outputs="features", pool="mean"), initialisation=LOUD
    ),
    "classifying_decoder": decoder_only(
        Embedding(vocab=VOCAB),
        WIDTH,
        [pre_norm(RMS, SELF, FEED)] * 2,
        head=Head(outputs=4, pool="last", passed_over=5),
        initialisation=LOUD,
    ),
    "audio": encoder_only(AudioFrames(features=6), WIDTH, [READER], initialisation=LOUD),
    "gated_audio": encoder_only(
        GatedFrames(features=3, kernels=(3, 5), channels=8, scale=1.5), WIDTH, [READER], initialisation=LOUD
    ),
    "waves": encoder_only(
        Waves(
            layers=(
                WaveLayer(kernel=5, stride=3, channels=6, row_norm=RowNorm()),
                WaveLayer(kernel=3, stride=2, channels=8, bias=True, norm=LAYER, activation="silu"),
                WaveLayer(kernel=2, row_norm=RowNorm(groups=2, eps=1e-3), row_norm_at="after_activation", activation="tanh"),
            ),
            norm=LAYER,
        ),
        WIDTH,
        [post_norm(LAYER, BOTH, PLAIN_FEED)],
        embedding_width=NARROW,
        input_projection=InputProjection(place="first"),
        position=ConvolutionalPosition(kernel=4, groups=2, weights="normed"),
        input_norm=LAYER,
        head=Head(outputs=7, bias=True),
        initialisation=LOUD,
    ),
    "convolutional_positions": encoder_only(
        Embedding(vocab=VOCAB),
        WIDTH,
        [pre_norm(LAYER, BOTH, PLAIN_FEED)],
        position=ConvolutionalPosition(
            length=32, kernel=3, groups=4, layers=2, norm=LAYER.but(gain="none", bias=False), activation="tanh"
        ),
        final_norm=LAYER,
        initialisation=LOUD,
    ),
    "latents_of_an_image": Architecture(
        width=WIDTH,
        embedding=Patches(size=2),
        latents=Latents(count=4, position=LearnedPosition(length=20)),
        decoder=stack([pre_norm(LAYER, CROSS, BOTH, FEED)]),
        head=Head(outputs=6, pool="mean"),
        initialisation=LOUD,
    ),
}
