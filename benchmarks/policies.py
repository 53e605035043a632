"""Losses of reinforcement learning beside TRL's on the same rollouts and the same weights, and their gradients.

    python -m benchmarks.policies --trl PATH/TO/python

The interpreter has TRL (`peers/requirements-elsewhere.txt`). Three small Llamas, as the sampler, the policy after some updates
and the reference, are written in transformers' layout; TRL's own trainers compute advantages from the same rewards, the loss of
the policy and the gradient of its weights, in fp64. Exits with 1 where a loss or a gradient differs by more than 1e-5 of its
size. Figures do not depend on the machine's speed. Writes benchmarks/results/policies.json.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from copy import deepcopy
from dataclasses import dataclass
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from benchmarks.compare import RESULTS
from safetensors.torch import load_file
from torch import Tensor

import anyformer as af
from anyformer.catalogue.llama import llama
from anyformer.model.transformer import Transformer
from anyformer.objectives.policy import (
    AsymmetricClip,
    BatchStdAdvantage,
    ConstantNormaliser,
    DetachedClip,
    DistantCorrection,
    DualClip,
    GroupMeanAdvantage,
    LossDivergence,
    MaskedCorrection,
    NoClip,
    NoRatio,
    PolicyLoss,
    ProductRatio,
    Rewarded,
    ScoredTokens,
    SymmetricClip,
    TokenNormaliser,
    TruncatedCorrection,
    at_the_end,
    cispo,
    dapo,
    dr_grpo,
    entropies,
    exact_on_policy_distillation,
    grpo,
    gspo,
    on_policy_distillation,
    reverse_divergences,
    rloo,
    sapo,
)

RESULT = RESULTS / "policies.json"
THEIRS = Path(__file__).parent / "peers" / "trl_policies.py"
NEAR = 1e-5
"""What a loss or a gradient may differ by, of its size."""
VOCAB, GROUP, SAMPLES, LONGEST = 97, 4, 3, 12
LLAMA = llama(width=32, depth=2, heads=4, kv_heads=2, ffn=48, vocab=VOCAB)
HIGHER = {"epsilon": 0.2, "epsilon_high": 0.28, "beta": 0.0}
PENALTY = {"beta": 0.04, "loss_type": "grpo", "use_bias_correction_kl": False}
NO_PENALTY: dict[str, Any] = {"beta": 0.0, "loss_type": "grpo"}
TRUNCATED = {"engine": True, "vllm_importance_sampling_mode": "token_truncate", "vllm_importance_sampling_clip_max": 1.05}
MASKED = {
    "engine": True, "vllm_importance_sampling_mode": "sequence_mask", "vllm_importance_sampling_clip_min": 0.8,
    "vllm_importance_sampling_clip_max": 1.3,
}  # fmt: skip
REINFORCE = PolicyLoss(
    advantage=GroupMeanAdvantage(over_std=False), ratio=NoRatio(), clip=NoClip(), normaliser=ConstantNormaliser()
)  # fmt: skip
SETTINGS: dict[str, tuple[PolicyLoss, str, dict[str, Any]]] = {
    "GRPO": (grpo(), "grpo", PENALTY),
    "GRPO without a penalty": (PolicyLoss(), "grpo", NO_PENALTY),
    "GRPO, weighted divergence": (
        PolicyLoss(divergence=LossDivergence(beta=0.1, weighted=True)), "grpo",
        {"beta": 0.1, "loss_type": "grpo", "use_bias_correction_kl": True},
    ),
    "GRPO at temperature 0.7": (grpo(), "grpo", PENALTY | {"temperature": 0.7}),
    "GRPO, deviation of the batch": (
        PolicyLoss(advantage=BatchStdAdvantage()), "grpo", NO_PENALTY | {"scale_rewards": "batch"},
    ),
    "GRPO by tokens": (PolicyLoss(normaliser=TokenNormaliser()), "grpo", {"beta": 0.0, "loss_type": "bnpo"}),
    "REINFORCE with a baseline": (
        REINFORCE, "grpo",
        {"beta": 0.0, "loss_type": "dr_grpo", "scale_rewards": "none", "num_iterations": 1, "max_completion_length": 1},
    ),
    "RLOO": (rloo(beta=0.05), "rloo", {"beta": 0.05}),
    "Dr. GRPO": (dr_grpo(LONGEST), "grpo", {"beta": 0.0, "loss_type": "dr_grpo", "scale_rewards": "none"}),
    "DAPO": (dapo(), "grpo", HIGHER | {"loss_type": "dapo"}),
    "DAPO with entropy": (dapo().but(entropy=0.02), "grpo", HIGHER | {"loss_type": "dapo", "entropy_coef": 0.02}),
    "GSPO": (
        gspo(), "grpo", NO_PENALTY | {"importance_sampling_level": "sequence", "epsilon": 3e-4, "epsilon_high": 4e-4},
    ),
    "GSPO, wider": (
        gspo().but(clip=AsymmetricClip(low=0.2, high=0.3)), "grpo",
        NO_PENALTY | {"importance_sampling_level": "sequence", "epsilon": 0.2, "epsilon_high": 0.3},
    ),
    "CISPO": (cispo(high=0.3), "grpo", {"beta": 0.0, "loss_type": "cispo", "epsilon_high": 1.3}),
    "SAPO": (sapo(), "grpo", {"beta": 0.0, "loss_type": "sapo"}),
    "GSPO by sums": (
        gspo().but(clip=SymmetricClip(), normaliser=ConstantNormaliser()), "grpo",
        {"beta": 0.0, "loss_type": "luspo", "importance_sampling_level": "sequence"},
    ),
    "dual clip": (PolicyLoss(clip=DualClip(most=1.25)), "grpo", NO_PENALTY | {"delta": 1.25}),
    "truncated correction": (
        PolicyLoss(correction=TruncatedCorrection(most=1.05)), "grpo", NO_PENALTY | TRUNCATED,
    ),
    "masked correction": (
        PolicyLoss(correction=MaskedCorrection(ratio=ProductRatio(), least=0.8, most=1.3)), "grpo", NO_PENALTY | MASKED,
    ),
    "without distant rows": (
        PolicyLoss(correction=DistantCorrection(most=0.0)), "grpo", NO_PENALTY | {"off_policy_mask_threshold": 0.0},
    ),
    "on-policy distillation": (
        on_policy_distillation().but(ratio=NoRatio(), clip=DetachedClip()), "estimate",
        {"iw_opd_gamma": 0.0, "iw_opd_epsilon": 1e-8},
    ),
    "exact on-policy distillation": (exact_on_policy_distillation(), "distillation", {"beta": 1.0}),
}  # fmt: skip
"""Our loss; the trainer, and its fields, that computes the same."""


@dataclass(frozen=True)
class Rollouts:
    """Random prompts, answers and rewards; `own`: which tokens of an answer the model wrote; `noise`: what the engine that
    sampled had other log-probabilities by than the model, where it did."""

    prompts: list[list[int]]
    answers: list[list[int]]
    own: list[list[int]]
    rewards: list[float]
    noise: list[list[float]]

    @classmethod
    def drawn(cls) -> Rollouts:
        generator = torch.Generator().manual_seed(3)

        def tokens(count: int) -> list[int]:
            return torch.randint(6, VOCAB, (count,), generator=generator).tolist()

        # Prompts of one length: transformers' attention gives NaN for padding on the left in fp64.
        prompts = [prompt for _ in range(SAMPLES) for prompt in [tokens(6)] * GROUP]
        answers = [tokens(int(torch.randint(2, LONGEST + 1, (), generator=generator))) for _ in prompts]
        own = [[1, *(torch.rand(len(answer) - 1, generator=generator) < 0.8).int().tolist()] for answer in answers]
        noise = [(0.05 * torch.randn(len(answer), generator=generator)).tolist() for answer in answers]
        return cls(prompts, answers, own, torch.randn(len(prompts), generator=generator).tolist(), noise)

    def columns(self, environment: bool) -> tuple[Tensor, Tensor, Tensor]:
        """Rows of prompts and answers, those of their tokens that learn, and the noise: (R, T + 1), (R, T), (R, T)."""
        longest = max(len(prompt) + len(answer) for prompt, answer in zip(self.prompts, self.answers, strict=True))
        tokens, learnt, noise = torch.zeros(len(self.prompts), longest, dtype=torch.int64), [], []
        for row, (prompt, answer, own, more) in enumerate(zip(self.prompts, self.answers, self.own, self.noise, strict=True)):
            tokens[row, : len(prompt) + len(answer)] = torch.tensor(prompt + answer)
            rest = longest - len(prompt) - len(answer)
            learnt.append([0] * len(prompt) + (own if environment else [1] * len(answer)) + [0] * rest)
            noise.append([0.0] * len(prompt) + more + [0.0] * rest)
        return tokens, torch.tensor(learnt)[:, 1:] > 0, torch.tensor(noise)[:, 1:].double()


def log_p(logits: Tensor, tokens: Tensor) -> Tensor:
    return logits.log_softmax(-1).gather(-1, tokens[:, 1:, None])[..., 0]


def own_loss(
    policy: PolicyLoss, models: dict[str, Transformer], rollouts: Rollouts, trainer: str, fields: dict[str, Any]
) -> Tensor:
    """The loss of a batch as one step."""
    tokens, mask, noise = rollouts.columns(environment=trainer != "rloo")
    temperature = fields.get("temperature", 1.0)
    with torch.no_grad():
        before, teacher = (models[name](tokens[:, :-1]) / temperature for name in ("sampler", "reference"))
    logits = models["policy"](tokens[:, :-1]) / temperature
    sampled = log_p(before, tokens)
    rewards = 0 * torch.tensor(rollouts.rewards) if trainer in ("distillation", "estimate") else torch.tensor(rollouts.rewards)
    given = sampled + noise if trainer == "grpo" else sampled  # TRL's ratios are the trainer's, as before the first update
    rewarded = Rewarded(at_the_end(rewards, mask), mask, GROUP, given, log_p(teacher, tokens))
    learnt = policy.learnt(rewarded)
    scored = ScoredTokens(
        log_p(logits, tokens), given, rewarded.reference_RT, policy.advantages(rewarded), learnt, entropies(logits),
        sampled, reverse_divergences(logits, teacher),
    )  # fmt: skip
    return policy.losses(scored).sum() / policy.counts(learnt, GROUP).sum()


def gradients(model: Transformer, folder: Path) -> dict[str, Tensor]:
    """The gradients of a model's weights as transformers names and lays out the weights."""
    copy = deepcopy(model)
    with torch.no_grad():
        for weight, own in zip(copy.parameters(), model.parameters(), strict=True):
            assert own.grad is not None, "every weight takes part"
            weight.copy_(own.grad)
    af.export(copy.float(), folder)
    return load_file(folder / "model.safetensors")


def apart(ours: dict[str, Tensor], theirs: dict[str, Tensor]) -> float:
    """The largest difference of two gradients, of the largest entry."""
    assert ours.keys() == theirs.keys(), ours.keys() ^ theirs.keys()
    most = max(float(each.abs().max()) for each in theirs.values())
    return max(float((ours[name] - theirs[name]).abs().max()) for name in theirs) / most


def engine_log_p(models: dict[str, Transformer], rollouts: Rollouts) -> list[list[float]]:
    """What the engine that sampled says of the tokens of answers."""
    tokens, _, noise = rollouts.columns(environment=False)
    with torch.no_grad():
        said = log_p(models["sampler"](tokens[:, :-1]), tokens) + noise
    return [
        row[len(prompt) - 1 :][: len(answer)].tolist()
        for row, prompt, answer in zip(said, rollouts.prompts, rollouts.answers, strict=True)
    ]


def main() -> None:
    """Ours, theirs, and what they differ by."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trl", required=True, help="the Python of an environment that has TRL", metavar="PATH")
    rollouts, models = Rollouts.drawn(), {name: af.build(LLAMA, seed=3) for name in ("sampler", "policy")}
    models["reference"] = af.build(LLAMA, seed=4)
    generator = torch.Generator().manual_seed(5)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        for name, model in models.items():
            with torch.no_grad():
                for weight in model.parameters():
                    weight.mul_(2)  # answers that differ
                    if name == "policy":  # some updates later
                        weight.add_(0.15 * weight.std() * torch.randn(weight.shape, generator=generator))
            af.export(model.eval(), place / name)
            model.double()
        batch = {
            "prompts": rollouts.prompts, "answers": rollouts.answers, "own": rollouts.own, "rewards": rollouts.rewards,
            "sampled": engine_log_p(models, rollouts), "group": GROUP, "longest": LONGEST,
            "settings": {name: {"trainer": trainer, "fields": fields} for name, (_, trainer, fields) in SETTINGS.items()},
        }  # fmt: skip
        (place / "rollouts.json").write_text(json.dumps(batch))
        done = subprocess.run([parser.parse_args().trl, str(THEIRS), folder], stdout=subprocess.PIPE, text=True, check=True)
        theirs = json.loads(done.stdout.splitlines()[-1])
        losses = {}
        for number, (name, (policy, trainer, fields)) in enumerate(SETTINGS.items()):
            models["policy"].zero_grad()
            loss = own_loss(policy, models, rollouts, trainer, fields)
            loss.backward()
            ours, other = float(loss), theirs["losses"][name]
            found = gradients(models["policy"], place / f"{number}")
            losses[name] = {
                "ours": ours, "trl": other, "apart": abs(ours - other) / max(abs(other), 1e-9),
                "gradient apart": apart(found, load_file(place / "gradients" / f"{number}.safetensors")),
            }  # fmt: skip
            print(f"{name:28} {ours:.7f} beside {other:.7f}: {losses[name]['apart']:.1e} apart, gradients "
                  f"{losses[name]['gradient apart']:.1e}")  # fmt: skip
    assert len({f"{one['trl']:.6f}" for one in losses.values()}) == len(losses), "a setting that changes nothing tests nothing"
    versions = {name: version(name) for name in ("anyformer", "torch")}
    record = {"date": date.today().isoformat(), "versions": versions, "theirs": theirs["versions"], "losses": losses}
    RESULT.write_text(json.dumps(record, indent=1) + "\n")
    sys.exit(any(max(one["apart"], one["gradient apart"]) > NEAR for one in losses.values()))


if __name__ == "__main__":
    main()
