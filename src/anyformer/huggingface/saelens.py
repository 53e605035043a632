"""Directories of SAELens: `cfg.json` and `sae_weights.safetensors` of a sparse autoencoder or a transcoder.

    W_enc (D, F), b_enc (F,), W_dec (F, D), b_dec (D,); of a JumpReLU also threshold (F,); gated, b_gate, b_mag, r_mag (F,) in
    the place of b_enc. `sparsity.safetensors`: log10 of the share of positions at which each feature is active.

SAELens 6 (github.com/decoderesearch/SAELens), `saes/*.py`. The mean length that inputs are scaled to, and the lengths of the
vectors where these are one, go into the weights, so that both give the same to rounding.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from anyformer.describe import UserError, read_json
from anyformer.files import check_directory, writing_directory
from anyformer.model import Architecture, dictionary_alone
from anyformer.model.hooks import OF_LAYER, path_of
from anyformer.model.transformer import Transformer, build
from anyformer.parts import BatchTopKCode, Dictionary, GatedCode, JumpReLUCode, ReLUCode, TopKCode
from anyformer.parts.dictionary.codes import Code
from anyformer.parts.dictionary.dictionary_module import DictionaryModule
from anyformer.plan import Plan

CONFIG: Final = "cfg.json"
WEIGHTS: Final = "sae_weights.safetensors"
SPARSITY: Final = "sparsity.safetensors"
VERSION: Final = "6.54.12"
"""The version of SAELens whose layout this is."""
REMEDIES: Final = {
    "expected_average_only_in": "fold it into the weights by fold_activation_norm_scaling_factor, and save it again",
    "covariance_whitening": "fold it into the weights by fold_activation_whitening, and save it again",
}
"""What to do about a way of scaling activations that is not read."""
LEAST: Final = 1e-10
"""The share whose logarithm stands for features that are never active."""
KNOWN: Final = frozenset((
    "d_in", "d_sae", "d_out", "k", "architecture", "apply_b_dec_to_input", "normalize_activations", "reshape_activations",
    "rescale_acts_by_decoder_norm", "dtype", "device", "metadata",
))  # fmt: skip


@dataclass(frozen=True)
class CodeLayout:
    """What SAELens calls an autoencoder and a transcoder with a code; None of what it has no name for.

    `weights`: their names of weights -> those of the dictionary's module, beside the matrices and b_dec. `keys`: what the
    configuration says of the code besides; `made`: the code of a configuration, None where it is saved under another name.
    """

    name: str
    transcoder: str | None
    weights: Mapping[str, str]
    keys: Callable[[Any], dict[str, Any]] = lambda code: {}
    made: Callable[[Mapping[str, Any]], Code] | None = None


BIAS: Final = {"b_enc": "encoder.bias"}
JUMP: Final = {**BIAS, "threshold": "code.threshold"}
LAYOUTS: Final[Mapping[type[Code], CodeLayout]] = {
    ReLUCode: CodeLayout("standard", "transcoder", BIAS, made=lambda config: ReLUCode()),
    TopKCode: CodeLayout(
        "topk", None, BIAS, lambda code: {"k": code.k, "rescale_acts_by_decoder_norm": False},
        lambda config: TopKCode(k=config["k"]),
    ),
    JumpReLUCode: CodeLayout("jumprelu", "jumprelu_transcoder", JUMP, made=lambda config: JumpReLUCode()),
    BatchTopKCode: CodeLayout("jumprelu", "jumprelu_transcoder", JUMP),
    GatedCode: CodeLayout(
        "gated", None, {"b_gate": "encoder.bias", "r_mag": "code.log_scale", "b_mag": "code.bias"},
        made=lambda config: GatedCode(),
    ),
}  # fmt: skip
"""How codes are called. A batch's largest features are those above a threshold where nothing is learnt."""
READ: Final = {
    name: layout for layout in LAYOUTS.values() if layout.made for name in (layout.name, layout.transcoder) if name is not None
}


class LearntAt(NamedTuple):
    """The paths of a model whose values a dictionary reads, side by side, and those whose values it gives."""

    read: tuple[str, ...]
    written: tuple[str, ...]


class SAELensError(UserError):
    """A directory of SAELens that is not read here, or a dictionary that it has no name for."""


def is_saelens(directory: str | Path) -> bool:
    """Whether a directory has SAELens's layout."""
    place = Path(directory)
    return (place / CONFIG).is_file() and (place / WEIGHTS).is_file()


def export_saelens(
    model: Transformer,
    directory: str | Path,
    *,
    frequencies: Tensor | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> str:
    """Write a directory that `SAE.load_from_disk` reads; gives the name of its architecture there.

    `frequencies` (F,): the share of positions at which each feature is active, written beside the weights. `metadata`: what
    SAELens keeps of the source, such as `model_name` and `hook_name`; heads of an attention are read as SAELens reads them,
    (..., heads, features of a head).
    """
    module = dictionary_of(model)
    part, place = module.part, Path(directory)
    name, more, weights = _named(module)
    heads = str((metadata or {}).get("hook_name")).endswith(OF_LAYER["attention.heads"])
    plain = {key: value.detach().float().cpu().contiguous() for key, value in (_folded(module) | weights).items()}
    config = {
        "d_in": plain["W_enc"].shape[0], "d_sae": part.features, **more, "dtype": "float32", "device": "cpu",
        "apply_b_dec_to_input": part.centred, "normalize_activations": "none",
        "reshape_activations": "hook_z" if heads else "none", "architecture": name,
        "metadata": {"sae_lens_version": VERSION, **(metadata or {})},
    }  # fmt: skip
    check_directory(place)
    with writing_directory(place) as making:
        save_file(plain, making / WEIGHTS)
        (making / CONFIG).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
        if frequencies is not None:
            save_file({"sparsity": frequencies.detach().float().cpu().clamp(min=LEAST).log10()}, making / SPARSITY)
    return name


def saelens_architecture(directory: str | Path) -> Architecture:
    """The architecture of a directory of SAELens, by its configuration alone. Raises `SAELensError` for one that differs."""
    place = Path(directory) / CONFIG
    config = read_json(place)
    if unknown := sorted(set(config) - KNOWN):
        raise SAELensError(f"{place}: {', '.join(unknown)} says something that is not known here: save it with SAELens 6 first")
    for key in ("normalize_activations", "reshape_activations"):
        if config.get(key, "none") != "none" and (key, config[key]) != ("reshape_activations", "hook_z"):
            remedy = REMEDIES.get(config[key], "no weights do the same, so learn one without it")
            raise SAELensError(f"{place}: {key} = {config[key]!r} cannot be read here: {remedy}")
    name = str(config.get("architecture"))
    layout = READ.get(name)
    if layout is None or layout.made is None:
        raise SAELensError(
            f"{place}: architecture = {name!r} is not read here, but {', '.join(READ)}: save one in training by "
            "save_inference_model"
        )
    if config.get("d_out", config["d_in"]) != config["d_in"]:
        raise SAELensError(f"{place}: reads {config['d_in']} numbers and gives {config['d_out']}; a dictionary gives as many")
    centred = bool(config.get("apply_b_dec_to_input", True))
    part = Dictionary(features=config["d_sae"], code=layout.made(config), centred=centred, detached=not centred)
    return dictionary_alone(part, config["d_in"])


def saelens_paths(directory: str | Path) -> LearntAt:
    """Where in its model the dictionary of a directory was learnt: our paths of its metadata, else those of its hooks."""
    place = Path(directory) / CONFIG
    metadata = read_json(place).get("metadata", {})
    if "paths" in metadata:
        return LearntAt(tuple(metadata["paths"]), tuple(metadata.get("paths_out", metadata["paths"])))
    hook = metadata.get("hook_name")
    read, written = (_path(place, one) for one in (hook, metadata.get("hook_name_out") or hook))
    return LearntAt((read,), (written,))


def _path(place: Path, hook: str | None) -> str:
    path = None if hook is None else path_of(hook)
    if path is None:
        raise SAELensError(
            f"{place}: metadata names {hook!r} as where it was learnt, no hook of TransformerLens that has a path here: give "
            "model.watch or model.patch the path yourself, one of those that model.watchable() lists"
        )
    return path


def load_saelens(
    directory: str | Path,
    *,
    plan: Plan | None = None,
    device: torch.device | str = "cpu",
    dtype: torch.dtype | None = None,
) -> Transformer:
    """The model of a directory of SAELens, in evaluation mode."""
    place = Path(directory)
    model = build(saelens_architecture(place), plan, device).eval()
    module, found = dictionary_of(model), load_file(place / WEIGHTS)
    if read_json(place / CONFIG).get("rescale_acts_by_decoder_norm"):
        lengths_F = found["W_dec"].norm(dim=1)
        found |= {
            "W_enc": found["W_enc"] * lengths_F, "b_enc": found["b_enc"] * lengths_F,
            "W_dec": found["W_dec"] / lengths_F[:, None],
        }  # fmt: skip
    into = {"W_enc": "encoder.weight", "W_dec": "decoder.weight", "b_dec": "decoder.bias"}
    into |= LAYOUTS[type(module.part.code)].weights
    if found.keys() != into.keys():
        raise SAELensError(f"{place / WEIGHTS}: holds {', '.join(sorted(found))}; expected {', '.join(sorted(into))}")
    with torch.no_grad():
        for theirs, ours in into.items():
            value = found[theirs].mT if theirs.startswith("W_") else found[theirs]
            weight = module.get_parameter(ours)
            if value.shape != weight.shape:
                raise SAELensError(
                    f"{place / WEIGHTS}: {theirs} has the shape {tuple(found[theirs].shape)}, and {CONFIG} says otherwise"
                )
            weight.copy_(value)
    return model if dtype is None else model.to(dtype)


def named_there(model: Transformer) -> bool:
    """Whether SAELens has a name for a model."""
    try:
        _named(dictionary_of(model))
    except SAELensError:
        return False
    return True


def dictionary_of(model: Transformer) -> DictionaryModule:
    """The one dictionary of a model that is nothing else."""
    found = [module for module in model.modules() if isinstance(module, DictionaryModule)]
    if len(found) != 1 or model.architecture != _alone(found[0].part, model.architecture):
        raise SAELensError("SAELens names models that are one sparse dictionary alone, and this is another one")
    return found[0]


def _alone(part: Dictionary, whole: Architecture) -> Architecture:
    return dictionary_alone(part, whole.width).but(initialisation=whole.initialisation)


def _named(module: DictionaryModule) -> tuple[str, dict[str, Any], dict[str, Tensor]]:
    """The name of its architecture, further keys of the configuration, and the weights of its code."""
    part, layout = module.part, LAYOUTS.get(type(module.part.code))
    if layout is None:
        raise SAELensError(f"SAELens has no name for the code {part.code.kind!r}")
    name = layout.name if part.centred else layout.transcoder
    if name is None:
        raise SAELensError(f"SAELens has no transcoder whose code is {part.code.kind!r}: it has 'relu' and 'jump_relu'")
    weights: dict[str, Tensor] = {theirs: module.get_parameter(ours) for theirs, ours in layout.weights.items()}
    if "threshold" in weights:  # below 0 it counts as 0; of a batch's largest there is one for all
        weights["threshold"] = weights["threshold"].clamp(min=0).expand(part.features)
    return name, layout.keys(part.code) | ({} if part.centred else {"d_out": module.decoder.out_features}), weights


def _folded(module: DictionaryModule) -> dict[str, Tensor]:
    """The matrices and the decoder's bias, with the scale of the inputs in them."""
    width = module.decoder.out_features
    scale_D = torch.ones(width) if module.length is None else module.length.scale(width)
    return {
        "W_enc": module.encoder.weight.mT * scale_D[:, None],
        "W_dec": module.vectors().mT / scale_D,
        "b_dec": module.decoder.bias / scale_D,
    }
