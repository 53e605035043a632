"""The choice of k experts for a token: by score, by chance, or by the token alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from anyformer.describe import Count, NotNegative, Positive, Registry, Value

if TYPE_CHECKING:
    from torch import Tensor


class Groups(Value):
    """Experts are split into `count` equal groups, and a token chooses within its `keep` best groups.

    Groups are devices, so that a token is sent to few of them (DeepSeek-V2, arXiv 2405.04434, section 2.2.2, whose D and M are
    count and keep).
    """

    count: Count
    keep: Count
    score: Literal["max", "top_2"] = "max"
    """A group's score: its best expert's, or the sum of its two best (DeepSeek-V3)."""
    others: Literal["never", "zero"] = "never"
    """Experts of other groups are never chosen, or score 0 (A.X K2): above one that a correction has made negative."""

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
            left = self.keep * size
            raise ValueError(f"groups.keep = {self.keep} leaves {left} experts to choose from, and chosen = {chosen}")

    def masked(self, preference_ZX: Tensor) -> Tensor:
        """The preferences, -inf or 0 outside the best groups."""
        from anyformer.parts.experts.selection_module import of_best_groups

        return of_best_groups(self, preference_ZX)


class ScoreCorrectionBias(Value):
    """A bias per expert, added to the scores for the choice only (DeepSeek-V3's e_score_correction_bias). It has no gradient:
    each step moves it against the load, which balances experts without a loss (Wang et al. 2024, arXiv 2408.15664).

    Checkpoints contain it.
    """

    rate: NotNegative = 0.001
    """How far the bias moves in a step (the papers' u and gamma)."""


@dataclass(frozen=True)
class RouterInputs:
    """The inputs of a choice of `chosen` (k) among `experts` (X, identity experts included) for Z = B * T tokens.

    `logits`, `scores` (Z, X): None if the router has no linear map. `correction` (X,): its bias per expert, if it has one.
    `noise` (Z, A, X): uniform in (0, 1), in training only, for each of the A rounds in which the choice draws. `tokens` (B, T).
    `table` (V, k): the experts of each token, if the choice has one.
    """

    experts: int
    chosen: int
    logits: Tensor | None = None
    scores: Tensor | None = None
    correction: Tensor | None = None
    noise: Tensor | None = None
    tokens: Tensor | None = None
    table: Tensor | None = None


class Selection(Value):
    """A rule that puts the experts in an order per token; the first k are chosen."""

    kinds: ClassVar[Registry] = Registry()
    kind: str
    reads_scores: ClassVar[bool] = True
    reads_tokens: ClassVar[bool] = False
    """Whether the choice depends on the tokens themselves."""
    weighs: ClassVar[bool] = False
    """Whether its `weights` replace the router's rule."""

    @property
    def orders_by_scores(self) -> bool:
        """Whether the order of the experts is that of their scores; else of logits, or by tokens alone."""
        return self.reads_scores

    @property
    def words(self) -> str:
        """The rule in a few words, for pictures; empty for the plain k best scores."""
        return self.kind.replace("_", " ")

    @property
    def correction_rule(self) -> ScoreCorrectionBias | None:
        """The rule of its bias per expert; None without one."""
        return None

    @property
    def tabled(self) -> int | None:
        """V, the tokens that it has a table of experts for; None without one."""
        return None

    def rounds(self, chosen: int) -> int:
        """A, the random numbers drawn per token and expert in training."""
        return 0

    def check(self, experts: int, chosen: int) -> None:
        """Refuse a number of experts, or of experts chosen, that does not fit the rule."""

    def candidates(self, experts: int) -> int:
        """The number of experts, from the first in a token's order, that it may be sent to."""
        return experts

    @property
    def limit(self) -> tuple[int, int]:
        """Equal groups of experts, and how many of them a token's experts are from."""
        return 1, 1

    def preference(self, inputs: RouterInputs) -> Tensor:
        """(Z, X): experts are chosen from the largest down."""
        raise NotImplementedError

    def weights(self, inputs: RouterInputs, chosen_ZJ: Tensor) -> Tensor:
        """(Z, J): the weights of the experts chosen, if it `weighs`."""
        raise NotImplementedError


class TopK(Selection):
    """The k best scores, optionally with a correction per expert, and from the best groups only."""

    kind: Literal["top_k"] = "top_k"
    by: Literal["scores", "logits"] = "scores"
    """Whether scores or logits are compared and corrected (Kolibri: logits); saturated scores tie, logits do not."""
    groups: Groups | None = None
    correction: ScoreCorrectionBias | None = None

    @property
    def orders_by_scores(self) -> bool:
        return self.by == "scores"

    @property
    def words(self) -> str:
        groups = "" if self.groups is None else f"from {self.groups.keep} of {self.groups.count} groups"
        return ", ".join(filter(None, (groups, "corrected by a bias" if self.correction else "")))

    @property
    def correction_rule(self) -> ScoreCorrectionBias | None:
        return self.correction

    def check(self, experts: int, chosen: int) -> None:
        if self.groups is not None:
            self.groups.check(experts, chosen)

    def candidates(self, experts: int) -> int:
        if self.groups is None or self.groups.others == "zero":
            return experts
        return experts // self.groups.count * self.groups.keep

    @property
    def limit(self) -> tuple[int, int]:
        return (1, 1) if self.groups is None else (self.groups.count, self.groups.keep)

    def preference(self, inputs: RouterInputs) -> Tensor:
        wanted = inputs.scores if self.by == "scores" else inputs.logits
        assert wanted is not None
        wanted = wanted if inputs.correction is None else wanted + inputs.correction
        return wanted if self.groups is None else self.groups.masked(wanted)


class Sampled(Selection):
    """In training k experts drawn without replacement with probabilities as the scores; otherwise the k best.

    Drawn as the top k of log(score) + Gumbel noise (Kool et al. 2019, arXiv 1903.06059).
    """

    kind: Literal["sampled"] = "sampled"

    def rounds(self, chosen: int) -> int:
        return 1

    def preference(self, inputs: RouterInputs) -> Tensor:
        from anyformer.parts.experts.selection_module import gumbel

        assert inputs.scores is not None
        return inputs.scores if inputs.noise is None else inputs.scores.log() + gumbel(inputs.noise[:, 0])


class ByToken(Selection):
    """The base of choices by the token alone, made by a hash of (seed, token, expert)."""

    reads_scores: ClassVar[bool] = False
    reads_tokens: ClassVar[bool] = True
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 0

    def preference(self, inputs: RouterInputs) -> Tensor:
        from anyformer.parts.experts.selection_module import hashed

        assert inputs.tokens is not None, "a stack whose layers read tokens gets them"
        return hashed(inputs.tokens.flatten().long(), self.seed, inputs.experts)


class Hashed(ByToken):
    """A fixed random k experts per token of the vocabulary (Hash Layers, Roller et al. 2021, arXiv 2106.04426).

    Computed from (seed, token, expert) with no table. If the router has scores, they are weights only (DeepSeek-V4).
    """

    kind: Literal["hashed"] = "hashed"


class TokenTable(ByToken):
    """The k experts that a table has per token, (V, k): whole numbers that nothing trains (DeepSeek-V4's `tid2eid`).

    Checkpoints contain it. It starts at -1, which stands for the experts that `Hashed` gives the token.
    """

    kind: Literal["token_table"] = "token_table"
    vocab: Count
    """V."""

    @property
    def tabled(self) -> int | None:
        return self.vocab

    def preference(self, inputs: RouterInputs) -> Tensor:
        from anyformer.parts.experts.selection_module import named_first

        assert inputs.tokens is not None, "a stack whose layers read tokens gets them"
        assert inputs.table is not None, "a router with a table gives it"
        return named_first(super().preference(inputs), inputs.table, inputs.tokens.flatten().long(), inputs.chosen)


class SparseMixer(Selection):
    """k experts one after the other, each from those near the best logit left (GRIN, Liu et al. 2024, arXiv 2409.12136).

        near: the e, not chosen before, with (m - z_e) / max(|z_e|, m) <= margin; m the largest logit z not chosen before
        chosen: the best; in training one drawn from softmax(z over near). weight: its share of softmax(z over near)

    In training the weight of a draw that is not the best is divided by 3, three times in four, while its gradient is not
    (Heun's third-order estimate of the gradient of drawing). With margin = 2 * jitter these are PhiMoE's rules.
    """

    kind: Literal["sparse_mixer"] = "sparse_mixer"
    weighs: ClassVar[bool] = True

    @property
    def orders_by_scores(self) -> bool:
        return False  # they tell apart those alone that are not drawn

    margin: Positive = 0.02

    def rounds(self, chosen: int) -> int:
        return chosen + 1  # a round per draw, and one for the divisions by 3

    def preference(self, inputs: RouterInputs) -> Tensor:
        from anyformer.parts.experts.selection_module import drawn_in_order

        return drawn_in_order(self.margin, inputs)

    def weights(self, inputs: RouterInputs, chosen_ZJ: Tensor) -> Tensor:
        from anyformer.parts.experts.selection_module import midpoint_weights

        return midpoint_weights(self.margin, inputs, chosen_ZJ)
