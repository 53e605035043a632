"""Tiny random models made by transformers, and ours of the same weights; `nearness` holds one against the other."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from tempfile import mkdtemp
from types import SimpleNamespace
from typing import Any

import torch
import transformers
from torch import Tensor

from anyformer import huggingface
from anyformer.huggingface.files import Stored
from anyformer.huggingface.fused import as_stored
from anyformer.huggingface.rules import rules
from anyformer.model.transformer import Transformer
from anyformer.operations import Shape
from huggingface.case import VOCAB, B, Case, S, T
from huggingface.corrected import correct
from huggingface.inner_models import text_model
from scratch import Scratch

KEPT = 4
"""Pairs that are held at once: what asks more of one asks it at once."""
SCRATCH = Scratch("anyformer-parity-")
transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()


@dataclass(frozen=True)
class Pair:
    """Their model and ours, of the same weights, and where theirs was saved."""

    case: Case
    theirs: Any
    ours: Transformer
    directory: Path

    @property
    def exact(self) -> Pair:
        """The same with theirs in fp64, and experts one after the other, since their kernel has no fp64."""
        theirs = deepcopy(self.theirs).double()
        theirs.set_experts_implementation("eager")
        return replace(self, theirs=theirs)


AUTO = {
    "CLIPVisionModelWithProjection": SimpleNamespace(
        from_config=transformers.CLIPVisionModelWithProjection._from_config,
        from_pretrained=transformers.CLIPVisionModelWithProjection.from_pretrained,
    ),
    "CausalLM": transformers.AutoModelForCausalLM,
    "MaskedLM": transformers.AutoModelForMaskedLM,
    "Seq2SeqLM": transformers.AutoModelForSeq2SeqLM,
    "SpeechSeq2Seq": transformers.AutoModelForSpeechSeq2Seq,
    "TextEncoding": transformers.AutoModelForTextEncoding,
    "PreTraining": transformers.AutoModelForPreTraining,
    "SequenceClassification": transformers.AutoModelForSequenceClassification,
    "TokenClassification": transformers.AutoModelForTokenClassification,
    "CTC": transformers.AutoModelForCTC,
    "AudioClassification": transformers.AutoModelForAudioClassification,
    "ImageClassification": transformers.AutoModelForImageClassification,
    "ImageTextToText": transformers.AutoModelForImageTextToText,
    "Model": transformers.AutoModel,
    # Transformers has an auto class for images and text alone that knows it.
    "CausalMistral4": SimpleNamespace(
        from_config=transformers.Mistral4ForCausalLM._from_config,
        from_pretrained=transformers.Mistral4ForCausalLM.from_pretrained,
    ),
    # Transformers has an auto class for it no more.
    "CausalImageModeling": SimpleNamespace(
        from_config=transformers.ImageGPTForCausalImageModeling._from_config,
        from_pretrained=transformers.ImageGPTForCausalImageModeling.from_pretrained,
    ),
}


class StandIn(transformers.PreTrainedModel):
    """In place of Gemma 3n's tower for images, which needs timm: text never reaches it."""

    config_class = transformers.Gemma3nVisionConfig

    def __init__(self, config: transformers.Gemma3nVisionConfig) -> None:
        super().__init__(config)
        self.linear = torch.nn.Linear(config.hidden_size, config.hidden_size)
        self.post_init()


transformers.AutoModel.register(StandIn.config_class, StandIn, exist_ok=True)
correct()


@lru_cache(maxsize=KEPT)
def _made(model_type: str, key: str, task: str, kernel: str, untied: bool) -> tuple[Any, Path]:
    import json

    config = transformers.AutoConfig.for_model(model_type, **json.loads(key))
    torch.manual_seed(0)
    make = AUTO[task].from_config if task in AUTO else getattr(transformers, task)._from_config
    model = make(config, attn_implementation=kernel).eval()
    if untied:
        head = model.get_output_embeddings()
        head.weight = torch.nn.Parameter(head.weight.detach().clone())
    randomise(model)
    directory = Path(mkdtemp(dir=SCRATCH.name))
    model.save_pretrained(directory)
    return model, directory


def randomise(model: torch.nn.Module) -> None:
    """Loud weights, so that every part leaves a trace; norms about 1, and nothing at a neutral value.

    Tables of sinusoids stay what they are, frozen or not; a bias that is kept as a buffer is a weight.
    """
    generator = torch.Generator().manual_seed(1)
    sinusoids = {
        parameter.data_ptr()
        for module in model.modules()
        if "Sinusoid" in type(module).__name__
        for parameter in module.parameters(recurse=False)
    }
    parameters = list(model.named_parameters())
    # The state that HRM-Text begins from is stored and never trained.
    trained = [(name, each) for name, each in parameters if each.requires_grad or name.endswith("z_L_init")]
    biases = [(name, buffer) for name, buffer in model.named_buffers() if name.endswith("logits_bias")]
    tied = set()
    with torch.no_grad():
        for name, parameter in trained + biases:
            if parameter.data_ptr() in tied | sinusoids:
                continue
            tied.add(parameter.data_ptr())
            noise = torch.randn(parameter.shape, generator=generator)
            gain = parameter.dim() == 1 and name.endswith("weight")
            parameter.copy_(1 + 0.2 * noise if gain else 0.2 * noise)
        for name, buffer in model.named_buffers():
            if name.endswith(("correction_bias", "expert_bias")):  # corrections of routers, which gradients never move
                buffer.copy_(0.2 * torch.randn(buffer.shape, generator=generator))
            if name.endswith("tid2eid"):  # a table of the experts of each token, none of them twice
                experts = model.config.num_local_experts
                order = torch.stack([torch.randperm(experts, generator=generator) for _ in buffer])
                buffer.copy_(order[:, : buffer.shape[1]])
            if name.endswith("layer_scalar"):  # a weight that is kept as a buffer
                buffer.copy_(1 + 0.2 * torch.randn(buffer.shape, generator=generator))


@lru_cache(maxsize=KEPT)
def _ours(directory: Path) -> Transformer:
    return huggingface.load(directory)[0]


def pair(case: Case) -> Pair:
    """Theirs and ours."""
    import json

    kernel = case.kernel or family_of(case).kernel
    theirs, directory = _made(case.model_type, json.dumps(case.config), case.task, kernel, case.untied)
    return Pair(case, theirs, _ours(directory), directory)


def class_of(case: Case) -> str:
    """The name of the class that makes a case's model."""
    known = getattr(AUTO.get(case.task), "_model_mapping", None)
    found = case.task if known is None else known._model_mapping[case.model_type]
    return found if isinstance(found, str) else found[0]


def family_of(case: Case) -> huggingface.Family:
    """The family of a case; of a composite that of its text model."""
    return huggingface.family_of(huggingface.Config({**case.config, "model_type": case.model_type}))


def given(case: Case, length: int = T, seed: int = 0) -> Tensor:
    """Tokens (B, T) without the ids that configurations use for padding, begin and end."""
    return torch.randint(5, case.config.get("vocab_size", VOCAB), (B, length), generator=torch.Generator().manual_seed(seed))


def their_logits(pair: Pair, tokens: Tensor, padding: Tensor | None = None, target: Tensor | None = None) -> Tensor:
    """What transformers computes. With padding on the left, positions count from the first token."""
    more: dict[str, Any] = dict(pair.case.calls)
    if padding is not None:
        more["attention_mask"] = (~padding).long()
        if pair.case.task.startswith("Causal") or (pair.case.task not in AUTO and pair.ours.architecture.encoder is None):
            more["position_ids"] = ((~padding).cumsum(1) - 1).clamp(min=0)
    if target is not None:
        more["decoder_input_ids"] = target
    theirs = text_model(pair.theirs)
    main = "input_ids" if pair.ours.architecture.embedding.symbols else theirs.main_input_name
    turned = main == "input_features" and not pair.case.time_first
    tokens = tokens.mT if turned else tokens
    more[main] = tokens.to(theirs.dtype) if tokens.is_floating_point() else tokens
    try:
        out = theirs(**more)
    except TypeError:
        more.pop("position_ids", None)
        out = theirs(**more)
    if pair.case.task == "PreTraining":
        return out.logits[..., None]
    if hasattr(out, "logits"):
        return out.logits
    head = pair.ours.architecture.head
    if head is not None and head.pool is not None:
        return out.image_embeds if hasattr(out, "image_embeds") else out.pooler_output
    return out.last_hidden_state


def gap(ours: Tensor, theirs: Tensor) -> float:
    """The largest difference, of the largest value."""
    return float((ours - theirs).abs().max() / theirs.abs().max())


def inputs(pair: Pair, seed: int = 0) -> tuple[Tensor, ...]:
    """Images, tokens or what else is read; of two inputs a source and a target."""
    architecture = pair.ours.architecture
    if pair.theirs.main_input_name == "pixel_values" and architecture.embedding.symbols is None:
        seen = pair.case.config.get("encoder", pair.case.config)
        shape = B, seen["num_channels"], *[seen["image_size"]] * 2
        images = torch.randn(shape, generator=torch.Generator().manual_seed(seed))
        return (images, given(pair.case, seed=seed + 10)) if architecture.two_inputs else (images,)
    two, entrance = architecture.two_inputs, architecture.embedding
    first = entrance.example(B, S, seed=seed) if entrance.symbols is None else given(pair.case, S if two else T, seed)
    return (first, given(pair.case, seed=seed + 10)) if two else (first,)


def pads(pair: Pair) -> bool:
    """Whether transformers computes the same of a padded batch: it masks no padding but that of tokens and of waves."""
    return pair.ours.architecture.embedding.rank == 2 and not pair.case.unpadded


def decodes(pair: Pair) -> bool:
    """Whether it generates token by token and gives what the whole forward gives."""
    architecture = pair.ours.architecture
    return (
        architecture.decoder is not None
        and architecture.latents is None
        and not pair.ours.architecture.cost(Shape()).breaks("cached")
    )


def routes(pair: Pair) -> bool:
    """Whether tokens choose experts."""
    blocks = [block for stack in pair.ours.architecture.stacks.values() for block in stack.variants.values()]
    return any((network := each.resizing.network) and network.experts for block in blocks for each in block.sublayers)


def gradients_as_ours(pair: Pair) -> dict[str, Tensor]:
    """Their gradients by our names: saved as weights are, and read by the same rules; not of buffers, which have none."""
    kept = {name: parameter.data for name, parameter in pair.theirs.named_parameters()}
    for parameter in pair.theirs.parameters():
        parameter.data = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
    directory = Path(mkdtemp(dir=SCRATCH.name))
    pair.theirs.save_pretrained(directory)
    for name, parameter in pair.theirs.named_parameters():
        parameter.data = kept[name]
    architecture = pair.ours.architecture
    shapes = {name: weight.shape for name, weight in architecture.cost(Shape()).weights.items()}
    family = family_of(pair.case)
    stored, found = Stored(directory, family.base, family.older_names, family.text_name), {}
    own = family.text_name or str
    learned = {name for name, parameter in pair.ours.named_parameters() if parameter.requires_grad}
    buffers = {own(name) for name, _ in pair.theirs.named_buffers()}
    for rule in as_stored(rules(family.names_of(architecture), shapes), stored):
        if buffers & set(rule.stored) or learned.isdisjoint(rule.parameters):
            continue
        read = rule.op.read([stored.tensor(name) for name in rule.stored], [shapes[name] for name in rule.parameters])
        found |= dict(zip(rule.parameters, read, strict=True))
    return found
