"""Options of `anyformer generate` about the choice of tokens, and what comes of them and of the model's authors' settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from anyformer.generation import Decoding
    from anyformer.generation.processors import Processor
    from anyformer.text import Tokenizer

choice_option = partial(typer.Option, rich_help_panel="Choice of tokens")
search_option = partial(typer.Option, rich_help_panel="Several texts")

DRAWN = ("top_k", "top_p", "min_p", "typical_p")
"""Settings that shape draws: who gives one wants tokens drawn."""


@dataclass(frozen=True)
class ChoiceOptions:
    """The options as they are typed; None where they are left out."""

    authors: Annotated[
        bool,
        choice_option(
            "--authors/--no-authors",
            help="Begin with the settings of the model's authors (generation_config.json, else config.json), as transformers "
            "does; options override single ones. Without such a file, or with --no-authors, tokens are drawn at a temperature "
            "of 0.8.",
        ),
    ] = True
    temperature: Annotated[
        float | None,
        choice_option(
            help="Divide the logits by this: 0 always takes the likeliest token, higher values vary more.",
            min=0.0,
            metavar="NUMBER",
        ),
    ] = None
    top_k: Annotated[
        int | None, choice_option(help="Draw among this many of the likeliest tokens; 0: among all.", min=0, metavar="COUNT")
    ] = None
    top_p: Annotated[
        float | None, choice_option(help="Draw among the likeliest tokens whose probabilities add up to this.", metavar="SHARE")
    ] = None
    min_p: Annotated[
        float | None,
        choice_option(help="Draw among tokens with at least this share of the likeliest token's probability.", metavar="SHARE"),
    ] = None
    typical_p: Annotated[
        float | None,
        choice_option(help="Draw among the tokens nearest to the expected information that add up to this.", metavar="SHARE"),
    ] = None
    repetition_penalty: Annotated[
        float | None,
        choice_option(help="Weaken tokens of the prompt and the text by this factor; above 1 repeats less.", metavar="FACTOR"),
    ] = None
    frequency_penalty: Annotated[
        float | None,
        choice_option(help="Subtract this from a token's logit once per occurrence here.", metavar="NUMBER"),
    ] = None
    presence_penalty: Annotated[
        float | None, choice_option(help="Take this from the logit of every token that was written here.", metavar="NUMBER")
    ] = None
    no_repeat: Annotated[
        int | None, choice_option("--no-repeat", help="Never write a run of this many tokens twice.", min=0, metavar="TOKENS")
    ] = None
    bias: Annotated[
        list[str] | None,
        choice_option(
            help="Add a number to the logit of the token that would complete this text, as in ' yes=2.5'. Repeat it for more.",
            metavar="TEXT=NUMBER",
        ),
    ] = None
    ban: Annotated[list[str] | None, choice_option(help="Never write this text. Repeat it for more texts.", metavar="TEXT")] = (
        None
    )
    json_schema: Annotated[
        Path | None,
        choice_option(help="Write JSON of the schema in this file, by llguidance (extra grammars).", metavar="FILE"),
    ] = None
    regex: Annotated[
        str | None, choice_option(help="Write a text that this regular expression matches as a whole.", metavar="PATTERN")
    ] = None
    grammar: Annotated[
        Path | None, choice_option(help="Write a text of the grammar in this file, in Lark's form.", metavar="FILE")
    ] = None
    min_tokens: Annotated[
        int | None, choice_option(help="Do not end before this many new tokens.", min=0, metavar="TOKENS")
    ] = None
    setting: Annotated[
        list[str] | None,
        choice_option(
            "--setting",
            help="Any other setting by the name that it has in a generation_config.json, with its value in JSON, as in "
            "typical_p=0.9 or suppress_tokens=[1,2]. Repeat it for more.",
            metavar="KEY=VALUE",
        ),
    ] = None
    seed: Annotated[
        list[int] | None,
        choice_option(
            help="The same seed gives the same text; by default 0. Repeat the option to give every text a seed of its own.",
            min=0,
            metavar="SEED",
        ),
    ] = None
    beams: Annotated[
        int | None,
        search_option(
            help="Search for the likeliest text among this many beginnings; with a --temperature, among drawn ones.",
            min=1,
            metavar="COUNT",
        ),
    ] = None
    length_penalty: Annotated[
        float | None,
        search_option(help="With beams: divide a text's log-probability by its length to this power.", metavar="NUMBER"),
    ] = None
    early_stopping: Annotated[
        str | None,
        search_option(
            help="With beams: end when as many texts are finished (true), when better ones are unlikely (false, the default), "
            "or when none can come (never).",
            metavar="true|false|never",
        ),
    ] = None
    answers: Annotated[int | None, search_option(help="Write this many texts per prompt.", min=1, metavar="COUNT")] = None

    def check(self) -> None:
        """Refuse what can be told before a model is loaded."""
        _early(self.early_stopping)

    def asked(self) -> dict[str, Any]:
        """The options by the names of transformers' settings, but for `setting`, the authors' and the seeds."""
        return {
            "temperature": self.temperature, "top_k": self.top_k, "top_p": self.top_p, "min_p": self.min_p,
            "typical_p": self.typical_p, "repetition_penalty": self.repetition_penalty,
            "frequency_penalty": self.frequency_penalty, "presence_penalty": self.presence_penalty,
            "no_repeat_ngram_size": self.no_repeat, "bias": self.bias, "ban": self.ban, "min_new_tokens": self.min_tokens,
            "num_beams": self.beams, "length_penalty": self.length_penalty, "early_stopping": _early(self.early_stopping),
            "num_return_sequences": self.answers,
        }  # fmt: skip


def _early(word: str | None) -> bool | str | None:
    """What --early-stopping says."""
    from anyformer.describe import UserError

    words: dict[str | None, bool | str | None] = {None: None, "true": True, "false": False, "never": "never"}
    if word not in words:
        raise UserError(f"--early-stopping {word} should be true, false or never")
    return words[word]


def decoding_asked(tokenizer: Tokenizer | None, options: ChoiceOptions, more: Mapping[str, Any]) -> tuple[Decoding, str]:
    """How texts are continued, from options over the authors' settings; and this in a line, if any.

    `more`: other options by transformers' names; of those that were not given None.
    """
    from anyformer.describe import UserError
    from anyformer.generation import decoding_of
    from anyformer.generation.settings import authors_table

    asked, seeds = {**more, **options.asked()}, options.seed
    table, where = authors_table(tokenizer) if options.authors else (None, "")
    given = {key: value for key, value in asked.items() if value is not None} | _settings(options.setting)
    parts = _parts(tokenizer, {key: given.pop(key) for key in _OWN if key in given}) + _grammar(tokenizer, options)
    temperature = given.get("temperature")
    if temperature == 0:
        given.pop("temperature")
        given["do_sample"] = False
    elif temperature is not None or any(key in given for key in DRAWN):
        given.setdefault("do_sample", True)
    own = {"do_sample": given.get("num_beams", 1) == 1, "temperature": 0.8, "top_k": 0}
    decoding = decoding_of({**(own if table is None else table), **given}, where or "the options")
    if decoding.beams is None and (
        wrong := [key for key in ("length_penalty", "early_stopping") if asked.get(key) is not None]
    ):
        raise UserError(f"--{wrong[0].replace('_', '-')} is about a search with beams: give --beams, or leave it out")
    sampling = decoding.sampling.with_parts(*parts)
    seed = None if seeds is None else seeds[0] if len(seeds) == 1 else tuple(seeds)
    decoding = replace(decoding, sampling=sampling if seed is None else sampling.but(seed=seed))
    changed = ", but for what is asked here" if given or parts else ""
    return decoding, "" if table is None else f"as its authors{changed}: {decoding}"


_OWN = ("frequency_penalty", "presence_penalty", "bias", "ban")
"""Options without a name in transformers, or with texts where that has tokens."""


def _parts(tokenizer: Tokenizer | None, given: dict[str, Any]) -> list[Processor]:
    """The parts of options that a generation_config.json has no key for."""
    from anyformer.describe import UserError
    from anyformer.generation import processors
    from anyformer.text.marked import encode_marked

    found: list[Processor] = []
    if (penalty := given.get("frequency_penalty")) is not None:
        found.append(processors.FrequencyPenalty(penalty=penalty))
    if (penalty := given.get("presence_penalty")) is not None:
        found.append(processors.PresencePenalty(penalty=penalty))
    if not given.get("bias") and not given.get("ban"):
        return found
    if tokenizer is None:
        raise UserError("--bias and --ban name texts, and this model has no tokenizer: use --setting with token numbers")
    if given.get("bias"):
        pairs = [text.rpartition("=") for text in given["bias"]]
        try:
            runs = tuple((tuple(encode_marked(tokenizer, text)), float(number)) for text, _, number in pairs)
        except ValueError:
            raise UserError(f"--bias: {given['bias']} should be texts with numbers, as in ' yes=2.5'") from None
        found.append(processors.SequenceBias(runs=runs))
    if given.get("ban"):
        found.append(processors.BadWords(runs=tuple(tuple(encode_marked(tokenizer, text)) for text in given["ban"])))
    return found


def _grammar(tokenizer: Tokenizer | None, options: ChoiceOptions) -> list[Processor]:
    """The grammar that texts follow, if one is asked for."""
    from anyformer.describe import UserError

    texts = {"json_schema": options.json_schema, "regex": options.regex, "grammar": options.grammar}
    named = [(name, value) for name, value in texts.items() if value is not None]
    if not named:
        return []
    options_named = [f"--{name.replace('_', '-')}" for name, _ in named]
    if len(named) > 1:
        raise UserError(f"{' and '.join(options_named)} each say what form the text has: give one of them")
    (name, value), option = named[0], options_named[0]
    if tokenizer is None:
        raise UserError(f"{option}: the model has no tokenizer, so no grammar can be followed")
    from anyformer.generation.processors.grammars import Grammar, Language

    languages: dict[str, Language] = {"json_schema": "json_schema", "regex": "regex", "grammar": "lark"}
    try:
        text = value.read_text(encoding="utf-8") if isinstance(value, Path) else value
    except (OSError, UnicodeError) as error:
        raise UserError(f"{option} {value}: cannot be read ({error})") from None
    grammar = Grammar(language=languages[name], text=text, tokenizer=tokenizer)
    try:
        grammar.places(tokenizer.vocab_size, tokenizer.ends)
    except UserError as error:
        raise UserError(f"{option} {value}: {error}") from None
    return [grammar]


def _settings(settings: list[str] | None) -> dict[str, Any]:
    """Settings as KEY=VALUE."""
    from anyformer.describe import UserError, did_you_mean, json_data
    from anyformer.generation.generation_config import KEYS

    found = {}
    for text in settings or ():
        key, _, value = text.partition("=")
        if key not in KEYS:
            raise UserError(f"--setting {text}: {key} is no setting of generation{did_you_mean(key, KEYS)}")
        try:
            found[key] = json_data(value)
        except ValueError:
            raise UserError(f"--setting {text}: {value!r} is no JSON; write text in quotes, as in '\"END\"'") from None
    return found
