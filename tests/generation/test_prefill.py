"""Prompts read in pieces: the same logits, for every decode state, and no mask of all pairs of positions."""

from __future__ import annotations

import sys
from math import prod

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from zoo import DECODERS, LIMITED, PROMPTED_DECODERS

from anyformer.describe import change
from anyformer.generation import decode, prefill
from anyformer.generation.decode import pad_left, reads_whole
from anyformer.model.transformer import build
from anyformer.testing.comparisons import equal
from covering import others_slow, remembering

EVERY = {**DECODERS, **PROMPTED_DECODERS, **LIMITED}
PROMPTS = [[3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5], [8, 9, 7], [9, 3, 2, 3, 8, 4]]
PREFIXED = {"prefix", "prefix_or_window", "prompt"}
"""Those with masks that see the prompt both ways."""


def read(model, tokens, padding, chunk):
    """The logits after the prompts, and after one more token."""
    state = model.state(len(tokens), 20)
    logits = prefill(model, tokens, padding, state, chunk=chunk)
    state.slots.reserve(1)
    return logits, decode(model, torch.tensor([1, 2, 3])[: len(tokens)], state)


@pytest.mark.parametrize("name", others_slow(EVERY, remembering))
def test_pieces_equal_the_whole(name):
    model = build(EVERY[name]).eval()
    for prompts in (PROMPTS, PROMPTS[:1]):
        tokens, padding = pad_left(prompts, model.device)
        with torch.inference_mode():
            whole = read(model, tokens, padding, 11)
            for chunk in (1, 4, 5):
                for ours, theirs in zip(read(model, tokens, padding, chunk), whole, strict=True):
                    equal(ours, theirs, f"pieces of {chunk}")


def test_pieces_grow_with_what_lies_before_them(monkeypatch):
    """Every piece converts all keys before it."""
    for name, value in {"ROWS": {"cpu": 6}, "LEAST": 2, "MOST": 5, "SHARE": 2}.items():
        monkeypatch.setattr(sys.modules[prefill.__module__], name, value)
    model, pieces = build(DECODERS["llama"]).eval(), []
    features = model.features
    monkeypatch.setattr(model, "features", lambda tokens, **how: pieces.append(tokens.shape[1]) or features(tokens, **how))
    tokens = torch.arange(57).view(3, 19) % 7
    with torch.inference_mode():
        found = read(model, tokens, None, None)
        assert pieces == [2, 2, 2, 3, 4, 5, 1]
        for ours, theirs in zip(found, read(model, tokens, None, 20), strict=True):
            equal(ours, theirs, "pieces that grow")


def test_what_cannot_be_cut_is_read_at_once():
    whole = {name for name, each in EVERY.items() if reads_whole(build(each, device="meta"))}
    assert whole == PREFIXED | LIMITED.keys()
    prompted = build(PROMPTED_DECODERS["prompt_positions"], device="meta")
    assert not reads_whole(prompted)
    assert reads_whole(prompted, torch.zeros(1, 1, dtype=torch.bool)), "padding would come behind the virtual tokens"


class Largest(TorchDispatchMode):
    """The most elements of any tensor that is made inside."""

    elements = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        sizes = [prod(each.shape) for each in tree_leaves(made) if isinstance(each, torch.Tensor)]
        self.elements = max(self.elements, *sizes, 0)
        return made


@pytest.mark.parametrize("name", ["llama", "window", "latent", "delta"])
def test_a_long_prompt_makes_no_tensor_of_all_pairs(name):
    T, chunk = 768, 32
    model = build(change(DECODERS[name], "embedding.vocab", 7)).eval()
    state = model.state(1, T)
    with torch.inference_mode(), Largest() as largest:
        prefill(model, torch.arange(T)[None] % 7, None, state, chunk=chunk)
    assert largest.elements <= 4 * chunk * T < T * T


def test_a_first_piece_is_masked_by_the_kernel():
    T = 64
    model, found = build(DECODERS["llama"]).eval(), []
    for padding in (None, torch.arange(T)[None] < 1):
        with torch.inference_mode(), Largest() as largest:
            prefill(model, torch.arange(T)[None] % 7, padding, model.state(1, T))
        found.append(largest.elements)
    assert found[0] < T * T <= found[1]
