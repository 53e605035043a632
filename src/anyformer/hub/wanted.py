"""Which files of a model's repository are needed: pure functions of their names."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from pathlib import PurePosixPath

from anyformer.hub.names import GGUF, HubError, HubName

Wanted = Callable[[Collection[str]], list[str]]
"""The names of all files of a repository -> those that are needed."""
CONFIG, WHOLE, INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"
ADAPTER_CONFIG, ADAPTER = "adapter_config.json", "adapter_model.safetensors"
PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".h5", ".msgpack")
TEMPLATES = "additional_chat_templates"
_ABOUT = (".json", ".jinja", ".txt", ".md", ".model", ".vocab", ".tiktoken", ".spm", ".codes")
"""Endings of files that say something about a model, or of which its tokenizer is made."""
_ASIDE = ("digests.json", "trainer_state.json")
"""Files of a table, and no part of a model: a hub keeps digests of its own, and the model card may be changed there."""
_TERMS = re.compile(r"[A-Z][A-Z_-]+")
"""Names such as LICENSE and NOTICE."""
_PIECE = re.compile(r"(?P<begin>.+)-\d{5}-of-(?P<count>\d{5})\.gguf")


def configuration(names: Collection[str]) -> list[str]:
    """What says what a model's architecture is: of Hugging Face's layout, or of a checkpoint of ours."""
    return [name for name in (CONFIG, "architecture.json") if name in names][:1]


def about(names: Collection[str]) -> list[str]:
    """What stands beside the weights: configuration, tokenizer, templates, card and licence."""
    return sorted(name for name in names if _is_about(PurePosixPath(name)))


def model(names: Collection[str]) -> list[str]:
    """What a model is loaded from, but for the parts that its index names."""
    weights = [WHOLE if WHOLE in names else INDEX]
    return [*about(names), *(name for name in weights + [ADAPTER] * (ADAPTER_CONFIG in names) if name in names)]


def pieces(file: str, names: Collection[str]) -> list[str]:
    """A GGUF file, or all pieces of one that is cut."""
    found = _PIECE.fullmatch(file)
    if found is None:
        return [file]
    of_it = re.compile(re.escape(found["begin"]) + rf"-\d{{5}}-of-{found['count']}\.gguf")
    return sorted(name for name in names if of_it.fullmatch(name))


def check_weights(name: HubName, names: Collection[str]) -> None:
    """Raise `HubError`, before anything is fetched, for a repository without safetensors; it says what is there instead."""
    if {WHOLE, INDEX, ADAPTER, "manifest.json"} & set(names):
        return
    ggufs = sorted(each for each in names if each.endswith(GGUF))
    if ggufs:
        more = f" or another of {len(ggufs)}" if len(ggufs) > 1 else ""
        meant = HubName(name.repo, ggufs[0], name.revision)
        raise HubError(f"{name}: has no {WHOLE}, but GGUF files; did you mean {meant}{more}?")
    pickled = sorted(each for each in names if each.endswith(PICKLED) and "/" not in each)
    if pickled:
        raise HubError(
            f"{name}: its weights are in {pickled[0]}, and unpickling can run anybody's code, so it is not fetched; take a "
            f"revision with safetensors (often a pull request: hub:{name.repo}@refs/pr/NUMBER), or convert it with "
            "transformers' model.save_pretrained()"
        )
    raise HubError(f"{name}: has neither {WHOLE} nor {INDEX} at its top, so no weights that are read here")


def _is_about(path: PurePosixPath) -> bool:
    if path.parts[:-1] == (TEMPLATES,):
        return path.suffix == ".jinja"
    if len(path.parts) > 1 or path.name in _ASIDE or path.name.endswith(".index.json"):
        return False
    return path.suffix in _ABOUT or (not path.suffix and _TERMS.fullmatch(path.name) is not None)
