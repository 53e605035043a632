"""What a user's program does with directories in our own layout, without an import of ours: facts of it in JSON.

python tests/huggingface/elsewhere.py FOLDER (which has the directories that `test_elsewhere.py` writes)
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import peft
import torch
import transformers
from transformers import AutoModel, AutoModelForCausalLM, AutoTokenizer

HERE = Path(sys.argv[1])
TRUSTED = {"trust_remote_code": True}
TOKENS = torch.arange(1, 15).view(2, 7)
GREEDY = {"max_new_tokens": 4, "do_sample": False, "pad_token_id": 0, "eos_token_id": None}


def gap(one: torch.Tensor, other: torch.Tensor) -> float:
    return (one - other).abs().max().item()


@torch.no_grad()
def logits(directory: Path, loader: Any, **more: Any) -> torch.Tensor:
    model = loader.from_pretrained(directory, **TRUSTED).eval()
    out = model(input_ids=TOKENS, **more)
    return out.logits if "logits" in out else out.last_hidden_state


def causal(directory: Path) -> dict[str, Any]:
    """Saved twice, generated, padded, embedded, trained with LoRA, merged, resized."""
    model = AutoModelForCausalLM.from_pretrained(directory, **TRUSTED).eval()
    tokenizer = AutoTokenizer.from_pretrained(directory, padding_side="left")
    tokenizer.pad_token = tokenizer.eos_token
    whole = model(TOKENS).logits
    facts: dict[str, Any] = {"class": type(model).__module__, "words": model.config.num_hidden_layers}
    for first, second in (("model", "once"), ("once", "twice")):
        AutoModelForCausalLM.from_pretrained(HERE / first, **TRUSTED).save_pretrained(HERE / second)
    facts["saved twice"] = gap(logits(HERE / "twice", AutoModelForCausalLM), whole)
    plain = model.generate(TOKENS, use_cache=False, **GREEDY)
    kinds = (None, "dynamic", "static")
    facts["caches"] = [torch.equal(model.generate(TOKENS, cache_implementation=kind, **GREEDY), plain) for kind in kinds]
    given = tokenizer(["a longer text", "short"], return_tensors="pt", padding=True)
    both = model.generate(**given, **GREEDY)[1, -4:]
    facts["left padding"] = torch.equal(both, model.generate(**tokenizer("short", return_tensors="pt"), **GREEDY)[0, -4:])
    facts["embedded"] = gap(model(inputs_embeds=model.get_input_embeddings()(TOKENS)).logits, whole)
    facts["pipeline"] = transformers.pipeline("text-generation", model=str(directory), **TRUSTED)(
        "short", max_new_tokens=4, do_sample=False, return_tensors=True
    )[0]["generated_token_ids"]
    mapped = AutoModelForCausalLM.from_pretrained(directory, device_map="auto", dtype=torch.bfloat16, **TRUSTED)
    facts["type"] = str(mapped.dtype)
    lora = peft.LoraConfig(target_modules=["query", "value"], r=2, init_lora_weights=False, task_type="CAUSAL_LM")
    adapted = peft.get_peft_model(model, lora)
    adapted.gradient_checkpointing_enable()
    adapted.train()(input_ids=TOKENS, labels=TOKENS).loss.backward()
    facts["learnt"] = sorted({name.split(".")[-3] for name, x in adapted.named_parameters() if x.grad is not None})
    learnt = adapted.eval()(TOKENS).logits
    adapted.save_pretrained(HERE / "adapter")
    again = peft.AutoPeftModelForCausalLM.from_pretrained(HERE / "adapter", **TRUSTED).eval()
    facts["adapter"] = gap(again(TOKENS).logits, learnt)
    merged = again.merge_and_unload()
    merged.resize_token_embeddings(300)
    merged.save_pretrained(HERE / "merged")
    facts["merged"] = gap(logits(HERE / "merged", AutoModelForCausalLM)[..., : learnt.shape[-1]], learnt)
    return facts


if __name__ == "__main__":
    transformers.utils.logging.set_verbosity_error()
    before = "anyformer" in sys.modules
    told: dict[str, Any] = {"causal": causal(HERE / "model"), "imported": before}
    for name, loader in (
        ("masked", transformers.AutoModelForMaskedLM),
        ("classes", transformers.AutoModelForSequenceClassification),
        ("bare", AutoModel),
    ):
        told[name] = logits(HERE / name, loader).tolist()
    told["pair"] = logits(HERE / "pair", transformers.AutoModelForSeq2SeqLM, decoder_input_ids=TOKENS[:, :3]).tolist()
    told["features"] = logits(HERE / "model", AutoModel).tolist()
    print(json.dumps(told))
