"""X-MOD, with several languages, one of which is read."""

from __future__ import annotations

from huggingface.case import cases
from huggingface.cases.roberta import BASE, COUNTED, OTHER

SPOKEN = BASE | {"languages": ["en_XX", "de_DE", "fr_XX"], "default_language": "de_DE"}
OWN = {"adapter_layer_norm": True, "adapter_reduction_factor": 3, "languages": ["sw_KE"], "default_language": "sw_KE"}
CASES = [
    *cases("xmod", SPOKEN, OTHER, OWN, task="MaskedLM"),
    *cases("xmod", SPOKEN, task="Model"),
    *cases("xmod", SPOKEN | {"is_decoder": True}, unpadded=COUNTED),
    *cases("xmod", SPOKEN | {"num_labels": 5}, task="SequenceClassification"),
    *cases("xmod", SPOKEN | {"num_labels": 3}, task="TokenClassification"),
]
