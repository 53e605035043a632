"""Speech to text: the transcript of a sound, token after token."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from anyformer.data import IGNORED, Data, RecordBatch, RecordTable
from anyformer.data.columns import padded
from anyformer.data.packing import Ints
from anyformer.generation.sampling import GREEDY, Sampling
from anyformer.generation.transcribing import spoken_text, transcribed
from anyformer.model import Architecture
from anyformer.model.transformer import Transformer
from anyformer.objectives.aspects import LossTraits, SampleSizes
from anyformer.objectives.examples import Examples
from anyformer.objectives.feed import Feed
from anyformer.objectives.objective import Inputs, Setting
from anyformer.objectives.source_target import NOTHING
from anyformer.objectives.token_loss import TokenObjective
from anyformer.objectives.transcript_rates import constant_answer
from anyformer.objectives.transcripts import TranscriptObjective
from anyformer.operations import Shape
from anyformer.requirements.usual import BY_KIND
from anyformer.text import Tokenizer
from anyformer.text.transcripts import SpeechTask, TranscriptFrame


class SpeechToTextObjective(TranscriptObjective, TokenObjective):
    """Cross-entropy of the transcript of a sound: -sum_i log p(y_i | x, y_1 ... y_(i-1)).

    The encoder hears the sound x, the decoder reads the transcript y shifted right (Whisper, Radford et al. 2022, arXiv
    2212.04356). With Whisper's tokenizer y begins with language, task, and that no times follow, or stands between two times;
    with any other it has what that puts around a target. All but the first token is predicted, the end included.
    """

    kind: Literal["speech_to_text"] = "speech_to_text"
    language: Annotated[str, Field(min_length=1)] | None = None
    """The language of the sounds for Whisper's tokenizer, as `en`; None: its `generation_config.json`'s, else English."""
    task: SpeechTask = "transcribe"
    """What Whisper's prompt asks for; `translate`: into English."""
    timestamps: bool = False
    """Put the times at which a sound begins and ends around its text, in Whisper's tokens of 0.02 s."""

    def check(self, architecture: Architecture) -> None:
        """Refuse an architecture that does not turn a sound and the text so far into logits of the next token."""
        BY_KIND["speech_to_text"].check(architecture)

    @property
    def traits(self) -> LossTraits:
        return replace(super().traits, two_inputs=True)

    @property
    def sizes(self) -> SampleSizes:
        return replace(super().sizes, source=self.longest)

    def lengths(self, table: RecordTable, setting: Setting) -> Ints:
        return np.asarray(table.lengths("text") + self.frame(setting.tokenizer).count, dtype=np.int64)

    def frame(self, tokenizer: Tokenizer) -> TranscriptFrame:
        """What stands around a transcript."""
        return TranscriptFrame.of(tokenizer, self.language, self.task, timestamps=self.timestamps)

    def examples(self, batch: RecordBatch, setting: Setting, training: bool = False) -> Examples:
        """`targets` (B, T): the framed transcripts; `decoder_tokens` the same shifted right behind the first token."""
        frame, rate = self.frame(setting.tokenizer), self.features.rate
        said = [frame.framed(record["text"].tolist(), len(record["sound"]) / rate) for (record,) in batch.records]
        target_BT = torch.from_numpy(padded(said, setting.length, NOTHING))
        entered_BT = torch.cat([torch.full((len(said), 1), frame.start), target_BT[:, :-1]], 1)
        entered_BT = torch.where(target_BT < 0, NOTHING, entered_BT)
        tokens, padding = self.heard(batch, setting, training)
        return Examples(
            tokens, torch.where(target_BT < 0, IGNORED, target_BT), None, torch.from_numpy(batch.rows),
            decoder_tokens=entered_BT.clamp(min=0), padding=padding, decoder_padding=entered_BT < 0,
        )  # fmt: skip

    def made_up(self, architecture: Architecture, data: Data, shape: Shape) -> Examples:
        hidden = torch.zeros(shape.batch, shape.length, dtype=torch.bool)
        return replace(super().made_up(architecture, data, shape), decoder_padding=hidden, counts=None)

    def counted(self, examples: Examples) -> Tensor | None:
        return examples.targets != IGNORED

    def inputs(self, model: Transformer, examples: Examples) -> Inputs:
        return {
            "decoder_tokens": examples.decoder_tokens,
            "padding": examples.padding,
            "decoder_padding": examples.decoder_padding,
        }

    def times(self, tokenizer: Tokenizer) -> int | None:
        return self.frame(tokenizer).times

    def transcripts(
        self,
        model: Transformer,
        sounds: Tensor,
        padding: Tensor | None,
        tokenizer: Tokenizer,
        *,
        most: int,
        sampling: Sampling = GREEDY,
    ) -> list[str]:
        """Token after token behind what begins a transcript."""
        frame = self.frame(tokenizer)
        said = transcribed(model, sounds, padding, frame, most=most, ends=tokenizer.ends, sampling=sampling)
        return [spoken_text(tokenizer, tokens, frame.times) for tokens in said]

    def baseline(self, training: Feed, steps: int, held_out: Feed, windows: int, outputs: int) -> tuple[str, float] | None:
        found = super().baseline(training, steps, held_out, windows, outputs)
        return None if found is None else (f"{found[0]} ({constant_answer(training, held_out)})", found[1])
