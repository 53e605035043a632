"""The second models of a run: a generator that learns too, a teacher or a reference that stays as it is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch

from anyformer import checkpoint
from anyformer.describe import UserError
from anyformer.loading import load
from anyformer.model.transformer import Transformer, build
from anyformer.objectives import Partner, beside
from anyformer.text import Tokenizer
from anyformer.training.run import Run

FOLDER = "partners"
"""The folder, in a run's directory, of the models that do not learn, which a resumed run reads again."""


def start_partners(run: Run, model: Transformer, tokenizer: Tokenizer) -> dict[str, Transformer]:
    """The second models of a run that begins; `model`: the first one, with the weights that it begins with; `tokenizer`: the
    data's."""
    return {name: _made(name, partner, run, model, tokenizer) for name, partner in beside(run.objective).items()}


def restored_partners(run: Run, model: Transformer, tokenizer: Tokenizer, directory: Path) -> dict[str, Transformer]:
    """The second models of a run that goes on; the weights of those that learn are in its checkpoints."""
    return {
        name: _made(name, partner, run, model, tokenizer)
        if partner.learns
        else _still(_kept(directory / FOLDER / name, run, model))
        for name, partner in beside(run.objective).items()
    }


def keep_partners(run: Run, partners: Mapping[str, Transformer], directory: Path) -> None:
    """Write the models that do not learn into a run's directory, so that it can go on without the files they came from."""
    for name, partner in beside(run.objective).items():
        if not partner.learns:
            checkpoint.save(partners[name], directory / FOLDER / name)


def _made(name: str, partner: Partner, run: Run, model: Transformer, tokenizer: Tokenizer) -> Transformer:
    if partner.path is not None:
        made = at_path(name, partner, run, model.device, tokenizer)
    else:
        described = partner.described(run.architecture)
        made = build(described or run.architecture, run.plan, model.device, seed=run.seed)
        if described is None:
            # Without the adapter, which has learnt nothing yet.
            made.load_state_dict({name: x for name, x in model.state_dict().items() if name not in model.added})
        partner.check(made.architecture, run.architecture)
    return made.train() if partner.learns else _still(made)


def at_path(name: str, partner: Partner, run: Run, device: torch.device, tokenizer: Tokenizer) -> Transformer:
    """The model at a partner's path in evaluation mode, refused if it does not suit the run."""
    assert partner.path is not None, "it is at a path"
    made, own = load(partner.path, plan=run.plan, device=device)
    _check_tokens(f"{name} {partner.path}", own, tokenizer)
    partner.check(made.architecture, run.architecture)
    return made


def _check_tokens(what: str, own: Tokenizer | None, data: Tokenizer) -> None:
    """Refuse a model that was trained on other tokens than those of the data, by which its answers would mean nothing."""
    if own is None:
        return
    number = next((n for n in range(max(own.vocab_size, data.vocab_size)) if own.token(n) != data.token(n)), None)
    if number is not None:
        raise UserError(
            f"the {what} reads other tokens than the data's: token {number} is {own.token(number)!r} there, and "
            f"{data.token(number)!r} in the data; set data.tokenizer = {{kind = 'file', path = ...}} to the directory of its "
            "tokenizer.json"
        )


def _kept(directory: Path, run: Run, model: Transformer) -> Transformer:
    if not directory.is_dir():
        raise UserError(f"{directory}: is missing, and the run cannot go on without this model; start the run anew")
    made, _, _ = checkpoint.load(directory, plan=run.plan, device=model.device)
    return _still(made)


def _still(model: Transformer) -> Transformer:
    """The model in evaluation mode, without gradients."""
    return model.eval().requires_grad_(False)
