"""Sound among the tokens of a text: a tower that encodes its frames as Whisper does."""

from __future__ import annotations

from itertools import count as counting
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import model_validator

from anyformer.describe import Count, InputError, Registry
from anyformer.operations import Shape, Tally, total
from anyformer.parts.embedding.embedding import has_numbers
from anyformer.parts.embedding.features import AudioFrames
from anyformer.parts.images.placeholder import PlaceholderEncoder, Price
from anyformer.parts.images.projector import Projector
from anyformer.parts.layers.stack import Stack
from anyformer.plan import Plan

if TYPE_CHECKING:
    from torch import Tensor

    from anyformer.parts.images.sound_module import SoundTowerModule


class SoundEncoder(PlaceholderEncoder):
    """The base of encoders of sound in a text. A call without sound is that of the text model alone."""

    kinds: ClassVar[Registry] = Registry()
    noun: ClassVar[str] = "sounds"
    kind: str
    sound: Count = 3000
    """Frames of the longest sound, for which costs and examples are given."""
    width: Count
    """Features of the tower's residual stream."""
    embedding: AudioFrames
    stack: Stack
    projector: Projector

    @property
    def facts(self) -> str:
        """The sounds that it reads, in words."""
        raise NotImplementedError

    @property
    def positions(self) -> int:
        """S, the positions in the tower of the longest sound."""
        raise NotImplementedError

    def sizes(self, audio: Tensor, padding: Tensor | None) -> list[int]:
        """The tokens that each of some sounds takes."""
        raise NotImplementedError

    def whole(self, frames: int) -> int:
        """The least number of frames, `frames` or more, that become one token or more and leave nothing over which cannot be
        read."""
        raise NotImplementedError

    def check(self, audio: Tensor, padding: Tensor | None, tokens_BT: Tensor) -> None:
        """Refuse sounds that it does not read, or another number of them than the tokens ask for, with an `InputError`."""
        raise NotImplementedError

    def build(self, width: int, plan: Plan, name: str) -> SoundTowerModule:
        raise NotImplementedError

    def cost(self, width: int, sounds: int, plan: Plan, price: Price = Stack.cost) -> Tally:
        """Its weights, and the work of encoding `sounds` sounds for a text of D = `width`."""
        raise NotImplementedError

    def example(self, tokens_BT: Tensor, seed: int = 0) -> tuple[Tensor, Tensor]:
        """The rows with a random sound behind each first token, and the sounds, for measurements and trials."""
        raise NotImplementedError


class SoundTower(SoundEncoder):
    """y = projector(stack(embedding(frames))): frames (n, F, I) of n sounds, each as many tokens as the projector makes of it.

    Padding frames are no keys of the attention and give no tokens; what stands in them is read by the convolutions, as in the
    window of a fixed length that Whisper's features fill. Qwen2-Audio (Chu et al. 2024, arXiv 2407.10759), Voxtral (Liu et al.
    2025, arXiv 2507.13264).
    """

    kind: Literal["tower"] = "tower"

    @model_validator(mode="after")
    def _fits_together(self) -> SoundTower:
        longest = self.stack.max_length
        if longest is not None and longest < self.positions:
            raise ValueError(f"a sound has {self.positions} positions, and the position table of the tower ends at {longest}")
        if self.stack.reads_tokens:
            raise ValueError("stack: a layer looks at the tokens themselves, and the positions of a sound are none")
        self.stack.check(self.width, self.width, "audio.stack")
        self.projector.tokens(self.positions)
        return self

    @property
    def positions(self) -> int:
        return self.positions_of(self.sound)

    def positions_of(self, frames: int) -> int:
        """S of a sound of so many frames."""
        return -(-frames // self.embedding.frames)

    def whole(self, frames: int) -> int:
        return next(more for more in counting(max(frames, 1)) if self._tokens_of(more))

    def sizes_up_to(self, frames: int) -> tuple[int, ...]:
        """The tokens of sounds of 0, 1 ... `frames` frames; 0 where the projector cannot read them."""
        return tuple(map(self._tokens_of, range(frames + 1)))

    def _tokens_of(self, frames: int) -> int:
        """The tokens of a sound of so many frames; 0 where the projector cannot read it."""
        try:
            return self.projector.tokens(self.positions_of(frames))
        except ValueError:
            return 0

    @property
    def tokens(self) -> int:
        return self.projector.tokens(self.positions)

    @property
    def facts(self) -> str:
        return f"{self.sound:,} frames of {self.embedding.features} bands, {self.tokens:,} tokens"

    def sizes(self, audio: Tensor, padding: Tensor | None) -> list[int]:
        """The tokens that each of some sounds takes."""
        frames = [audio.shape[1]] * len(audio) if padding is None else (~padding).sum(1).tolist()
        return [self.projector.tokens(self.positions_of(own)) for own in frames]

    def check(self, audio: Tensor, padding: Tensor | None, tokens_BT: Tensor) -> None:
        import torch

        wanted = f"(n, frames up to {self.sound}, {self.embedding.features})"
        if not isinstance(audio, torch.Tensor) or not audio.is_floating_point():
            kind = audio.dtype if isinstance(audio, torch.Tensor) else type(audio).__name__
            raise InputError(f"audio should be a tensor of real numbers of shape {wanted}, got {kind}")
        if audio.dim() != 3 or audio.shape[2] != self.embedding.features or not 1 <= audio.shape[1] <= self.sound:
            raise InputError(f"audio should have shape {wanted}, got {tuple(audio.shape)}: cut longer sounds into pieces")
        if padding is not None and (padding.shape != audio.shape[:2] or padding.dtype != torch.bool):
            raise InputError(
                f"audio_padding should be true or false (torch.bool) of shape {tuple(audio.shape[:2])}, got {padding.dtype} "
                f"{tuple(padding.shape)}"
            )
        if not has_numbers(tokens_BT):
            return
        if padding is not None:
            self.embedding.check("audio", audio, padding)
        try:
            sizes = self.sizes(audio, padding)
        except ValueError as error:
            raise InputError(f"audio: {error}") from None
        self.check_tokens(sizes, tokens_BT)

    def build(self, width: int, plan: Plan, name: str) -> SoundTowerModule:
        from anyformer.parts.images.sound_module import SoundTowerModule

        return SoundTowerModule(self, width, plan, name)

    def cost(self, width: int, sounds: int, plan: Plan, price: Price = Stack.cost) -> Tally:
        S, count = self.positions, max(sounds, 1)
        parts = {
            "embedding": self.embedding.cost(self.width, count, S),
            "stack": price(self.stack, self.width, self.width, Shape(batch=count, length=S), plan),
            "projector": self.projector.cost(self.width, width, count, S),
        }
        tally = total(parts).without("state", "limits").as_parts()
        return tally if sounds else tally.without("work")

    def example(self, tokens_BT: Tensor, seed: int = 0) -> tuple[Tensor, Tensor]:
        import torch

        rows, generator = len(tokens_BT), torch.Generator().manual_seed(seed)
        heard = tokens_BT.new_full((rows, self.tokens), self.token)
        audio = torch.randn(rows, self.sound, self.embedding.features, generator=generator)
        return torch.cat([tokens_BT[:, :1], heard, tokens_BT[:, 1:]], 1), audio
