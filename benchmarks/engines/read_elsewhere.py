"""A user's program around a directory in our own layout, without an import of ours: `python read_elsewhere.py QUESTION.json`.

The question: a directory by name, `prompts` as token ids, `texts`, and a `folder` to save into. Every tool says, in a line of
JSON, the tokens and logits of the model that it leaves, where it saved it, and the first loss of its training.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import AutoModelForCausalLM, AutoTokenizer

TRUSTED = {"trust_remote_code": True}
STEPS = 3
TASK = """
task: choices
dataset_path: json
dataset_kwargs: {data_files: {test: "DATA"}}
test_split: test
output_type: multiple_choice
target_delimiter: ""
doc_to_text: "{{question}}"
doc_to_choice: "{{choices}}"
doc_to_target: 0
metric_list: [{metric: acc}]
"""


@torch.no_grad()
def left(model: Any, asked: dict[str, Any]) -> dict[str, Any]:
    """What the model continues and computes."""
    model.eval()
    rows = [torch.tensor([prompt]) for prompt in asked["prompts"]]
    more = {"max_new_tokens": asked["new"], "do_sample": False, "eos_token_id": None, "pad_token_id": 0}
    tokens = [model.generate(row, attention_mask=torch.ones_like(row), **more)[0, row.shape[1] :].tolist() for row in rows]
    return {"tokens": tokens, "logits": [model(row).logits[0].tolist() for row in rows]}


def tokenizer_of(directory: str) -> Any:
    tokenizer = AutoTokenizer.from_pretrained(directory, **TRUSTED)
    tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def transformers_pipeline(directory: str, asked: dict[str, Any], place: Path) -> dict[str, Any]:
    """Left padding, and a batch at once."""
    piped = transformers.pipeline("text-generation", model=directory, tokenizer=tokenizer_of(directory), **TRUSTED)
    more = {"max_new_tokens": asked["new"], "do_sample": False, "eos_token_id": None, "pad_token_id": 0}
    said = piped(asked["texts"], batch_size=len(asked["texts"]), return_tensors=True, **more)
    piped.model.save_pretrained(place)
    # A batch is padded on the left: its continuation is the end of a row.
    ids = [each[0]["generated_token_ids"][-asked["new"] :] for each in said]
    return {**left(piped.model, asked), "said": ids}


def settings(place: Path, **more: Any) -> dict[str, Any]:
    return {
        "output_dir": str(place), "max_steps": STEPS, "per_device_train_batch_size": 2, "logging_steps": 1, "report_to": [],
        "save_strategy": "no", "use_cpu": True, "learning_rate": 1e-3, "disable_tqdm": True, "seed": 1, "bf16": False, **more,
    }  # fmt: skip


def trained(trainer: Any, asked: dict[str, Any], place: Path) -> dict[str, Any]:
    batch = next(iter(trainer.get_train_dataloader()))
    trainer.train()
    losses = [line["loss"] for line in trainer.state.log_history if "loss" in line]
    trainer.save_model(str(place))
    first = {name: x.tolist() for name, x in batch.items() if torch.is_tensor(x)}
    return {**left(trainer.model, asked), "losses": [float(loss) for loss in losses], "batch": first}


def transformers_trainer(directory: str, asked: dict[str, Any], place: Path) -> dict[str, Any]:
    model = AutoModelForCausalLM.from_pretrained(directory, **TRUSTED)
    tokenizer = tokenizer_of(directory)
    rows = [dict(tokenizer(text)) for text in asked["texts"] * 4]
    collator = transformers.DataCollatorForLanguageModeling(tokenizer, mlm=False)
    given = transformers.TrainingArguments(**settings(place, gradient_checkpointing=True))
    return trained(transformers.Trainer(model, given, train_dataset=rows, data_collator=collator), asked, place)


def trl_sft_trainer(directory: str, asked: dict[str, Any], place: Path) -> dict[str, Any]:
    import datasets
    import trl

    given = trl.SFTConfig(**settings(place, max_length=64, model_init_kwargs={**TRUSTED, "dtype": "float32"}))
    rows = datasets.Dataset.from_list([{"text": text} for text in asked["texts"] * 4])
    return trained(trl.SFTTrainer(directory, given, train_dataset=rows, processing_class=tokenizer_of(directory)), asked, place)


def peft_lora(directory: str, asked: dict[str, Any], place: Path) -> dict[str, Any]:
    """Trained, saved, loaded beside its base, merged."""
    import peft

    lora = peft.LoraConfig(target_modules=asked["targets"], r=4, init_lora_weights=False, task_type="CAUSAL_LM")
    model = peft.get_peft_model(AutoModelForCausalLM.from_pretrained(directory, **TRUSTED), lora)
    rows = [{"input_ids": prompt, "labels": prompt} for prompt in asked["prompts"] if len(prompt) > 1]
    collator = transformers.DataCollatorForSeq2Seq(tokenizer_of(directory), model=None)
    given = transformers.TrainingArguments(**settings(place))
    transformers.Trainer(model, given, train_dataset=rows, data_collator=collator).train()
    learnt = left(model, asked)
    model.save_pretrained(str(place / "adapter"))
    merged: Any = peft.AutoPeftModelForCausalLM.from_pretrained(str(place / "adapter"), **TRUSTED).merge_and_unload()
    merged.save_pretrained(str(place))
    return learnt


def lm_evaluation_harness(directory: str, asked: dict[str, Any], place: Path) -> dict[str, Any]:
    """By its command, on a task of choices."""
    place.mkdir(parents=True)
    lines = [json.dumps({"question": text, "choices": asked["choices"]}) for text in asked["texts"]]
    (place / "data.jsonl").write_text("\n".join(lines) + "\n")
    (place / "choices.yaml").write_text(TASK.replace("DATA", str(place / "data.jsonl")))
    command = [
        sys.executable, "-m", "lm_eval", "--model", "hf", "--tasks", "choices", "--include_path", str(place), "--device", "cpu",
        "--model_args", f"pretrained={directory},trust_remote_code=True,dtype=float32", "--batch_size", "4",
        "--output_path", str(place / "out"), "--log_samples",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr[-1500:])
    (samples,) = (place / "out").rglob("samples_choices_*.jsonl")
    rows = [json.loads(line) for line in samples.read_text().splitlines()]
    rows.sort(key=lambda row: row["doc_id"])
    return {"choices": [[float(each[0]) for each in row["filtered_resps"]] for row in rows]}


TOOLS: dict[str, Callable[[str, dict[str, Any], Path], dict[str, Any]]] = {
    "pipeline": transformers_pipeline,
    "Trainer": transformers_trainer,
    "PEFT": peft_lora,
    "TRL": trl_sft_trainer,
    "lm-evaluation-harness": lm_evaluation_harness,
}

if __name__ == "__main__":
    torch.set_num_threads(1)
    question = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    for name, directory in question["directories"].items():
        for tool, run in TOOLS.items():
            saved = Path(question["folder"]) / tool
            answer: dict[str, Any] = {"name": name, "tool": tool, "saved": str(saved)}
            try:
                if "anyformer" in sys.modules and (name, tool) == (next(iter(question["directories"])), "pipeline"):
                    raise RuntimeError("anyformer is imported already")
                with contextlib.redirect_stdout(sys.stderr):  # trainers print their losses
                    answer |= run(directory, question, saved)
            except Exception as error:  # whatever a tool raises is an answer
                answer["error"] = f"{type(error).__name__}: {str(error).strip()[-600:]}"
            print(json.dumps(answer), flush=True)
