"""DeepSeek 1 and Sarvam: dense layers, then fine experts beside shared ones, with attention over heads.

DeepSeek 1 is also the text model of DeepSeek-OCR 2 and, with windows behind the prompt, of Unlimited-OCR. Keys and names are
facts of the published files, of which the code is never run; vLLM reads the same ones in
vllm/model_executor/models/deepseek_v2.py and sarvam.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.family import Family
from anyformer.huggingface.places import FULL
from anyformer.huggingface.rules import Rows, Table, To
from anyformer.huggingface.target import nowhere
from anyformer.huggingface.vocabulary import SIZE
from anyformer.huggingface.words.names import ATTENTION, FEEDFORWARD, NORMS, OUTSIDE, QKV, ROUTED, SHARED, decoder_names
from anyformer.model import Architecture
from anyformer.parts import Causal, Groups, Prefix, QKNorm, Router, TopK, Window
from anyformer.parts.masks.mask import Mask

_PLAIN: Mapping[str, Mask] = {"full": Causal()}
_KEYS = {"counted": ("n_routed_experts", "num_experts"), "chosen_key": ("num_experts_per_tok",)}


def read_deepseek(config: Config) -> Architecture:
    config.assume(vocab_size=102_400, hidden_size=2048, num_hidden_layers=28, num_attention_heads=16, intermediate_size=10_944)
    config.expect_all(scoring_func="softmax", moe_layer_freq=1)
    config.expect("topk_method", "greedy", "gready", None)
    return _deepseek(config, words.renormalised(config, True), words.dense_first(config, "first_k_dense_replace", 0))


def read_ocr(config: Config) -> Architecture:
    """The text model of DeepSeek-OCR 2, whose keys are DeepSeek-V2's."""
    config.assume(vocab_size=102_400, hidden_size=4096, num_hidden_layers=32, num_attention_heads=32, intermediate_size=11_008)
    config.expect("mlp_bias", False)
    _whole_heads(config)
    kinds = words.types(config, None, "mlp_layer_types", {"sparse": "experts", "dense": "dense"})
    return _deepseek(config, None, kinds, width=1407)


def read_unlimited(config: Config) -> Architecture:
    """The text model of Unlimited-OCR: DeepSeek-OCR 2's, whose layers see the whole prompt and a window of what follows it.

    The prompt is the first positions, whose number a call names (`prefix`), as generation does.
    """
    config.assume(vocab_size=129_280, hidden_size=1280, num_hidden_layers=12, num_attention_heads=10, intermediate_size=6848)
    config.assume(num_key_value_heads=10)
    config.expect("mlp_bias", False)
    _whole_heads(config)
    kinds = words.mlp_types(config, config("first_k_dense_replace", 1, nowhere))
    known = {"reference_sliding_attention": "local", FULL: "full"}
    seen = words.types(config, lambda _: "reference_sliding_attention", "layer_types", known, nowhere)
    masks = {"local": Causal() & (Window(size=config("sliding_window", 128, kind=SIZE)) | Prefix()), "full": Causal()}
    return _deepseek(config, None, kinds, width=896, seen=seen, masks=masks)


def _whole_heads(config: Config) -> None:
    width = config("hidden_size") // config("num_attention_heads")
    config.expect("head_dim", width, None, why="transformers takes hidden_size / num_attention_heads, whatever it says")


def _deepseek(
    config: Config,
    renormalise: object,
    kinds: list[str],
    width: int = 1408,
    seen: Sequence[str] = (),
    masks: Mapping[str, Mask] = _PLAIN,
) -> Architecture:
    """`kinds`: the network of every layer; `seen`: the word of the mask of its attention, by default the first of `masks`."""
    method, choice = config("topk_method", "greedy"), TopK()
    count, keep = config("n_group", None), config("topk_group", None)
    if method == "group_limited_greedy":
        if count is None or keep is None:
            raise HuggingFaceError(
                f"{config.where}: topk_method = {method!r} chooses among the best topk_group of n_group groups: give both, got "
                f"n_group = {count} and topk_group = {keep}"
            )
        choice = TopK(groups=Groups(count=count, keep=keep))
    elif method not in ("greedy", "gready", None):
        raise HuggingFaceError(f"{config.where}: topk_method = {method!r} is not known for {config.model_type}")
    router = Router(choice=choice, renormalise=renormalise, scale=float(config("routed_scaling_factor", 1.0)))  # type: ignore[arg-type]
    experts = words.experts(config, router, count=64, chosen=6, width=width, **_KEYS)  # type: ignore[arg-type]
    experts = words.shared_of(config, experts, 2, "n_shared_experts")
    norm, heads = words.rms_norm(config), words.attention(config, rotary=words.rotary(config))
    seen = seen or [next(iter(masks))] * len(kinds)
    layers = words.expert_layers(
        config, norm, lambda word, _: heads.but(mask=masks[word]), experts, words.feedforward(config), seen, kinds
    )
    return words.decoder(config, layers, norm)


def read_sarvam(config: Config) -> Architecture:
    config.assume(vocab_size=262_144, hidden_size=4096, num_hidden_layers=19, num_attention_heads=16, intermediate_size=8192)
    config.expect_all(use_qkv_bias=False, attention_bias=False, use_bias=False, use_qk_norm=True)
    config.expect_all(moe_router_enable_expert_bias=True)
    config.expect_all(embedding_dropout=0.0, output_dropout=0.0, norm_topk_prob=True, score_function="sigmoid")
    norm = words.rms_norm(config)
    rotary = words.rotary(config, fraction=1.0)
    heads = words.attention(config, kv_heads=4, head_width=256, bias=(), rotary=rotary, qk_norm=QKNorm(norm=norm))
    router = words.v3_router(config, scale=2.5)
    # The second of each is what transformers 5.24 calls it.
    experts = words.experts(config, router, count=128, chosen=6, width=1024, counted=("num_experts", "n_routed_experts"))
    shared = "n_shared_experts" if "n_shared_experts" in config.written else "num_shared_experts"
    experts = words.shared_of(config, experts, 1, shared)
    for key in ("num_nextn_predict_layers", "num_mtp_layers"):
        config.expect(key, 0, None)
    kinds = words.dense_first(config, "first_k_dense_replace", 1)
    layers = words.expert_layers(config, norm, lambda _: heads, experts, words.feedforward(config), kinds)
    return words.decoder(config, layers, norm)


_SARVAM: Table = {
    QKV: To("attention.query_key_value", Rows()),
    "attention.output": "attention.dense",
    "attention.query_norm": "attention.query_layernorm",
    "attention.key_norm": "attention.key_layernorm",
    "experts.router.correction": "mlp.gate.expert_bias",
}
_NAMES = decoder_names(ATTENTION, FEEDFORWARD, ROUTED, SHARED, NORMS)
_WAVES = (r".*\.rotary_emb\.inv_freq",)
FAMILIES = (
    Family(
        "deepseek",
        read_deepseek,
        _NAMES,
        "DeepseekForCausalLM",
        inert=("aux_loss_alpha", "ep_size", "seq_aux"),
        ignored=_WAVES,
    ),
    Family("deepseek_ocr2_text", read_ocr, _NAMES, ""),
    Family("unlimited_ocr_text", read_unlimited, _NAMES, "", inert=("pretraining_tp",)),
    Family(
        "sarvam_moe",
        read_sarvam,
        decoder_names(_SARVAM, FEEDFORWARD, ROUTED, SHARED, NORMS, outside={**OUTSIDE, "embedding": "model.word_embeddings"}),
        "SarvamMoEForCausalLM",
        inert=("attn_implementation", "max_window_layers"),
        ignored=_WAVES,
    ),
)
