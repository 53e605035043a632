"""The module of TTT-Linear."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from anyformer.parts.attention.named_values_module import put_out
from anyformer.parts.call.context import Context
from anyformer.parts.call.recurrent_state import RecurrentState, hold
from anyformer.parts.norms.layer_norm_module import of_each_head
from anyformer.parts.positions.rotary_module import rotate, table
from anyformer.parts.recurrence.document_places import places_in_documents
from anyformer.parts.recurrence.recurrence import exact, exactly
from anyformer.parts.recurrence.recurrent_heads_module import RecurrentHeadsModule, by_head, split_heads
from anyformer.parts.recurrence.ttt import InnerModel, train_at_test_time
from anyformer.parts.recurrence.ttt_linear import TTTLinear


class TTTLinearModule(RecurrentHeadsModule):
    """(B, T, D) -> (B, T, D)."""

    def __init__(self, part: TTTLinear, width: int) -> None:
        super().__init__(part, width)
        self.part, H, E = part, part.heads, self.head_width
        self.rate = nn.Linear(width, H)
        self.initial_weight, self.initial_bias = nn.Parameter(torch.empty(H, E, E)), nn.Parameter(torch.empty(H, E))
        self.place = nn.Parameter(torch.empty(part.minibatch))
        self.inner_norm = of_each_head(part.inner_norm, H, E)
        self.norm = part.norm.build(H * E) if part.norm else nn.Identity()
        self.gate = part.gate.module(width, H, E) if part.gate else None

    def extra_repr(self) -> str:
        return f"heads={self.part.heads}, head_width={self.head_width}, minibatch={self.part.minibatch}"

    def forward(self, x_BTD: Tensor, context: Context, state: RecurrentState | None = None) -> Tensor:
        query, key, value = self.projected(x_BTD, context)
        mixed_BTW = self.recur(query, key, value, self.rate(x_BTD), context, state).to(x_BTD.dtype)
        mixed_BTHE = split_heads(self.norm(by_head("mixed", mixed_BTW, self.part.heads, context)), self.part.heads)
        if self.gate is not None:
            mixed_BTHE = self.gate(x_BTD, mixed_BTHE)
        return put_out(self.output, mixed_BTHE, context)

    def recur(
        self, query: Tensor, key: Tensor, value: Tensor, rate: Tensor, context: Context, state: RecurrentState | None = None
    ) -> Tensor:
        """The heads side by side in fp32 at least, (B, T, H * E), of what is projected; rate (B, T, H)."""
        part, H = self.part, self.part.heads
        positions = places_in_documents(context, goes_on=state is not None)
        with exactly(query):
            q, k, v = (split_heads(exact(x), H) for x in (query, key, value))
            q, k = self._placed(q, context, positions), self._placed(k, context, positions)
            rates = part.base_rate / self.head_width * exact(rate).sigmoid()[..., None]
            learner = self._learner(state, q)
            q_BHTE, k_BHTE, v_BHTE, rates_BHT1 = (x.transpose(1, 2) for x in (q, k, v, rates))
            place = None if context.aligned else positions
            read, weight, total = train_at_test_time(q_BHTE, k_BHTE, v_BHTE, rates_BHT1, learner, place)
            if state is not None or context.opened is not None:
                hold(torch.stack([weight - self._initial(q), total], 1), state, context)
            return q.flatten(2) + self.inner_norm(read.transpose(1, 2).flatten(2))  # type: ignore[no-any-return]

    def _initial(self, like: Tensor) -> Tensor:
        """W above b at the start of every row, (B, H, E + 1, E)."""
        both = torch.cat([exact(self.initial_weight), exact(self.initial_bias)[:, None]], 1)
        return both.to(like.dtype).expand(len(like), -1, -1, -1)

    def _learner(self, state: RecurrentState | None, like: Tensor) -> InnerModel:
        part, H = self.part, self.part.heads
        weight = self._initial(like)
        change, total = (None, torch.zeros_like(weight)) if state is None else state.sums.to(like.dtype).unbind(1)
        number = torch.arange(1, part.minibatch + 1, device=like.device)
        gain, bias = (exact(x).view(H, 1, -1) for x in (self.inner_norm.weight, self.inner_norm.bias) if x is not None)
        return InnerModel(
            (1 / number + exact(self.place)).clamp(min=0),
            gain,
            bias,
            weight if change is None else weight + change,
            total,
            part.eps,
        )

    def _placed(self, x_BTHE: Tensor, context: Context, positions: Tensor) -> Tensor:
        """Rotated by the place in the mini-batch."""
        rotary, n = self.part.rotary, self.part.minibatch
        if rotary is None:
            return x_BTHE
        last = torch.full((), n - 1, device=positions.device)
        waves = table(rotary, positions.clamp(min=0) % n, self.head_width, x_BTHE.dtype, last)
        return rotate(rotary, x_BTHE, waves)
