"""The choice of an engine: the fastest that is installed and proved, or the one that is named."""

from __future__ import annotations

from dataclasses import replace

from anyformer.describe import UserError
from anyformer.engines.engine import Asked, Engine, EngineRefusedError, Opened
from anyformer.engines.llama_cpp import LlamaCppEngine
from anyformer.engines.own import OWN
from anyformer.engines.vllm import VllmEngine

AUTO = "auto"
OTHERS: tuple[Engine, ...] = (LlamaCppEngine(), VllmEngine())
"""The fastest first."""
NAMES = (AUTO, OWN.name, *(engine.name for engine in OTHERS))


def opened(name: str, asked: Asked, own: Engine = OWN) -> Opened:
    """The model on an engine by its name. For `auto` on the first that does what is asked and gives the same texts, else own.

    Raises `EngineRefusedError` where the named one cannot.
    """
    if name == own.name or (name == AUTO and asked.beside):
        return own.open(asked)
    found = [engine for engine in OTHERS if engine.name == name] or [engine for engine in OTHERS if engine.installed]
    refused = list[str]()
    for engine in found:
        try:
            return engine.open(replace(asked, named=name != AUTO))
        except UserError as error:  # of a place without a model the own engine says what is wrong with it
            if name != AUTO:
                raise EngineRefusedError(f"--engine {name}: {error}") from None
            reason, _, _ = str(error).splitlines()[0].partition(";")
            refused.append(f"{engine.name}: {reason}")
    line = f"engine: {own.name} ({'; '.join(refused)})" if refused else ""
    return replace(own.open(asked), line=line)
