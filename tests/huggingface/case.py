"""Tiny configurations of a model type, and how they are held against transformers; no library is loaded for them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

B, T, S, VOCAB = 2, 13, 9, 53


@dataclass(frozen=True)
class Case:
    """One tiny configuration of a model type. `task`: the Auto class; `kernel`: overrides the family's."""

    model_type: str
    config: dict[str, Any]
    task: str = "CausalLM"
    name: str = "plain"
    logits: float = 2e-5
    """Largest difference allowed, of the largest logit."""
    gradients: float = 1e-4
    kernel: str | None = None
    untied: bool = False
    """Give the head weights of its own, where a class ties them whatever its configuration says."""
    time_first: bool = False
    """Whether theirs reads frames as ours does, (B, T, I), and not (B, I, T)."""
    why: str = ""
    """Why a tolerance is wider, or the kernel another."""
    unpadded: str = ""
    """Why a padded batch is another computation in transformers."""
    calls: dict[str, Any] = field(default_factory=dict, hash=False, compare=False)

    def __str__(self) -> str:
        return f"{self.model_type}-{self.task}-{self.name}"


def cases(model_type: str, base: dict[str, Any], *variants: dict[str, Any], task: str = "CausalLM", **more: Any) -> list[Case]:
    """The base configuration and its variants, each named after what it changes."""
    named = [("plain", base)] + [("+".join(variant), base | variant) for variant in variants]
    return [Case(model_type, {"vocab_size": VOCAB, **config}, task, name, **more) for name, config in named]
