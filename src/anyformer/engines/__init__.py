"""Engines that compute the logits of a described model: the own one, and faster ones that were proved equal."""

from anyformer.engines.choice import AUTO, NAMES, opened
from anyformer.engines.engine import Asked, Engine, EngineRefusedError, ModelLoading, Opened

__all__ = ["AUTO", "NAMES", "Asked", "Engine", "EngineRefusedError", "ModelLoading", "Opened", "opened"]
