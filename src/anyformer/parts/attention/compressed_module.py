"""The module of compressed attention."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from anyformer.describe import Digested
from anyformer.parts.attention.attend_chosen import attend_chosen
from anyformer.parts.attention.attends import Attends
from anyformer.parts.attention.chosen_keys import Chosen
from anyformer.parts.attention.compressed_heads import CompressedHeads
from anyformer.parts.attention.named_values_module import shown_to
from anyformer.parts.attention.window_slots import window_slots
from anyformer.parts.call.context import Context
from anyformer.parts.call.entry_state import CompressedState
from anyformer.parts.call.state import Keys
from anyformer.plan import Plan


class CompressedAttentionModule(Attends):
    """(B, T, D) -> (B, T, D)."""

    def __init__(self, attention: CompressedHeads, width: int, plan: Plan, name: str) -> None:
        super().__init__(attention.mask)
        a, E, H = attention, attention.head_width, attention.heads
        self.attention, self.plan = attention, plan
        rank = a.q_rank
        self.query_down = nn.Linear(width, rank, bias=False) if rank else nn.Identity()
        self.query_norm = a.norm.build(rank) if rank and a.norm else nn.Identity()
        self.query_up = nn.Linear(rank or width, H * E, bias=False)
        self.head_norm = a.head_norm.build(E) if a.head_norm else nn.Identity()
        self.key = nn.Linear(width, E, bias=False)
        self.key_norm = a.norm.build(E) if a.norm else nn.Identity()
        self.sink = nn.Parameter(torch.empty(H)) if a.sink else None
        self.compressor = a.compressor.build(width, E, a.rotary) if a.compressor else None
        self.choice = a.choice.build(a.compressor, width, rank or width, name) if a.choice and a.compressor else None
        self.output = a.output.build(H * E, width) if a.output else nn.Linear(H * E, width, bias=False)
        self.rotary = Digested.of(a.rotary) if a.rotary else None
        self.scale = a.scale_of_scores

    def extra_repr(self) -> str:
        return f"heads={self.attention.heads}, head_width={self.attention.head_width}, window={self.attention.window}"

    def forward(self, x_BTD: Tensor, context: Context, state: CompressedState | None = None) -> Tensor:
        c_BTQ = self.query_norm(self.query_down(x_BTD))
        q_BTHE = self.head_norm(self.query_up(c_BTQ).unflatten(-1, (self.attention.heads, -1)))
        q_BTHE = context.rotated(context.see("query", q_BTHE), self.rotary)
        key_BTE = context.see("key", self.key_norm(self.key(x_BTD)))
        k_B1SE = context.rotated(key_BTE[:, :, None], self.rotary).transpose(1, 2)
        keys = context.keys
        if state is not None:
            assert context.chunk is not None, "a stack with state enters its chunk first"
            k_B1SE, _, keys = state.window.extend(k_B1SE, k_B1SE[..., :0], context.chunk)
        read_BmE, seen, chosen = k_B1SE[:, 0].to(q_BTHE.dtype), None, None
        if self.compressor is not None:
            entries = self.compressor(x_BTD, context, state and state.entries["compressor"])
            read_BmE, seen = torch.cat([read_BmE, entries.features.to(read_BmE.dtype)], 1), entries.seen(context)
            if self.choice is not None:
                chosen = self.choice(x_BTD, c_BTQ, seen, context, state and state.entries["choice"])
        mixed_BTHE, share = self._mixed(x_BTD, q_BTHE, read_BmE, keys, seen, chosen, context)
        if chosen is not None and context.auxiliary is not None:
            assert self.choice is not None, "it chose"
            self.choice.report(chosen, share, context)
        mixed_BTHE = context.rotated_back(context.see("mixed", mixed_BTHE), self.rotary)
        return self.output(context.see("heads", mixed_BTHE).flatten(2))  # type: ignore[no-any-return]

    def _mixed(
        self, x_BTD: Tensor, q_BTHE: Tensor, read_BmE: Tensor, keys: Keys, seen_BTn: Tensor | None, chosen: Chosen | None,
        context: Context,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """Attention to keys and the entries behind them, (B, T, H, E), and the mean over heads of the weights of entries,
        those that are chosen if there is a choice, (B, T, n or k)."""
        a, (B, T) = self.attention, x_BTD.shape[:2]
        n = 0 if seen_BTn is None else seen_BTn.shape[-1]
        S = read_BmE.shape[1] - n
        size = S
        indices: Tensor | None = None
        # What sees ahead, as a token of an image does, is in no window.
        shown = shown_to(context.opened)
        sparse = a.sparse(S, n, self.plan) and context.until is None and shown is None
        if sparse:
            size = min(a.window, S)
            slots, there = context.once(("window", size, keys.label), lambda: window_slots(context, keys, size))
            if seen_BTn is None:
                indices, allowed_BTk = slots, there
            elif chosen is None:
                # All layers without a choice read the same.
                every = torch.arange(S, S + n, device=slots.device)[None, None].expand(1, T, n)
                both = "window and entries", size, n, a.compressor and a.compressor.block, keys.label
                indices, allowed_BTk = context.once(both, lambda: (_beside(slots, every), _beside(there, seen_BTn)))
            else:
                indices, allowed_BTk = _beside(slots, S + chosen.indices), _beside(there, chosen.allowed)
        else:
            visible = self.visible(x_BTD, context, keys).dense(T, x_BTD.device)
            assert visible is not None, "a window leaves keys out"
            allowed_BTk = visible[:, 0]
            if seen_BTn is not None:
                allowed_BTk = _beside(allowed_BTk, seen_BTn if chosen is None else chosen.dense()[:, 0])
        indices = None if indices is None else indices.expand(B, T, -1)
        mixed_BTHE, share_BTk = attend_chosen(
            q_BTHE, read_BmE[:, :, None], a.head_width, indices, allowed_BTk.expand(B, T, -1), scale=self.scale,
            sink_H=self.sink, plain=self.plan.attention == "plain", shown=shown,
        )  # fmt: skip
        share_BTn = share_BTk[..., size:]
        return mixed_BTHE, share_BTn if sparse or chosen is None else share_BTn.gather(-1, chosen.indices)


def _beside(a_BTm: Tensor, b_BTk: Tensor) -> Tensor:
    """(B, T, m + k), of which either may have one row for all."""
    rows = max(len(a_BTm), len(b_BTk))
    return torch.cat([x.expand(rows, -1, -1) for x in (a_BTm, b_BTk)], -1)
