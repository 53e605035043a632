"""The files that a proposal becomes: a family as a plug-in, its test, and an entry for a catalogue with its description."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from anyformer.describe import to_toml
from anyformer.porting.proposal import PortProposal
from anyformer.porting.reference import shrunk
from anyformer.porting.spelt import imports_of, spelt, spread
from anyformer.starting_points import NewFiles, Spellings
from anyformer.starting_points.names import check_module
from anyformer.starting_points.templates import piece

WIDTH = 108


def ported_files(proposal: PortProposal, folder: Path, name: str | None = None) -> NewFiles:
    """The family's file, its test, the entry and the description, as they are written into a folder; nothing is there yet.

    `name`: of the files, by default the model type's.
    """
    spelling = Spellings.of(name or "".join(c if c.isalnum() else "_" for c in proposal.model_type).strip("_"))
    check_module(spelling.snake)
    snake = spelling.snake
    writing = NewFiles(
        folder,
        {
            f"{snake}.py": _family(proposal, spelling),
            f"test_{snake}.py": piece("test", "plugin", spelling, house=False),
            f"{snake}_entry.py": _entry(proposal, f"{snake}.toml"),
            f"{snake}.toml": to_toml(proposal.architecture),
        },
    )
    writing.check()
    return writing


def write_port(proposal: PortProposal, folder: Path, name: str | None = None) -> list[Path]:
    """Write the files of a proposal into a folder, which is made; all of them, or none."""
    folder.mkdir(parents=True, exist_ok=True)
    files = ported_files(proposal, folder, name)
    files.write()
    return [folder / file for file in files.new]


def _family(proposal: PortProposal, names: Spellings) -> str:
    """The text of the family's file."""
    derivation = proposal.derivation
    fields: list[tuple[str, list[str], Any]] = [
        ("keys", ["A key of the base -> its name here."], derivation.keys),
        ("absent", ["Values of keys that the files lack."], derivation.absent),
        ("pinned", _unknown(proposal), derivation.pinned),
        ("changes", ["What the description has otherwise."], derivation.changes),
        ("modules", ["A module of the base's files -> its name here."], derivation.modules),
        ("more", ["Our names of weights -> theirs."], derivation.more),
        ("aside", ["Entries of tables that the base does not read."], derivation.aside),
        ("share", ["The share of a head that rotates stands in the table."], derivation.share),
        ("ignored", ["Patterns of stored tensors that are not read."], derivation.ignored),
    ]
    given = [(field, comment, value) for field, comment, value in fields if value]
    fixed = "from anyformer.huggingface import Config, register\nfrom anyformer.model import Architecture\n"
    compared = ":" in proposal.against and not proposal.architecture.two_inputs
    fixed += f"from anyformer.porting import Derivation{', logits_by' if compared else ''}\n"
    fixed += "from anyformer.testing import Checks\n"
    text: str = _template("family").render(
        model_type=proposal.model_type,
        base=derivation.base,
        base_text=spelt(derivation.base),
        proof=_wrapped(proved_words(proposal)),
        notes=[_wrapped(line) for line in _notes(proposal)],
        imports=fixed + imports_of(*(value for _, _, value in given)),
        name=names.snake.upper(),
        fields=[
            (field, comment, spread(value) if isinstance(value, Mapping | tuple) else spelt(value))
            for field, comment, value in given
        ],
        type_text=spelt(proposal.model_type),
        class_text=spelt(proposal.class_name),
        reference=spelt(proposal.against) if compared else "",
        tiny=spread({**_plain(proposal), **shrunk(proposal.table)}, "    "),
    )
    return text


def proved_words(proposal: PortProposal) -> str:
    """What was proved, in a sentence."""
    proof = proposal.proof
    if proof is None:
        return "Nothing was proved: no reference was given."
    if proof.failed:
        return f"Nothing was proved against {proposal.against}: {proof.failed}."
    if proof.equal:
        return f"The logits of random weights equal those of {proposal.against}, to {proof.logits:.1e} of the largest."
    first = proof.first
    place = f" The first place that departs is the {first.side} of {first.where}, by {first.difference:.1e}." if first else ""
    return f"NOT PROVED: the logits of random weights differ from those of {proposal.against} by {proof.logits:.1e}.{place}"


def _notes(proposal: PortProposal) -> Iterator[str]:
    for title, lines in (("Certain", proposal.certain), ("Guessed", proposal.guessed)):
        if lines:
            yield f"{title}: {'; '.join(lines)}."


def _unknown(proposal: PortProposal) -> list[str]:
    """The comment of keys without a known meaning: what was taken instead, and where the remote code asks for them."""
    found = ["Keys that nothing here reads, held to the values for which this was proposed."]
    for each in proposal.unknown:
        said = [*([each.instead] if each.instead else []), *each.uses[:3]]
        found += textwrap.wrap(f"{each.key}: {'; '.join(said)}", WIDTH) if said else []
    return found


def _plain(proposal: PortProposal) -> dict[str, Any]:
    """The keys of the configuration that its reader reads or holds."""
    left_out = ("architectures", "transformers_version", "auto_map", "_name_or_path", "dtype", "torch_dtype")
    return {name: value for name, value in proposal.table.items() if name not in left_out}


def _entry(proposal: PortProposal, description: str) -> str:
    text: str = _template("catalogue").render(
        model_type=proposal.model_type,
        description=description,
        type_text=spelt(proposal.model_type),
        year=datetime.now(UTC).year,
        summary=spelt(f"As `anyformer port` proposed it, from {proposal.derivation.base}"),
        source=spelt(f"config.json of {proposal.directory.name}"),
    )
    return text


def _wrapped(text: str) -> str:
    """Text of a docstring, which no quotes end."""
    return textwrap.fill(text.replace("\\", "/").replace('"""', "'''").replace('"', "'"), WIDTH, break_long_words=False)


def _template(name: str) -> Any:
    return _environment().get_template(f"{name}.jinja")


@cache
def _environment() -> Environment:
    # What is made is Python, in which nothing is to be escaped.
    loader = FileSystemLoader(Path(__file__).parent)
    return Environment(
        loader=loader,
        undefined=StrictUndefined,
        autoescape=False,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
