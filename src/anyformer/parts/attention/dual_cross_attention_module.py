"""The modules of dual cross-attention."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from anyformer.parts.attention.attend import attend
from anyformer.parts.attention.attends import Attends
from anyformer.parts.attention.dual_cross_attention import AcrossScales
from anyformer.parts.attention.named_values_module import shown_to
from anyformer.parts.call.context import Context, Visible
from anyformer.parts.pointwise.depthwise_module import Depthwise
from anyformer.plan import Plan


class AcrossScalesModule(Attends):
    """(B, T, D) -> (B, T, D)."""

    def __init__(self, part: AcrossScales, width: int, plan: Plan) -> None:
        super().__init__(part.masks[0] if part.masks else None)
        self.part, self.plan = part, plan
        self.scales = nn.ModuleList(
            nn.ModuleDict(
                {"norm": part.norm.build(own)} | {name: Depthwise(wide) for name, wide in part.projections(own, width).items()}
            )
            for own in part.scales
        )

    def extra_repr(self) -> str:
        return f"scales={self.part.scales}, heads={self.part.heads}"

    def forward(self, x_BTD: Tensor, context: Context, state: None = None) -> Tensor:
        scales: list[nn.ModuleDict] = list(self.scales)  # type: ignore[arg-type]
        own = [scale["norm"](x) for scale, x in zip(scales, torch.split(x_BTD, list(self.part.scales), -1), strict=True)]
        all_BTD = torch.cat(own, -1)
        mixed = []
        for i, (scale, x) in enumerate(zip(scales, own, strict=True)):
            of_scale = context.inside(f"scales[{i}]")
            mixed.append(scale["output"](of_scale.see("mixed", self.mixed(scale, x, all_BTD, of_scale))))
        return torch.cat(mixed, -1)

    def mixed(self, scale: nn.ModuleDict, own: Tensor, all_BTD: Tensor, context: Context) -> Tensor:
        """The attention of one scale, `own` (B, T, D_i), to all scales, (B, T, D): (B, T, D_i)."""
        raise NotImplementedError

    def _split(self, x: Tensor) -> Tensor:
        """(B, T, H * E) -> (B, H, T, E)."""
        return x.view(*x.shape[:-1], self.part.heads, -1).transpose(1, 2)


class ChannelCrossAttentionModule(AcrossScalesModule):
    """(B, T, D) -> (B, T, D)."""

    def mixed(self, scale: nn.ModuleDict, own: Tensor, all_BTD: Tensor, context: Context) -> Tensor:
        q, k, v = (context.see(name, scale[name](x)) for name, x in (("query", own), ("key", all_BTD), ("value", all_BTD)))
        if context.valid is not None:
            # Scores are sums over positions: padding counts nothing where the query is zero.
            q = q.masked_fill(~context.valid[..., None], 0)
        # Attention transposed: channels take the place of positions, and positions that of features.
        y_BHET = attend(
            self._split(q).mT, self._split(k).mT, self._split(v).mT, Visible(),
            scale=all_BTD.shape[-1] ** -0.5, kernel=self.plan.attention, shown=shown_to(context.opened),
        )  # fmt: skip
        return y_BHET.mT.transpose(1, 2).flatten(2)


class SpatialCrossAttentionModule(AcrossScalesModule):
    """(B, T, D) -> (B, T, D)."""

    def mixed(self, scale: nn.ModuleDict, own: Tensor, all_BTD: Tensor, context: Context) -> Tensor:
        read = (("query", all_BTD), ("key", all_BTD), ("value", own))
        q, k, v = (self._split(context.see(name, scale[name](x))) for name, x in read)
        how = {"scale": q.shape[-1] ** -0.5, "kernel": self.plan.attention, "shown": shown_to(context.opened)}
        return attend(q, k, v, self.visible(all_BTD, context, context.keys), **how).transpose(1, 2).flatten(2)
