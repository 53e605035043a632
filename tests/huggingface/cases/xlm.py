"""XLM and FlauBERT, of several languages without embeddings of them."""

from __future__ import annotations

from huggingface.case import cases

BASE = {
    "emb_dim": 24, "n_layers": 2, "n_heads": 4, "max_position_embeddings": 16, "layer_norm_eps": 1e-2, "dropout": 0.2,
    "attention_dropout": 0.3,
}  # fmt: skip
OTHER = {"gelu_activation": False, "n_langs": 3, "use_lang_emb": False, "tie_word_embeddings": False}

CASES = [
    *cases("xlm", BASE, OTHER, task="MaskedLM"),
    *cases("xlm", BASE | {"causal": True}, unpadded="transformers attends to padding on the left where it is causal"),
    *cases("flaubert", BASE, OTHER, task="MaskedLM"),
]
