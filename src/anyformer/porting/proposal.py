"""What is proposed for a model type that nothing here reads: certain, guessed and unknown, each with its reason."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from anyformer.describe import Notice, UserError
from anyformer.huggingface.config import INERT, read_table
from anyformer.huggingface.places import PLACES
from anyformer.huggingface.registry import model_types
from anyformer.model import Architecture
from anyformer.porting.code import RemoteCode, read_code
from anyformer.porting.derivation import Derivation
from anyformer.porting.evidence import pattern, settled
from anyformer.porting.explaining import Fit, explained
from anyformer.porting.guesses import described
from anyformer.porting.keyed import keyed
from anyformer.porting.keys import known
from anyformer.porting.neighbours import Neighbour, known_types, neighbours, scored
from anyformer.porting.offers import Offer, offers
from anyformer.porting.proof import Comparison, PortProof, proved
from anyformer.porting.reference import TinyReference, reference
from anyformer.porting.tensors import FileModule, modules_of, shapes_in
from anyformer.porting.unread import unread

NEAREST, FURTHER, WHOLE, TRIED = 16, 40, 8, 6
"""Neighbours of which tensors without a place are looked at, at most until so many have none, and those of them that are
held against the reference: the ones that read most keys."""


@dataclass(frozen=True)
class Unknown:
    """A key with no known meaning in what is proposed, its value, and the places of the remote code that ask for it.

    `instead`: of a key whose meaning is known and whose value is not, what was taken instead, in words.
    """

    key: str
    value: Any
    known_elsewhere: bool
    uses: tuple[str, ...]
    instead: str = ""


@dataclass(frozen=True)
class PortProposal:
    """The proposed description of a directory's model type, with its nearest families, and what was proved.

    `nearest`: families as they are, the nearest first. `certain`: what keys of one meaning and shapes force. `guessed`: what
    nothing but a family's habit or the proof says. `proof`: None where no reference was given.
    """

    directory: Path
    table: Mapping[str, Any]
    nearest: tuple[Neighbour, ...]
    fit: Fit
    certain: tuple[str, ...]
    guessed: tuple[str, ...]
    unknown: tuple[Unknown, ...]
    code: RemoteCode
    proof: PortProof | None = None
    against: str = ""

    @property
    def model_type(self) -> str:
        return str(self.table["model_type"])

    @property
    def class_name(self) -> str:
        return str(next(iter(self.table.get("architectures") or ()), "") or "PreTrainedModel")

    @property
    def architecture(self) -> Architecture:
        assert self.fit.architecture is not None, "a proposal has a description"
        return self.fit.architecture

    @property
    def derivation(self) -> Derivation:
        """What is written: keys of no known meaning are held to the values for which it was proposed."""
        pinned = {each.key: self.table[each.key] for each in self.unknown}
        return replace(self.fit.derivation, pinned=pinned)


def proposal(directory: Path, against: str | None = None, *, among: Sequence[str] | None = None) -> PortProposal:
    """The proposal for a directory with a `config.json` and the names and shapes of weights; remote code is read, never run.

    `against`: `transformers` or `module:Class`, with which it is then compared, and by which guesses are chosen. `among`: model
    types that may be neighbours, by default all that are known here.
    """
    table = table_of(directory)
    modules, code = modules_of(shapes_in(directory)), read_code(directory)
    found = neighbours(table, modules, known_types() if among is None else among)
    if not found:
        raise UserError(
            f"{directory}: no family that is known here can read this configuration, whatever its keys are called: write "
            f"one by hand, from what `anyformer new family {table['model_type']}` begins"
        )
    offered = offers((each.fit for each in found), modules)
    with TemporaryDirectory(prefix="anyformer-port-") as scratch:
        made = None if against is None else reference(directory, table, against, Path(scratch) / "reference")
        aside = () if made is None else _aside(made, found, table, modules)
        if aside:
            modules = {name: each for name, each in modules.items() if each not in aside}
            found = _without(found[:FURTHER], aside, table, modules)
        fits = _settled(found[:NEAREST], table, modules, offered)
        proof = None if made is None else _proof(made, table, modules, _best(fits))
        if made is not None and proof is not None and not proof.equal:
            further = _settled(found[NEAREST:FURTHER], table, modules, offered)
            again = _proof(made, table, modules, _best(further)) if further and further[0][0].whole else proof
            fits, proof = [*fits, *further], max(proof, again, key=lambda each: each.rank)
    fit = fits[0][0] if proof is None else proof.fit
    reasons = next((reasons for each, reasons in fits if each.derivation.base == fit.derivation.base), [])
    reasons = [
        *reasons,
        *(f"{each.name} is not read: a formula gives it, or no logit of the reference follows from it" for each in aside),
    ]
    return _judged(directory, table, found, fit, reasons, code, proof, against or "")


def _best(fits: Sequence[tuple[Fit, list[str]]]) -> list[Fit]:
    """The fits of which as much is explained as of any."""
    return [fit for fit, _ in fits if fit.unexplained == fits[0][0].unexplained]


def _aside(
    made: TinyReference, found: Sequence[Neighbour], table: Mapping[str, Any], modules: Mapping[str, FileModule]
) -> tuple[FileModule, ...]:
    """The modules of the files that change no logit of the reference."""
    small = {**modules, **modules_of(shapes_in(made.directory))} if made.smaller else modules
    like = found[0].fit.architecture
    assert like is not None, "a neighbour that was read"
    if made.smaller:
        like = explained(found[0].fit.derivation, {**table, **made.smaller}, small).architecture or like
    names = {each.name for each in unread(made, like, small.values())}
    return tuple(each for each in modules.values() if each.name in names)


def _without(
    found: Sequence[Neighbour], aside: Sequence[FileModule], table: Mapping[str, Any], modules: Mapping[str, FileModule]
) -> list[Neighbour]:
    """The neighbours again, without modules that are not read."""
    patterns = tuple(pattern(each.name) for each in aside)
    fits = [explained(replace(each.fit.derivation, ignored=patterns), table, modules) for each in found]
    again = [scored(fit, table, modules) for fit in fits if fit.architecture is not None]
    return sorted(again, key=lambda each: (-each.score, each.fit.assumed, each.model_type))


def _settled(
    found: Sequence[Neighbour], table: Mapping[str, Any], modules: Mapping[str, FileModule], offered: Sequence[Offer]
) -> list[tuple[Fit, list[str]]]:
    """The nearest with the changes that shapes force, and the reasons; those first of which most is explained."""
    tried: list[tuple[Fit, list[str]]] = []
    for each in found:
        fit, reasons = settled(each.fit, table, modules, offered)
        fit, more = keyed(fit, table, modules) if fit.architecture is not None else (fit, [])
        tried.append((fit, reasons + more))
        if sum(fit.whole for fit, _ in tried) == WHOLE:
            break
    return sorted(tried, key=lambda pair: (pair[0].unexplained, len(pair[0].unread)))


def table_of(directory: Path) -> dict[str, Any]:
    """The configuration of a directory, of a model type that may be ported."""
    path = directory / "config.json"
    if not path.is_file():
        raise UserError(f"{directory}: has no config.json, from whose keys a description is proposed")
    table = read_table(path)
    model_type = table.get("model_type")
    if not isinstance(model_type, str) or not model_type:
        raise UserError(f"{path}: model_type should be a name, got {model_type!r}: the family is known by it")
    if isinstance(table.get("text_config"), Mapping):
        raise UserError(
            f"{path}: {model_type} is a composite with a text_config: port its text model, from a directory with that table as "
            f"config.json and the weights of the text model"
        )
    return table


def check_new(model_type: str) -> None:
    """Refuse a model type that is read here."""
    if model_type in model_types():
        raise UserError(f"model type {model_type!r} is read here already: anyformer show DIRECTORY; port is for what is not")


def _proof(made: TinyReference, table: Mapping[str, Any], modules: Mapping[str, FileModule], fits: Sequence[Fit]) -> PortProof:
    """The best proof of the fits, at the size of the reference."""
    if not made.smaller:
        return proved(fits[:TRIED], Comparison(made, table, modules))
    tiny = {**table, **made.smaller}
    small = modules_of(shapes_in(made.directory))
    resized = [explained(fit.derivation, tiny, small) for fit in fits[:TRIED]]
    best = proved(resized, Comparison(made, tiny, small))
    return replace(best, fit=explained(best.fit.derivation, table, modules))


def _judged(
    directory: Path,
    table: Mapping[str, Any],
    found: Sequence[Neighbour],
    fit: Fit,
    reasons: Sequence[str],
    code: RemoteCode,
    proof: PortProof | None,
    against: str,
) -> PortProposal:
    """What is certain, guessed and unknown of a fit."""
    assert fit.architecture is not None, "a fit that was read"
    spelt = {theirs: ours for ours, theirs in fit.derivation.keys.items()}
    read = [key for key in table if key not in fit.unread and key not in INERT and key != "model_type"]
    certain = [
        f"{key} = {table[key]!r}" + (f", which is {spelt[key]}" if key in spelt else "")
        for key in read
        if spelt.get(key, key) in PLACES
    ]
    certain += reasons
    guessed = [f"{what}: {value}" for what, value in described(fit.architecture)]
    guessed += [
        f"{key} = {table[key]!r}, read as {fit.derivation.base} reads {spelt.get(key, key)}"
        for key in read
        if spelt.get(key, key) not in PLACES and table[key] is not None
    ]
    guessed += [f"{why} (chosen by the reference)" for why in (proof.taken if proof else ())]
    unknown = [
        Unknown(key, table[key], known(key), tuple(map(str, code.of(key))), _instead(fit, key) if key in fit.instead else "")
        for key in fit.unread
    ]
    for notice in fit.notices:
        warnings.warn(notice, Notice, stacklevel=2)
    return PortProposal(
        directory, table, tuple(found[:5]), fit, tuple(certain), tuple(guessed), tuple(unknown), code, proof, against
    )


def _instead(fit: Fit, key: str) -> str:
    """What was taken instead of a value that the base does not know."""
    return f"{fit.derivation.base} knows no such value; {fit.instead[key]!r} was taken instead"
