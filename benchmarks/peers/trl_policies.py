"""The losses of policies that TRL's trainers give for given rollouts, and their gradients; runs in an interpreter that has TRL.

    python benchmarks/peers/trl_policies.py PLACE

Reads PLACE/rollouts.json and the directories of transformers' layout PLACE/sampler, PLACE/policy and PLACE/reference, writes
the gradients of weights to PLACE/gradients/NUMBER.safetensors, and prints a JSON object: a loss per setting, and versions.
A trainer is given the sampler's weights and the rollouts, from which it computes advantages itself; then the policy's weights.
Log-probabilities are those of transformers in fp64: TRL's own kernel has fp32, of which a loss near 0 keeps too few digits.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections import defaultdict
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

os.environ.update(TOKENIZERS_PARALLELISM="false", HF_HUB_OFFLINE="1", TQDM_DISABLE="1", HF_DATASETS_OFFLINE="1")
os.environ.update(TRL_EXPERIMENTAL_SILENCE="1")

import torch
import transformers
from datasets import Dataset
from safetensors.torch import save_file
from trl import GRPOConfig, GRPOTrainer, RLOOConfig, RLOOTrainer
from trl.experimental.gkd import GKDTrainer
from trl.experimental.iw_opd import IWOPDTrainer
from trl_losses import model_of, padded, usual, words

TOLD = {"engine", "temperature"}
"""Fields of a setting that are no fields of a trainer's configuration."""


def loaded(place: Path) -> Any:
    return model_of(place).double().eval()


def given(setting: dict[str, Any], batch: dict[str, Any], folder: str) -> dict[str, Any]:
    """What both trainers are made with."""
    rows = len(batch["prompts"])
    fields = usual(folder) | {
        "per_device_train_batch_size": rows, "per_device_eval_batch_size": rows, "num_generations": batch["group"],
        "num_iterations": 2, "max_completion_length": batch["longest"],
    }  # fmt: skip
    return fields | {name: value for name, value in setting.items() if name not in TOLD}


def rewards_of(batch: dict[str, Any]) -> Any:
    def planted(**_: Any) -> list[float]:
        rewards: list[float] = batch["rewards"]
        return rewards

    return planted


def grpo(place: Path, setting: dict[str, Any], batch: dict[str, Any], folder: str) -> tuple[Any, torch.Tensor]:
    def rollouts(prompts: list[str], trainer: Any) -> dict[str, Any]:
        return {
            "prompt_ids": batch["prompts"], "completion_ids": batch["answers"], "logprobs": batch["sampled"],
            "env_mask": batch["own"],
        }  # fmt: skip

    made = GRPOConfig(**given(setting, batch, folder), temperature=setting.get("temperature", 1.0))
    trainer = GRPOTrainer(
        loaded(place / "sampler"), reward_funcs=rewards_of(batch), args=made, rollout_func=rollouts,
        train_dataset=Dataset.from_list([{"prompt": "a"}] * 4), processing_class=words(),
    )  # fmt: skip
    if setting.get("engine"):
        trainer.use_vllm, trainer._last_loaded_step = True, trainer.state.global_step
    return finished(trainer, place, batch)


def rloo(place: Path, setting: dict[str, Any], batch: dict[str, Any], folder: str) -> tuple[Any, torch.Tensor]:
    trainer = RLOOTrainer(
        loaded(place / "sampler"), reward_funcs=rewards_of(batch), args=RLOOConfig(**given(setting, batch, folder)),
        train_dataset=Dataset.from_list([{"prompt": "a"}] * 4), processing_class=words(),
    )  # fmt: skip
    trainer._tokenize_prompts = lambda prompts: (batch["prompts"], None, {})
    trainer._generate_single_turn = lambda *_: batch["answers"]
    return finished(trainer, place, batch)


def finished(trainer: Any, place: Path, batch: dict[str, Any]) -> tuple[Any, torch.Tensor]:
    """The loss of the policy's weights on what was sampled by the others."""

    def exact(model: Any, tokens: torch.Tensor, mask: torch.Tensor, count: int, *_: Any, **__: Any) -> tuple[Any, Any, None]:
        logits = model(input_ids=tokens, attention_mask=mask).logits[:, -count - 1 : -1] / trainer.temperature
        log_p = logits.log_softmax(-1)
        return log_p.gather(-1, tokens[:, -count:, None])[..., 0], -(log_p.exp() * log_p).sum(-1), None

    trainer._get_per_token_logps_and_entropies = exact
    trainer.model.eval()
    if trainer.ref_model is not None:
        trainer.ref_model.double().load_state_dict(loaded(place / "reference").state_dict())
    with torch.no_grad():
        inputs = trainer._generate_and_score_completions([{"prompt": "a"}] * len(batch["prompts"]))
    trainer.model.load_state_dict(loaded(place / "policy").state_dict())
    return trainer.model, trainer._compute_loss(trainer.model, inputs)


def taught(place: Path, batch: dict[str, Any]) -> tuple[Any, torch.Tensor, torch.Tensor, torch.Tensor]:
    """The model, its rows of tokens, their labels, and the teacher's logits."""
    model, teacher = loaded(place / "policy"), loaded(place / "reference")
    rows = [prompt + answer for prompt, answer in zip(batch["prompts"], batch["answers"], strict=True)]
    own = [[0] * len(prompt) + mask for prompt, mask in zip(batch["prompts"], batch["own"], strict=True)]
    tokens, labels = padded(rows), torch.where(padded(own) > 0, padded(rows), -100)[:, 1:]
    with torch.no_grad():
        return model, tokens, labels, teacher(tokens[:, :-1]).logits


def distillation(place: Path, setting: dict[str, Any], batch: dict[str, Any], folder: str) -> tuple[Any, torch.Tensor]:
    """The reverse divergence over the vocabulary, by the function of TRL's trainer of on-policy distillation."""
    model, tokens, labels, theirs = taught(place, batch)
    return model, GKDTrainer.generalized_jsd_loss(model(tokens[:, :-1]).logits, theirs, labels, **setting)


def estimate(place: Path, setting: dict[str, Any], batch: dict[str, Any], folder: str) -> tuple[Any, torch.Tensor]:
    """On-policy distillation by the sampled tokens alone, by the method of TRL's trainer, which reads these fields of it."""
    model, tokens, labels, theirs = taught(place, batch)
    with torch.no_grad():
        before = loaded(place / "sampler")(tokens[:, :-1]).logits
    sampled, teacher = (z.log_softmax(-1).gather(-1, tokens[:, 1:, None])[..., 0] for z in (before, theirs))
    trainer = SimpleNamespace(temperature=1.0, model=model, _metrics={"eval": defaultdict(list)}, **setting)
    logits = model(tokens[:, :-1]).logits
    return model, IWOPDTrainer._compute_iw_opd_loss(trainer, logits, tokens[:, 1:], labels, teacher, sampled)


TRAINERS = {"grpo": grpo, "rloo": rloo, "distillation": distillation, "estimate": estimate}


def main() -> None:
    place = Path(sys.argv[1])
    batch, losses = json.loads((place / "rollouts.json").read_text()), {}
    (place / "gradients").mkdir()
    with tempfile.TemporaryDirectory() as folder:
        for number, (name, setting) in enumerate(batch["settings"].items()):
            torch.manual_seed(0)
            model, loss = TRAINERS[setting["trainer"]](place, setting["fields"], batch, folder)
            model.zero_grad()
            loss.backward()
            losses[name] = float(loss)
            gradients = {key: weight.grad.float().contiguous() for key, weight in model.named_parameters()}
            save_file(gradients, place / "gradients" / f"{number}.safetensors")
    versions = {name: version(name) for name in ("trl", "torch", "transformers")}
    print(json.dumps({"losses": losses, "versions": versions}))


if __name__ == "__main__":
    transformers.logging.set_verbosity_error()
    main()
