"""Compressed attention: its entries, what is gathered, the loss of its index, and its decode state at the ends of blocks."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import anyformer as af
from anyformer.describe import DescriptionError
from anyformer.model import decoder_only
from anyformer.model.transformer import build
from anyformer.operations import Shape
from anyformer.parts import (
    CompressedAttention,
    Compressor,
    Embedding,
    EntryIndexer,
    FeedForward,
    GroupedOutput,
    Head,
    RMSNorm,
    Rotary,
    pre_norm,
)
from anyformer.parts.call.reports import Auxiliary
from anyformer.parts.call.state import StateError
from anyformer.plan import Plan
from anyformer.testing.around import LOUD

M, N, W, KEEP, E, J, D, H = 4, 2, 5, 3, 8, 6, 16, 4
ROTARY = Rotary(fraction=0.5, place="last", pairing="adjacent")
CHOICE = EntryIndexer(keep=KEEP, heads=J, head_width=6, rotary=Rotary())
CHOSEN = CompressedAttention(
    heads=H, head_width=E, window=W, q_rank=8, norm=RMSNorm(), rotary=ROTARY, sink="head",
    compressor=Compressor(block=M, span=N, norm=RMSNorm()), choice=CHOICE, output=GroupedOutput(groups=2, rank=6),
)  # fmt: skip
ALL = CHOSEN.but(choice=None, compressor=Compressor(block=3))
FORMS = {"chosen": CHOSEN, "all": ALL, "window": ALL.but(compressor=None)}


def model_of(attention: CompressedAttention, depth: int = 1) -> af.Architecture:
    block = pre_norm(RMSNorm(), attention, FeedForward(width=24))
    return decoder_only(Embedding(vocab=17), D, [block] * depth, head=Head(), initialisation=LOUD)


def tokens(rows: int = 1, length: int = 40) -> Tensor:
    return torch.randint(0, 17, (rows, length), generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("told", [False, True])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("how", ["whole", "padded", "documents"])
def test_gathered_keys_and_entries_are_those_under_their_mask(form, told, how):
    """Written out, every key and entry is scored, and a mask leaves the others out."""
    x, more, results = tokens(2), {}, []
    if how == "padded":
        more["padding"] = torch.zeros(x.shape, dtype=torch.bool)
        more["padding"][0, [0, 1, 9, 30, 31, 39]] = True
    if how == "documents":
        more["documents"] = (torch.arange(40) // torch.tensor([[19], [7]])).clamp(max=3)
    for plan in (Plan(), Plan(attention="plain")):
        model, reports = build(model_of(FORMS[form], 2), plan, seed=3), Auxiliary() if told else None
        logits = model(x, auxiliary=reports, **more)
        counted = logits if how != "padded" else logits[~more["padding"]]
        loss = counted.square().sum() + (reports.index if told and form == "chosen" else 0)
        learnt = [p for name, p in model.named_parameters() if (told or ".choice." not in name)]
        results.append((counted, *torch.autograd.grad(loss, learnt)))
    for gathered, masked in zip(*results, strict=True):
        torch.testing.assert_close(gathered, masked, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("form", FORMS)
def test_gaps_of_padding_anywhere_change_nothing(form):
    model, x = build(model_of(FORMS[form], 2)).eval(), tokens(1, 30)
    places = torch.tensor(sorted({*range(40)} - {0, 3, 4, 11, 12, 13, 20, 28, 38, 39}))
    wide, padding = torch.zeros(1, 40, dtype=torch.long), torch.ones(1, 40, dtype=torch.bool)
    wide[:, places], padding[:, places] = x, False
    torch.testing.assert_close(model(wide, padding=padding)[:, places], model(x), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("cut", [(1,) * 26, (M - 1, 1, 1, M, 2 * M + 1, 8), (25, 1), (7, 1, 9, 9)])
def test_a_state_is_exact_on_both_sides_of_the_end_of_a_block(form, cut):
    model, x = build(model_of(FORMS[form], 2)).eval(), tokens(2, 26)
    state = model.state(2, 26)
    pieces = torch.cat([model(piece, state=state) for piece in torch.split(x, list(cut), 1)], 1)
    torch.testing.assert_close(pieces, model(x), rtol=1e-4, atol=1e-4)


def test_rows_that_end_their_blocks_at_different_steps():
    """Padding in front of one row, so that the rows complete entries at different calls."""
    model, x = build(model_of(CHOSEN, 2)).eval(), tokens(1, 24)
    wide, padding = torch.cat([torch.zeros(1, 3, dtype=torch.long), x], 1), torch.zeros(2, 27, dtype=torch.bool)
    padding[0, :3] = True
    other, state = tokens(1, 27), model.state(2, 27)
    both = torch.cat([wide, other])
    first = model(both[:, :6], padding=padding[:, :6], state=state)
    rest = [model(piece, state=state) for piece in torch.split(both[:, 6:], 1, 1)]
    whole = torch.cat([first, *rest], 1)
    torch.testing.assert_close(whole[:1, 3:], model(x), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(whole[1:], model(other), rtol=1e-4, atol=1e-4)


def test_a_chunk_of_padding_alone_leaves_a_row_as_it_is():
    """Of a window that forgets nothing, so that padding may come later."""
    model, x = build(model_of(CHOSEN.but(window=64), 2)).eval(), tokens(2, 16)
    state = model.state(2, 20)
    padding = torch.tensor([[True], [False]])
    first, other = model(x[:, :7], state=state), tokens(1, 1)
    model(torch.cat([other, x[1:, 7:8]]), padding=padding, state=state)
    rest = [model(x[:1, t : t + 1].expand(2, -1), state=state)[:1] for t in range(7, 16)]
    torch.testing.assert_close(torch.cat([first[:1], *rest], 1), model(x[:1]), rtol=1e-4, atol=1e-4)


def test_a_state_keeps_no_earlier_tokens_to_take_back():
    model = build(model_of(CHOSEN)).eval()
    state = model.state(1, 9)
    model(tokens(1, 4), state=state)
    with pytest.raises(StateError, match="the last 1 positions cannot be taken back"):
        state.trim(1)


def test_the_loss_of_an_index_trains_it_towards_the_attention():
    model = build(model_of(CHOSEN), seed=1)
    own = [p for name, p in model.named_parameters() if ".choice." in name]
    optimiser, losses = torch.optim.Adam(own, 0.03), []
    for _ in range(40):
        reports = Auxiliary()
        model(tokens(4), auxiliary=reports)
        losses.append(reports.index.item())
        optimiser.zero_grad()
        reports.index.backward()
        optimiser.step()
    assert all(p.grad.isfinite().all() for p in own)
    assert losses[-1] < 0.6 * losses[0]


def test_training_saves_nothing_of_every_pair():
    """Of T queries, T keys and T / m entries: no saved tensor has T * T / m numbers."""
    length, sizes = 256, []
    attention = CHOSEN.but(heads=1, window=2, output=None, head_width=4, choice=CHOICE.but(heads=1, head_width=4))
    model = build(model_of(attention))

    def pack(x: Tensor) -> Tensor:
        sizes.append(x.numel())
        return x

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        model(tokens(1, length)).sum().backward()
    assert max(sizes) < length * length // M


def test_a_step_reads_the_window_the_chosen_entries_and_all_index_entries():
    """By hand, of 1000 positions."""
    plan, S, entries = Plan(), 1000, 1000 // M
    sheet = model_of(CHOSEN).cost(Shape(length=1, past=S - 1), plan)
    state = next(iter(sheet.states.values()))
    tails = M * N * 2 * N * (E + 6)
    assert state.held == (W * E + (entries + 1) * (E + 6) + tails) * plan.activation_bytes
    assert state.read == ((W + KEEP) * E + entries * 6 + tails) * plan.activation_bytes
    exact = {name: flops.exact for name, flops in sheet.flops.items()}
    at = "decoder.layers.0.compressed_attention.sublayer."
    assert exact[f"{at}scores"] == 2 * H * E * (W + KEEP)
    assert exact[f"{at}choice.scores"] == 2 * J * 6 * entries


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("shape", [Shape(length=40), Shape(length=3, past=30), Shape(length=1, past=50), Shape(length=7)])
def test_pairs_are_counted_query_by_query(form, shape):
    attention = FORMS[form]
    most = KEEP if form == "chosen" else 10**6
    made = lambda t: 0 if form == "window" else min((t + 1) // attention.compressor.block, most)  # noqa: E731
    by_query = [min(t + 1, W) + made(t) for t in range(shape.past, shape.past + shape.length)]
    assert attention.pairs(shape, Plan())[1] == sum(by_query)


def test_an_output_in_groups_is_a_matrix_of_blocks():
    part = GroupedOutput(groups=2, rank=3)
    module = part.build(8, 5)
    mixed = torch.randn(2, 7, 8)
    for weight in module.parameters():
        torch.nn.init.normal_(weight)
    dense = torch.block_diag(*module.down.weight.chunk(2))
    torch.testing.assert_close(module(mixed), mixed @ dense.T @ module.up.weight.T)


def test_what_does_not_fit_is_refused():
    with pytest.raises(DescriptionError, match="give one, or leave choice out"):
        ALL.but(compressor=None, choice=CHOICE)
    with pytest.raises(DescriptionError, match=r"output\.groups must divide the heads, got 3 and 4"):
        model_of(CHOSEN.but(output=GroupedOutput(groups=3, rank=2)))
