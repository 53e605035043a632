"""What transformers, lm-evaluation-harness and TRL make of directories; runs in an interpreter that has them.

    python benchmarks/as_authors/reference.py PLACE NAME=SHAPE ...

Reads the directory PLACE/NAME of each model, and writes what these tools make of it into PLACE/NAME.theirs.json.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

os.environ.update(TOKENIZERS_PARALLELISM="false", HF_HUB_OFFLINE="1", TQDM_DISABLE="1", HF_DATASETS_OFFLINE="1")

import torch
import transformers
from asked import BETA, BETAS, DOCUMENTS, HIDDEN, LENGTH, PAIRS, PROMPTS, QUESTIONS, RATE, RECORDS, SETTINGS, STEPS

transformers.logging.set_verbosity_error()
logging.disable(logging.WARNING)
PACKAGES = ("torch", "transformers", "tokenizers", "lm_eval", "trl")


def model_of(shape: str, place: Path) -> Any:
    """A fresh model in fp32."""
    kinds = {
        "causal": transformers.AutoModelForCausalLM, "seq2seq": transformers.AutoModelForSeq2SeqLM,
        "masked": transformers.AutoModelForMaskedLM,
    }  # fmt: skip
    return kinds[shape].from_pretrained(place, dtype=torch.float32, attn_implementation="eager")


def generated(shape: str, place: Path, tokenizer: Any) -> dict[str, Any]:
    """What `generate` says to a padded batch of prompts: tokens up to an end, and text."""
    model = model_of(shape, place).eval()
    side = "right" if shape == "seq2seq" else "left"
    rows = tokenizer(list(PROMPTS), return_tensors="pt", padding=True, padding_side=side)
    rows.pop("token_type_ids", None)
    before = 1 if shape == "seq2seq" else rows["input_ids"].shape[1]
    ends = model.generation_config.eos_token_id
    ends = ends if isinstance(ends, list) else [ends]
    found = {}
    for name, settings in SETTINGS.items():
        every = model.generate(**rows, **settings)[:, before:].tolist()
        lengths = [next((at + 1 for at, token in enumerate(row) if token in ends), len(row)) for row in every]
        tokens = [row[:length] for row, length in zip(every, lengths, strict=True)]
        texts = [tokenizer.decode(row, skip_special_tokens=True) for row in tokens]
        found[name] = [{"tokens": row, "text": text} for row, text in zip(tokens, texts, strict=True)]
    return found


def harness(shape: str, place: Path, **settings: Any) -> Any:
    """The harness's model of a directory."""
    from lm_eval.models.huggingface import HFLM

    return HFLM(
        pretrained=str(place), backend=shape, device="cpu", dtype="float32", batch_size=4, max_length=LENGTH, **settings
    )  # fmt: skip


def instance(kind: str, *given: str) -> Any:
    from lm_eval.api.instance import Instance

    return Instance(request_type=kind, doc={}, arguments=given, idx=0)


def choices(model: Any) -> list[list[float]]:
    """The log-likelihood of each choice of each question."""
    joined = [
        (each["context"], choice if each["context"][-1].isspace() else f" {choice}")
        for each in QUESTIONS
        for choice in each["choices"]
    ]
    found = iter(model.loglikelihood([instance("loglikelihood", *pair) for pair in joined], disable_tqdm=True))
    return [[float(next(found)[0]) for _ in each["choices"]] for each in QUESTIONS]


def documents(model: Any) -> list[float]:
    """The log-likelihood of each document."""
    requests = [instance("loglikelihood_rolling", text) for text in DOCUMENTS]
    return [float(each) for each in model.loglikelihood_rolling(requests, disable_tqdm=True)]


def rows_of(trainer: Any) -> list[list[list[int]]]:
    """The rows of the training batch without padding: tokens and labels, none (-100) for the first token."""
    batch = next(iter(trainer.get_train_dataloader()))
    masks = batch["attention_mask"].bool()
    # The answers of preferences are marked in another way.
    marked = batch["completion_mask"].bool() if "labels" not in batch else None
    labels = batch["labels"] if marked is None else torch.where(marked, batch["input_ids"], -100)
    rows = zip(batch["input_ids"], labels, masks, strict=True)
    return [[tokens[mask].tolist(), [-100, *label[mask].tolist()[1:]]] for tokens, label, mask in rows]


def fine_tuned(place: Path, kind: str, tokenizer: Any) -> dict[str, Any]:
    """The rows that TRL's trainer makes of records, and its losses over a few updates on all of them.

    A loss that balances experts, which TRL adds and transformers leaves out, is left out.
    """
    from datasets import Dataset
    from trl import DPOConfig, DPOTrainer, SFTConfig, SFTTrainer

    records = [dict(each) for each in RECORDS[kind]]
    with tempfile.TemporaryDirectory() as out:
        shared: dict[str, Any] = {
            "output_dir": out, "per_device_train_batch_size": len(records), "max_steps": STEPS, "learning_rate": RATE,
            "lr_scheduler_type": "constant", "warmup_steps": 0, "weight_decay": 0.0, "adam_beta1": BETAS[0],
            "adam_beta2": BETAS[1], "max_grad_norm": 1.0, "logging_steps": 1, "report_to": [], "save_strategy": "no",
            "use_cpu": True, "bf16": False, "fp16": False, "disable_tqdm": True, "gradient_checkpointing": False,
            "max_length": LENGTH, "router_aux_loss_coef": 0.0,
        }  # fmt: skip
        model, data = model_of("causal", place), Dataset.from_list(records)
        if kind == "preferences":
            trainer: Any = DPOTrainer(
                model=model, ref_model=model_of("causal", place), args=DPOConfig(beta=BETA, **shared), train_dataset=data,
                processing_class=tokenizer,
            )  # fmt: skip
        else:
            only = {"assistant_only_loss": True} if kind == "messages" else {}
            arguments = SFTConfig(**shared, **only)
            trainer = SFTTrainer(model=model, args=arguments, train_dataset=data, processing_class=tokenizer)
        collate = trainer.data_collator

        def collated(found: list[Any]) -> Any:
            # What nothing predicts has no loss, and yet the mean of some families' losses counts it.
            batch = collate(found)
            if "labels" in batch:
                batch["labels"][:, 0] = -100
            return batch

        trainer.data_collator = collated
        rows = rows_of(trainer)
        trainer.train()
        losses = [each["loss"] for each in trainer.state.log_history if "loss" in each]
        return {"rows": rows, "losses": losses}


def updated(shape: str, place: Path, batch: dict[str, Any]) -> list[float]:
    """The losses of a model that is trained on one batch again and again."""
    model = model_of(shape, place).train()
    optimiser = torch.optim.AdamW(model.parameters(), lr=RATE, betas=BETAS, weight_decay=0.0)
    losses = []
    for _ in range(STEPS):
        loss = model(**batch).loss
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        losses.append(float(loss.detach()))
    return losses


def paired(place: Path, tokenizer: Any) -> dict[str, Any]:
    """The rows of pairs of source and target, and the losses over a few updates on all of them."""
    sources = tokenizer([each["source"] for each in PAIRS], return_tensors="pt", padding=True)
    targets = tokenizer(text_target=[each["target"] for each in PAIRS])["input_ids"]
    longest = max(map(len, targets))
    labels = torch.tensor([[*row, *[-100] * (longest - len(row))] for row in targets])
    batch = {"input_ids": sources["input_ids"], "attention_mask": sources["attention_mask"], "labels": labels}
    rows = [
        [row[mask.bool()].tolist(), target]
        for row, mask, target in zip(sources["input_ids"], sources["attention_mask"], targets, strict=True)
    ]
    return {"rows": rows, "losses": updated("seq2seq", place, batch)}


def filled(place: Path, tokenizer: Any) -> list[Any]:
    """The likeliest tokens at each hidden place of a text, with their probabilities."""
    pipe = transformers.pipeline("fill-mask", model=model_of("masked", place).eval(), tokenizer=tokenizer, top_k=5)
    found = []
    for text in HIDDEN:
        places = pipe(text)
        places = places if isinstance(places[0], list) else [places]
        found.append([[[each["token"], each["score"]] for each in place] for place in places])
    return found


def hidden(place: Path) -> dict[str, Any]:
    """The losses over a few updates on rows in which tokens are hidden, as they were made on the other side."""
    rows = json.loads(place.with_suffix(".rows.json").read_text())
    batch = {name: torch.tensor(rows[name]) for name in ("input_ids", "attention_mask", "labels")}
    return {"losses": updated("masked", place, batch)}


def told(shape: str, place: Path) -> dict[str, Any]:
    """Everything that is asked of a family."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(place)
    torch.manual_seed(0)
    if shape == "masked":
        return {"fill": filled(place, tokenizer), "fine_tuning": {"hidden": hidden(place)}}
    found: dict[str, Any] = {"generate": generated(shape, place, tokenizer)}
    asked = harness(shape, place)
    found["choices"] = choices(asked)
    if shape == "causal":
        # By default the harness predicts the first token, which its tokenizer adds, from itself too.
        found["documents"] = documents(harness(shape, place, add_bos_token=False))
        found["fine_tuning"] = {kind: fine_tuned(place, kind, tokenizer) for kind in RECORDS}
    else:
        found["fine_tuning"] = {"pairs": paired(place, tokenizer)}
    return found


def main() -> None:
    """Write a file for each family."""
    torch.set_num_threads(1)
    place = Path(sys.argv[1])
    for each in sys.argv[2:]:
        name, shape = each.split("=")
        try:
            found = told(shape, place / name)
        except Exception as error:  # whatever fails there is told, and the others go on
            import traceback

            found = {"failed": f"{type(error).__name__}: {error}", "where": traceback.format_exc()[-1500:]}
        found["versions"] = {package: version(package) for package in PACKAGES}
        (place / f"{name}.theirs.json").write_text(json.dumps(found), encoding="utf-8")
        print(name, flush=True)


if __name__ == "__main__":
    main()
