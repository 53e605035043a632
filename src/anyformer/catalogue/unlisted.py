"""Systems that users look for and no entry describes, each with the reason. Nothing here imports torch."""

from __future__ import annotations

_UNPUBLISHED = "{} is published of its architecture: no size, no layer. {}"
_SUM = "Of {}'s models only the sum of their parameters is told, {}: no width, no number of layers. {}"
_SYSTEM = "is a system that trains mixtures of experts, and no architecture: {}"
UNLISTED = {
    "gpt-3.5": _UNPUBLISHED.format("Nothing", "See gpt3-175b, whose kin it is (Ouyang et al. 2022, arXiv 2203.02155)"),
    "gpt-5": _UNPUBLISHED.format("Nothing", "See gpt-oss-120b, its publisher's open models"),
    "gemini-3": _UNPUBLISHED.format(
        "Only that it is a sparse mixture of experts", "See gemini-style-4t, a worked example of such sizes"
    ),
    "claude": _UNPUBLISHED.format("Nothing", "See anthropic-lm-52b, the one size that its publisher told (arXiv 2112.00861)"),
    "path-attention": _SUM.format(
        "PaTH attention", "about 760 M (Yang et al. 2025, arXiv 2505.16381)", "See the mixer PathAttention"
    ),
    "deltaformer": _SUM.format(
        "DeltaFormer", "340 M and a mixture of 14 B (Zhong et al. 2025, arXiv 2505.19488)", "See DeltaValues of attention"
    ),
    "efficientnet": "EfficientNet (Tan & Le 2019, arXiv 1905.11946) is made of convolutions alone and is no transformer",
    "deepspeed-moe": "DeepSpeed-MoE " + _SYSTEM.format(
        "its pyramids with residual experts (Rajbhandari et al. 2022, arXiv 2201.05596) are layers of Experts with shared_width"
    ),
    "megatron-moe": "Megatron-Core MoE " + _SYSTEM.format("see mixtral-8x7b and deepseek-v3, which it is used for"),
}  # fmt: skip
"""Name in lower case -> the reason, a sentence without its full stop."""


def unlisted(name: str) -> str | None:
    """Why no entry is called so; None if nothing is known of it. `GPT 5`, `gpt5` and `gpt-5-mini` ask for `gpt-5`."""
    asked = _plain(name)
    return next((reason for known, reason in UNLISTED.items() if len(asked) > 3 and asked.startswith(_plain(known))), None)


def _plain(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())
