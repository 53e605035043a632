"""Values by the delta rule: as the authors' code has them, and the same whether kept whole, in a ring, or read in chunks."""

from __future__ import annotations

import pytest
import torch

from anyformer.parts import Attention, Causal, DeltaValues, Rotary, Window
from anyformer.parts.call.context import Context
from anyformer.parts.call.state import Slots
from anyformer.plan import Plan

B, T, H, E = 2, 9, 2, 3
RECORDED = [[-0.0566702, 0.1868035, -0.0641132], [-0.1559033, 0.1784078, 0.0405486]], 12.2540932


def waves(*shape: int, step: float) -> torch.Tensor:
    """sin(step), sin(2 step) ...: numbers that anyone can write down again."""
    return torch.sin(torch.arange(1, torch.Size(shape).numel() + 1, dtype=torch.float64) * step).view(shape)


def context(length: int, plan: Plan) -> Context:
    return Context(positions=torch.arange(length)[None], plan=plan, padded=False)


def selecting(part: Attention, width: int, plan: Plan) -> torch.nn.Module:
    """Attention that reads its keys, its queries too, its values and its rates off x, and writes heads side by side."""
    module = part.build(width, plan, "attention").double()
    rows = torch.eye(width, dtype=torch.float64).split([H * E, H * E, H])
    weights = {"query.weight": rows[0], "key.weight": rows[0], "value.weight": rows[1], "output.weight": rows[0].mT}
    weights |= {"delta_values.rate.weight": rows[2], "delta_values.rate.bias": torch.zeros(H)}
    module.load_state_dict(weights)
    return module


def test_it_is_what_the_authors_code_gives():
    """flash-linear-attention 0.6.0's naive DeltaFormer in fp32, called with keys for queries, as its corrections compare
    queries with keys: the last token of the first row, and the sum of all squares."""
    plan = Plan()
    k, v, beta = (waves(B, T, H * E, step=1.1), waves(B, T, H * E, step=1.9), waves(B, T, H, step=0.5).abs())
    x = torch.cat([k, v, beta], -1)
    module = selecting(Attention(heads=H, head_width=E, memory=DeltaValues()), x.shape[-1], plan)
    y = module(x, context(T, plan))[..., : H * E].detach()
    torch.testing.assert_close(y[0, -1].view(H, E), torch.tensor(RECORDED[0], dtype=torch.float64), rtol=1e-5, atol=1e-6)
    assert y.square().sum().item() == pytest.approx(RECORDED[1], rel=1e-6)


@pytest.mark.parametrize("mask", [Causal(), Window(size=4)], ids=["whole", "ring"])
@pytest.mark.parametrize("chunks", [[11], [4, 7], [1] * 11, [6, 1, 1, 3]], ids=str)
def test_a_decode_state_holds_the_corrected_values(mask, chunks):
    plan, width = Plan(), 16
    part = Attention(heads=4, kv_heads=2, place=Rotary(), mask=mask, memory=DeltaValues())
    module = part.build(width, plan, "attention").double()
    for number, weight in enumerate(module.parameters()):
        torch.nn.init.normal_(weight, std=0.6, generator=torch.Generator().manual_seed(number))
    x = waves(B, 11, width, step=0.9)
    with torch.no_grad():
        whole = module(x, context(11, plan))
        state = part.state(width, B, 11, 0, torch.float64, torch.device("cpu"))
        slots, read = Slots.allocate(B, 11, "cpu"), []
        for part_of_x in x.split(chunks, 1):
            slots.reserve(part_of_x.shape[1])
            chunk = slots.enter(None, part_of_x.shape[1])
            of_chunk = Context(positions=chunk.positions, plan=plan, aligned=False, padded=False, chunk=chunk)
            read.append(module(part_of_x, of_chunk, state))
    torch.testing.assert_close(torch.cat(read, 1), whole)


def test_at_a_rate_of_zero_it_is_plain_attention_and_else_not():
    plan, x = Plan(), waves(B, T, 8, step=0.9)
    corrected, plain = (
        Attention(heads=2, memory=memory).build(8, plan, "attention").double() for memory in (DeltaValues(), None)
    )
    corrected.load_state_dict(plain.state_dict(), strict=False)
    torch.nn.init.zeros_(corrected.delta_values.rate.weight)
    found = {}
    for rate in (0.0, 1.0):
        torch.nn.init.constant_(corrected.delta_values.rate.bias, rate)
        found[rate] = corrected(x, context(T, plan))
    wanted = plain(x, context(T, plan))
    torch.testing.assert_close(found[0.0], wanted)
    assert not torch.allclose(found[1.0][:, 1:], wanted[:, 1:], atol=1e-3)
    torch.testing.assert_close(found[1.0][:, :1], wanted[:, :1])
