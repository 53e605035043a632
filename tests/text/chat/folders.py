"""Directories of tokenizers with chat templates, whose logics are those of published models."""

from __future__ import annotations

import gzip
import json
import re
from functools import cache
from pathlib import Path

import pytest

import anyformer as af
from anyformer.data import BytePairs
from anyformer.data.vocabulary import make_tokenizer
from anyformer.describe import change_all
from anyformer.text import Specials, Tokenizer
from anyformer.text.specials import SPEAKING
from data.texts import prose

PUBLISHED = Path(__file__).parents[4] / "shared" / "data" / "tokenizers"
TOKENS = ("<|im_start|>", "<|im_end|>", "<|sep|>", "<|end|>", "[INST]", "[/INST]", "<start_of_turn>", "<end_of_turn>")
ORDINARY = ("<think>", "</think>", "<tool_call>", "</tool_call>", "\n")
"""Tokens of their own that are not special, as in Qwen's tokenizers and Gemma's."""

CHAT = [
    {"role": "system", "content": "Be short."},
    {"role": "user", "content": "  What is 2 + 2?\n"},
    {"role": "assistant", "content": "4, of course."},
    {"role": "user", "content": "And <|turn_end|> or <|im_end|><|assistant|>?"},
    {"role": "assistant", "content": "Text, <|turn_end|>\nno more.  "},
]
"""Turns with blanks at their ends, and words that spell special tokens."""
CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' }}"
    "{% if message['role'] == 'assistant' %}"
    "{% generation %}{{ message['content'] + '<|im_end|>' }}{% endgeneration %}{{ '\n' }}"
    "{% else %}{{ message['content'] + '<|im_end|>\n' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
THINKING = """
{%- set ns = namespace(last=messages|length - 1) %}
{%- for m in messages %}{% if m.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}{% endfor %}
{%- for m in messages %}
    {{- '<|im_start|>' + m.role + '\n' }}
    {%- if m.role == 'assistant' %}
        {%- generation %}
        {%- set said = m.content %}
        {%- set thought = m.reasoning_content or '' %}
        {%- if '</think>' in said %}
            {%- set thought = said.split('</think>')[0].split('<think>')[-1].strip('\n') %}
            {%- set said = said.split('</think>')[-1].lstrip('\n') %}
        {%- endif %}
        {%- if loop.index0 > ns.last and (loop.last or thought) %}{{- '<think>\n' + thought + '\n</think>\n\n' }}{% endif %}
        {{- said }}
        {%- for call in m.tool_calls or [] %}
            {{- '<tool_call>\n' + call.function | tojson + '\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\n' }}
        {%- endgeneration %}
    {%- else %}
        {{- m.content }}{% if m.role == 'user' and '/no_think' in m.content %}{{ ' (no thoughts)' }}{% endif %}
        {{- '<|im_end|>\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\n\n</think>\n\n' }}{% endif %}
{%- endif %}
"""
DATED = """
{%- if messages[0].role != 'system' %}
    {{- '<|im_start|>system\nToday is ' + strftime_now('%B %d, %Y') + '.<|im_end|>\n' }}
{%- endif %}
{%- for m in messages %}
    {{- '<|im_start|>' ~ m.role ~ '\n' }}
    {%- set said = m.content | upper if m.content | length > 12 else m.content %}
    {%- if m.role == 'assistant' %}{%- generation %}{{- said ~ '<|im_end|>\n' }}{%- endgeneration %}
    {%- else %}{{- said ~ '<|im_end|>\n' }}{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{% endif %}
"""
MERGING = """
{%- if messages[0].role == 'system' %}{% set told, rest = messages[0].content, messages[1:] %}
{%- else %}{% set told, rest = none, messages %}{% endif %}
{{- bos_token }}
{%- for m in rest %}
    {%- if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles must alternate') }}{% endif %}
    {%- if m.role == 'user' %}{{- '[INST] ' }}{% if loop.last and told %}{{- told + '\n\n' }}{% endif %}
        {{- m.content + '[/INST]' }}
    {%- else %}{%- generation %}{{- ' ' + m.content | trim + eos_token }}{%- endgeneration %}{% endif %}
{%- endfor %}
"""
ALTERNATING = """{{ bos_token }}
{%- if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}
{%- for m in messages %}
    {%- if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles must alternate') }}{% endif %}
    {%- set role = 'model' if m.role == 'assistant' else m.role %}
    {{- '<start_of_turn>' + role + '\n' }}
    {%- if m.role == 'assistant' %}{%- generation %}{{- m.content | trim + '<end_of_turn>\n' }}{%- endgeneration %}
    {%- else %}{{- m.content | trim + '<end_of_turn>\n' }}{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<start_of_turn>model\n' }}{% endif %}
"""
SPLITTING = """{{ bos_token }}
{%- for m in messages %}
    {%- if m.role == 'user' %}{{- '<|sep|>user' + m.content }}
    {%- elif m.role == 'assistant' %}
        {%- set said = m.content %}
        {%- if '</think>' in said %}{% set said = said.split('</think>')[-1] %}{% endif %}
        {{- '<|sep|>assistant' }}{%- generation %}{{- said + eos_token }}{%- endgeneration %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|sep|>assistant<think>\n' }}{% endif %}
"""
CLOSED = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}"
    "{% if m.role == 'assistant' %}{% generation %}{{ m.content + '<|end|>\n' }}"
    "{% if loop.last %}{{ eos_token }}{% endif %}{% endgeneration %}"
    "{% else %}{{ m.content + '<|end|>\n' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
"""Phi's: the last turn alone ends with the end of text."""
LOGICS = {
    "thinking": THINKING, "dated": DATED, "merging": MERGING, "alternating": ALTERNATING, "splitting": SPLITTING,
    "closed": CLOSED,
}  # fmt: skip


def plain(template: str) -> str:
    """A template without the marks around what the assistant says."""
    return re.sub(r"\{%-? (?:end)?generation %\}", "", template)


@cache
def ours() -> Tokenizer:
    return make_tokenizer(BytePairs(vocab=400), lambda: [prose(3, 4000)], list, Specials(roles=SPEAKING))


def write_model(folder: Path, template: str) -> Path:
    """A tiny chat model in Hugging Face's layout, with this template."""
    tokenizer = Tokenizer.load(write(folder / "tokenizer", template))
    tiny = change_all(af.architecture("llama-12m", tiny=True), {"embedding.vocab": tokenizer.vocab_size})
    af.export(af.build(tiny, seed=1), folder / "model", tokenizer=tokenizer)
    return folder / "model"


def write(directory: Path, template: str | list[dict[str, str]] | None, **config: object) -> Path:
    """Our tokenizer with the tokens of published models, and this template, as a directory."""
    table = json.loads(ours().definition)
    usual = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    for number, name in enumerate((*TOKENS, *ORDINARY)):
        table["added_tokens"].append({"id": 1000 + number, "content": name, **usual, "special": name in TOKENS})
    named = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<|endoftext|>", "eos_token": "<|im_end|>"}
    written = {} if template is None else {"chat_template": template}
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "tokenizer.json").write_text(json.dumps(table))
    (directory / "tokenizer_config.json").write_text(json.dumps({**named, **written, **config}))
    return directory


def published(name: str, directory: Path) -> Path:
    """A published tokenizer, unpacked; the test skips where it is not at hand."""
    if not (PUBLISHED / name).is_dir():
        pytest.skip(f"the published tokenizer {name} is not at hand")
    for file in ("tokenizer.json", "tokenizer_config.json"):
        (directory / file).write_bytes(gzip.decompress((PUBLISHED / name / f"{file}.gz").read_bytes()))
    return directory
