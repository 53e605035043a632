"""Pairs of an encoder of waves and a decoder of text, of one width."""

from __future__ import annotations

from typing import Any

from huggingface.case import Case
from huggingface.cases.encoder_decoder import DECODER, GPT2
from huggingface.cases.wav2vec2 import FLAT, ROWS, SHARED, STABLE


def pair(name: str, encoder: str, of_encoder: dict[str, Any], decoder: dict[str, Any], unpadded: str = "") -> Case:
    """A pair of two types."""
    first = {key: value for key, value in {**SHARED, **of_encoder}.items() if key != "vocab_size"}
    config = {"encoder": {"model_type": encoder, **first}, "decoder": decoder}
    return Case("speech-encoder-decoder", config, "SpeechSeq2Seq", name, unpadded=unpadded)


BERT = {"model_type": "bert", **DECODER}
CASES = [
    pair("wav2vec2bert", "wav2vec2", STABLE, BERT),
    pair("hubert2roberta", "hubert", STABLE, {"model_type": "roberta", **DECODER}),
    pair("unispeech2gpt2", "unispeech", FLAT, GPT2 | {"is_decoder": True}, unpadded=ROWS),
    pair("sat2bert", "unispeech-sat", STABLE, BERT | {"type_vocab_size": 3, "tie_word_embeddings": False}),
]
