"""The usual objectives, and the one that suits an architecture where nobody names one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from anyformer.describe import UserError
from anyformer.model import Architecture
from anyformer.requirements.generator import needs_generator
from anyformer.requirements.image_needs import (
    needs_cells,
    needs_classes_of_patches,
    needs_condition,
    needs_images,
    needs_velocity,
)
from anyformer.requirements.needs import (
    needs_both_sides,
    needs_classes,
    needs_features,
    needs_hidden_targets,
    needs_image_beside_text,
    needs_later,
    needs_next_token,
    needs_next_token_alone,
    needs_numbers,
    needs_one_logit_each,
    needs_one_number,
    needs_one_sequence,
    needs_pool,
    needs_prefix,
    needs_sound,
    needs_sound_among_tokens,
    needs_sound_or_picture,
    needs_sound_source,
    needs_source,
    needs_symbols,
    needs_token_logits,
    needs_vectors,
    needs_written_tokens,
)
from anyformer.requirements.pixel_decoder import needs_visible_patches

SPOKEN = "spoken-digits"
DRAWN = "shapes"
Need = Callable[[str, Architecture], None]
"""Raises `ValueError`, with the name of the objective, for an architecture that lacks something."""


@dataclass(frozen=True)
class UsualObjective:
    """An objective of `anyformer.objectives`, with its default fields. `says`: the first sentence of its docstring;
    `two_inputs`: whether it gives a model a source beside its target."""

    kind: str
    says: str
    needs: tuple[Need, ...]
    two_inputs: bool = False
    data: str = ""
    """The word of built-in records that it is tried with where nobody names data; empty where that is to be asked."""

    def check(self, architecture: Architecture) -> None:
        """Raise `ValueError` for an architecture that cannot be trained so."""
        for need in self.needs:
            need(self.kind, architecture)


USUAL = (
    UsualObjective("causal", "Cross-entropy of the next token", (needs_next_token, needs_next_token_alone)),
    UsualObjective(
        "multi_token",
        "Cross-entropy of the next token L_0, and of the tokens k = 1 ... D after it",
        (needs_later, needs_next_token),
    ),
    UsualObjective(
        "prefix",
        "Cross-entropy of the tokens after a prefix",
        (needs_one_sequence, needs_token_logits, needs_hidden_targets, needs_prefix),
    ),
    UsualObjective(
        "masked",
        "Cross-entropy of tokens that are hidden from the model",
        (needs_one_sequence, needs_token_logits, needs_both_sides),
    ),
    UsualObjective(
        "span_corruption",
        "Cross-entropy of the spans left out of a text, given the rest",
        (needs_source, needs_token_logits, needs_hidden_targets),
        two_inputs=True,
    ),
    UsualObjective(
        "seq2seq", "Cross-entropy of a target given its source", (needs_source, needs_token_logits), two_inputs=True
    ),
    UsualObjective(
        "replaced_tokens",
        "A generator's masked prediction and a discriminator's detection of what it put in, learnt together",
        (needs_one_sequence, needs_both_sides, needs_one_logit_each, needs_generator),
    ),
    UsualObjective(
        "classification", "Cross-entropy of the class of a text, or of two texts", (needs_one_sequence, needs_classes)
    ),
    UsualObjective("contrastive", "InfoNCE with the batch's other texts as negatives", (needs_one_sequence, needs_features)),
    UsualObjective(
        "flow_matching",
        "Squared error of the velocity from noise to data",
        (needs_images, needs_condition, needs_velocity),
        data="digits",
    ),
    UsualObjective(
        "image_classification",
        "Cross-entropy of the class of an image (ViT, Dosovitskiy et al. 2021, arXiv 2010.11929)",
        (needs_images, needs_classes),
    ),
    UsualObjective(
        "image_features",
        "Cross-entropy of the other view of an image, among all views of the batch (NT-Xent of SimCLR, arXiv 2002.05709)",
        (needs_images, needs_features),
        data=DRAWN,
    ),
    UsualObjective(
        "masked_patches",
        "Squared error of the pixels of patches that are hidden from the encoder",
        (needs_visible_patches,),
        data=DRAWN,
    ),
    UsualObjective(
        "image_regression",
        "Squared error of standardised numbers of an image",
        (needs_images, needs_numbers, needs_pool),
        data="shape-boxes",
    ),
    UsualObjective(
        "segmentation",
        "Cross-entropy of the class of every pixel",
        (needs_images, needs_cells, needs_classes_of_patches),
        data="ellipses",
    ),
    UsualObjective(
        "speech_to_text",
        "Cross-entropy of the transcript of a sound",
        (needs_sound_source, needs_token_logits),
        two_inputs=True,
        data=SPOKEN,
    ),
    UsualObjective("ctc", "Connectionist temporal classification", (needs_sound, needs_symbols), data=SPOKEN),
    UsualObjective(
        "sound_classification",
        "Cross-entropy of the class of a sound",
        (needs_sound_or_picture, needs_classes, needs_pool),
        data=SPOKEN,
    ),
    UsualObjective(
        "vector_classification",
        "Cross-entropy of the class of a set or sequence of vectors (T, I)",
        (needs_vectors, needs_classes),
    ),
    UsualObjective(
        "captions",
        "Cross-entropy of a text given an image",
        (needs_image_beside_text, needs_written_tokens, needs_hidden_targets),
        two_inputs=True,
    ),
    UsualObjective(
        "sound_to_text",
        "Cross-entropy of a text given a sound among its tokens",
        (needs_sound_among_tokens, needs_written_tokens, needs_hidden_targets),
        two_inputs=True,
        data=SPOKEN,
    ),
    UsualObjective("regression", "Squared error of a standardised number", (needs_one_sequence, needs_one_number)),
)
"""The usual objective of each shape of model: the first one whose requirements an architecture meets."""
BY_KIND = {usual.kind: usual for usual in USUAL}


def usual_for(architecture: Architecture) -> UsualObjective:
    """The first usual objective that the architecture can be trained with; `UserError` with the reasons if there is none."""
    refusals: dict[UsualObjective, str] = {}
    for usual in USUAL:
        try:
            usual.check(architecture)
        except ValueError as error:
            refusals[usual] = f"  {usual.kind}: {error}"
            continue
        return usual
    # The reasons that tell most come first: of objectives that give a model as many inputs as this one reads.
    nearest = sorted(refusals, key=lambda usual: usual.two_inputs != architecture.two_inputs)
    raise UserError("no objective trains this architecture:\n" + "\n".join(refusals[usual] for usual in nearest))


def usual_records(architecture: Architecture) -> str:
    """The word of the built-in records that an architecture is tried with where nobody names data: those of its usual
    objective, or speech for a text model that hears too; empty where that is to be asked."""
    return usual_for(architecture).data or (SPOKEN if architecture.audio is not None else "")
