"""Multi-token prediction by layers side by side on one trunk (Gloeckle et al. 2024)."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from anyformer.operations import Shape, Tally
from anyformer.parts.layers.multi_token import MultiToken, shared_exit
from anyformer.parts.layers.stack import Stack
from anyformer.plan import Plan

if TYPE_CHECKING:
    from anyformer.parts.layers.multi_token_module import PredictionsModule


class ParallelPrediction(MultiToken):
    """logits_k,i = head(norm(block_k(z_i))), z what enters the main model's last layer, which is the block_0 of the next token.

    Gloeckle et al. 2024 (arXiv 2404.19737), section 2: n heads of one layer each on a shared trunk, the main model's last layer
    among them, so `depth` is n - 1; the last norm and the unembedding are shared by all.
    """

    reads_stream: ClassVar[bool] = True
    kind: Literal["parallel"] = "parallel"

    def entering(self, width: int) -> tuple[str, ...]:
        return ("what enters the last layer",)

    def number_of(self, stack: Stack, k: int) -> tuple[int, int]:
        return stack.depth - 1, stack.depth

    def check(self, width: int, stack: Stack) -> None:
        if stack.streams is not None:
            raise ValueError("mtp: parallel predictions read one stream before the last layer, and the stack has several")
        super().check(width, stack)

    def build(self, width: int, stack: Stack, plan: Plan, name: str) -> PredictionsModule:
        from anyformer.parts.layers.parallel_heads_module import ParallelModule

        return ParallelModule(self, width, stack, plan, name)

    def _around(self, width: int, stack: Stack, shape: Shape) -> dict[str, Tally]:
        return shared_exit(stack, width, shape)
