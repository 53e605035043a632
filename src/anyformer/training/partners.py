"""The second models of a run: a generator that learns too, a teacher or a reference that stays as it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

from anyformer import checkpoint
from anyformer.describe import UserError
from anyformer.loading import architecture_of, load
from anyformer.loading import beside as files_beside
from anyformer.model import Architecture
from anyformer.model.divided import extent_of, from_part, is_divided
from anyformer.model.initialise import materialise
from anyformer.model.portions import Portion, Types
from anyformer.model.transformer import Transformer, build
from anyformer.objectives import Partner, beside
from anyformer.quantising.tensor import restored
from anyformer.text import Tokenizer
from anyformer.training.parallel.ranks import Ranks
from anyformer.training.run import Run

FOLDER = "partners"
"""The folder, in a run's directory, of the models that do not learn, which a resumed run reads again."""
AsBegun = Callable[[Transformer], None]
"""Gives a model, which may be on the meta device, the weights that the run's model begins with."""


@dataclass(frozen=True)
class SecondModel:
    """A second model, on the meta device: processes may divide it before `fill` gives it its values."""

    model: Transformer
    learns: bool
    fill: Callable[[], object]


def second_models(
    run: Run, tokenizer: Tokenizer, device: torch.device, as_begun: AsBegun, begun: Path | None = None
) -> dict[str, SecondModel]:
    """The second models of a run; `tokenizer`: the data's.

    `begun`: the directory of a run that goes on, with the models that do not learn; the others are in its checkpoints.
    """
    return {
        name: _from_directory(begun / FOLDER / name, run, device)
        if begun is not None and not partner.learns
        else _made(name, partner, run, tokenizer, device, as_begun)
        for name, partner in beside(run.objective).items()
    }


def check_partners(run: Run) -> None:
    """Refuse second models at paths that do not suit the run, by their descriptions alone."""
    for partner in beside(run.objective).values():
        if partner.path is not None:
            _check(partner, architecture_of(partner.path), run)


def whole_partners(run: Run, model: Transformer, tokenizer: Tokenizer, begun: Path | None = None) -> dict[str, Transformer]:
    """The second models of the only process; where one is the model as it began, the weights are those of `model`."""

    def as_begun(made: Transformer) -> None:
        # Without the adapter, which has learnt nothing yet.
        made.to_empty(device=model.device)
        made.load_state_dict({name: x for name, x in model.state_dict().items() if name not in model.added})

    found = second_models(run, tokenizer, model.device, as_begun, begun)
    for second in found.values():
        second.fill()
    return {name: second.model for name, second in found.items()}


def keep_partners(run: Run, partners: Mapping[str, Transformer], directory: Path, ranks: Ranks) -> None:
    """Write the models that do not learn into a run's directory, so that it can go on without the files they came from."""
    pick = ranks.picking(checkpoint.shared, lambda file, name: False)
    for name, partner in beside(run.objective).items():
        if not partner.learns:
            ranks.write(checkpoint.contents(partners[name], pick=pick), directory / FOLDER / name)


def _made(name: str, partner: Partner, run: Run, tokenizer: Tokenizer, device: torch.device, as_begun: AsBegun) -> SecondModel:
    fill: Callable[[], object]
    if partner.path is not None:
        model = build(architecture_of(partner.path), run.plan, "meta")
        _check_tokens(f"{name} {partner.path}", Tokenizer.found(files_beside(partner.path)), tokenizer)
        fill = partial(load, partner.path, plan=run.plan, divide=Replacing(model, device))
    else:
        described = partner.described(run.architecture)
        model = build(described or run.architecture, run.plan, "meta")
        fill = partial(as_begun, model) if described is None else partial(materialise, model, device, run.seed)
    _check(partner, model.architecture, run)
    return SecondModel(model.train() if partner.learns else _still(model), partner.learns, fill)


def _from_directory(directory: Path, run: Run, device: torch.device) -> SecondModel:
    if not directory.is_dir():
        raise UserError(f"{directory}: is missing, and the run cannot go on without this model; start the run anew")
    model = _still(build(architecture_of(directory), run.plan, "meta"))
    return SecondModel(model, False, partial(load, directory, plan=run.plan, divide=Replacing(model, device)))


@dataclass(frozen=True)
class Replacing:
    """`Divide` of a model that is read into `model`, which processes may divide: weights have the types that are read."""

    model: Transformer
    device: torch.device

    def __call__(self, found: Transformer, types: Types) -> Portion:
        """Hear of the model that is read, before its weights."""
        assert found.architecture == self.model.architecture, "`architecture_of` is that of what `load` reads"
        places = {
            f"{path}.{leaf}" if path else leaf: (module, leaf)
            for path, module in self.model.named_modules()
            for leaf in module._parameters
        }

        def given(name: str, value: Tensor) -> Tensor:
            if name in places:
                self._replace(*places[name], value)
            return torch.empty(0)

        return given

    @torch.no_grad()
    def _replace(self, module: nn.Module, leaf: str, value: Tensor) -> None:
        before = module._parameters[leaf]
        assert before is not None, "a weight that is read is one of the model"
        if is_divided(before):
            value = from_part(restored(value)[extent_of(before).slices].clone(), before, self.device)
        elif not before.is_floating_point():
            value = value.to(before.dtype)  # whole numbers, such as a table of experts
        module._parameters[leaf] = nn.Parameter(value.to(self.device), requires_grad=before.requires_grad)


def at_path(name: str, partner: Partner, run: Run, device: torch.device, tokenizer: Tokenizer) -> Transformer:
    """The model at a partner's path in evaluation mode, refused if it does not suit the run."""
    assert partner.path is not None, "it is at a path"
    made, own = load(partner.path, plan=run.plan, device=device)
    _check_tokens(f"{name} {partner.path}", own, tokenizer)
    _check(partner, made.architecture, run)
    return made


def _check(partner: Partner, architecture: Architecture, run: Run) -> None:
    """Refuse a second model of this architecture where it does not suit the run."""
    try:
        partner.check(architecture, run.architecture)
    except ValueError as error:
        raise UserError(str(error)) from None


def _check_tokens(what: str, own: Tokenizer | None, data: Tokenizer) -> None:
    """Refuse a model that was trained on other tokens than those of the data, by which its answers would mean nothing."""
    if own is None:
        return
    number = next((n for n in range(max(own.vocab_size, data.vocab_size)) if own.token(n) != data.token(n)), None)
    if number is not None:
        raise UserError(
            f"the {what} reads other tokens than the data's: token {number} is {own.token(number)!r} there, and "
            f"{data.token(number)!r} in the data; set data.tokenizer = {{kind = 'file', path = {own.beside.where!r}}}"
        )


def _still(model: Transformer) -> Transformer:
    """The model in evaluation mode, without gradients."""
    return model.eval().requires_grad_(False)
