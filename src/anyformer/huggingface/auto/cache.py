"""The decode state of a model as the cache that transformers hands from step to step."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache

from anyformer.describe import InputError
from anyformer.generation.memory import grown
from anyformer.model.transformer import Transformer
from anyformer.parts.call.stack_state import StackState
from anyformer.parts.call.state import StateError


class AnyformerCache(Cache):  # type: ignore[misc]
    """Holds a `StackState`, which calls allocate and enlarge, and beam search reorders."""

    def __init__(self, room: int = 0) -> None:
        """`room`: positions for which there is room from the first call on; more are made as a text grows beyond."""
        super().__init__(layers=[])
        self.room = room
        self.state: StackState | None = None
        self.padding: Tensor | None = None
        """(B, past) bool: padding of the calls so far; None where there was none."""
        self.virtual = 0
        """Virtual tokens in front of the text, which transformers does not know of."""

    def reserve(self, model: Transformer, batch: int, count: int) -> StackState:
        """The state, enlarged for `count` more positions of `batch` rows."""
        if self.state is not None and len(self.state.slots.positions) != batch:
            raise InputError(f"the cache holds {len(self.state.slots.positions)} rows, and this call has {batch}")
        self.virtual = model.architecture.virtual_tokens or 0
        first = self.room and self.state is None
        self.state = grown(model, self.state, batch, max(count, self.room) if first else count, most=self.room or None)
        return self.state

    def remember(self, padding: Tensor | None, batch: int, length: int, device: torch.device) -> None:
        """Record which of the `length` positions just read are padding."""
        if padding is None and self.padding is None:
            return
        past = self.get_seq_length() - length
        before = torch.zeros(batch, past, dtype=torch.bool, device=device) if self.padding is None else self.padding
        chunk = torch.zeros(batch, length, dtype=torch.bool, device=device) if padding is None else padding
        self.padding = torch.cat([before, chunk], 1)

    def check_past(self, padding: Tensor) -> None:
        """Refuse padding (B, past) of the positions in the cache that differs from that of the calls that read them."""
        before = torch.zeros_like(padding) if self.padding is None else self.padding
        if not torch.equal(before, padding):
            raise InputError(
                "attention_mask differs on the positions in the cache from the calls that read them: positions in a cache "
                "cannot be masked later; start without one"
            )

    def positions(self, shape: tuple[int, int], padding: Tensor | None) -> Tensor:
        """The positions that a chunk of this shape takes, (B, T)."""
        first: Tensor | int = 0
        if self.state is not None:
            first = self.state.slots.positions.amax(1, keepdim=True) + 1 - self.virtual
        real = torch.ones(shape, dtype=torch.int64) if padding is None else (~padding).long()
        if self.state is not None:
            real = real.to(self.state.slots.positions.device)
        return first + real.cumsum(1) - 1

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return 0 if self.state is None else max(self.state.slots.used - self.virtual, 0)

    def get_max_length(self, layer_idx: int | None = None) -> int:
        return -1

    def get_mask_sizes(self, query_length: int, layer_idx: int = 0) -> tuple[int, int]:
        return self.get_seq_length() + query_length, 0

    def update(self, *given: Any, **more: Any) -> Any:
        raise InputError("AnyformerCache belongs to the models of anyformer, whose layers hold their own kinds of state")

    def reset(self) -> None:
        self.state = self.padding = None

    def crop(self, tokens_to_remove: int) -> None:
        """Forget the last -tokens_to_remove positions; `StateError` where a layer's state cannot."""
        if tokens_to_remove > 0:
            raise InputError(f"crop takes minus the number of positions to forget, got {tokens_to_remove}")
        if self.state is None or tokens_to_remove == 0:
            return
        self.state.trim(-tokens_to_remove)
        self.padding = None if self.padding is None else self.padding[:, :tokens_to_remove]

    def reorder_cache(self, beam_idx: Tensor) -> None:
        self.batch_select_indices(beam_idx)

    def batch_repeat_interleave(self, repeats: int) -> None:
        if self.state is not None:
            rows = torch.arange(len(self.state.slots.positions), device=self.state.slots.positions.device)
            self.batch_select_indices(rows.repeat_interleave(repeats))

    def batch_select_indices(self, indices: Tensor) -> None:
        if self.state is None:
            return
        rows = indices.to(self.state.slots.positions.device)
        self.state = self.state.fork(rows)
        self.padding = None if self.padding is None else self.padding[rows]

    @property
    def batch_size(self) -> int:
        return -1 if self.state is None else len(self.state.slots.positions)

    @property
    def is_compileable(self) -> bool:
        return False

    @property
    def is_initialized(self) -> bool:
        return self.state is not None

    @property
    def is_croppable(self) -> bool:
        """Whether the last position can be forgotten."""
        if self.state is None:
            return True
        try:
            for layer in self.state.layers:
                for state in layer.values():
                    state.check_trim(self.state.slots.used, min(1, self.state.slots.used))
        except StateError:
            return False
        return True
