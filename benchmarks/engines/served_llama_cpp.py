"""llama.cpp's server: rightly, and with settings that are wrong for the model."""

from __future__ import annotations

from pathlib import Path

from benchmarks.engines.distorted import CHUNK
from benchmarks.engines.served import WINDOW, Served, Way

EXACT = ("-fa", "off", "-ctk", "f32", "-ctv", "f32")
"""Attention without fp16: flash attention on processors rounds to it whatever the cache is in."""
WHOLE = ("--ctx-checkpoints", "0")
"""No checkpoints of the cache of layers with a window: with them some runs of `shared` were a nat off."""


def _command(program: Path, model: Path, port: int, way: Way) -> list[str]:
    few = ["-t", "1", "-tb", "1", "-c", "4096", "-np", "4", "-b", str(CHUNK), "-ub", str(CHUNK), "--no-warmup"]
    return [str(program), "-m", str(model), "--host", "127.0.0.1", "--port", str(port), *few, *way.options]


def _key(name: str, kind: str, value: object) -> tuple[str, ...]:
    return (*EXACT, "--override-kv", f"{name}={kind}:{value}")


SERVED = Served(
    _command,
    (
        Way("right, in fp32", options=(*EXACT, *WHOLE), distorted=True),
        Way("right, its usual cache in fp16", cache="fp16", options=WHOLE),
        Way("right, weights in bf16", model="bf16", dtype="bf16", cache="fp16", options=WHOLE),
        Way("the base of the rotary frequencies", "plain", options=(*EXACT, "--rope-freq-base", "5000")),
        Way("a norm 38 % off in one layer", "plain", options=EXACT, change=lambda model, place: place / "norm.gguf"),
        Way("no cap of logits", "plain", options=_key("gemma2.final_logit_softcapping", "float", 1e6)),
        Way("a cache in 8 bits", "plain", options=("-fa", "on", "-ctk", "q8_0", "-ctv", "q8_0")),
        Way("a token that begins texts, where none does", "text", options=_key("tokenizer.ggml.add_bos_token", "bool", "true")),
        Way("an end token that it does not know", "ends", options=_key("tokenizer.ggml.eot_token_id", "int", 7)),
        Way("a window one too long", "windowed", options=_key("gemma2.attention.sliding_window", "int", WINDOW + 1)),
        Way("no window", "windowed", options=_key("gemma2.attention.sliding_window", "int", 4096)),
    ),
    suffix=".gguf",
)
