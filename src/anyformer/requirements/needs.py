"""What objectives require of an architecture, asked of its declared contracts before any work."""

from __future__ import annotations

from anyformer.model import Architecture
from anyformer.model.prefix import reads_prefix
from anyformer.operations import Shape
from anyformer.parts.sublayer import Coding

UNSAID = 8
"""Last tokens of a table for which a head may have no logits, since a model only reads them: Llama 3.2 Vision's, of images."""
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


def needs_written_tokens(objective: str, architecture: Architecture) -> None:
    """As `needs_token_logits`, but that the last tokens of the table, which only stand in prompts, may have no logits."""
    symbols, head = architecture.output_embedding.symbols, architecture.head
    if head is None or head.pool is not None or symbols is None or not 0 < symbols - architecture.outputs <= UNSAID:
        needs_token_logits(objective, architecture)


def needs_hidden_targets(objective: str, architecture: Architecture) -> None:
    """Refuse an architecture in which a token may see its own target, the next token."""
    # A part that waits for later tokens shows a token its target; one only scaled by them shows little of it.
    reasons = architecture.cost(_FEW).breaks("stepwise", training=True)
    if reasons:
        raise ValueError(
            f"the {objective} objective predicts the next token, which this architecture lets every token see: "
            f"{'; '.join(reasons)}; the loss would say nothing. Give the decoder a mask of the past only, such as 'causal'"
        )


def needs_next_token(objective: str, architecture: Architecture) -> None:
    """Refuse an architecture without logits of the next token, or in which a token sees its target."""
    needs_one_sequence(objective, architecture)
    needs_token_logits(objective, architecture)
    needs_hidden_targets(objective, architecture)
    if reads_prefix(architecture):
        raise ValueError(
            f"the {objective} objective has no prefix, and a mask of this architecture reads prompts as one: that would never "
            "be trained. Train it with objective.kind = 'prefix', or with the mask 'causal' alone"
        )


def needs_both_sides(objective: str, architecture: Architecture) -> None:
    """Refuse an architecture in which no token sees later ones."""
    if not architecture.cost(_FEW).breaks("causal", training=True):
        raise ValueError(
            f"the {objective} objective predicts tokens from those on both sides, and in this architecture a token sees only "
            "earlier ones: give its attention the mask 'bidirectional', or train it with objective.kind = 'causal'"
        )


def needs_no_later(objective: str, architecture: Architecture, instead: str = "") -> None:
    """Refuse an architecture that predicts later tokens too, which the objective would never train; `instead`: another remedy
    than to leave them out."""
    if architecture.mtp is not None:
        raise ValueError(
            f"the {objective} objective trains the next token alone, and this architecture predicts later ones too (mtp): "
            f"{instead}leave them out with architecture.mtp = none"
        )


def needs_later(objective: str, architecture: Architecture) -> None:
    """Refuse an architecture that does not predict later tokens."""
    if architecture.mtp is None:
        raise ValueError(
            f"the {objective} objective trains predictions of later tokens, and this architecture has none: set "
            "mtp = {kind = 'sequential', norm = {kind = 'rms_norm'}}, or train it with objective.kind = 'causal'"
        )


def needs_next_token_alone(objective: str, architecture: Architecture) -> None:
    """Refuse an architecture that predicts later tokens too, where another objective trains these."""
    needs_no_later(objective, architecture, "train it with objective.kind = 'multi_token', or ")


def needs_packing(objective: str, architecture: Architecture, remedy: str) -> None:
    """Refuse an architecture in which the documents of a row would mix."""
    reasons = architecture.cost(_FEW).breaks("packed", training=True)
    if reasons:
        raise ValueError(
            f"the {objective} objective packs several records into a row, which this architecture cannot keep apart: "
            f"{'; '.join(reasons)}; set {remedy}"
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


def needs_one_logit_each(objective: str, architecture: Architecture) -> None:
    """Refuse an architecture that does not give one logit per position."""
    head = architecture.head
    if head is None or head.outputs != 1 or head.pool is not None:
        raise ValueError(
            f"the {objective} objective says of every token whether it was replaced: set head = {{outputs = 1}} without a pool"
        )


def needs_classes(objective: str, architecture: Architecture) -> None:
    """Refuse an architecture without a number of logits of its own, or with a single one."""
    head = architecture.head
    if head is None or not isinstance(head.outputs, int) or head.outputs < 2:
        found = "no head" if head is None else f"head.outputs = {head.outputs!r}"
        raise ValueError(
            f"the {objective} objective needs a logit per class, and the architecture has {found}: set head = {{outputs = the "
            "number of classes}, with pool = 'first' or 'mean' where an encoder's whole row has one class"
        )


def needs_features(objective: str, architecture: Architecture) -> None:
    """Refuse an architecture that gives logits."""
    head = architecture.head
    if head is not None and head.outputs != "features":
        raise ValueError(
            f"the {objective} objective compares features, and this architecture gives logits: take the head out, or set "
            "head = {outputs = 'features', pool = 'mean'}"
        )


def needs_one_number(objective: str, architecture: Architecture) -> None:
    """Refuse an architecture that does not give one number."""
    if architecture.head is None or architecture.head.outputs != 1:
        raise ValueError(
            f"the {objective} objective needs one output: set head = {{outputs = 1}}, with pool = 'first' or 'mean' for an "
            "encoder"
        )


def needs_numbers(objective: str, architecture: Architecture) -> None:
    """Refuse an architecture that does not give a number of numbers of its own."""
    head = architecture.head
    if head is None or not isinstance(head.outputs, int):
        found = "no head" if head is None else f"head.outputs = {head.outputs!r}"
        raise ValueError(
            f"the {objective} objective needs an output per number, and the architecture has {found}: set head = {{outputs = "
            "the number of numbers, pool = 'first' or 'mean'}"
        )


def needs_image_beside_text(objective: str, architecture: Architecture) -> None:
    """Refuse an architecture that reads no image beside its text: neither by a tower, nor as a source."""
    if architecture.images is not None:
        return
    if not architecture.two_inputs or architecture.embedding.symbols is not None or architecture.embedding.sound is not None:
        raise ValueError(
            f"the {objective} objective gives the model an image and a text, and this model reads {reads(architecture)}"
        )


def needs_vectors(objective: str, architecture: Architecture) -> None:
    """Refuse an architecture that reads anything but one set or sequence of vectors."""
    if architecture.two_inputs or architecture.embedding.rank != 3:
        raise ValueError(f"the {objective} objective gives the model vectors, and this model reads {reads(architecture)}")


def needs_sound(objective: str, architecture: Architecture) -> None:
    """Refuse an architecture that reads anything but one sound."""
    if architecture.two_inputs or architecture.latents is not None or architecture.embedding.sound is None:
        raise ValueError(f"the {objective} objective gives the model a sound, and this model reads {reads(architecture)}")


def needs_sound_or_picture(objective: str, architecture: Architecture) -> None:
    """Refuse an architecture that reads neither a sound nor a picture, which a spectrum can be."""
    if architecture.two_inputs or architecture.embedding.rank != 4:
        needs_sound(objective, architecture)


def needs_sound_source(objective: str, architecture: Architecture) -> None:
    """Refuse an architecture that does not read a sound beside its target."""
    if not architecture.two_inputs or architecture.embedding.sound is None:
        raise ValueError(
            f"the {objective} objective gives the model a sound and a target, and this model reads {reads(architecture)}"
        )


def needs_sound_among_tokens(objective: str, architecture: Architecture) -> None:
    """Refuse an architecture that hears no sound among the tokens of its text."""
    if architecture.audio is None:
        raise ValueError(
            f"the {objective} objective gives the model a text with a sound among its tokens, and this model has no tower for "
            f"sound (architecture.audio) and reads {reads(architecture)}"
        )


def needs_symbols(objective: str, architecture: Architecture) -> None:
    """Refuse an architecture that does not give a logit per symbol, of a number of its own, at every position."""
    if not gives_classes(architecture):
        raise ValueError(
            f"the {objective} objective needs logits of the symbols and of the blank at every position: set head = {{outputs = "
            "the number of symbols + 1} without a pool"
        )


def needs_pool(objective: str, architecture: Architecture) -> None:
    """Refuse an encoder that gives no single output per row."""
    head = architecture.head
    if architecture.decoder is None and (head is None or head.pool is None):
        raise ValueError(f"the {objective} objective needs one output per row: set head.pool = 'mean' or 'first'")


def reads(architecture: Architecture) -> str:
    """What the architecture reads, for a refusal."""
    return architecture.embedding.kind + (" beside a target" if architecture.two_inputs else "")


def gives_classes(architecture: Architecture) -> bool:
    """Whether every position has logits of at least two classes, of a number of the head's own."""
    head = architecture.head
    return head is not None and isinstance(head.outputs, int) and head.outputs >= 2 and head.pool is None


def needs_activations(objective: str, architecture: Architecture) -> Coding:
    """The sparse code of the one dictionary of an architecture; refused where there is not one, or it reads something else."""
    if architecture.embedding.rank != 3 or architecture.two_inputs or architecture.latents is not None:
        raise ValueError(
            f"the {objective} objective gives the model activations of another, and this {architecture.shape_of_model} model "
            f"reads {architecture.embedding.kind}: set embedding = {{kind = 'activations', features = ...}}"
        )
    layers = (stack.variants[name] for stack in architecture.stacks.values() for name in stack.layers)
    found = [each.coding for block in layers for each in block.sublayers if each.coding is not None]
    if len(found) != 1:
        raise ValueError(
            f"the {objective} objective learns one sparse dictionary, and this architecture has {len(found)}: make its encoder "
            "one layer with a sublayer of kind 'dictionary'"
        )
    return found[0]
