"""Random valid architectures: every choice is drawn from a seed, so that a failure can be had again by its number."""

from __future__ import annotations

import random

from zoo_recurrent import MIXERS

from anyformer.model import Architecture, decoder_only, encoder_decoder, encoder_only
from anyformer.parts import (
    ALiBi,
    AlternatingUpdates,
    Attention,
    BatchNorm,
    Bidirectional,
    BlockWindow,
    Causal,
    Chunk,
    CrossAttention,
    Differential,
    DynamicTanh,
    Embedding,
    Experts,
    FeedForward,
    Fixed,
    ForgettingGate,
    Gate,
    GatedNorm,
    GlobalTokens,
    GroupedLayerNorm,
    Head,
    HyperConnections,
    Initialisation,
    LatentAttention,
    LayerEmbedding,
    LayerNorm,
    LearnedPosition,
    LengthTemperature,
    LinearScaling,
    Llama3Scaling,
    LogTemperature,
    Normal,
    Projection,
    Proportional,
    QKNorm,
    RelativeBuckets,
    RelativeLogits,
    Renormalise,
    RMSNorm,
    Rotary,
    Router,
    Score,
    SharedExpert,
    SigmoidWeights,
    SinusoidalPosition,
    Softmax,
    Softpick,
    Strided,
    TopK,
    TransformerXL,
    VerticalStride,
    Window,
    YaRN,
    output_norm,
    parallel,
    post_norm,
    pre_norm,
    sandwich,
    stack,
)
from anyformer.parts.pointwise.activation import ACTIVATIONS

VOCAB, WIDTH = 37, 24


class Draw:
    """One random architecture."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def maybe(self, value, chance: float = 0.3):
        return value if self.random.random() < chance else None

    def one(self, *values):
        return self.random.choice(values)

    def norm(self):
        gain = self.one("weight", "one_plus_weight", "none")
        return self.one(
            RMSNorm(gain=gain, cast=self.one("before_gain", "after_gain")),
            LayerNorm(gain=gain, bias=self.one(True, False)),
            GroupedLayerNorm(groups=self.one(1, 2), gain=gain),
            BatchNorm(over=self.one("batch", "position"), gain=gain, momentum=1.0),
            DynamicTanh(),
            GatedNorm(norm=self.one(RMSNorm(gain=gain), LayerNorm()), rank=3),
        )

    def per_head_norm(self):
        return self.one(RMSNorm(), RMSNorm(gain="none"), LayerNorm())

    def causal_mask(self):
        back = self.one(
            Window(size=self.random.randint(1, 6)), Chunk(size=3), Window(size=3) | Strided(stride=3),
            Chunk(size=4) | Fixed(size=4, summary=2), Window(size=2) | GlobalTokens(count=2),
            BlockWindow(block=2, count=2) | VerticalStride(block=2, stride=3),
        )  # fmt: skip
        return self.one(Causal(), Causal() & back)

    def mask(self, causal: bool):
        if causal:
            return self.causal_mask()
        return self.one(Bidirectional(), Window(size=3, after=2), Chunk(size=4), Window(size=2) | GlobalTokens(count=1))

    def rotary(self):
        scaling = self.one(
            None,
            None,
            LinearScaling(factor=2.0),
            Llama3Scaling(trained=16),
            YaRN(factor=2.0, trained=16),
            Proportional(fraction=0.5),
        )
        return Rotary(
            theta=50.0, fraction=self.one(1.0, 0.5), pairing=self.one("halves", "adjacent"),
            place=self.one("first", "last"), scaling=scaling,
        )  # fmt: skip

    def position(self, causal: bool) -> dict:
        """How one attention knows where things stand."""
        bias = self.one(
            ALiBi(),
            RelativeBuckets(buckets=8, max_distance=9, two_sided=not causal),
            TransformerXL(),
            RelativeLogits(features=3, extent=self.one(4, 20)),
        )
        return self.one({}, {"rotary": self.rotary()}, {"score_bias": bias})

    def attention(self, causal: bool):
        heads, kv_heads, E = self.one((4, 4, 4), (4, 2, 8), (2, 2, 8), (4, 1, 4), (6, 2, 4))
        mask = self.mask(causal)
        plain = Attention(heads=heads, kv_heads=kv_heads, head_width=E, mask=mask)
        shared = {
            **self.position(causal),
            "forget": self.maybe(ForgettingGate(), 0.3 if mask.window is None else 0.0),
            "qk_norm": self.maybe(QKNorm(norm=self.per_head_norm())), "softcap": self.maybe(4.0), "clip": self.maybe(1.5),
            "sink": self.maybe("head"), "gate": self.maybe(Gate(per=self.one("feature", "head"))),
            "bias": self.one((), ("query", "key"), ("value", "output")), "sub_norm": self.maybe(RMSNorm(), 0.2),
            "value_norm": self.maybe(RMSNorm(gain="none"), 0.2),
            "temperature": self.maybe(self.one(LogTemperature(span=3), LengthTemperature(trained=4)), 0.2),
        }  # fmt: skip
        maps = Softmax(sink=shared.pop("sink"))
        if maps.sink is None:
            maps = self.maybe(self.one(SigmoidWeights(), Softpick()), 0.2) or maps
        if kv_heads > 1 and self.random.random() < 0.2:
            shared.pop("sub_norm")
            return plain.but(**shared, weigh=Differential(lambda_init=0.4, maps=maps))
        return plain.but(**shared, weigh=maps, virtual_tokens=self.maybe(2, 0.2))

    def latent(self, causal: bool):
        return LatentAttention(
            heads=3, kv_rank=6, q_rank=self.maybe(7), nope_width=4, rope_width=4, value_width=self.one(4, 5),
            norm=self.maybe(RMSNorm(), 0.7), rotary=self.maybe(Rotary(pairing="adjacent"), 0.7), mask=self.mask(causal),
        )  # fmt: skip

    def mixer(self, causal: bool):
        roll = self.random.random()
        if causal and roll < 0.2:
            return self.one(*MIXERS.values())
        return self.latent(causal) if roll < 0.35 else self.attention(causal)

    def feed(self):
        if self.random.random() < 0.15:
            shared = SharedExpert(feedforward=FeedForward(width=8))
            router = Router(
                score=self.one("softmax", "sigmoid"), choice=TopK(by=self.one("scores", "logits")), softcap=self.maybe(3.0),
                norm=self.maybe(RMSNorm()), renormalise=self.maybe(Renormalise()), expert_scale=self.one(True, False),
            )  # fmt: skip
            return Experts(
                experts=5, chosen=2, width=8, shared=self.maybe(shared), gated=self.one(True, False), router=router,
                identity_experts=self.one(0, 0, 3), norm=self.maybe(RMSNorm()), clamp=self.maybe(2.0),
            )  # fmt: skip
        gated = self.one(True, False)
        return FeedForward(
            width=self.one(8, 20), activation=self.one(*ACTIVATIONS), gated=gated, clamp=self.maybe(2.0, 0.2),
            bias=self.one((), ("down",)), sub_norm=self.maybe(RMSNorm(), 0.2),
        )  # fmt: skip

    def block(self, causal: bool, *middle):
        wiring = self.one(pre_norm, pre_norm, post_norm, sandwich, output_norm, parallel)
        extra = [LayerEmbedding(vocab=VOCAB, width=4)] if causal and self.random.random() < 0.1 else []
        block = wiring(self.norm(), self.mixer(causal), *middle, self.feed(), *extra)
        return block, wiring is not post_norm

    def around(self, plain: bool, causal: bool) -> dict:
        around = {
            "position": self.one(None, None, LearnedPosition(length=32), SinusoidalPosition()),
            "input_norm": self.maybe(self.norm(), 0.2),
            "final_norm": self.maybe(self.norm(), 0.7),
        }
        if plain and self.random.random() < 0.15:
            around["streams"] = self.one(HyperConnections(count=2, dynamic=self.one(True, False)), AlternatingUpdates(count=2))
        return around

    def stack(self, causal: bool, *middle) -> dict:
        made = [self.block(causal, *middle) for _ in range(self.one(1, 2))]
        layers = [block for block, _ in made] * self.one(1, 2)
        return {"layers": layers, **self.around(all(plain for _, plain in made), causal)}

    def architecture(self) -> Architecture:
        kind = self.one("decoder", "decoder", "decoder", "encoder", "pair")
        start = Initialisation(matrix=Normal(std=0.25), embedding=Normal(std=0.7))
        head = Head(tied=self.one(True, False), bias=self.one(True, False), softcap=self.maybe(5.0, 0.2))
        embedding = Embedding(vocab=VOCAB, scale=self.one(1.0, 2.0))
        if kind == "decoder":
            return decoder_only(embedding, WIDTH, **self.stack(True), head=head, initialisation=start)
        if kind == "encoder":
            return encoder_only(embedding, WIDTH, **self.stack(False), head=head, initialisation=start)
        cross = CrossAttention(
            heads=4,
            kv_heads=self.one(2, 4),
            project=Projection(adjust=self.maybe(QKNorm(norm=RMSNorm()))),
            score=Score(softcap=self.maybe(4.0, 0.2)),
        )
        return encoder_decoder(
            embedding, WIDTH, stack(**self.stack(False)), stack(**self.stack(True, cross)), head=head, initialisation=start
        )


def draw(seed: int) -> Architecture:
    """The architecture number `seed`."""
    return Draw(seed).architecture()
