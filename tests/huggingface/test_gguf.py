"""GGUF files: written here as llama.cpp's converter does, read as the same models, and beside transformers' own reader."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file
from transformers.integrations.gguf.dequant import GGML_BLOCK
from transformers.integrations.gguf.kernels import dequantize_blocks

import anyformer as af
from anyformer import huggingface
from anyformer.describe import Notice, diff
from anyformer.huggingface import HuggingFaceError
from anyformer.huggingface.find import canonical
from anyformer.huggingface.gguf import GgufFile, beside_of
from anyformer.huggingface.gguf import tokenizer as gguf_tokenizer
from anyformer.huggingface.gguf.reader import pieces_of
from huggingface.case import Case
from huggingface.few_bits import NEAR, logit_gap
from huggingface.parity import pair

VOCAB = 53
_DECODER = {
    "vocab_size": VOCAB, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 64,
}  # fmt: skip
LLAMA3 = {
    "rope_type": "llama3", "rope_theta": 500_000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}  # fmt: skip
CASES = {
    "llama": Case("llama", _DECODER),
    "llama3": Case("llama", {**_DECODER, "rope_parameters": LLAMA3, "tie_word_embeddings": True}),
    "mixtral": Case("mixtral", {**_DECODER, "num_local_experts": 4, "sliding_window": None}),
    "qwen2": Case("qwen2", _DECODER),
    "qwen2moe": Case(
        "qwen2_moe",
        {**_DECODER, "num_experts": 5, "num_experts_per_tok": 2, "moe_intermediate_size": 32,
         "shared_expert_intermediate_size": 64},
    ),
    "qwen3": Case("qwen3", {**_DECODER, "head_dim": 32, "tie_word_embeddings": True}),
    "qwen3moe": Case(
        "qwen3_moe",
        {**_DECODER, "head_dim": 32, "num_experts": 5, "num_experts_per_tok": 2, "moe_intermediate_size": 32,
         "norm_topk_prob": True},
    ),
    "gemma2": Case("gemma2", {**_DECODER, "head_dim": 32, "query_pre_attn_scalar": 32, "sliding_window": 5}),
    "gemma3": Case("gemma3_text", {**_DECODER, "head_dim": 32, "query_pre_attn_scalar": 32, "sliding_window": 5,
                                   "num_hidden_layers": 7}),
    "gpt2": Case("gpt2", {"vocab_size": VOCAB, "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 64}),
    "phi3": Case("phi3", {**_DECODER, "pad_token_id": 0, "sliding_window": 7}),
}  # fmt: skip
ARCHITECTURE = {"llama3": "llama", "mixtral": "llama"}
"""Case -> `general.architecture`, where it is another."""


def apart(tensor, heads):
    """Rows of heads as llama.cpp has them for its rotation of neighbours: first of the first half, first of the second, ..."""
    rows = tensor.reshape(heads, 2, tensor.shape[0] // heads // 2, *tensor.shape[1:])
    return rows.transpose(1, 2).reshape(tensor.shape)


def converted(name, tensors):
    """(name in llama.cpp, tensor) as its converter writes them."""
    architecture = ARCHITECTURE.get(name, name)
    config = CASES[name].config
    layers = config.get("num_hidden_layers", config.get("n_layer"))
    names = gguf.get_tensor_name_map(next(a for a, n in gguf.MODEL_ARCH_NAMES.items() if n == architecture), layers)
    stacks = {}
    for full, tensor in tensors.items():
        short = full
        if ".experts." in full:
            before, _, after = full.partition(".experts.")
            number, _, leaf = after.partition(".")
            short = f"{before}.experts.{leaf}"
            stacks.setdefault(short, {})[int(number)] = tensor
            continue
        x = tensor.float()
        if architecture == "llama" and ("q_proj" in full or "k_proj" in full):
            x = apart(x, config["num_attention_heads" if "q_proj" in full else "num_key_value_heads"])
        if "gemma" in architecture and full.endswith("norm.weight"):
            x = x + 1
        if architecture == "gpt2" and full.endswith("weight") and any(part in full for part in ("c_attn", "c_proj", "c_fc")):
            x = x.mT
        if full.endswith("shared_expert_gate.weight"):
            x = x.flatten()
        yield names.get_name(short, try_suffixes=(".weight", ".bias")), x
    for short, stack in stacks.items():
        yield names.get_name(short, try_suffixes=(".weight",)), torch.stack([stack[i].float() for i in range(len(stack))])


def metadata(writer, name):
    """What llama.cpp's converter writes about a model."""
    config = pair(CASES[name]).theirs.config
    writer.add_vocab_size(config.vocab_size)
    if name == "gpt2":
        writer.add_context_length(config.n_positions)
        writer.add_embedding_length(config.n_embd)
        writer.add_feed_forward_length(4 * config.n_embd)
        writer.add_block_count(config.n_layer)
        writer.add_head_count(config.n_head)
        writer.add_layer_norm_eps(config.layer_norm_epsilon)
        return
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    width = CASES[name].config.get("head_dim")
    if width:
        writer.add_key_length(width)
        writer.add_value_length(width)
    table = config.rope_parameters
    writer.add_rope_freq_base(table.get("full_attention", table)["rope_theta"])
    if name.endswith("moe") or name == "mixtral":
        writer.add_expert_count(getattr(config, "num_experts", None) or config.num_local_experts)
        writer.add_expert_used_count(config.num_experts_per_tok)
        if name != "mixtral":
            writer.add_expert_feed_forward_length(config.moe_intermediate_size)
    if name == "qwen2moe":
        writer.add_expert_shared_feed_forward_length(config.shared_expert_intermediate_size)
    if name in ("gemma2", "gemma3", "phi3"):
        writer.add_sliding_window(config.sliding_window)
    if name == "gemma2":
        writer.add_attn_logit_softcapping(config.attn_logit_softcapping)
        writer.add_final_logit_softcapping(config.final_logit_softcapping)
    if name == "phi3":
        writer.add_rope_dimension_count(config.hidden_size // config.num_attention_heads)


def write(path: Path, name: str, kind: str = "F32", extra=lambda writer: None, **split: int) -> Path:
    """A tiny model as a GGUF file; matrices whose rows fit blocks in `kind`."""
    writer = gguf.GGUFWriter(path, ARCHITECTURE.get(name, name), **split)
    metadata(writer, name)
    extra(writer)
    type_ = gguf.GGMLQuantizationType[kind]
    tensors = load_file(pair(CASES[name]).directory / "model.safetensors")
    if "rope_parameters" in CASES[name].config:
        from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

        scaled, _ = ROPE_INIT_FUNCTIONS["llama3"](pair(CASES[name]).theirs.config, "cpu")
        plain = 500_000.0 ** (-torch.arange(0, 16, 2) / 16)
        writer.add_tensor("rope_freqs.weight", (plain / scaled).numpy().astype(np.float32))
    for short, tensor in converted(name, tensors):
        x = np.ascontiguousarray(tensor.numpy())
        if x.ndim > 1 and kind != "F32" and x.shape[-1] % gguf.GGML_QUANT_SIZES[type_][0] == 0:
            writer.add_tensor(short, gguf.quants.quantize(x, type_), raw_dtype=type_)
        else:
            writer.add_tensor(short, x)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.mark.parametrize("name", CASES)
def test_architectures_are_the_models_that_they_were(tmp_path, name):
    path = write(tmp_path / "model.gguf", name)
    ours, tokenizer = af.load(path)
    theirs = pair(CASES[name])
    assert tokenizer is None
    assert not diff(canonical(ours.architecture), canonical(theirs.ours.architecture))
    for key, value in theirs.ours.named_parameters():
        # Gains of Gemma are stored as 1 + w, in fp32.
        torch.testing.assert_close(ours.get_parameter(key), value, rtol=0, atol=2e-7 if "gemma" in name else 0)
    assert logit_gap(ours, theirs.theirs, CASES[name]) <= NEAR


@pytest.mark.parametrize("name", ["llama", "qwen2", "gpt2", "qwen3", "gemma2"])
def test_transformers_reads_the_same_from_the_file(tmp_path, name):
    path = write(tmp_path / "model.gguf", name, "Q8_0")
    # Its own reading of the metadata leaves out the width of Qwen 3's heads and Gemma 2's scale: those of published sizes hold.
    config = None if name in ("llama", "qwen2") else pair(CASES[name]).theirs.config
    more = {} if config is None else {"config": config}
    read = transformers.AutoModelForCausalLM.from_pretrained
    theirs = read(tmp_path, gguf_file="model.gguf", dtype=torch.float32, **more).eval()
    ours, _ = af.load(path, dtype=torch.float32)
    assert logit_gap(ours, theirs, CASES[name]) <= NEAR


def five_bits(data, kind):
    """Blocks of 32: a scale, in Q5_1 the least number too, the fifth bit of each number, then two numbers in a byte."""
    rows = []
    for row in data:
        numbers = []
        for block in row.reshape(-1, 22 if kind == "Q5_0" else 24).tolist():
            scale = float(np.frombuffer(bytes(block[:2]), np.float16)[0])
            least = 0.0 if kind == "Q5_0" else float(np.frombuffer(bytes(block[2:4]), np.float16)[0])
            fifth = int.from_bytes(bytes(block[-20:-16]), "little")
            codes = [byte & 15 for byte in block[-16:]] + [byte >> 4 for byte in block[-16:]]
            codes = [code | (fifth >> i & 1) << 4 for i, code in enumerate(codes)]
            numbers += [
                scale * (code - 16) if kind == "Q5_0" else np.float32(scale * code) + np.float32(least) for code in codes
            ]
        rows.append(numbers)
    return torch.tensor(rows, dtype=torch.float32)


@pytest.mark.parametrize("kind", ["F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1"])
def test_types_that_the_package_writes(tmp_path, kind):
    """Held against the restoring of transformers, which is in torch."""
    path = write(tmp_path / "model.gguf", "qwen2", kind)
    file = GgufFile(path, torch.float32)
    name = "model.layers.1.mlp.up_proj.weight"
    stored = next(each for each in gguf.GGUFReader(path).tensors if each.name == "blk.1.ffn_up.weight")
    assert stored.tensor_type.name == kind
    if kind.startswith("Q5"):
        expected = five_bits(np.array(stored.data), kind)
    elif int(stored.tensor_type) in GGML_BLOCK:
        blocks = torch.from_numpy(np.array(stored.data))
        expected = dequantize_blocks(blocks, int(stored.tensor_type), 96, 64, torch.float32)
    else:
        expected = load_file(pair(CASES["qwen2"]).directory / "model.safetensors")[name]
        expected = expected.to({"F16": torch.float16, "BF16": torch.bfloat16}[kind]).float()
    assert torch.equal(file.tensor(name), expected)
    usual = {"F16": torch.float16}.get(kind, torch.bfloat16)
    assert {parameter.dtype for parameter in af.load(path)[0].parameters()} == {usual}


@pytest.mark.parametrize("kind", ["Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS"])
def test_types_in_large_blocks(tmp_path, kind):
    """Random bytes with small scales: every code is a number. The package restores them row by row."""
    type_ = gguf.GGMLQuantizationType[kind]
    block, size = gguf.GGML_QUANT_SIZES[type_]
    rows = 700
    bytes = np.random.default_rng(0).integers(0, 256, (rows, 512 // block * size), dtype=np.uint8)
    scales = {"Q2_K": (80, 82), "Q3_K": (size - 2,), "Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (size - 2,)}.get(kind, (0,))
    for start in range(0, bytes.shape[1], size):
        for place in scales:  # a number of 16 bits with an exponent below 2^-10
            bytes[:, start + place + 1] &= 0x13
    writer = gguf.GGUFWriter(tmp_path / "model.gguf", "qwen2")
    for key in ("context_length", "feed_forward_length", "block_count", "head_count", "head_count_kv"):
        getattr(writer, f"add_{key}")(1)
    writer.add_embedding_length(512)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_tensor("token_embd.weight", bytes, raw_dtype=type_)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    found = GgufFile(tmp_path / "model.gguf", torch.float32).tensor("model.embed_tokens.weight")
    assert found.shape == (rows, 512)
    assert np.array_equal(found.numpy(), gguf.quants.dequantize(bytes, type_), equal_nan=True)
    if int(type_) in GGML_BLOCK:
        theirs = dequantize_blocks(torch.from_numpy(bytes), int(type_), rows, 512, torch.float32)
        torch.testing.assert_close(found, theirs, rtol=1e-6, atol=0, equal_nan=True)


def test_a_file_is_shown_and_imported_like_a_directory(tmp_path):
    path = write(tmp_path / "model.gguf", "llama")
    assert af.architecture(path) == af.architecture(str(path)) == huggingface.load(path)[0].architecture
    assert huggingface.verify(path).agrees
    with pytest.raises(HuggingFaceError, match=r"has no config\.json; give its GGUF file: .*model\.gguf"):
        huggingface.load(tmp_path)


def stored_as(change):
    def extra(writer):
        for key, value in change.items():
            add = (
                writer.add_string
                if isinstance(value, str)
                else writer.add_float32
                if isinstance(value, float)
                else writer.add_uint32
            )
            add(key, value)

    return extra


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("llama", {"llama.rope.scaling.type": "dynamic"}, r'llama\.rope\.scaling\.type = "dynamic" is not read here'),
        ("llama", {"llama.rope.dimension_count": 8}, r"llama\.rope\.dimension_count = 8 is not read here, only 16"),
        ("llama", {"llama.residual_scale": 0.5}, r"llama has keys that are not known here.*residual_scale = 0\.5"),
        ("llama", {"split.count": 3}, "is one of 3 files with .* tensors, and 1 with .* are here"),
    ],
)
def test_metadata_that_is_not_read_is_refused(tmp_path, name, change, words):
    path = write(tmp_path / "model.gguf", name, extra=stored_as(change))
    with pytest.raises(HuggingFaceError, match=words):
        huggingface.load(path)


def test_a_file_in_pieces_is_read_from_any_of_them(tmp_path):
    whole, _ = huggingface.load(write(tmp_path / "whole.gguf", "llama"))
    write(tmp_path / "model.gguf", "llama", split_max_tensors=6)
    pieces = sorted(tmp_path.glob("model-*.gguf"))
    assert len(pieces) > 2
    for piece in (pieces[0], pieces[-1]):
        joined, _ = huggingface.load(piece)
        assert joined.architecture == whole.architecture
        assert all(torch.equal(value, whole.get_parameter(name)) for name, value in joined.named_parameters())
    pieces[1].unlink()
    with pytest.raises(HuggingFaceError, match=rf"is one of {len(pieces)} files with .* and {len(pieces) - 1} with"):
        huggingface.load(pieces[0])
    pieces[0].unlink()
    with pytest.raises(HuggingFaceError, match="put all of them side by side"):
        huggingface.load(pieces[-1])


def test_other_architectures_and_damage_are_named(tmp_path):
    writer = gguf.GGUFWriter(tmp_path / "other.gguf", "rwkv7")
    writer.add_tensor("token_embd.weight", np.zeros((3, 4), dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(HuggingFaceError, match="architecture 'rwkv7' is not read from GGUF files"):
        huggingface.load(tmp_path / "other.gguf")
    path = write(tmp_path / "model.gguf", "llama")
    whole = path.read_bytes()
    for length in (0, 3, 100, 3000, len(whole) - 100):
        path.write_bytes(whole[:length])
        with pytest.raises(HuggingFaceError, match=r"model\.gguf: cannot be read as GGUF"):
            huggingface.load(path)


def test_heads_that_do_not_fit_the_tensors_are_named(tmp_path):
    path = write(tmp_path / "model.gguf", "llama", extra=lambda w: w.add_head_count(6))
    with pytest.raises(HuggingFaceError, match=r"model\.gguf: blk\.0\.(attn_q\.weight of shape \(64, 64\) does not fit)"):
        huggingface.load(path)


def test_factors_of_no_known_scaling_are_refused(tmp_path):
    name, config = "llama3", pair(CASES["llama3"]).theirs.config
    old = config.rope_parameters["low_freq_factor"]
    try:
        config.rope_parameters["low_freq_factor"] = 2.0
        path = write(tmp_path / "model.gguf", name)
    finally:
        config.rope_parameters["low_freq_factor"] = old
    with pytest.raises(HuggingFaceError, match=r"rope_freqs\.weight follows from none of the settings"):
        huggingface.load(path)


def test_a_tensor_without_a_place_is_named(tmp_path):
    path = write(tmp_path / "model.gguf", "llama", extra=lambda w: w.add_tensor("blk.0.odd.weight", np.zeros(3, np.float32)))
    with pytest.raises(HuggingFaceError, match=r"1 tensors have no place.*blk\.0\.odd\.weight"):
        huggingface.load(path)


def test_long_arrays_are_read_at_once_and_counts_are_bounded(tmp_path, monkeypatch):
    """The package reads each token by itself: a minute for a million of them."""
    from anyformer.huggingface.gguf import reader

    many = 3 * reader.WALKED

    def lists(writer):
        writer.add_tokenizer_model("gpt2")
        writer.add_token_list([f"t{i}" for i in range(many)])
        writer.add_token_types([1] * many)

    path = write(tmp_path / "model.gguf", "llama", extra=lists)
    parts = []
    own = gguf.GGUFReader._get
    monkeypatch.setattr(gguf.GGUFReader, "_get", lambda *args, **more: parts.append(1) or own(*args, **more))
    assert GgufFile(path).config("vocab_size") > 0
    assert len(parts) < many
    assert reader.entries_of(path, "tokenizer.ggml.tokens") == many
    assert reader.entries_of(path, "tokenizer.ggml.model") == reader.entries_of(path, "nothing") == 0
    assert reader.opened(path).fields["tokenizer.ggml.token_type"].contents() == [1] * many
    for name in ("MOST_KEYS", "MOST_TENSORS"):
        with monkeypatch.context() as changed:
            changed.setattr(reader, name, 1)
            with pytest.raises(HuggingFaceError, match=r"cannot be read as GGUF .*at most 1 are"):
                huggingface.load(path)
    monkeypatch.setattr(gguf_tokenizer, "MOST_PIECES", 2)
    with pytest.warns(Notice, match=f"goes without its tokenizer, which has {many} pieces"):
        assert "tokenizer.json" not in beside_of(path).files


def test_an_array_that_ends_beyond_the_file_is_damage(tmp_path):
    path = write(tmp_path / "model.gguf", "llama", extra=lambda writer: writer.add_token_types([1] * 1000))
    whole = path.read_bytes()
    at = whole.index(b"tokenizer.ggml.token_type") + len("tokenizer.ggml.token_type") + 8
    for count in (10**6, 2**62):
        path.write_bytes(whole[:at] + count.to_bytes(8, "little") + whole[at + 8 :])
        with pytest.raises(HuggingFaceError, match=r"model\.gguf: cannot be read as GGUF"):
            huggingface.load(path)


def test_pieces_are_looked_for_among_the_files_that_are_there(tmp_path, monkeypatch):
    """Each of 99,999 names was asked for by itself."""
    (tmp_path / "n-00002-of-99999.gguf").touch()
    (tmp_path / "m-00003-of-99999.gguf").touch()
    first = tmp_path / "n-00001-of-99999.gguf"
    asked = []
    monkeypatch.setattr(Path, "is_file", lambda path: bool(asked.append(path)) or path.exists())
    assert pieces_of(first) == [first, tmp_path / "n-00002-of-99999.gguf"]
    assert len(asked) < 5


def test_a_dimension_of_0_is_named(tmp_path):
    path = write(
        tmp_path / "model.gguf", "llama", extra=lambda w: w.add_tensor("blk.0.odd.weight", np.empty((0, 4), np.float32))
    )
    with pytest.raises(HuggingFaceError, match=r"model\.gguf: blk\.0\.odd\.weight has a dimension of 0"):
        huggingface.load(path)
