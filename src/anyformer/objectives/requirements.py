"""What objectives require of an architecture, asked of its declared contracts before any work."""

from __future__ import annotations

from anyformer.data import Data, Text
from anyformer.model import Architecture
from anyformer.model.prefix import reads_prefix
from anyformer.operations import Shape

_FEW, _TWICE = Shape(length=4), Shape(length=8)


def needs_tokens(objective: str, architecture: Architecture) -> None:
    """Refuse an input that is not tokens."""
    if architecture.embedding.symbols is None:
        raise ValueError(
            f"the {objective} objective reads text, and the embedding of this architecture reads {architecture.embedding.kind}"
        )


def needs_one_sequence(objective: str, architecture: Architecture) -> None:
    """Refuse an architecture with a source, or with latents between its input and its output."""
    if architecture.two_inputs or architecture.latents is not None:
        shape = "one with a source" if architecture.two_inputs else architecture.shape_of_model
        raise ValueError(f"the {objective} objective gives the model one sequence of text, and this model is {shape}")
    needs_tokens(objective, architecture)


def needs_source(objective: str, architecture: Architecture) -> None:
    """Refuse an architecture that does not read a source of text beside its target."""
    if not architecture.two_inputs:
        raise ValueError(
            f"the {objective} objective gives the model a source and a target, and this {architecture.shape_of_model} model "
            "reads one sequence: choose an architecture with an encoder, or another objective"
        )
    needs_tokens(objective, architecture)


def needs_token_logits(objective: str, architecture: Architecture) -> None:
    """Refuse an architecture that does not give a logit per token of its vocabulary at every position."""
    head = architecture.head
    if head is None or head.outputs == "features":
        raise ValueError(f"the {objective} objective needs logits, and this architecture has no head: set head = {{}}")
    if head.pool is not None:
        raise ValueError(f"the {objective} objective predicts tokens at positions, and head.pool gives one output per text")
    if architecture.outputs != architecture.output_embedding.symbols:
        raise ValueError(
            f"the {objective} objective predicts tokens, of which there are {architecture.output_embedding.symbols}, and "
            f"head.outputs = {architecture.outputs}: leave head.outputs out"
        )


def needs_hidden_targets(objective: str, architecture: Architecture) -> None:
    """Refuse an architecture in which a token may see its own target, the next token."""
    # A part that waits for later tokens shows a token its target; one only scaled by them shows little of it.
    reasons = architecture.cost(_FEW).breaks("stepwise", training=True)
    if reasons:
        raise ValueError(
            f"the {objective} objective predicts the next token, which this architecture lets every token see: "
            f"{'; '.join(reasons)}; the loss would say nothing. Give the decoder a mask of the past only, such as 'causal'"
        )


def needs_both_sides(objective: str, architecture: Architecture) -> None:
    """Refuse an architecture in which no token sees later ones."""
    if not architecture.cost(_FEW).breaks("causal", training=True):
        raise ValueError(
            f"the {objective} objective predicts tokens from those on both sides, and in this architecture a token sees only "
            "earlier ones: give its attention the mask 'bidirectional', or train it with objective.kind = 'causal'"
        )


def needs_no_later(objective: str, architecture: Architecture) -> None:
    """Refuse an architecture that predicts later tokens too, which the objective would never train."""
    if architecture.mtp is not None:
        raise ValueError(
            f"the {objective} objective trains the next token alone, and this architecture predicts later ones too (mtp): "
            "leave them out with architecture.mtp = none"
        )


def needs_packing(objective: str, architecture: Architecture, remedy: str) -> None:
    """Refuse an architecture in which the documents of a row would mix."""
    reasons = architecture.cost(_FEW).breaks("packed", training=True)
    if reasons:
        raise ValueError(
            f"the {objective} objective packs several records into a row, which this architecture cannot keep apart: "
            f"{'; '.join(reasons)}; set {remedy}"
        )


def needs_whole_rows(objective: str, data: Data) -> None:
    """Refuse text whose documents are kept apart within a row."""
    if isinstance(data, Text) and data.isolate:
        raise ValueError(
            f"the {objective} objective makes a source and a target of a row, whatever documents it holds, and data.isolate "
            "would keep these apart: leave it out"
        )


def needs_prefix(objective: str, architecture: Architecture) -> None:
    """Refuse an architecture in which no mask reads a prefix both ways, or in which the rest sees nothing but the prefix."""
    remedy = (
        "give it the mask {kind = 'any_of', masks = [{kind = 'causal'}, {kind = 'prefix'}]}, or train it with objective.kind = "
        "'causal'"
    )
    if not reads_prefix(architecture):
        raise ValueError(
            f"the {objective} objective needs attention that reads a prefix both ways, and no mask of this architecture does: "
            f"{remedy}"
        )
    # Without a prefix, pairs of queries and keys are all that grows faster than the text.
    if architecture.cost(_TWICE).total_flops.exact == 2 * architecture.cost(_FEW).total_flops.exact:
        raise ValueError(
            f"the {objective} objective predicts every token behind the prefix from all before it, and in this architecture it "
            f"sees the prefix alone: {remedy}"
        )


def needs_images(objective: str, architecture: Architecture) -> None:
    """Refuse an architecture that reads anything but one image."""
    if architecture.two_inputs or architecture.embedding.symbols is not None or architecture.embedding.example(1, 1).dim() != 4:
        raise ValueError(f"the {objective} objective gives the model an image, and this model reads {_reads(architecture)}")


def needs_vectors(objective: str, architecture: Architecture) -> None:
    """Refuse an architecture that reads anything but one set or sequence of vectors."""
    if architecture.two_inputs or architecture.embedding.symbols is not None or architecture.embedding.example(1, 1).dim() != 3:
        raise ValueError(f"the {objective} objective gives the model vectors, and this model reads {_reads(architecture)}")


def _reads(architecture: Architecture) -> str:
    return architecture.embedding.kind + (" beside a target" if architecture.two_inputs else "")
