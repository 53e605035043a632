"""Any architecture as a model of transformers: importing this registers it with the Auto classes.

    import anyformer.huggingface.auto
    model = AutoModelForCausalLM.from_pretrained(directory)    # a directory that `anyformer export` wrote

Trainers, `generate` with its cache, pipelines and evaluation harnesses that build on transformers then use it like any other
model. Every argument of transformers' forward pass is honoured, or refused with the reason.
"""

from __future__ import annotations

from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, AutoModelForMaskedLM, AutoModelForSeq2SeqLM
from transformers import AutoModelForSequenceClassification as AutoModelForClassification

from anyformer.huggingface.auto.bare import AnyformerModel
from anyformer.huggingface.auto.base import AnyformerPreTrainedModel
from anyformer.huggingface.auto.cache import AnyformerCache
from anyformer.huggingface.auto.causal import AnyformerForCausalLM
from anyformer.huggingface.auto.configuration import AnyformerConfig
from anyformer.huggingface.auto.encoders import AnyformerForMaskedLM, AnyformerForSequenceClassification
from anyformer.huggingface.auto.two_inputs import AnyformerForConditionalGeneration
from anyformer.huggingface.registry import OWN

AutoConfig.register(OWN, AnyformerConfig, exist_ok=True)
AutoModel.register(AnyformerConfig, AnyformerModel, exist_ok=True)
AutoModelForCausalLM.register(AnyformerConfig, AnyformerForCausalLM, exist_ok=True)
AutoModelForMaskedLM.register(AnyformerConfig, AnyformerForMaskedLM, exist_ok=True)
AutoModelForClassification.register(AnyformerConfig, AnyformerForSequenceClassification, exist_ok=True)
AutoModelForSeq2SeqLM.register(AnyformerConfig, AnyformerForConditionalGeneration, exist_ok=True)

__all__ = [
    "AnyformerCache",
    "AnyformerConfig",
    "AnyformerForCausalLM",
    "AnyformerForConditionalGeneration",
    "AnyformerForMaskedLM",
    "AnyformerForSequenceClassification",
    "AnyformerModel",
    "AnyformerPreTrainedModel",
]
