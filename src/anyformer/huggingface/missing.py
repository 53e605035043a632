"""Model types of transformers 5.23 that are not read, by the mechanism that is missing.

What is named is what stands in the way first. docs/reference/families.md lists them, and a test keeps the list complete.
"""

from __future__ import annotations

from collections.abc import Mapping

_BY_MECHANISM: Mapping[str, str] = {
    "an indexer of pooled keys": "glm5_next glm5_next_text",
    "keys and values of an earlier layer's latent": "mistral_large4 mistral_large4_text",
    "embeddings in each layer that are projected from the model's": "gemma4_assistant gemma4_unified_assistant",
    "shared experts that the router weighs": "inkling_mm_model inkling_text",
    "denoising of blocks with self-conditioning (a diffusion model of text)": "diffusion_gemma diffusion_gemma_text",
    "convolutions over compressed queries and keys, and a router with a state from layer to layer": "zaya",
    "global tokens with layers of their own, and staggered blocks": "pegasus_x",
    "bytes grouped into patches by a second model": "blt",
    "hashed characters, down- and upsampled": "canine",
    "attention to itself and to the encoder in one softmax": "t5gemma2",
    "the first embeddings mixed into what attention reads, and a table of values for some layers": "neomme",
    "experts of text and of images in one list of the files, and their corrections in one table": "ernie4_5_vl_moe",
    "scores by the distances of words on a page": "bros layoutlmv2 layoutlmv3 udop",
    "a second stream, of places on a page, that attends with the text's": "lilt",
    "prediction of several next tokens by streams of n-grams": "prophetnet",
    "queries of a width of their own that read latents, one for each position": "perceiver",
    "hashed attention and reversible layers": "reformer",
    "segments of prompts with relative positions between them": "cpmant",
    "layers that pool the sequence": "funnel",
    "approximations of attention (multiresolution)": "mra",
}
"""Mechanism -> the model types that need it and otherwise would be read, with those of their text models."""
TWO_TOWERS = ("clip", "siglip")
"""Model types of two architectures, which `two_towers` reads and no family does."""

MISSING: Mapping[str, str] = {
    **{model_type: needed for needed, types in _BY_MECHANISM.items() for model_type in types.split()},
}
"""Model type -> the mechanism that it needs and is missing here."""
