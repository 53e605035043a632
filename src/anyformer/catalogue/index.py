"""Writes the index that `anyformer list` reads: `python -m anyformer.catalogue.index`. A test keeps it up to date."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from dataclasses import asdict

from anyformer.catalogue import INDEX
from anyformer.catalogue.columns import columns
from anyformer.catalogue.row import Listed

LINEAGES = {
    "original": "Google",
    "bert": "Google",
    "encoders": "",
    "modernbert": "Answer.AI",
    "embedders": "",
    "protein": "",
    "llada": "GSAI-ML",
    "bart": "Meta",
    "translation": "",
    "t5": "Google",
    "t5gemma": "Google",
    "switch": "Google",
    "vit": "Google",
    "dit": "Meta",
    "speech": "Meta",
    "hearing": "",
    "image_encoders": "Meta",
    "whisper": "OpenAI",
    "latent": "DeepMind",
    "vision_language": "Salesforce",
    "image_text": "Google",
    "gpt": "OpenAI",
    "gpt_oss": "OpenAI",
    "openai_images": "OpenAI",
    "nanochat": "Karpathy",
    "eleuther": "EleutherAI",
    "opt": "Meta",
    "salesforce": "Salesforce",
    "bloom": "BigScience",
    "bigcode": "BigCode",
    "adept": "Adept",
    "falcon": "TII",
    "mosaic": "Databricks",
    "palm": "Google",
    "gopher": "DeepMind",
    "llama": "Meta",
    "llama4": "Meta",
    "muse": "Meta",
    "mistral": "Mistral AI",
    "qwen": "Alibaba",
    "qwen_moe": "Alibaba",
    "qwen_next": "Alibaba",
    "gemma": "Google",
    "gemma3n": "Google",
    "gemma4": "Google",
    "phi": "Microsoft",
    "bitnet": "Microsoft",
    "olmo": "Ai2",
    "smollm": "Hugging Face",
    "ettin": "Johns Hopkins",
    "apertus": "Swiss AI",
    "kyutai": "Kyutai",
    "exaone": "LG",
    "granite": "IBM",
    "nemotron": "NVIDIA",
    "cohere": "Cohere",
    "stablelm": "Stability AI",
    "yi": "01.AI",
    "internlm": "Shanghai AI Laboratory",
    "baichuan": "Baichuan",
    "glm": "Zhipu AI",
    "deepseek": "DeepSeek",
    "deepseek_v4": "DeepSeek",
    "deepseek_kin": "",
    "kimi": "Moonshot AI",
    "ling": "Ant Group",
    "ernie": "Baidu",
    "seed_oss": "ByteDance",
    "mimo": "Xiaomi",
    "minimax": "MiniMax",
    "beam": "Reflection AI",
    "longcat": "Meituan",
    "hunyuan": "Tencent",
    "arcee": "Arcee AI",
    "local_experts": "",
    "aria": "Rhymes AI",
    "liquid": "Liquid AI",
    "jetmoe": "MyShell",
    "state_space": "Carnegie Mellon and Princeton",
    "rwkv": "RWKV",
    "xlstm": "NXAI",
    "recurrences": "",
    "zamba": "Zyphra",
    "hrm": "Sapient Intelligence",
    "dory": "NVIDIA",
    "inkling": "Thinking Machines",
    "grok": "xAI",
    "undisclosed": "",
}
"""The modules of the catalogue in the order listed, each with the publisher of its architectures."""


def rows() -> Iterator[Listed]:
    """Every entry with its columns."""
    for lineage, organisation in LINEAGES.items():
        for entry in importlib.import_module(f"anyformer.catalogue.{lineage}").ENTRIES:
            yield Listed(
                name=entry.name,
                lineage=lineage,
                organisation=entry.organisation or organisation,
                year=entry.year,
                columns=columns(entry.make()),
                summary=entry.summary,
                source=entry.source,
                stand_in=entry.stand_in,
                training=entry.training,
            )


def index() -> str:
    """The text of the index."""
    lines = [json.dumps(asdict(row), ensure_ascii=False) for row in rows()]
    return "[\n" + ",\n".join(lines) + "\n]\n"


if __name__ == "__main__":
    INDEX.write_text(index(), encoding="utf-8")
