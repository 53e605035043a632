"""wav2vec 2.0, HuBERT, UniSpeech and data2vec for sound: encoders of waves, with positions by convolution.

What training alone does is not read: layers dropped at random (`layerdrop`), spans of frames that a learned vector replaces
(`apply_spec_augment`), dropout between the convolutions and the layers (`feat_proj_dropout`, `final_dropout`), and the
quantiser of pre-training. A norm over the positions of a row leaves padding out, which transformers' class does not: for
batches of such a model it asks for no mask.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import Names, Shaped, Table, To
from anyformer.huggingface.target import Target
from anyformer.huggingface.vocabulary import INTEGERS, SIZE
from anyformer.huggingface.words.bert_line import encoder_names
from anyformer.huggingface.words.encoder_heads import classes, head_of
from anyformer.huggingface.words.names import projections
from anyformer.model import Architecture
from anyformer.parts import (
    Attention,
    Bidirectional,
    ConvolutionalPosition,
    Head,
    InputProjection,
    LayerNorm,
    Projection,
    RowNorm,
    Softmax,
    Transform,
    WaveLayer,
    Waves,
    post_norm,
    pre_norm,
)

_LAYERS = 7
_FIRST = "embedding.layers.0"


def read(name: str, config: Config) -> Architecture:
    """wav2vec 2.0, HuBERT and UniSpeech."""
    stable = config("do_stable_layer_norm", False, lambda target: target.stack.final_norm is not None)
    mode = config("feat_extract_norm", "group", _norms)
    if mode not in ("group", "layer"):
        raise config.refused("feat_extract_norm", mode, '"group" or "layer"')
    position = ConvolutionalPosition(
        kernel=config("num_conv_pos_embeddings", 128, "stack.position.kernel"),
        groups=config("num_conv_pos_embedding_groups", 16, "stack.position.groups"),
        weights="normed",
        activation=_between(config),
    )
    # The two classes have other defaults for these keys, and refuse what they do not know.
    config.expect("conv_pos_batch_norm", False)
    config.expect("adapter_attn_dim", None)
    return _encoder(name, config, position, over_rows=mode == "group", stable=stable)


def read_data2vec(config: Config) -> Architecture:
    """data2vec: a norm in every convolution, and several convolutions for positions."""
    position = ConvolutionalPosition(
        kernel=config("conv_pos_kernel_size", 19, "stack.position.kernel"),
        groups=config("num_conv_pos_embedding_groups", 16, "stack.position.groups"),
        layers=config("num_conv_pos_embeddings", 5, "stack.position.layers"),
        norm=LayerNorm(gain="none", bias=False),
        activation=_between(config),
    )
    return _encoder("Data2VecAudio", config, position, over_rows=False, stable=False)


def _encoder(name: str, config: Config, position: ConvolutionalPosition, *, over_rows: bool, stable: bool) -> Architecture:
    config.assume(num_hidden_layers=12, hidden_size=768, num_attention_heads=12, hidden_dropout=0.1, activation_dropout=0.1)
    config.expect_all(add_adapter=False, use_weighted_layer_sum=False)
    norm, dropout = words.layer_norm(config, 1e-5), config("hidden_dropout", at="stack.dropout")
    network = words.plain(config, width=3072, dropout=config("activation_dropout"))
    rate = config("attention_dropout", 0.1)
    heads = Attention(
        heads=config("num_attention_heads"),
        mask=Bidirectional(),
        project=Projection(bias=words.ALL),
        weigh=Softmax(dropout=rate),
    )
    block = (pre_norm if stable else post_norm)(norm, heads, network, dropout=dropout)
    last = config("conv_dim", [512] * _LAYERS, _channels, kind=INTEGERS)[-1:]
    if not last:
        raise config.refused("conv_dim", [], "a list of at least one number of channels")
    width = config("hidden_size")
    around: dict[str, Any] = {"final_norm": norm} if stable else {"input_norm": norm}
    return Architecture(
        width=width,
        embedding=_waves(config, norm, over_rows=over_rows),
        embedding_width=None if last[0] == width else last[0],
        encoder=words.stacked(
            words.repeated(config, block),
            position=position,
            dropout=dropout,
            input_projection=InputProjection(place="first"),
            **around,
        ),
        head=_head(config, name),
        initialisation=words.initialisation(config),
    )


def _waves(config: Config, norm: words.Norm, *, over_rows: bool) -> Waves:
    channels = config("conv_dim", [512] * _LAYERS, _channels, kind=INTEGERS)
    kernels = config("conv_kernel", [10, 3, 3, 3, 3, 2, 2], _each("kernel"), kind=INTEGERS)
    strides = config("conv_stride", [5, 2, 2, 2, 2, 2, 2], _each("stride"), kind=INTEGERS)
    if not len(channels) == len(kernels) == len(strides):
        raise HuggingFaceError(
            f"{config.where}: conv_dim, conv_kernel and conv_stride have {len(channels)}, {len(kernels)} and {len(strides)} "
            f"numbers, and should have one per convolution"
        )
    config.put(num_feat_extract_layers=len(channels))
    config.expect("num_feat_extract_layers", len(channels))
    fields: dict[str, Any] = {"bias": config("conv_bias", False, f"{_FIRST}.bias"), "activation": _between(config)}
    fields |= {} if over_rows else {"norm": LayerNorm()}
    layers = [
        WaveLayer(kernel=kernel, stride=stride, channels=outputs, **fields)
        for kernel, stride, outputs in zip(kernels, strides, [*channels[:-1], None], strict=True)
    ]
    if over_rows:
        layers[0] = layers[0].but(row_norm=RowNorm())
    normed = config("feat_proj_layer_norm", True, lambda target: target("embedding.norm") is not None)
    return Waves(layers=tuple(layers), norm=norm if normed else None)


def _head(config: Config, name: str) -> Head | None:
    if config.task in ("ForPreTraining", "ForMaskedLM"):
        return None
    width = config("classifier_proj_size", 256, "head.transform.width", kind=SIZE)
    of_tokens = Head(outputs=config("vocab_size", 32, "head.outputs"), bias=True)
    of_rows = classes(config, pool="mean", transform=Transform(width=width)) if _pools(config) else None
    return head_of(config, name, {"ForCTC": of_tokens} if of_rows is None else {"ForSequenceClassification": of_rows})


def _pools(config: Config) -> bool:
    if config.target is not None:
        return config.target.get("head.pool") is not None
    return config.task == "ForSequenceClassification"


def _between(config: Config) -> str:
    """The activation between the convolutions, and behind that of positions."""
    return words.activation(config, "feat_extract_activation", "gelu", f"{_FIRST}.activation")


def _norms(target: Target) -> str:
    return "layer" if target(f"{_FIRST}.norm") else "group"


def _each(field: str) -> Any:
    """The place of a field of every convolution."""
    return lambda target: [target(f"embedding.layers.{i}.{field}") for i in range(len(target("embedding.layers")))]


def _channels(target: Target) -> list[int]:
    width = target.architecture.table_width
    return [layer.channels or width for layer in target("embedding.layers")]


_LAYER: Table = {
    **projections("attention.*_proj", "attention.out_proj"),
    "feedforward.up": "feed_forward.intermediate_dense",
    "feedforward.down": "feed_forward.output_dense",
    "attention.norm_before": "layer_norm",
    "feedforward.norm_before": "final_layer_norm",
    "step_0_norm_after": "layer_norm",
    "step_1_norm_after": "final_layer_norm",
}
_HEADS: Table = {"head": "lm_head"}
_ROW_HEADS: Table = {"head.transform.dense": "projector", "head": "classifier"}


def names(base: str, architecture: Architecture) -> Names:
    target = Target(architecture)
    outside: Table = {
        "embedding.norm": "feature_projection.layer_norm",
        "encoder.input_projection": "feature_projection.projection",
        "encoder.input_norm": "encoder.layer_norm",
        "encoder.final_norm": "encoder.layer_norm",
    }
    for i in range(len(target("embedding.layers"))):
        theirs = f"feature_extractor.conv_layers.{i}"
        outside = {
            **outside,
            f"embedding.layers.{i}": f"{theirs}.conv",
            f"embedding.layers.{i}.norm": f"{theirs}.layer_norm",
            f"embedding.layers.{i}.row_norm": f"{theirs}.layer_norm",
        }
    place = "encoder.pos_conv_embed"
    if target("stack.position.weights") == "normed":
        weight = f"{place}.conv.parametrizations.weight"
        outside = {
            **outside,
            "encoder.position.layers.0.scale": To(f"{weight}.original0", Shaped((1, 1, -1))),
            "encoder.position.layers.0.direction": f"{weight}.original1",
            "encoder.position.layers.0.bias": f"{place}.conv.bias",
        }
    else:
        many = range(target("stack.position.layers"))
        outside = {**outside, **{f"encoder.position.layers.{i}": f"{place}.layers.{i}.conv" for i in many}}
    head = _ROW_HEADS if target.get("head.pool") else _HEADS
    return encoder_names(architecture, base, outside, head if architecture.head else {}, _LAYER, path="encoder.layers.{i}.")


_OLDER = {r"\.weight_g$": ".parametrizations.weight.original0", r"\.weight_v$": ".parametrizations.weight.original1"}
_IGNORED = (r"(.*\.)?masked_spec_embed", r"quantizer\..*", r"project_(hid|q)\..*")
_INERT = (
    "adapter_kernel_size", "adapter_stride", "apply_spec_augment", "codevector_dim", "contrastive_logits_temperature",
    "ctc_loss_reduction", "ctc_zero_infinity", "diversity_loss_weight", "feat_extract_dropout", "feat_proj_dropout",
    "feat_quantizer_dropout", "final_dropout", "freeze_feat_extract_train", "gradient_checkpointing", "layerdrop",
    "mask_channel_length", "mask_channel_min_space", "mask_channel_other", "mask_channel_prob", "mask_channel_selection",
    "mask_feature_length", "mask_feature_min_masks", "mask_feature_prob", "mask_time_length", "mask_time_min_masks",
    "mask_time_min_space", "mask_time_other", "mask_time_prob", "mask_time_selection", "no_mask_channel_overlap",
    "no_mask_time_overlap", "num_adapter_layers", "num_clusters", "num_codevector_groups", "num_codevectors_per_group",
    "num_ctc_classes", "num_negatives",
    "output_hidden_size", "proj_codevector_dim", "replace_prob", "tdnn_dilation", "tdnn_dim", "tdnn_kernel", "tokenizer_class",
    "xvector_output_dim",
)  # fmt: skip
FAMILIES = (
    *(
        Family(
            base.replace("_", "-"),
            partial(read, name),
            partial(names, base),
            f"{name}ForCTC",
            _INERT,
            _IGNORED,
            older_names=_OLDER,
            base=f"{base}.",
        )
        for base, name in (
            ("wav2vec2", "Wav2Vec2"),
            ("hubert", "Hubert"),
            ("unispeech", "UniSpeech"),
            ("unispeech_sat", "UniSpeechSat"),
        )
    ),
    Family(
        "data2vec-audio",
        read_data2vec,
        partial(names, "data2vec_audio"),
        "Data2VecAudioForCTC",
        _INERT,
        _IGNORED,
        base="data2vec_audio.",
    ),
)
