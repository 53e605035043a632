"""Calls and reasoning are read out of replies: the same however the text comes, and what is none stays text."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anyformer.describe import UserError
from anyformer.text import Tokenizer
from anyformer.text.replies import CALL_FORMATS, REASONING_FORMATS, ReplyForm, ReplyPart, ToolCall, form_of, told
from text.chat.folders import CHATML, THINKING, write

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "parameters": {"type": "object", "properties": {"word": {"type": "string"}, "count": {"type": "integer"}}},
        },
    }
    for name in ("look_up", "other")
]
XML = "<tool_call>\n<function={0}>\n{1}</function>\n</tool_call>"
SEP, CALL, CALLED = "<｜tool▁sep｜>", "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>"


def xml(name, table):
    values = ((key, value if isinstance(value, str) else json.dumps(value)) for key, value in table.items())
    return XML.format(name, "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in values))


def python(name, table):
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in table.items())})"


def tables(calls, key):
    return [json.dumps({"name": name, key: table}) for name, table in calls]


WRITTEN = {
    "hermes": lambda calls: "\n".join(f"<tool_call>\n{each}\n</tool_call>" for each in tables(calls, "arguments")),
    "qwen-xml": lambda calls: "\n".join(xml(*call) for call in calls),
    "mistral": lambda calls: f"[TOOL_CALLS][{', '.join(tables(calls, 'arguments'))}]",
    "llama": lambda calls: "; ".join(tables(calls, "parameters")),
    "deepseek": lambda calls: (
        "<｜tool▁calls▁begin｜>"
        + "\n".join(f"{CALL}function{SEP}{name}\n```json\n{json.dumps(table)}\n```{CALLED}" for name, table in calls)
        + "<｜tool▁calls▁end｜>"
    ),
    "pythonic": lambda calls: f"[{', '.join(python(*call) for call in calls)}]",
}
"""How the authors of each format write calls."""
NEWER = {
    "mistral": lambda calls: "".join(f"[TOOL_CALLS]{name}[ARGS]{json.dumps(table)}" for name, table in calls),
    "deepseek": lambda calls: (
        "<｜tool▁calls▁begin｜>"
        + "".join(f"{CALL}{name}{SEP}{json.dumps(table)}{CALLED}" for name, table in calls)
        + "<｜tool▁calls▁end｜>"
    ),
    "llama": lambda calls: "<|python_tag|>" + "; ".join(tables(calls, "parameters")),
}
"""A later or another way."""
WORD = st.text(st.sampled_from("ab \"\\{}[]()',;</\u00e9\n"), max_size=12).filter(lambda text: "</" not in text)
CALLS = st.lists(
    st.tuples(
        st.sampled_from(("look_up", "other")),
        st.fixed_dictionaries({"word": WORD.filter(lambda text: text == text.strip("\n"))}, optional={"count": st.integers()}),
    ),
    min_size=1,
    max_size=3,
)


def read(form, pieces, prompt="", tools=TOOLS):
    reader = form.reader(prompt, tools)
    return told([*map(reader.push, pieces), reader.finish()])


def cut(text, places):
    """A text in pieces."""
    ends = sorted({min(place, len(text)) for place in places})
    return [text[begin:end] for begin, end in zip([0, *ends], [*ends, len(text)], strict=True)]


@pytest.mark.parametrize(("name", "write"), [*WRITTEN.items(), *NEWER.items()])
@settings(max_examples=60, deadline=None)
@given(calls=CALLS, thought=st.sampled_from(("", "why\n\nnot? <")), places=st.lists(st.integers(0, 300), max_size=12))
def test_calls_are_those_that_were_written_however_the_text_is_cut(name, write, calls, thought, places):
    text = (f"<think>\n{thought}\n</think>\n\n" if thought else "") + write(calls) + "\n"
    found = read(ReplyForm(CALL_FORMATS[name], REASONING_FORMATS["think"]), cut(text, places))
    assert [(call.name, json.loads(call.arguments)) for call in found.calls] == calls
    assert (found.content, found.reasoning) == ("", thought)


FRAGMENTS = st.lists(
    st.sampled_from(
        [
            *(word for form in CALL_FORMATS.values() for word in (*form.words, *form.first, *form.spelt)),
            *(word for form in REASONING_FORMATS.values() for word in form.words),
            '{"name": "look_up", "arguments": {"word": "a"}}', "look_up", "(word='a')", "]", "}", '"', "\\", " ", "\n", "text",
            "<function=look_up>", "</function>", "<tool", "_call>",
        ]
    ),
    max_size=12,
)  # fmt: skip


@pytest.mark.parametrize("name", CALL_FORMATS)
@settings(max_examples=150, deadline=None)
@given(fragments=FRAGMENTS, places=st.lists(st.integers(0, 200), max_size=20), begun=st.booleans())
def test_any_text_is_read_the_same_however_it_is_cut(name, fragments, places, begun):
    text, prompt = "".join(fragments), "<think>\n" if begun else ""
    form = ReplyForm(CALL_FORMATS[name], REASONING_FORMATS["think"])
    whole = read(form, [text], prompt)
    assert read(form, cut(text, places), prompt) == whole
    assert read(form, text, prompt) == whole
    if not whole.calls and not whole.reasoning and "<think>" not in text and not begun:
        assert whole.content == text


def test_what_is_no_call_is_text_and_takes_nothing_with_it():
    hermes = ReplyForm(CALL_FORMATS["hermes"])
    broken = '<tool_call>\n{"name": }\n</tool_call> then <tool_call>{"name": "look_up", "arguments": {}}</tool_call>'
    assert read(hermes, [broken]) == ReplyPart('<tool_call>\n{"name": }\n</tool_call> then', calls=(ToolCall("look_up", "{}"),))
    assert read(hermes, ['<tool_call>{"name": "look_up"']).content == '<tool_call>{"name": "look_up"'
    inside = '<tool_call>{"name": "look_up", "arguments": {"word": "</tool_call> \\""}}</tool_call>'
    assert json.loads(read(hermes, inside).calls[0].arguments) == {"word": '</tool_call> "'}
    llama = ReplyForm(CALL_FORMATS["llama"])
    assert read(llama, ['{"name": "nobody", "parameters": {}}']).content == '{"name": "nobody", "parameters": {}}'
    assert read(llama, ['{"name": "look_up", "parameters": {}}'], tools=()).calls == ()
    assert read(ReplyForm(CALL_FORMATS["pythonic"]), ["[look_up(word=open('x'))]"]).calls == ()


def test_values_of_xml_are_as_the_schema_has_them():
    found = read(ReplyForm(CALL_FORMATS["qwen-xml"]), [xml("look_up", {"word": "7", "count": 7})])
    assert json.loads(found.calls[0].arguments) == {"word": "7", "count": 7}


def test_reasoning_that_the_prompt_begins_and_that_does_not_end():
    form = ReplyForm(reasoning=REASONING_FORMATS["think"])
    assert read(form, ["so\n</think>\n\nYes"], "...<think>\n") == ReplyPart("Yes", "so")
    assert read(form, ["so </thin"], "<think>") == ReplyPart("", "so </thin")
    assert read(form, ["no <think>a</think>"]) == ReplyPart("no <think>a</think>")


@pytest.mark.parametrize(
    ("template", "calls", "reasoning"),
    [
        (THINKING, "hermes", "think"),
        (CHATML, None, None),
        (CHATML + "{% if add_generation_prompt %}{{ '<think>\n' }}{% endif %}", None, "think"),
        (
            "{% for m in messages %}{{ '<|im_start|>' + m.role + m.content }}{% for c in m.tool_calls or [] %}"
            "{{ '[TOOL_CALLS]' + c.function.name + '[ARGS]' + (c.function.arguments | tojson) }}{% endfor %}"
            "{{ '<|im_end|>' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant' }}{% endif %}",
            "mistral",
            None,
        ),
    ],
)
def test_the_form_is_what_the_template_writes(tmp_path, template, calls, reasoning):
    form = form_of(Tokenizer.load(write(tmp_path, template)))
    assert form.calls == (None if calls is None else CALL_FORMATS[calls])
    assert form.reasoning == (None if reasoning is None else REASONING_FORMATS[reasoning])


def test_forms_by_name_and_what_is_none(tmp_path):
    thinking, plain = (Tokenizer.load(write(tmp_path / str(number), each)) for number, each in enumerate((THINKING, CHATML)))
    assert form_of(thinking, "none", "none") == ReplyForm()
    assert form_of(plain, "pythonic", "seed") == ReplyForm(CALL_FORMATS["pythonic"], REASONING_FORMATS["seed"])
    for calls, said in (("hermess", "did you mean 'hermes'"), ("authors", "has no response_template")):
        with pytest.raises(UserError, match=said):
            form_of(plain, calls)
