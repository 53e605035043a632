"""The graphs that a model becomes, by the name of their file; what has none is refused by name before any is made."""

from __future__ import annotations

from typing import Final

from anyformer.describe import UserError
from anyformer.exporting.cached import CausalGraph, TargetGraph, caches_of
from anyformer.exporting.entrance import entrance_of
from anyformer.exporting.graph import Graph, SourceGraph, WholeGraph
from anyformer.model import Architecture
from anyformer.model.prefix import reads_prefix
from anyformer.model.transformer import Transformer
from anyformer.operations import Shape

MODEL: Final = "model"
ENCODER: Final = "encoder_model"
DECODER: Final = "decoder_model_merged"
"""Names of files that optimum and transformers.js look for."""


class ExportError(UserError):
    """A model that another engine's format cannot hold."""


def graphs_of(model: Transformer) -> dict[str, Graph]:
    """File name without ending -> graph. One with a cache for what generates, two with an encoder, one without a cache else.

    `ExportError` names every part that no graph can hold.
    """
    architecture = model.architecture
    problems = _problems(architecture)
    generates = _generates(architecture)
    if generates and not problems:
        caches, unheld = caches_of(model)
        problems += unheld
    if problems:
        raise ExportError(f"this model has no form in ONNX: {'; '.join(problems)}; run it here, or export it without --format")
    entrance = entrance_of(architecture.embedding, next(iter(architecture.stacks.values())).max_length)
    if not generates:
        return {MODEL: WholeGraph(model, entrance)}
    if architecture.two_inputs:
        return {ENCODER: SourceGraph(model, entrance), DECODER: TargetGraph(model, caches)}
    return {MODEL: CausalGraph(model, caches)}


def _generates(architecture: Architecture) -> bool:
    """Whether it goes on from what it has read, so that a cache serves it."""
    pools = architecture.head is not None and architecture.head.pool is not None
    reads_text = architecture.output_embedding.symbols is not None
    return architecture.decoder is not None and architecture.latents is None and reads_text and not pools


def _problems(architecture: Architecture) -> list[str]:
    """What no graph can hold, a sentence each."""
    found = []
    if architecture.images is not None or architecture.audio is not None:
        found.append("images and audio stand among its tokens: load the text model alone")
    if architecture.latents is not None:
        found.append("latents: a latent array is no input of a graph")
    if architecture.virtual_tokens is not None:
        found.append("virtual_tokens: what stands in front of every text is no input of a graph")
    if architecture.two_inputs and (architecture.encoder is None or architecture.source != "attended"):
        found.append("its source is not read by an encoder and cross-attention")
    elif not architecture.two_inputs and reads_prefix(architecture):
        found.append("its mask lets a prefix see itself both ways, and a graph is not told where that ends")
    if any(stack.condition is not None for stack in architecture.stacks.values()):
        found.append("condition: a time or a class is no input of a graph")
    if _generates(architecture) and (reasons := architecture.folded_cost(Shape(source=1)).breaks("stepwise")):
        found.append("; ".join(reasons))
    return found
