"""Direct logit attribution: shares add up to the logits in every wiring, and are those of a product written out."""

from __future__ import annotations

import pytest
import torch

from anyformer.catalogue import architecture
from anyformer.catalogue.llama import llama
from anyformer.inspecting import CallInputs, attribution
from anyformer.inspecting.attribution import kept_ratio, uncapped
from anyformer.model.transformer import build

TOKENS = torch.tensor([[1, 5, 2, 7, 3], [4, 4, 6, 1, 2]])


def given(model):
    return CallInputs(TOKENS, TOKENS[:, :3]) if model.architecture.two_inputs else CallInputs(TOKENS)


@pytest.mark.parametrize("by_head", [True, False])
@pytest.mark.parametrize(
    "name", ["gpt2", "llama-2-7b", "gemma-2-2b", "olmo-2-7b", "pythia-14m", "t5-small", "mixtral-8x7b", "mamba-130m"]
)
def test_shares_add_up_to_the_logits(name, by_head):
    model = build(architecture(name, tiny=True), seed=0).eval()
    prompt = given(model)
    found = attribution(model, prompt, by_head=by_head)
    with torch.no_grad():
        logits = prompt.logits(model)
    assert torch.equal(found.wanted_BT, logits.argmax(-1))
    assert torch.allclose(found.logit_BT, logits.amax(-1))
    assert found.rest_BT.abs().max() < 1e-4 * max(1.0, float(logits.abs().max())), "nothing is left over"
    total = found.constant_BT + found.rest_BT
    for share in found.shares.values():
        total = total + (share.sum(-1) if share.dim() == 3 else share)
    assert torch.allclose(total, found.logit_BT, atol=1e-5)
    assert any(share.dim() == 3 for share in found.shares.values()) == (by_head and name != "mamba-130m")


def test_the_share_of_a_head_is_its_product_with_the_row_of_the_token():
    model = build(llama(width=16, depth=2, heads=2, kv_heads=1, ffn=24, vocab=23), seed=3).eval()
    wanted, against = torch.full((2, 5), 4), torch.full((2, 5), 9)
    found = attribution(model, TOKENS, wanted=wanted, against=against)
    path = "decoder.layer[0].attention"
    with (
        torch.no_grad(),
        model.watch(f"{path}.heads", "decoder.layer[1].output", "decoder.layer[1].feedforward.output") as seen,
    ):
        model(TOKENS)
        x, norm = seen["decoder.layer[1].output"], model.decoder.final_norm
        scale = (x.square().mean(-1, keepdim=True) + norm.norm.eps).sqrt()
        row = model.head.weight[4] - model.head.weight[9]
        output = model.get_submodule("decoder.layers.0.attention.sublayer.output").weight
        for head in range(2):
            added = seen[f"{path}.heads"][:, :, head] @ output[:, 8 * head : 8 * head + 8].mT
            share = (added / scale * norm.weight) @ row
            assert torch.allclose(found.shares[f"{path}.heads"][..., head], share, atol=1e-6)
        added = seen["decoder.layer[1].feedforward.output"]
        assert torch.allclose(
            found.shares["decoder.layer[1].feedforward.output"], (added / scale * norm.weight) @ row, atol=1e-6
        )
    assert found.table(most=3).row_count == 6
    assert "less that of" in str(found.table().title)


def test_a_cap_keeps_its_ratio():
    logits = torch.tensor([-3.0, 0.0, 2.5])
    scores = uncapped(logits, 5.0)
    assert torch.allclose(5 * torch.tanh(scores / 5), logits)
    assert torch.allclose(scores * kept_ratio(logits, 5.0), logits)
    assert torch.equal(kept_ratio(logits, None), torch.ones(3))


def test_streams_whose_mixing_depends_on_them_leave_a_rest_that_is_told():
    """Dynamic hyper-connections weigh streams by themselves, which is no sum: what is left over stands in the value."""
    from zoo import ZOO

    model = build(ZOO["streams"], seed=1).eval()
    found = attribution(model, torch.randint(8, (2, 5)))
    total = sum((share.flatten(2).sum(-1) if share.dim() == 3 else share) for share in found.shares.values())
    assert torch.allclose(total + found.constant_BT + found.rest_BT, found.logit_BT, atol=1e-5)
