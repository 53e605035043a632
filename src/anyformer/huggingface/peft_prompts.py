"""Virtual tokens in PEFT's files of prompt tuning, both ways."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from anyformer.huggingface.errors import HuggingFaceError
from anyformer.model import Architecture
from anyformer.model.adapted import adapted
from anyformer.parts.embedding.embedding import Embedding
from anyformer.tuning import Prompt
from anyformer.tuning.prompt import VIRTUAL

KIND, STORED = "PROMPT_TUNING", "prompt_embeddings"


def read_prompt(config: Mapping[str, Any], tensors: Mapping[str, Tensor], architecture: Architecture, where: str) -> Prompt:
    """The prompt of a configuration of PEFT's, whose only tensor is the virtual tokens (P, D).

    Raises `HuggingFaceError` for other tensors, another width, or an architecture without a place for them.
    """
    if config.get("num_transformer_submodules") not in (None, 1):
        raise HuggingFaceError(f"{where}: virtual tokens of {config['num_transformer_submodules']} stacks are not read")
    if set(tensors) != {STORED}:
        raise HuggingFaceError(f"{where}: holds {sorted(tensors)}, and prompt tuning has {STORED} alone")
    virtual = tensors[STORED]
    if virtual.dim() != 2:
        raise HuggingFaceError(f"{where}: {STORED} has the shape {tuple(virtual.shape)}, and must be (tokens, features)")
    count, width = virtual.shape
    if width != architecture.table_width:
        raise HuggingFaceError(
            f"{where}: virtual tokens of {width} features, and the embeddings have {architecture.table_width}"
        )
    prompt = Prompt(tokens=count)
    check_prompt(prompt, architecture, where)
    return prompt


def written_prompt(prompt: Prompt, architecture: Architecture, base: str | None) -> dict[str, Any]:
    """PEFT's configuration of a prompt."""
    stack = architecture.output_stack
    return {
        "peft_type": KIND, "task_type": None if architecture.decoder is None else "CAUSAL_LM",
        "base_model_name_or_path": base, "inference_mode": True, "num_virtual_tokens": prompt.tokens,
        "token_dim": architecture.table_width, "num_transformer_submodules": 1, "num_layers": stack.depth,
        "prompt_tuning_init": "RANDOM",
    }  # fmt: skip


def check_prompt(prompt: Prompt, architecture: Architecture, where: str) -> None:
    """Refuse an architecture in which PEFT's virtual tokens are not those of this project.

    Transformers scales, and adds kinds of segments, in other places for embeddings that it is given.
    """
    table = adapted(architecture, prompt).embedding
    if not isinstance(table, Embedding) or table.resolved(architecture.table_width).scale != 1 or table.types or table.masked:
        raise HuggingFaceError(
            f"{where}: virtual tokens beside embeddings that are scaled, masked or have kinds of segments have no place in "
            "PEFT's files; keep the checkpoint"
        )


def tensors_of(added: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The virtual tokens by PEFT's name."""
    return {STORED: added[VIRTUAL].detach().cpu().float().contiguous().clone()}
