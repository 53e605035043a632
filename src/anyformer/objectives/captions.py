"""Texts given images: captions, and answers to questions about images."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from anyformer.data import Corpus, Data, ImageTexts, RecordBatch, RecordTable
from anyformer.data.packing import Ints
from anyformer.model import Architecture
from anyformer.model.transformer import Transformer
from anyformer.objectives.aspects import LossTraits, SampleSizes, Usual
from anyformer.objectives.examples import Examples
from anyformer.objectives.feed import Feed
from anyformer.objectives.objective import Inputs, Setting, Totals, reader_of
from anyformer.objectives.pixels import PixelObjective, blank
from anyformer.objectives.text_beside import LONGEST, TextBeside, answered, around_shown, check_written, written
from anyformer.objectives.text_scores import commonest_text, text_scores, text_sums
from anyformer.objectives.token_loss import TokenObjective
from anyformer.operations import Shape
from anyformer.requirements.usual import BY_KIND
from anyformer.text import Tokenizer
from anyformer.text.sides import Sides


class CaptionsObjective(PixelObjective, TokenObjective):
    """Cross-entropy of a text given an image: -sum_i log p(y_i | image, question, y_1 ... y_{i-1}).

    Only the text and its end are predicted: a caption, or of a question about an image its answer. Where the image is a
    source, a decoder attends to it or has it in front (Vinyals et al. 2015, arXiv 1411.4555; BLIP, arXiv 2201.12086); of an
    architecture with a tower, the image's tokens stand before the text (LLaVA, arXiv 2304.08485). A model that reads vectors
    gets the image's pixels with their places. Evaluations write texts greedily, as long as the longest that is wanted in their
    batch at most, and compare them with those wanted (`text_scores`).
    """

    reads: ClassVar[type[Data]] = ImageTexts
    kind: Literal["captions"] = "captions"
    before_image: str = ""
    """Text before the tokens of an image, special tokens by their names among it: Gemma 3's `<start_of_image>`."""
    behind_image: str = ""
    """Text behind them: Qwen-VL's `<|vision_end|>`."""

    def check(self, architecture: Architecture) -> None:
        """Refuse an architecture that does not read an image beside a text."""
        BY_KIND["captions"].check(architecture)
        if architecture.images is None and (self.before_image or self.behind_image):
            raise ValueError(
                "objective.before_image and objective.behind_image stand around an image's tokens in a text, and this model "
                "reads its image apart: leave them out"
            )

    def check_data(self, data: Data, architecture: Architecture, length: int) -> None:
        super().check_data(data, architecture, length)
        assert isinstance(data, ImageTexts), "checked before"
        self.check_channels(data.channels)
        positions, tower = image_positions(architecture, data), architecture.images
        needed = {next(iter(architecture.stacks)): positions} if tower is None and architecture.encoder is not None else {}
        if architecture.source == "prefix":
            needed["decoder"] = positions + length
        for name, count in needed.items():
            longest = architecture.stacks[name].max_length
            if longest is not None and count > longest:
                raise ValueError(
                    f"with an image of {data.height} x {data.width} pixels the {name} reads {count} positions, and its table "
                    f"ends at {longest}: set data.height and data.width, or a smaller length"
                )
        if tower is not None and positions >= length:
            raise ValueError(f"length = {length}, and an image alone takes {positions} tokens: set a greater length")

    @property
    def traits(self) -> LossTraits:
        return replace(super().traits, two_inputs=True, answers=compared_texts)

    @property
    def sizes(self) -> SampleSizes:
        return replace(super().sizes, source=source_positions, shows_image=True)

    @property
    def usual(self) -> Usual:
        return replace(super().usual, length=text_length)

    def around(self, tokenizer: Tokenizer, architecture: Architecture) -> TextBeside:
        """What stands around a text."""
        if architecture.images is None:
            sides = Sides.of(tokenizer)
            return TextBeside(sides.opening, (), sides.target.behind)
        return around_shown(tokenizer, self.before_image, self.behind_image)

    def check_corpus(self, corpus: Corpus, setting: Setting) -> None:
        """Refuse a tokenizer with tokens that the model cannot write."""
        check_written(corpus, reader_of(setting))

    def lengths(self, table: RecordTable, setting: Setting) -> Ints:
        architecture = reader_of(setting)
        beside = len(shown_tokens(architecture)) + self.around(setting.tokenizer, architecture).count
        return table.lengths("prompt") + table.lengths("text") + beside

    def examples(self, batch: RecordBatch, setting: Setting) -> Examples:
        """`targets` (B, T): of the text and its end; `tokens` (B, I, height, width), or of a model with a tower (B, T)."""
        architecture = reader_of(setting)
        around = self.around(setting.tokenizer, architecture)
        records = [record for (record,) in batch.records]
        shown = shown_tokens(architecture)
        made = answered(
            [around.opening(shown, record["prompt"].tolist()) for record in records],
            [[*record["text"].tolist(), *around.closing] for record in records],
            setting.length,
        )
        images = self.entered(torch.from_numpy(np.stack([record["image"] for record in records])), architecture)
        read = Examples(made.tokens, made.targets, None, torch.from_numpy(batch.rows), padding=made.padding)
        if architecture.images is None:
            return replace(read, tokens=images, padding=None, decoder_tokens=made.tokens, decoder_padding=made.padding)
        return replace(read, prefix=made.asked, images=images)

    def made_up(self, architecture: Architecture, data: Data, shape: Shape) -> Examples:
        assert isinstance(data, ImageTexts), "checked before"
        images = blank(architecture, shape.batch, data.channels, data.height, data.width)
        made = super().made_up(architecture, data, shape)
        padding = torch.zeros(shape.batch, shape.length, dtype=torch.bool)
        if (tower := architecture.images) is None:
            return replace(made, tokens=images, padding=None, decoder_padding=padding, counts=None)
        tokens = made.tokens.clone()
        tokens[:, : tower.tokens] = tower.token
        prefix = torch.full((shape.batch,), tower.tokens)
        return replace(made, tokens=tokens, padding=padding, prefix=prefix, images=images, counts=None)

    def counted(self, examples: Examples) -> Tensor | None:
        padding = examples.padding if examples.decoder_padding is None else examples.decoder_padding
        return None if padding is None else ~padding

    def inputs(self, model: Transformer, examples: Examples) -> Inputs:
        if examples.images is None:
            return {"decoder_tokens": examples.decoder_tokens, "decoder_padding": examples.decoder_padding}
        return {"padding": examples.padding, "prefix": examples.prefix, "images": examples.images}

    def metrics(self, totals: Totals, names: Mapping[str, tuple[str, ...]]) -> dict[str, float]:
        """Accuracy of the next token, and how the texts that the model writes compare with those that are wanted."""
        return {**super().metrics(totals, names), **text_scores(totals)}

    def baseline(self, training: Feed, steps: int, held_out: Feed, windows: int, outputs: int) -> tuple[str, float] | None:
        found = super().baseline(training, steps, held_out, windows, outputs)
        return None if found is None else (f"{found[0]} ({commonest_text(training, held_out)})", found[1])


def compared_texts(model: Transformer, examples: Examples, tokenizer: Tokenizer) -> dict[str, Tensor]:
    """Sums of comparisons of the texts that the model writes with those that are wanted."""
    said, wanted = written(model, examples)
    return text_sums(*([tokenizer.decode(text) for text in texts] for texts in (said, wanted)))


def shown_tokens(architecture: Architecture) -> list[int]:
    """The tokens of an image in the text; none where it is a source."""
    return [] if (tower := architecture.images) is None else [tower.token] * tower.tokens


def image_positions(architecture: Architecture, data: ImageTexts) -> int:
    """The positions of an image's source, or its tokens in the text; refuses images that the architecture does not read."""
    image = blank(architecture, 1, data.channels, data.height, data.width, device="meta")
    if (tower := architecture.images) is not None:
        tower.check_images(image)
        (count,) = tower.sizes(image)
        return count
    return architecture.embedding.check("images", image, None)


def source_positions(architecture: Architecture, data: Data) -> int:
    """S: the positions of an image that is a source; 0 where it stands among the tokens of the text."""
    assert isinstance(data, ImageTexts), "checked before"
    return 0 if architecture.images is not None else image_positions(architecture, data)


def text_length(architecture: Architecture, data: Data) -> int:
    """T where nobody says it: `LONGEST` tokens of text, and those of the image if they stand among them; as the position table
    has room."""
    assert isinstance(data, ImageTexts), "checked before"
    positions, longest = image_positions(architecture, data), architecture.output_stack.max_length
    wanted = LONGEST + (0 if architecture.images is None else positions)
    if longest is None:
        return wanted
    before = positions if architecture.images is None and architecture.source == "prefix" else 0
    return max(1, min(wanted, longest - before))
