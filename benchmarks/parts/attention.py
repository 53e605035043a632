"""Softmax attention by mask, with rotary and groups, and latent attention in training and decoding."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import torch
import torch.nn.functional as F
from benchmarks.parts.race import Answer, Comparison, Contender
from benchmarks.parts.sides import OURS, Alone, Projected, Read, Side, equalise, features, ours, sides, twin
from torch import Tensor
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from transformers import DeepseekV3Config, DynamicCache, LlamaConfig
from transformers.models.deepseek_v3.modeling_deepseek_v3 import DeepseekV3Attention, DeepseekV3RotaryEmbedding
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaRotaryEmbedding

from anyformer.model import decoder_only
from anyformer.model.transformer import build
from anyformer.parts import (
    Attention,
    Causal,
    Chunk,
    Embedding,
    Fixed,
    LatentAttention,
    RMSNorm,
    Rotary,
    Strided,
    Window,
    pre_norm,
)
from anyformer.parts.masks.mask import Mask
from anyformer.plan import Plan

WIDTH, HEADS, LENGTH = 384, 6, 2048
CACHED = 4096
MASKS: Mapping[str, Mask] = {
    "causal": Causal(),
    "window": Causal() & Window(size=256),
    "chunk": Causal() & Chunk(size=256),
    "strided": Window(size=64) | Causal() & Strided(stride=64),
    "fixed": Causal() & (Chunk(size=128) | Fixed(size=128, summary=8)),
}
PLAIN = Plan(attention="plain")
NO_BACKWARD = {"torch flex_attention": "no backward on CPU (NotImplementedError)"}


def fused(mask: Mask | None) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """torch's kernel on (B, T, H, E), causal by its flag where no mask is given; a mask is made in every call, as ours is."""

    def core(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        at = torch.arange(q.shape[1])
        allowed = None if mask is None else mask.allowed(at[:, None], at[None], 0)
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        return F.scaled_dot_product_attention(q, k, v, attn_mask=allowed, is_causal=mask is None).transpose(1, 2)

    return core


def flexible(mask: Mask, length: int) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """torch's FlexAttention, compiled, with the block mask of ours, made once."""
    blocks = create_block_mask(lambda b, h, query, key: mask.allowed(query, key, 0), None, None, length, length, device="cpu")
    kernel = torch.compile(flex_attention, dynamic=False)

    def core(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        return kernel(q, k, v, block_mask=blocks).transpose(1, 2)

    return core


def masked(name: str, *, train: bool, compiled: bool = False) -> Comparison:
    """Against torch's kernels on the same projections, and against every pair written out."""
    mask = MASKS[name]
    part, peer = Attention(heads=HEADS, mask=mask), partial(Projected, width=WIDTH, heads=HEADS)
    others = [Side("torch sdpa, mask", peer(fused(mask)))]
    if name == "causal":
        others.append(Side("torch sdpa, causal flag", peer(fused(None))))
    if not train:
        others.append(Side("torch flex_attention", peer(flexible(mask, LENGTH))))
    if not compiled:
        others.append(twin(Alone(part, WIDTH, PLAIN, padded=True), "every pair written out"))
    return sides(
        f"{mask.written}: 1 x {LENGTH} x {WIDTH}, {HEADS} heads", ours(Alone(part, WIDTH)), others,
        features(1, LENGTH, WIDTH), train=train, compiled=compiled, missing=NO_BACKWARD if train else {},
    )  # fmt: skip


def grouped(*, compiled: bool) -> Comparison:
    """Rotary and grouped-query, as in Llama."""
    batch, length, kv_heads = 4, 512, 2
    config = LlamaConfig(hidden_size=WIDTH, num_attention_heads=HEADS, num_key_value_heads=kv_heads, head_dim=WIDTH // HEADS)
    config._attn_implementation = "sdpa"
    theirs, rotary = LlamaAttention(config, 0), LlamaRotaryEmbedding(config)
    table = rotary(torch.zeros(1), torch.arange(length)[None])
    names = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "o_proj"}
    peer = Side(
        "transformers LlamaAttention, sdpa", theirs,
        lambda read: {f"{us}.weight": read(f"{them}.weight") for us, them in names.items()},
        lambda x: theirs(x, table, None)[0],
    )  # fmt: skip
    part = Attention(heads=HEADS, kv_heads=kv_heads, place=Rotary())
    others = [peer] if compiled else [peer, twin(Alone(part, WIDTH, PLAIN, padded=True), "every pair written out")]
    shape = f"rotary, {HEADS} heads, {kv_heads} kv heads: {batch} x {length} x {WIDTH}"
    return sides(shape, ours(Alone(part, WIDTH)), others, features(batch, length, WIDTH), compiled=compiled)


def latent(width: int, heads: int, rank: int) -> tuple[LatentAttention, Side, Callable[..., Tensor]]:
    """Our part, DeepSeek-V3's attention of the same shape, and a call of it with (x, positions, cache)."""
    nope, rope, value = 64, 32, 64
    config = DeepseekV3Config(
        hidden_size=width, num_attention_heads=heads, num_key_value_heads=heads, q_lora_rank=None, kv_lora_rank=rank,
        qk_nope_head_dim=nope, qk_rope_head_dim=rope, v_head_dim=value, num_hidden_layers=1,
    )  # fmt: skip
    config._attn_implementation = "sdpa"
    theirs, rotary = DeepseekV3Attention(config, 0), DeepseekV3RotaryEmbedding(config)

    def call(x: Tensor, positions: Tensor, cache: DynamicCache | None = None) -> Tensor:
        return theirs(x, rotary(x, positions[None]), None, past_key_values=cache)[0]  # type: ignore[no-any-return]

    def weights(read: Read) -> Mapping[str, Tensor]:
        down, key = read("kv_a_proj_with_mqa.weight").split([rank, rope])
        up = read("kv_b_proj.weight").view(heads, nope + value, rank)
        return {
            "query_up.weight": read("q_proj.weight"), "kv_down.weight": down, "rope_key.weight": key,
            "kv_norm.weight": read("kv_a_layernorm.weight"), "key_up.weight": up[:, :nope], "value_up.weight": up[:, nope:],
            "output.weight": read("o_proj.weight"),
        }  # fmt: skip

    part = LatentAttention(
        heads=heads, kv_rank=rank, nope_width=nope, rope_width=rope, value_width=value,
        rotary=Rotary(pairing="adjacent"), norm=RMSNorm(eps=1e-6),
    )  # fmt: skip
    positions = torch.arange(1024)
    return part, Side("transformers DeepseekV3Attention", theirs, weights, lambda x: call(x, positions)), call


def latent_training() -> Comparison:
    """All positions at once: both expand the latent."""
    part, peer, _ = latent(WIDTH, HEADS, 128)
    shape = f"{HEADS} heads, rank 128: 1 x 1024 x {WIDTH}"
    return sides(shape, ours(Alone(part, WIDTH)), [peer], features(1, 1024, WIDTH))


def latent_decoding(width: int, heads: int, rank: int) -> Comparison:
    """One token after CACHED others: absorbed, against its twin and DeepseekV3Attention, which expand every cached latent."""
    part, peer, call = latent(width, heads, rank)
    model = build(decoder_only(Embedding(vocab=8), width, [pre_norm(RMSNorm(gain="none"), part)])).eval()
    module = model.get_submodule("decoder.layers.0.latent_attention.sublayer")
    equalise(Side(OURS, module), [peer])
    state, cache = model.state(1, CACHED + 1), DynamicCache()
    tokens = torch.randint(0, 8, (1, CACHED + 1), generator=torch.Generator().manual_seed(0))
    stream = model.embedding(tokens, None, None).detach()
    norm = RMSNorm(gain="none").build(width)
    model.features(tokens[:, :CACHED], state=state)
    call(norm(stream[:, :CACHED]), torch.arange(CACHED), cache)

    def step() -> Answer:
        with torch.inference_mode():
            y = model.features(tokens[:, CACHED:], state=state)
            state.trim(1)
            return {"output": y - stream[:, CACHED:]}

    def expanded() -> Answer:
        dense = module._dense
        module._dense = lambda parts, visible, one: dense(parts, visible, one=False)  # type: ignore[assignment]
        try:
            return step()
        finally:
            module._dense = dense  # type: ignore[assignment]

    def theirs() -> Answer:
        with torch.inference_mode():
            y = call(norm(stream[:, CACHED:]), torch.tensor([CACHED]), cache)
            cache.crop(-1)
            return {"output": y}

    shape = f"{heads} heads, rank {rank}, width {width}: 1 token after {CACHED}"
    others = [Contender(peer.name, theirs), Contender("every latent expanded", expanded, "twin")]
    return Comparison(shape, Contender(OURS, step, "ours"), others)


COMPARISONS: Mapping[str, Callable[[], Comparison]] = {
    **{f"attention {name}, forward": partial(masked, name, train=False) for name in MASKS},
    **{f"attention {name}": partial(masked, name, train=True) for name in MASKS},
    "attention causal, compiled": partial(masked, "causal", train=True, compiled=True),
    "attention window, compiled": partial(masked, "window", train=True, compiled=True),
    "attention rotary": partial(grouped, compiled=False),
    "attention rotary, compiled": partial(grouped, compiled=True),
    "latent attention": latent_training,
    "latent decoding": partial(latent_decoding, WIDTH, HEADS, 128),
    "latent decoding, wide": partial(latent_decoding, 2048, 16, 512),
}
