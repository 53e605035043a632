"""What was fine-tuned, adapted or taught preferences exports to transformers with equal logits."""

from __future__ import annotations

import json

import pytest
import torch
from rich.console import Console
from transformers import AutoModelForCausalLM

import anyformer as af
from anyformer import checkpoint
from anyformer.data import Bytes
from anyformer.data.vocabulary import make_tokenizer
from anyformer.plan import Plan
from anyformer.text import Specials
from anyformer.training import Run, train

PAIRS = [{"prompt": f"{n}?", "answer": f"{n * 3 % 101}.", "worse": f"no {n}"} for n in range(60)]
RUNS = {
    "fine-tuned": {"objective": {"kind": "instruction"}, "data": {"kind": "prompts"}},
    "lora": {
        "objective": {"kind": "instruction"}, "data": {"kind": "prompts"}, "tuning": {"adapter": {"kind": "lora", "rank": 4}},
    },
    "dpo": {"objective": {"kind": "dpo"}, "data": {"kind": "preferences", "chosen": "answer", "rejected": "worse"}},
}  # fmt: skip


@pytest.mark.parametrize("way", RUNS)
def test_a_tuned_model_exports_with_equal_logits(way, tmp_path, monkeypatch):
    monkeypatch.setenv("ANYFORMER_CACHE", str(tmp_path / "cache"))
    base = af.build(af.architecture("llama-3-8b", tiny=True), seed=3)
    roles = Specials(roles=("system", "user", "assistant", "turn_end"))
    checkpoint.save(base, tmp_path / "base", tokenizer=make_tokenizer(Bytes(), tuple, tuple, roles))
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in PAIRS))
    asked = RUNS[way]
    data = {
        **asked["data"],
        "paths": [str(path)],
        "validation": 0.2,
        "tokenizer": {"kind": "file", "path": str(tmp_path / "base")},
    }
    plain = {
        "steps": 4, "batch": 4, "length": 32, "start_from": str(tmp_path / "base"), "architecture": base.architecture.plain(),
        "optimiser": {"learning_rate": 1e-2}, "schedule": {"kind": "constant", "warmup": 0},
    }  # fmt: skip
    run = Run.parse({**plain, **asked, "data": data}).but(plan=Plan(precision="fp32", compile="off"))
    trained = train(run, tmp_path / "run", console=Console(quiet=True))
    loaded, tokenizer = af.load(tmp_path / "run")
    af.export(loaded, tmp_path / "out", tokenizer=tokenizer)
    theirs = AutoModelForCausalLM.from_pretrained(tmp_path / "out", attn_implementation="eager").eval()
    tokens = torch.randint(0, 256, (2, 20), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        ours, other = trained.model(tokens), theirs(tokens).logits
        before = base.eval()(tokens)
    torch.testing.assert_close(ours, other, rtol=1e-4, atol=1e-5)
    assert float((ours - before).abs().max()) > 1e-3, "training moved the weights"
