"""Which experts a token gets: the k that a preference orders first, by score, by chance, or by the token alone."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from anyformer.describe import Value
from anyformer.parts.noise import mix

Count = Annotated[int, Field(ge=1)]


class Groups(Value):
    """Experts stand in `count` equal groups side by side, and only those of a token's `keep` best groups can be chosen.

    Groups are devices, so that a token is sent to few (DeepSeek-V2, arXiv 2405.04434, section 2.2.2, whose D and M are
    count and keep).
    """

    count: Count
    keep: Count
    score: Literal["max", "top_2"] = "max"
    """A group's score: its best expert's, or the sum of its two best (DeepSeek-V3)."""

    def check(self, experts: int, chosen: int) -> None:
        """Refuse groups that do not fit the experts."""
        if experts % self.count:
            raise ValueError(f"groups.count must divide experts, got count = {self.count} and experts = {experts}")
        if self.keep > self.count:
            raise ValueError(f"groups.keep must be at most groups.count, got keep = {self.keep} and count = {self.count}")
        size = experts // self.count
        if size < 2 and self.score == "top_2":
            raise ValueError("groups.score = 'top_2' adds two experts of a group, and each group has one")
        if self.keep * size < chosen:
            raise ValueError(f"groups.keep leaves {self.keep * size} experts to choose from, and chosen = {chosen}")

    def masked(self, preference_ZX: Tensor) -> Tensor:
        """The preferences, -inf outside the groups kept."""
        grouped = preference_ZX.view(len(preference_ZX), self.count, -1)
        score = grouped.topk(1 if self.score == "max" else 2, -1).values.sum(-1)
        kept = score.topk(self.keep, -1).indices
        keep = (kept[:, :, None] == torch.arange(self.count, device=kept.device)).any(1)
        return torch.where(keep[:, :, None], grouped, -torch.inf).view(preference_ZX.shape)


class Correction(Value):
    """A bias per expert for the choice only, moved after each step against the load instead of by a loss

    (Wang et al. 2024, arXiv 2408.15664; DeepSeek-V3's e_score_correction_bias). Kept in the checkpoint; no gradient.
    """

    rate: Annotated[float, Field(ge=0)] = 0.001
    """By how much it moves in a step (the papers' u and gamma)."""


class Preference(Value):
    """What a way of choosing owes: an order of the experts for each token."""

    kind: str
    draws: ClassVar[bool] = False
    """Whether it draws noise in training."""
    reads_scores: ClassVar[bool] = True
    reads_tokens: ClassVar[bool] = False
    """Whether it looks at which token stands somewhere."""

    @property
    def correction_rule(self) -> Correction | None:
        """How its bias per expert moves; None where it has none."""
        return None

    def check(self, experts: int, chosen: int) -> None:
        """Refuse what does not fit the experts."""

    def candidates(self, experts: int) -> int:
        """How many of a token's first experts it may be sent to."""
        return experts

    def preference(
        self,
        scores_ZX: Tensor | None,
        experts: int,
        correction_X: Tensor | None,
        noise_ZX: Tensor | None,
        tokens_BT: Tensor | None,
    ) -> Tensor:
        """(Z, X): the larger, the sooner chosen. `noise`: uniform in (0, 1), in training only."""
        raise NotImplementedError


class TopK(Preference):
    """The k best scores, a correction per expert added and only the best groups looked at where the description says so."""

    kind: Literal["top_k"] = "top_k"
    groups: Groups | None = None
    correction: Correction | None = None

    @property
    def correction_rule(self) -> Correction | None:
        return self.correction

    def check(self, experts: int, chosen: int) -> None:
        if self.groups is not None:
            self.groups.check(experts, chosen)

    def candidates(self, experts: int) -> int:
        return experts if self.groups is None else experts // self.groups.count * self.groups.keep

    def preference(
        self,
        scores_ZX: Tensor | None,
        experts: int,
        correction_X: Tensor | None,
        noise_ZX: Tensor | None,
        tokens_BT: Tensor | None,
    ) -> Tensor:
        assert scores_ZX is not None
        wanted = scores_ZX if correction_X is None else scores_ZX + correction_X
        return wanted if self.groups is None else self.groups.masked(wanted)


class Sampled(Preference):
    """In training k experts drawn without replacement with probabilities as the scores; otherwise the k best.

    Drawn as the top k of log(score) + Gumbel noise (Kool et al. 2019, arXiv 1903.06059).
    """

    kind: Literal["sampled"] = "sampled"
    draws: ClassVar[bool] = True

    def preference(
        self,
        scores_ZX: Tensor | None,
        experts: int,
        correction_X: Tensor | None,
        noise_ZX: Tensor | None,
        tokens_BT: Tensor | None,
    ) -> Tensor:
        assert scores_ZX is not None
        return scores_ZX if noise_ZX is None else scores_ZX.log() - torch.log(-noise_ZX.log())


class Hashed(Preference):
    """A fixed random k experts for each token of the vocabulary (Hash Layers, Roller et al. 2021, arXiv 2106.04426).

    Computed from (seed, token, expert) with no table. Scores, where the router has them, only weigh (DeepSeek-V4).
    """

    kind: Literal["hashed"] = "hashed"
    reads_scores: ClassVar[bool] = False
    reads_tokens: ClassVar[bool] = True
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 0

    def preference(
        self,
        scores_ZX: Tensor | None,
        experts: int,
        correction_X: Tensor | None,
        noise_ZX: Tensor | None,
        tokens_BT: Tensor | None,
    ) -> Tensor:
        assert tokens_BT is not None, "a stack gets the tokens that it embeds"
        token = mix(tokens_BT.flatten().long() ^ (self.seed * 0x9E3779B1 & 0xFFFFFFFF))
        expert = mix(torch.arange(experts, device=tokens_BT.device, dtype=torch.int64))
        return mix(token[:, None] ^ expert)


Selection = Annotated[TopK | Sampled | Hashed, Field(discriminator="kind")]
"""Every way of choosing."""
