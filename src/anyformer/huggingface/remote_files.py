"""The Python files of a directory in our own layout, by which the Auto classes of transformers find the installed package.

`auto_map` of its `config.json` names them; `from_pretrained(directory, trust_remote_code=True)` reads them.
"""

from __future__ import annotations

from collections.abc import Mapping

AUTO: Mapping[str, str] = {
    "AnyformerModel": "AutoModel",
    "AnyformerForCausalLM": "AutoModelForCausalLM",
    "AnyformerForMaskedLM": "AutoModelForMaskedLM",
    "AnyformerForSequenceClassification": "AutoModelForSequenceClassification",
    "AnyformerForConditionalGeneration": "AutoModelForSeq2SeqLM",
}
"""Class of `auto` -> the class of transformers that loads it."""
NEEDED = "anyformer[hf]>=0.1.0"
"""The package that the files need, as pip reads it, from the first version with these classes on."""
_FILES: Mapping[str, tuple[str, ...]] = {
    "configuration_anyformer": ("AnyformerConfig",),
    "modeling_anyformer": tuple(AUTO),
}
"""File, without its ending -> the classes in it."""
REMOTE_FILES = tuple(f"{file}.py" for file in _FILES)


def auto_map(name: str, *, two_inputs: bool) -> dict[str, str]:
    """The class of transformers -> file and class, for an architecture whose class in `auto` is `name`.

    A model of one input is an `AutoModel` too: the features that its head would read.
    """
    models = [name] if two_inputs else list(dict.fromkeys(("AnyformerModel", name)))
    return {
        "AutoConfig": "configuration_anyformer.AnyformerConfig",
        **{AUTO[model]: f"modeling_anyformer.{model}" for model in models},
    }


def remote_files() -> dict[str, bytes]:
    """Name -> content of the files."""
    return {f"{file}.py": _content(classes).encode() for file, classes in _FILES.items()}


def _content(classes: tuple[str, ...]) -> str:
    names = "".join(f"        {name},\n" for name in sorted(classes))
    # transformers imports what stands outside of `try` by itself, and would name the package without its extra and version.
    return f'''"""The classes of the installed package anyformer that this model is of."""

try:
    from anyformer.huggingface.auto import (
{names}    )
except ImportError as error:
    raise ImportError(
        "this model was written in anyformer's own layout, which its package computes: pip install '{NEEDED}' "
        f"({{error}})"
    ) from error
'''
