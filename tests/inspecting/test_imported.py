"""Imported checkpoints are inspected as they are: attention and lens are those of transformers' own model of the same files."""

from __future__ import annotations

import pytest
import torch

import anyformer as af
from anyformer.catalogue import architecture
from anyformer.huggingface import export
from anyformer.model.transformer import build

TOKENS = torch.tensor([[1, 5, 2, 7, 3], [4, 4, 6, 1, 2]])


@pytest.mark.parametrize("name", ["gpt2", "llama-3-8b"])
def test_attention_and_lens_are_those_of_transformers(name, tmp_path):
    from transformers import AutoModelForCausalLM

    export(build(architecture(name, tiny=True), seed=0), tmp_path / "theirs")
    theirs = AutoModelForCausalLM.from_pretrained(tmp_path / "theirs", attn_implementation="eager", dtype=torch.float32).eval()
    model, _ = af.load(tmp_path / "theirs")
    model.eval()
    with torch.no_grad():
        told = theirs(TOKENS, output_attentions=True, output_hidden_states=True)
        streams = told.hidden_states[:-1]  # the last one has gone through the final norm
        final = theirs.transformer.ln_f if name == "gpt2" else theirs.model.norm
        lines = [theirs.lm_head(final(each)).softmax(-1) for each in streams]
    patterns = list(af.inspect.attention_patterns(model, TOKENS).values())
    assert len(patterns) == len(told.attentions)
    for ours, other in zip(patterns, told.attentions, strict=True):
        assert torch.allclose(ours, other, atol=1e-6)
    found = af.inspect.logit_lens(model, TOKENS, wanted=TOKENS)
    for number, line in enumerate([*lines, told.logits.softmax(-1)]):
        at = number if number < len(lines) else -1
        assert torch.allclose(found.wanted_LBT[at], line.gather(-1, TOKENS[..., None])[..., 0], atol=1e-6)
