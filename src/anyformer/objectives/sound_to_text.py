"""Texts given sounds among their tokens: transcripts, and answers to questions about sounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from anyformer.data import Corpus, Data, RecordBatch, RecordTable, SoundTexts
from anyformer.data.packing import Ints
from anyformer.model import Architecture
from anyformer.model.transformer import Transformer
from anyformer.objectives.aspects import LossTraits, SampleSizes, Usual
from anyformer.objectives.examples import Examples
from anyformer.objectives.feed import Feed
from anyformer.objectives.objective import Inputs, Setting, Totals, reader_of
from anyformer.objectives.sounds import SoundObjective, samples_of
from anyformer.objectives.text_beside import LONGEST, TextBeside, answered, around_shown, check_written, written
from anyformer.objectives.text_scores import text_scores, text_sums
from anyformer.objectives.token_loss import TokenObjective
from anyformer.objectives.transcript_rates import constant_answer, edit_sums, error_rates
from anyformer.operations import Shape
from anyformer.parts.images.sound import SoundEncoder
from anyformer.requirements.usual import BY_KIND
from anyformer.text import Tokenizer


class SoundToTextObjective(SoundObjective, TokenObjective):
    """Cross-entropy of a text given a sound among its tokens: -sum_i log p(y_i | sound, question, y_1 ... y_{i-1}).

    Only the text and its end are predicted: what is said, or of a question about a sound its answer. The tokens of the sound,
    as many as the tower makes of it, stand before the question (Qwen-Audio, arXiv 2311.07919; Voxtral, arXiv 2507.13264). Zeros
    follow a sound up to a whole number of tokens. Evaluations write texts greedily, as long as the longest that is wanted in
    their batch at most, and tell their errors (`error_rates`, `text_scores`).
    """

    reads: ClassVar[type[Data]] = SoundTexts
    kind: Literal["sound_to_text"] = "sound_to_text"
    before_sound: str = ""
    """Text before the tokens of a sound, special tokens by their names among it: Qwen2-Audio's `<|audio_bos|>`."""
    behind_sound: str = ""
    """Text behind them: Qwen2-Audio's `<|audio_eos|>`."""

    def check(self, architecture: Architecture) -> None:
        """Refuse an architecture that hears no sound among the tokens of a text which it goes on with."""
        BY_KIND["sound_to_text"].check(architecture)

    def check_data(self, data: Data, architecture: Architecture, length: int) -> None:
        super().check_data(data, architecture, length)
        if (count := self._tokens(architecture, samples_of(data))) >= length:
            raise ValueError(
                f"length = {length}, and the longest sound (data.seconds) alone takes {count} tokens: set a greater length"
            )

    @property
    def traits(self) -> LossTraits:
        return replace(super().traits, two_inputs=True, answers=compared_texts)

    @property
    def sizes(self) -> SampleSizes:
        return replace(super().sizes, frames=self._frames)

    @property
    def usual(self) -> Usual:
        return replace(super().usual, length=self._text_length)

    def _frames(self, architecture: Architecture, data: Data) -> int:
        """Frames of the longest sound of the data, as many as its positions are made of."""
        return self.longest(architecture, data) * tower_of(architecture).embedding.frames

    def _tokens(self, architecture: Architecture, samples: int) -> int:
        """The tokens of a sound of so many samples."""
        (count,) = tower_of(architecture).sizes(self.blank(1, samples, architecture, "meta"), None)
        return count

    def _text_length(self, architecture: Architecture, data: Data) -> int:
        """T where nobody says it: `LONGEST` tokens of text and those of the longest sound, as the position table has room."""
        wanted, longest = LONGEST + self._tokens(architecture, samples_of(data)), architecture.output_stack.max_length
        return wanted if longest is None else min(wanted, longest)

    def check_corpus(self, corpus: Corpus, setting: Setting) -> None:
        """Refuse a tokenizer with tokens that the model cannot write."""
        check_written(corpus, reader_of(setting))

    def lengths(self, table: RecordTable, setting: Setting) -> Ints:
        """(records,): of every text, with the tokens of its sound."""
        architecture, around = reader_of(setting), self.around(setting.tokenizer)
        least = setting.samples if self.padding == "silence" else 0
        samples, places = np.unique(np.maximum(table.lengths("sound"), least), return_inverse=True)
        shown = np.array([self._tokens(architecture, count) for count in samples.tolist()], dtype=np.int64)[places]
        return np.asarray(table.lengths("prompt") + table.lengths("text") + around.count + shown, dtype=np.int64)

    def around(self, tokenizer: Tokenizer) -> TextBeside:
        """What stands around a text."""
        return around_shown(tokenizer, self.before_sound, self.behind_sound)

    def examples(self, batch: RecordBatch, setting: Setting, training: bool = False) -> Examples:
        """`tokens` and `targets` (B, T): of the text and its end; `audio` (B, F, I): a sound for every row."""
        around, tower = self.around(setting.tokenizer), tower_of(reader_of(setting))
        audio, hidden = self.heard(batch, setting, training)
        shown = [[tower.token] * size for size in tower.sizes(audio, hidden)]
        records = [record for (record,) in batch.records]
        made = answered(
            [around.opening(sound, record["prompt"].tolist()) for sound, record in zip(shown, records, strict=True)],
            [[*record["text"].tolist(), *around.closing] for record in records],
            setting.length,
        )
        return Examples(
            made.tokens, made.targets, None, torch.from_numpy(batch.rows), padding=made.padding, prefix=made.asked, audio=audio,
            audio_padding=hidden,
        )  # fmt: skip

    def made_up(self, architecture: Architecture, data: Data, shape: Shape) -> Examples:
        made, tower = super().made_up(architecture, data, shape), tower_of(architecture)
        sizes = tower.sizes(made.tokens, None)
        tokens = torch.zeros(shape.batch, shape.length, dtype=torch.int64)
        tokens[:, : sizes[0]] = tower.token
        return replace(
            made, tokens=tokens, padding=torch.zeros(tokens.shape, dtype=torch.bool), prefix=torch.tensor(sizes), counts=None,
            audio=made.tokens, audio_padding=made.padding,
        )  # fmt: skip

    def inputs(self, model: Transformer, examples: Examples) -> Inputs:
        return {
            "padding": examples.padding, "prefix": examples.prefix, "audio": examples.audio,
            "audio_padding": examples.audio_padding,
        }  # fmt: skip

    def metrics(self, totals: Totals, names: Mapping[str, tuple[str, ...]]) -> dict[str, float]:
        """Accuracy of the next token, and the errors of the texts that the model writes."""
        return {**super().metrics(totals, names), **error_rates(totals), **text_scores(totals)}

    def baseline(self, training: Feed, steps: int, held_out: Feed, windows: int, outputs: int) -> tuple[str, float] | None:
        found = super().baseline(training, steps, held_out, windows, outputs)
        return None if found is None else (f"{found[0]} ({constant_answer(training, held_out)})", found[1])


def compared_texts(model: Transformer, examples: Examples, tokenizer: Tokenizer) -> dict[str, Tensor]:
    """Sums of comparisons of the texts that the model writes with those that are wanted."""
    said, wanted = ([tokenizer.decode(text).strip() for text in texts] for texts in written(model, examples))
    return {**edit_sums(said, wanted), **text_sums(said, wanted)}


def tower_of(architecture: Architecture) -> SoundEncoder:
    """The tower for sound of an architecture that was checked."""
    assert architecture.audio is not None, "checked before"
    return architecture.audio
