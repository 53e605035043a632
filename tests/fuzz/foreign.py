"""Cases of text that stands beside weights: chat templates, tokenizers, tables of JSON and TOML, digests."""

from __future__ import annotations

import json
import os
import random
from functools import cache
from typing import Any

import tokenizers
from jinja2.defaults import DEFAULT_FILTERS, DEFAULT_TESTS
from tokenizers import models
from zoo import ZOO

from anyformer.describe import read_data, to_toml
from anyformer.huggingface.digests import DIGESTS, check_digests
from anyformer.huggingface.registry import family
from anyformer.resolving import architecture
from anyformer.text import Tokenizer
from anyformer.text.beside import Beside
from anyformer.text.chat import Chat, chat_tokens
from anyformer.text.chat.program import run as rendered
from fuzz.guard import OUTSIDE, place
from fuzz.kind import Case, Kind
from fuzz.mutate import mutated

TEMPLATE = "{% for m in messages %}{{ m.content }}</s>{% endfor %}"
GIVEN = {"messages": [{"role": "user", "content": "a b"}, {"role": "assistant", "content": "ab"}], "tools": None}
COUNTS = ("0", "1", "3", "-1", "99999", "10**9", "10**100000000", "2**63", "1.5", "1e308", "messages|length", "n.i")
LEAVES = (
    "'a'", "''", "'%s %d {} {:9}'", "'<b>&'", "messages", "messages[0]", "messages[0].content", "n", "n.x", "n.y", "undefined",
    "none", "true", "range(99999)", "{'a': 1}", "dict", "namespace", "cycler", "joiner", "self", "loop", "caller", "{}", "()",
)  # fmt: skip
FILTERS = sorted(DEFAULT_FILTERS)
METHODS = sorted({name for kind in (str, bytes, int, list, dict) for name in dir(kind)})
TESTS = sorted(DEFAULT_TESTS)
DOUBLES = ("n.x ~ n.x", "n.x + n.x", "[n.x, n.x]", "(n.x, n.x)")
PIECES = ("{{", "}}", "{%", "%}", "{#", "(", "[", "{", "'", "|", "~", " if 1 ", " is ", " not ", "-", "endfor", "\x1b[2J", "\0")
EXPRESSIONS = (
    "(a+)+$",
    "(a|aa)+$",
    "a*a*a*a*b",
    "(?:)",
    "[",
    "(?<=a)b",
    r"\p{L}+|\s+",
    "(.*)*x",
    ".",
    "(a{1,99}){1,99}b",
    "\\",
)
TEXTS = ("", "a b", "a" * 40 + "b", "<x>" * 5, "é\u0301\ufdfa\x00", "ab" * 2000)
NAMES = (
    f"../../{OUTSIDE}/x", f"../{OUTSIDE}/x", "/etc/hostname", "..", ".", "", "a/../../b", "x" * 5000, "a\0b", "config.json",
    "folder", "\x1b[2J", "model.safetensors", "//", "./config.json", "\ud800",
)  # fmt: skip
DAMAGES = ("[", '{"a":', "]", "}", '"', "Infinity", "NaN", "1e400", "9" * 5000, ",", "\ufeff", "\\ud800", "\x00", "null", "-")


def template(seed: int) -> Case:
    """One chat rendered by a template of random operations, some of which are cut."""
    draw = random.Random(seed)
    text = "".join(_statement(draw, draw.choice((0, 1, 1, 2, 3))) for _ in range(draw.choice((1, 1, 2, 4))))
    text = f"{{% set n = namespace(x='a', y=[1], i=2) %}}{text}"
    if draw.random() < 0.1:
        text = _broken(text, draw, PIECES)
    return lambda: rendered(text, GIVEN)


def tokenizer(seed: int) -> Case:
    """One tokenizer of damaged or endless stages, over some texts and a chat."""
    draw = random.Random(seed)
    table = _tokenizer() | {"normalizer": _stages(draw, "normalizers"), "decoder": _stages(draw, "decoders")}
    if draw.random() < 0.5:
        pattern = {"Regex": draw.choice(EXPRESSIONS)}
        table["pre_tokenizer"] = {"type": "Split", "pattern": pattern, "behavior": "Isolated", "invert": False}
    definition = json.dumps(mutated(table, draw) if draw.random() < 0.5 else table)
    config = mutated({"eos_token": "</s>", "chat_template": TEMPLATE}, draw)

    def run() -> None:
        made = Tokenizer.of(
            Beside({"tokenizer.json": definition.encode(), "tokenizer_config.json": json.dumps(config).encode()})
        )
        for text in draw.sample(TEXTS, 3):
            made.decode(made.encode(text))
        chat_tokens(made, Chat(list(GIVEN["messages"])))

    return run


def beside(seed: int) -> Case:
    """The tables beside weights, one of them damaged in its text or in what it says."""
    draw = random.Random(seed)
    files = {name: json.dumps(table) for name, table in _tables().items()}
    name = draw.choice(sorted(files))
    if draw.random() < 0.5:
        files[name] = json.dumps(mutated(_tables()[name], draw))
    else:
        files[name] = _broken(files[name], draw, DAMAGES)

    def run() -> None:
        with place() as inside:
            for each, text in files.items():
                (inside / each).write_bytes(text.encode("utf-8", "surrogatepass"))
            architecture(inside)
            made = Tokenizer.of(Beside.read(inside))
            chat_tokens(made, Chat(list(GIVEN["messages"])))

    return run


def digests(seed: int) -> Case:
    """Digests with names and numbers of any kind."""
    draw = random.Random(seed)
    entries = {name: {"bytes": 0, "sha256": "0" * 64} for name in draw.sample(NAMES, 2)}
    table: Any = {"format": 1, "files": entries}
    text = json.dumps(mutated(table, draw) if draw.random() < 0.5 else table)
    if draw.random() < 0.4:
        text = _broken(text, draw, DAMAGES)
    if draw.random() < 0.1:
        text = json.dumps({"format": 1, "files": {}})

    def run() -> None:
        with place() as inside:
            os.mknod(inside.parent / OUTSIDE / "x")  # which opens nothing
            (inside / "config.json").write_bytes(b"{}")
            (inside / "folder").mkdir()
            (inside / DIGESTS).write_bytes(text.encode("utf-8", "surrogatepass"))
            check_digests(inside)

    return run


def toml(seed: int) -> Case:
    """One description in TOML whose text is damaged."""
    draw = random.Random(seed)
    damages = ("[", "a" + ".a" * draw.choice((9, 20_000)), "{a=", "]" * 9, "'''", "inf", "\r", "[[x]]", "= ", *DAMAGES)
    text = _broken(to_toml(ZOO["llama"]), draw, damages) if draw.random() < 0.9 else to_toml(ZOO["llama"])

    def run() -> None:
        with place() as inside:
            (inside / "x.toml").write_bytes(text.encode("utf-8", "surrogatepass"))
            read_data(inside / "x.toml")

    return run


def _statement(draw: random.Random, depth: int) -> str:
    inner = _statement(draw, depth - 1) if depth > 0 else ""
    value = _expression(draw, depth)
    return draw.choice(
        (
            f"{{{{ {value} }}}}",
            f"{{{{ {value} }}}}",
            f"{{% for m in {value} %}}{inner}{{% endfor %}}",
            f"{{% for m in range(99999) %}}{inner}{{% endfor %}}",
            f"{{% for m in {value} recursive %}}{inner}{{{{ loop({value}) }}}}{{% endfor %}}",
            f"{{% for m in range(60) %}}{{% set n.x = {draw.choice((*DOUBLES, value))} %}}{{% endfor %}}{inner}",
            f"{{% if {value} is {draw.choice(TESTS)} %}}{inner}{{% else %}}{value}{{% endif %}}",
            f"{{% macro f(x) %}}{inner}{{{{ f({value}) }}}}{{% endmacro %}}{{{{ f(1) }}}}",
            f"{{% set y %}}{inner}{{% endset %}}{{{{ y * {draw.choice(COUNTS)} }}}}",
            f"{{% generation %}}{inner}{{% endgeneration %}}",
            f"{{% filter {draw.choice(FILTERS)} %}}{inner}{{% endfilter %}}",
            f"{{{{ raise_exception({value}) }}}}",
        )
    )


def _expression(draw: random.Random, depth: int) -> str:
    if depth <= 0:
        return draw.choice((*LEAVES, *COUNTS))
    one, two = _expression(draw, depth - 1), _expression(draw, depth - 1)
    return draw.choice(
        (
            one,
            f"({one} {draw.choice(('+', '*', '-', '/', '//', '%', '**', '~', '==', '<', 'in', 'and'))} {two})",
            f"({one} * {draw.choice(COUNTS)})",
            f"({one}|{draw.choice(FILTERS)})",
            f"({one}|{draw.choice(FILTERS)}({two}))",
            f"({one}|{draw.choice(FILTERS)}({draw.choice(COUNTS)}))",
            f"({one}|map('{draw.choice(FILTERS)}', {two}))",
            f"({one}).{draw.choice(METHODS)}({two})",
            f"({one}).{draw.choice(METHODS)}({draw.choice(COUNTS)}, {two})",
            f"({one})[{two}]",
            f"({one})[{draw.choice(COUNTS)}:{two}]",
            f"[{one}, {two}]",
            f"{{{one}: {two}}}",
        )
    )


def _broken(text: str, draw: random.Random, pieces: tuple[str, ...]) -> str:
    """A text with something cut out, or put in once or many times."""
    for _ in range(draw.choice((1, 1, 2, 5))):
        begin = draw.randrange(len(text) + 1)
        end = min(len(text), begin + draw.choice((0, 0, 1, 10)))
        piece = draw.choice(("", *pieces))
        text = text[:begin] + piece * draw.choice((1, 1, 3, 200, 3_000) if len(piece) < 20 else (1, 3)) + text[end:]
    return text


def _stages(draw: random.Random, inner: str) -> Any:
    if draw.random() < 0.3:
        return None
    letters = ("a", "b", "aaaaaaaaaa", "bbbbbbbbbb", "ab", "", " ", "x" * 2000)
    pattern = ("String", draw.choice(("a", "b", ".", ""))) if draw.random() < 0.7 else ("Regex", draw.choice(EXPRESSIONS))
    stages = [{"type": "Replace", "pattern": dict([pattern]), "content": draw.choice(letters)}]
    return {"type": "Sequence", inner: stages * draw.choice((1, 2, 12, 40, 1500))}


@cache
def _tokenizer() -> dict[str, Any]:
    made = tokenizers.Tokenizer(models.BPE(vocab={"a": 0, "b": 1, "ab": 2, " ": 3}, merges=[("a", "b")], unk_token="a"))
    made.add_special_tokens(["</s>", "<x>"])
    found: dict[str, Any] = json.loads(made.to_str())
    return found


@cache
def _tables() -> dict[str, Any]:
    config = dict(family("llama").write(ZOO["llama"])) | {"model_type": "llama", "eos_token_id": 2}
    return {
        "config.json": config,
        "tokenizer.json": _tokenizer(),
        "tokenizer_config.json": {
            "eos_token": {"content": "</s>", "special": True},
            "tokenizer_class": "LlamaTokenizer",
            "chat_template": [{"name": "default", "template": TEMPLATE}],
            "added_tokens_decoder": {"5": {"content": "<x>", "special": True}},
        },
        "special_tokens_map.json": {"eos_token": "</s>", "additional_special_tokens": ["<x>"]},
        "generation_config.json": {"eos_token_id": [2, 3], "temperature": 0.7, "max_length": 20},
    }


KINDS = {
    "templates": Kind(template, 3_000, 120),
    "tokenizers": Kind(tokenizer, 1_500, 80),
    "beside": Kind(beside, 2_000, 60),
    "digests": Kind(digests, 1_500, 60),
    "tomls": Kind(toml, 1_000, 60),
}
