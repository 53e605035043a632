"""What of a model of transformers reads text alone, where the model itself asks for more."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor


class Inner:
    """A model whose own forward asks for an image or for sound, of which the text model is asked."""

    main_input_name = "input_ids"

    def __init__(self, theirs: Any) -> None:
        self.theirs, self.dtype = theirs, theirs.dtype


class Headed(Inner):
    """A decoder of text under the head of the model around it."""

    def __call__(self, **given: Any) -> SimpleNamespace:
        return SimpleNamespace(logits=self.theirs.lm_head(self.theirs.model.decoder(**given).last_hidden_state))


class Deaf(Inner):
    """A decoder of text whose layers are given no sound, though its own forward projects what it is given."""

    def __call__(self, *, position_ids: Tensor | None = None, **given: Any) -> SimpleNamespace:
        if type(self.theirs).__name__.startswith("SpeechT5"):
            out = self.theirs.speecht5.decoder(input_values=given.pop("input_ids"), **given)
            return SimpleNamespace(logits=self.theirs.text_decoder_postnet(out.last_hidden_state))
        decoder = self.theirs.model.decoder
        layers = [layer.register_forward_pre_hook(lambda _, args: (*args[:2], None, *args[3:])) for layer in decoder.layers]
        sound = None
        if hasattr(decoder, "proj"):
            sound = torch.zeros(len(given["input_ids"]), 1, self.theirs.config.encoder_config.hidden_size, dtype=self.dtype)
        try:
            out = decoder(encoder_hidden_states=sound, position_ids=position_ids, **given)
        finally:
            for layer in layers:
                layer.remove()
        return SimpleNamespace(logits=self.theirs.proj_out(out.last_hidden_state))


class Delayed(Inner):
    """Voxtral Realtime's text model, told the delay that its configuration has."""

    def __call__(self, *, input_ids: Tensor, **given: Any) -> SimpleNamespace:
        inner = self.theirs.model
        delay = torch.full((1,), self.theirs.config.default_num_delay_tokens, dtype=self.dtype)
        x = inner.get_input_embeddings()(input_ids)
        out = inner.language_model(inputs_embeds=x, t_cond=inner.time_embedding(delay)[None], **given)
        return SimpleNamespace(logits=self.theirs.lm_head(out.last_hidden_state))


class Unseen(Inner):
    """IDEFICS beside an image that no token reads."""

    def __call__(self, *, input_ids: Tensor, **given: Any) -> Any:
        size = self.theirs.config.vision_config.image_size
        pixels = torch.zeros(len(input_ids), 1, 3, size, size, dtype=self.dtype)
        return self.theirs(
            input_ids=input_ids, pixel_values=pixels, image_attention_mask=torch.zeros(*input_ids.shape, 1), **given
        )


class InBooks(Inner):
    """A decoder of codes with code 0 of every book but the first, of which it is given no text; logits book by book."""

    def __call__(self, *, input_ids: Tensor, types: Tensor | None = None, **given: Any) -> SimpleNamespace:
        whole = self.theirs.config
        inner = whole.decoder if hasattr(whole, "decoder") else whole.decoder_config
        more = (inner.num_channels if hasattr(inner, "num_channels") else inner.num_codebooks) - 1
        others = input_ids.new_zeros(*input_ids.shape, more) if types is None else types
        codes = torch.cat([input_ids[..., None], others], -1)
        if hasattr(self.theirs, "logits_dense"):
            nothing = torch.zeros(len(codes), 1, inner.cross_hidden_size, dtype=self.dtype)
            out = self.theirs.model.decoder(input_ids=codes, encoder_hidden_states=nothing, **given)
            return SimpleNamespace(logits=self.theirs.logits_dense(out.last_hidden_state))
        given.pop("position_ids", None)
        logits = self.theirs.decoder(input_ids=codes.movedim(-1, 1).flatten(0, 1), **given).logits
        return SimpleNamespace(logits=logits.unflatten(0, (len(codes), -1)).movedim(1, 2).flatten(2))


class Coded(Inner):
    """Kyutai's speech to text with code 0 of every codebook."""

    def __call__(self, *, input_ids: Tensor, **given: Any) -> Any:
        codes = input_ids.new_zeros(*input_ids.shape, self.theirs.config.num_codebooks)
        return self.theirs(input_ids=torch.cat([input_ids[..., None], codes], -1), **given)


def text_model(theirs: Any) -> Any:
    """What reads text alone: the model, or the part of a composite whose own forward asks for more."""
    outer = type(theirs).__name__
    if "Blip" in outer or "Kosmos" in outer:
        inner = "text_model" if "Kosmos" in outer else "text_decoder" if outer.startswith("BlipFor") else "language_model"
        return getattr(theirs, inner)
    if outer in ("Qwen2_5OmniForConditionalGeneration", "Qwen3OmniMoeForConditionalGeneration"):
        return theirs.thinker
    if outer.startswith("PPFormula"):
        return Headed(theirs)
    if outer.startswith(("CanaryFor", "CohereAsr", "MoonshineStreaming", "SpeechT5")):
        return Deaf(theirs)
    if outer.startswith("VoxtralRealtime"):
        return Delayed(theirs)
    if outer.startswith("IdeficsFor"):
        return Unseen(theirs)
    if outer.startswith("Kyutai"):
        return Coded(theirs)
    if outer.startswith(("DiaFor", "Musicgen")):
        return InBooks(theirs)
    if outer.startswith("PI0"):
        return theirs.model.vlm
    if outer.startswith(("ColPali", "Moshi", "Pix2Struct")):
        return theirs.vlm if outer.startswith("ColPali") else theirs.decoder
    return theirs.vlm.text_model if outer.startswith("ColModern") else theirs
