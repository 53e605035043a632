"""The losses that TRL's trainers give for batches of tokens; runs in an interpreter that has TRL.

    python benchmarks/peers/trl_losses.py PLACE

Reads PLACE/batch.json and the directories of transformers' layout PLACE/policy, PLACE/reference and PLACE/reward, and prints a
JSON object: a loss per setting of the batch, and the versions of the packages.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

os.environ.update(TOKENIZERS_PARALLELISM="false", HF_HUB_OFFLINE="1", TQDM_DISABLE="1", HF_DATASETS_OFFLINE="1")

import torch
import transformers
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from trl import DPOConfig, DPOTrainer, KTOConfig, KTOTrainer, RewardConfig, RewardTrainer

transformers.logging.set_verbosity_error()
PAD = 0


def words() -> Any:
    """A tokenizer that a trainer can be made with; the batches have tokens already."""
    made = Tokenizer(models.WordLevel({"[PAD]": PAD, "[EOS]": 1, "a": 2, "b": 3, "c": 4, "[UNK]": 5}, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=made, pad_token="[PAD]", eos_token="[EOS]", unk_token="[UNK]")


def model_of(place: Path, auto: Any = transformers.AutoModelForCausalLM) -> Any:
    return auto.from_pretrained(place, dtype=torch.float32, attn_implementation="eager")


def padded(rows: list[list[int]], fill: int = PAD) -> torch.Tensor:
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[fill] * (longest - len(row))] for row in rows])


def inputs_of(rows: list[dict[str, list[int]]], prefix: str = "") -> dict[str, torch.Tensor]:
    """What a trainer's model is given for rows of tokens with a mask of the answers."""
    return {
        f"{prefix}input_ids": padded([row["tokens"] for row in rows]),
        f"{prefix}attention_mask": padded([[1] * len(row["tokens"]) for row in rows]),
        f"{prefix}completion_mask": padded([row["answers"] for row in rows]),
    }


def usual(folder: str) -> dict[str, Any]:
    return {"output_dir": folder, "report_to": "none", "use_cpu": True, "bf16": False, "per_device_train_batch_size": 2,
            "disable_tqdm": True, "gradient_checkpointing": False}  # fmt: skip


def dpo(place: Path, setting: dict[str, Any], batch: dict[str, Any], folder: str) -> float:
    data = Dataset.from_list([{"prompt": "a", "chosen": " b", "rejected": " c"}] * 4)
    trainer = DPOTrainer(
        model_of(place / "policy"), model_of(place / "reference"), args=DPOConfig(**usual(folder), **setting),
        train_dataset=data, processing_class=words(),
    )  # fmt: skip
    rows = [pair[name] for name in ("chosen", "rejected") for pair in batch["pairs"]]
    with torch.no_grad():
        return float(trainer.compute_loss(trainer.model.eval(), inputs_of(rows)))


def kto(place: Path, setting: dict[str, Any], batch: dict[str, Any], folder: str) -> float:
    data = Dataset.from_list([{"prompt": "a", "completion": " b", "label": n % 2 == 0} for n in range(4)])
    trainer = KTOTrainer(
        model_of(place / "policy"), model_of(place / "reference"),
        args=KTOConfig(**usual(folder), **setting, train_sampling_strategy="sequential"), train_dataset=data,
        processing_class=words(),
    )  # fmt: skip
    judged = batch["judged"]
    given = inputs_of(judged) | inputs_of([row["other"] for row in judged], "KL_")
    given["label"] = torch.tensor([row["desirable"] for row in judged])
    with torch.no_grad():
        return float(trainer.compute_loss(trainer.model.eval(), given))


def reward(place: Path, setting: dict[str, Any], batch: dict[str, Any], folder: str) -> float:
    data = Dataset.from_list([{"prompt": "a", "chosen": " b", "rejected": " c"}] * 4)
    fields = {name: value for name, value in setting.items() if name != "margins"}
    model = model_of(place / "reward", transformers.AutoModelForSequenceClassification)
    trainer = RewardTrainer(model, args=RewardConfig(**usual(folder), **fields), train_dataset=data, processing_class=words())
    rows = [pair[name] for name in ("chosen", "rejected") for pair in batch["pairs"]]
    given = {name: value for name, value in inputs_of(rows).items() if name != "completion_mask"}
    if setting.get("margins"):
        given["margin"] = torch.tensor([pair["margin"] for pair in batch["pairs"]])
    with torch.no_grad():
        return float(trainer.compute_loss(trainer.model.eval(), given))


TRAINERS = {"dpo": dpo, "kto": kto, "reward": reward}


def main() -> None:
    place = Path(sys.argv[1])
    batch = json.loads((place / "batch.json").read_text())
    with tempfile.TemporaryDirectory() as folder:
        losses = {
            name: TRAINERS[setting["trainer"]](place, setting["fields"], batch, folder)
            for name, setting in batch["settings"].items()
        }
    versions = {name: version(name) for name in ("trl", "torch", "transformers")}
    print(json.dumps({"losses": losses, "versions": versions}))


if __name__ == "__main__":
    main()
