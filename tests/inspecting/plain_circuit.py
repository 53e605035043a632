"""A small model, its calls with edges cut written out in a plain loop, and two prompts."""

from __future__ import annotations

import torch

from anyformer.inspecting.graph import INPUT, OUTPUT, SIDES
from anyformer.model import decoder_only
from anyformer.model.transformer import build
from anyformer.parts import Attention, Embedding, FeedForward, Head, RMSNorm, pre_norm

CLEAN, CORRUPTED = torch.tensor([[0, 1, 2], [3, 0, 1]]), torch.tensor([[0, 1, 3], [3, 0, 2]])


def model_of(scale=20):
    """Two layers, two query heads and one of keys; matrices `scale` times as large as they are drawn."""
    norm = RMSNorm()
    blocks = [pre_norm(norm, Attention(heads=2, kv_heads=1), FeedForward(width=8, activation="gelu", gated=False))] * 2
    made = build(decoder_only(Embedding(vocab=4), 8, blocks, final_norm=norm, head=Head()), seed=1).eval()
    with torch.no_grad():
        for name, weight in made.named_parameters():
            weight.mul_(1 if "norm" in name else scale)
    return made


def plain_call(model, entering, cut, heard):
    """The model in a plain loop over its sublayers, every input of a receiver on a stream of its own; heads by zeroing the
    others. What every node gives, and the logits; `heard(name, value)` is what goes over the edges that are `cut`."""
    names = [f"decoder.layer[{layer}].{branch}" for layer in range(2) for branch in ("attention", "feedforward")]

    def added(name, stream):
        layer, branch = name[14], name[17:].split()[0]
        module = model.get_submodule(f"decoder.layers.{layer}.{branch}")
        if branch == "feedforward":
            return module.sublayer.down(torch.nn.functional.gelu(module.sublayer.up(module.norm_before(stream("")))))
        inner = module.sublayer
        q, k, v = (getattr(inner, side)(module.norm_before(stream(side))) for side in SIDES)
        head = int(name.split()[1])
        scores = q[..., 4 * head : 4 * head + 4] @ k.mT / 2
        weights = scores.masked_fill(torch.ones_like(scores).triu(1).bool(), float("-inf")).softmax(-1)
        return (weights @ v) @ inner.output.weight[:, 4 * head : 4 * head + 4].mT

    senders = [sender for name in names for sender in ([f"{name} 0", f"{name} 1"] if "attention" in name else [name])]
    given, places = {INPUT: entering}, {}
    for name in senders:
        before = places.setdefault(name.split()[0], list(given))

        def stream(into, name=name, before=before):
            to = f"{name} {into}".rstrip()
            return sum(heard(one, given[one]) if {(one, name), (one, to)} & cut else given[one] for one in before)

        given[name] = added(name, stream)
    last = sum(heard(one, value) if (one, OUTPUT) in cut else value for one, value in given.items())
    return given, model.decoder.final_norm(last) @ model.head.weight.mT


def given_by(model, tokens):
    """What every node gives in a call of its own."""
    return plain_call(model, model.embedding.weight[tokens], set(), None)[0]


def written_out(model, tokens, other, cut):
    """The logits with edges cut: what goes over them is what the other prompt gives."""
    instead = given_by(model, other)
    return plain_call(model, model.embedding.weight[tokens], cut, lambda name, value: instead[name])[1]
