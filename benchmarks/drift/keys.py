"""Which keys a model type has, by what its class of transformers takes, what its source reads, and what is read here."""

from __future__ import annotations

import ast
import inspect
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from typing import Any

import transformers

from anyformer import huggingface
from anyformer.describe import UserError
from anyformer.huggingface.config import INERT, Config
from huggingface.case import Case
from huggingface.cases import CASES
from huggingface.composite_cases import HELD, INNER, case_of

Path = tuple[str, ...]
"""Keys down to one: `("rope_parameters", "factor")`."""
BOOKKEEPING = frozenset({
    "model_type", "architectures", "transformers_version", "_name_or_path", "name_or_path", "attn_implementation",
    "_attn_implementation", "experts_implementation", "_attn_implementation_internal", "_experts_implementation_internal",
    "_experts_implementation", "_output_attentions", "anyformer_plugins", "compression_config", "quantization_config",
    "_is_quantized",
})  # fmt: skip
"""Keys that say of which class a file is, how its weights are stored, or how transformers computes it."""
EVERYWHERE = ("llama", "bert", "gpt2", "t5", "bart", "mamba", "qwen3_next", "vit")
"""Types on which every key of `INERT` is tried; on others those that their own classes name."""
_POPPED = re.compile(r"kwargs\.(?:pop|get)\(\s*[\"'](\w+)[\"']")
_OF_HEADS = re.compile(
    r"label|classif|pad_token|pool|problem|summary|tie_|decoder$|hidden_act|proj|head_|token_type|type_vocab"
)
_ASKED = re.compile(r"(?:getattr|hasattr)\(\s*(?:self\.|text_|decoder_|encoder_)*config,\s*[\"'](\w+)[\"']")


@cache
def bases() -> dict[str, Case]:
    """Name -> the first tiny configuration of each type and task, and of each composite whose text model is no other type."""
    found: dict[str, Case] = {}
    for case in CASES:
        found.setdefault(f"{case.model_type} {case.task}", case)
    alone = {case.model_type for case in CASES}
    seen = set[str]()
    for name in HELD:
        composite = huggingface.COMPOSITES[name]
        if composite.text not in alone | seen:
            seen.add(composite.text)
            found[f"{name} text"] = case_of(name)
    return found


def text_path(case: Case) -> Path:
    """Of a composite, the keys down to its text model's table; of others none."""
    composite = huggingface.COMPOSITES.get(case.model_type)
    return composite.path if composite and composite.path[0] in case.config else ()


def made(model_type: str, config: Mapping[str, Any]) -> Any:
    """The configuration of transformers for these keys, read as from a file."""
    import copy

    return transformers.CONFIG_MAPPING[model_type].from_dict(copy.deepcopy({**config, "model_type": model_type}))


@cache
def defaults(model_type: str) -> Mapping[str, Any]:
    """Every key of a type's class and its default value."""
    kind = transformers.CONFIG_MAPPING[model_type]
    taken = {
        name: None if parameter.default is inspect.Parameter.empty else parameter.default
        for name, parameter in inspect.signature(kind.__init__).parameters.items()
        if name not in ("self", "args", "kwargs")
    }
    with suppress(Exception):  # whatever a class asks of its arguments
        taken |= kind().to_dict()
    return {name: value for name, value in taken.items() if name not in BOOKKEEPING}


@cache
def source(model_type: str, model_only: bool = False) -> str:
    """The source of a type's classes: its configuration and its model."""
    kind = transformers.CONFIG_MAPPING[model_type]
    modules: list[Any] = [] if model_only else [inspect.getmodule(kind)]
    with suppress(ImportError, AttributeError):
        modules.append(__import__(kind.__module__.replace(".configuration_", ".modeling_"), fromlist=["x"]))
    return "\n".join(inspect.getsource(module) for module in modules if module)


@cache
def askers(model_type: str) -> Mapping[str, frozenset[str]]:
    """Key that the source of a type's classes asks for -> the classes that do; an empty name where a function does."""
    found: dict[str, set[str]] = defaultdict(set)
    text = source(model_type)
    rest = text.splitlines()
    for each in ast.parse(text).body:
        if isinstance(each, ast.ClassDef):
            lines = slice(each.lineno - 1, each.end_lineno)
            for key in _asked_in("\n".join(rest[lines])):
                found[key].add(each.name)
            rest[lines] = [""] * len(rest[lines])
    for key in _asked_in("\n".join(rest)):
        found[key].add("")
    return {key: frozenset(classes) for key, classes in found.items()}


def _asked_in(text: str) -> set[str]:
    return {*re.findall(r"config\.(\w+)", text), *_ASKED.findall(text)}


@cache
def own(model_type: str) -> frozenset[str]:
    """Keys that a type's class declares, beyond those of every class, and that are not inert for every type."""
    every = transformers.PreTrainedConfig
    kinds = [kind for kind in transformers.CONFIG_MAPPING[model_type].__mro__ if issubclass(kind, every) and kind is not every]
    declared = {name for kind in kinds for name in inspect.get_annotations(kind)}
    return frozenset(declared - set(INERT) - set(every.__annotations__))


def suspect(case: Case, key: str) -> bool:
    """Whether a key that the classes of transformers ask for is declared inert here."""
    own = huggingface.family(case.model_type).inert if case.model_type not in huggingface.COMPOSITES else ()
    return key in {*INERT, *own} and key in askers(case.model_type)


class Recording(Config):
    """A configuration that remembers which keys were asked of it."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.asked = set[str]()

    def __call__(self, name: str, *given: Any, **named: Any) -> Any:
        self.asked.add(name)
        return super().__call__(name, *given, **named)

    def expect(self, name: str, *values: Any, why: str = "") -> None:
        self.asked.add(name)
        super().expect(name, *values, why=why)


@cache
def read_here(model_type: str) -> frozenset[str]:
    """Keys that the reader of a type asks for, over its tiny configurations, and those that it declares inert."""
    asked = set[str]()
    for case in [*CASES, *INNER]:
        if case.model_type == model_type:
            config = Recording({**case.config, "model_type": model_type})
            with suppress(UserError):
                asked |= set(huggingface.read_architecture(config)[1].inert)
            asked |= config.asked
    return frozenset(asked) - BOOKKEEPING


def keys_of(name: str) -> dict[Path, Any]:
    """Every key of a base, by its path, and its default: of a type's second and later tasks those that a head may read."""
    case = bases()[name]
    path = text_path(case)
    found = dict(_keys(case.model_type, case.config, (), within=not path))
    if not path and next(iter(each for each in bases() if each.partition(" ")[0] == case.model_type)) != name:
        return {key: usual for key, usual in found.items() if _OF_HEADS.search(key[-1])}
    table: Any = case.config
    for key in path:
        table = table[key]
    if path:
        found |= dict(_keys(str(table["model_type"]), table, path))
    return found


@cache
def names(model_type: str) -> tuple[str, ...]:
    """Every key of a type: those of its class, those that its source asks for, and those that are read or inert here."""
    text, kind = source(model_type), transformers.CONFIG_MAPPING[model_type]
    words, own = set(re.findall(r"\w+", text)), inspect.getsource(inspect.getmodule(kind) or kind)
    named = {*_POPPED.findall(own), *_ASKED.findall(text), *getattr(kind, "attribute_map", {}), *read_here(model_type)}
    named |= {name for name in INERT if model_type in EVERYWHERE or name in words}
    return tuple(sorted({*defaults(model_type), *named} - BOOKKEEPING))


def _keys(model_type: str, table: Mapping[str, Any], path: Path, within: bool = True) -> Iterator[tuple[Path, Any]]:
    """The keys of a table; `within`: and of the tables within that are models, which towers of composites are."""
    usual = defaults(model_type)
    for name in names(model_type):
        value = table.get(name, usual.get(name))
        if isinstance(value, Mapping) and "model_type" in value:
            if within and not name.endswith("_config"):  # composites' text models have a path of their own
                yield from _keys(str(value["model_type"]), value, (*path, name))
        else:
            yield (*path, name), usual.get(name)


@cache
def _moved(model_type: str) -> frozenset[Path]:
    """Keys that some case of the tests gives another value than the class's default."""
    found = set[Path]()
    for case in CASES:
        if case.model_type != model_type:
            continue
        try:
            effective = made(model_type, case.config).to_dict()
        except Exception:  # whatever a class asks of its arguments
            effective = {}
        usual = defaults(model_type)
        for name in {*case.config, *effective}:
            value = case.config.get(name, effective.get(name))
            if name not in usual or value != usual[name]:
                found.add((name,))
    return frozenset(found)


def untested(name: str) -> list[Path]:
    """Keys of a base that no case of the tests moves from its default."""
    case = bases()[name]
    path = text_path(case)
    return [key for key in keys_of(name) if path or key not in _moved(case.model_type)]
