"""Calls, reasoning and forms of answers over HTTP: whole and in pieces; what cannot be had is refused by name."""

from __future__ import annotations

import json
import re

import jsonschema
import pytest

from anyformer.catalogue import architecture
from anyformer.describe import change
from anyformer.generation import Sampling, generate
from anyformer.model.transformer import build
from anyformer.serving.bodies import ChatBody
from anyformer.serving.conversations import asked_tokens, chat_of
from anyformer.text import Tokenizer
from anyformer.text.chat import Chat, prompt_tokens
from anyformer.text.replies import CALL_FORMATS, REASONING_FORMATS, ReplyForm
from serving.service import running, service
from text.chat.folders import CHATML, THINKING, write

CHATS, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
FUNCTION = {
    "name": "look_up",
    "parameters": {
        "type": "object",
        "properties": {"word": {"type": "string", "maxLength": 3}},
        "required": ["word"],
        "additionalProperties": False,
    },
}
TOOLS = [{"type": "function", "function": FUNCTION}, {"type": "function", "function": {**FUNCTION, "name": "other"}}]
ASKED = [{"role": "user", "content": "hi"}]
WITH_TOOLS = "{% for tool in tools or [] %}{{ tool | tojson }}{% endfor %}"
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer", "minimum": 0, "maximum": 99}}, "required": ["a"],
          "additionalProperties": False}  # fmt: skip
LENGTH = 900


def made(folder, template, form=None):
    tokenizer = Tokenizer.load(write(folder, template))
    tiny = change(architecture("llama-12m", tiny=True), "embedding.vocab", tokenizer.vocab_size)
    model = build(tiny, seed=3).eval()
    return model, tokenizer, running(service(model, tokenizer, replies=form, length=LENGTH, memory=2**30))


@pytest.fixture(scope="module")
def chat(tmp_path_factory):
    """A model that calls as Hermes does."""
    *_, client = made(tmp_path_factory.mktemp("chat"), WITH_TOOLS + THINKING, ReplyForm(CALL_FORMATS["hermes"]))
    with client as found:
        yield found


def asked(client, address=CHATS, **body):
    answer = client.post(address, json={"messages": ASKED, "seed": 1, **body} if address == CHATS else body)
    assert answer.status_code == 200, answer.text
    return answer.json()["choices"]


def pieces(client, **body):
    """The deltas of a stream's one answer, and why it ended."""
    answer = client.post(CHATS, json={"messages": ASKED, "seed": 1, "stream": True, **body})
    assert answer.status_code == 200, answer.text
    lines = [line.removeprefix("data: ") for line in answer.text.split("\n\n") if line]
    choices = [json.loads(line)["choices"][0] for line in lines[:-1]]
    return [choice["delta"] for choice in choices], [each["finish_reason"] for each in choices if each["finish_reason"]]


def saying(text):
    """Fields by which a model of any weights says a text."""
    return {"structured_outputs": {"regex": re.escape(text).replace("\\ ", " ").replace("\\\n", "\n")}, "max_tokens": 300}


def called(word, name="look_up"):
    return "<tool_call>\n" + json.dumps({"name": name, "arguments": {"word": word}}) + "\n</tool_call>"


def test_calls_come_whole_and_in_pieces(chat):
    body = {"tools": TOOLS, **saying(f"Wait.\n{called('one')}\n{called('two', 'other')}")}
    (choice,) = asked(chat, **body)
    message = choice["message"]
    assert (message["content"], choice["finish_reason"]) == ("Wait.", "tool_calls")
    functions = [call["function"] for call in message["tool_calls"]]
    assert [(each["name"], json.loads(each["arguments"])) for each in functions] == [
        ("look_up", {"word": "one"}),
        ("other", {"word": "two"}),
    ]
    assert all(re.fullmatch("[a-zA-Z0-9]{9}", call["id"]) for call in message["tool_calls"])
    deltas, reasons = pieces(chat, **body)
    assert "".join(delta.get("content", "") for delta in deltas) == "Wait."
    streamed = [call for delta in deltas for call in delta.get("tool_calls", ())]
    assert [call["index"] for call in streamed] == [0, 1]
    assert [call["function"] for call in streamed] == functions
    assert reasons == ["tool_calls"]
    assert len(asked(chat, **body, parallel_tool_calls=False)[0]["message"]["tool_calls"]) == 1
    for free in ({**body, "tools": []}, {**body, "tool_choice": "none"}):
        (plain,) = asked(chat, **free)
        assert plain["message"]["content"].endswith(called("two", "other"))
        assert plain["finish_reason"] == "stop"


@pytest.mark.parametrize("seed", [1, 2])
def test_a_call_that_is_required_is_one_of_the_functions(chat, seed):
    for choice, names in (("required", {"look_up", "other"}), ({"type": "function", "function": {"name": "other"}}, {"other"})):
        body = {"tools": TOOLS, "tool_choice": choice, "parallel_tool_calls": False, "max_tokens": 300, "seed": seed}
        (found,) = asked(chat, **body)
        (call,) = found["message"]["tool_calls"]
        assert call["function"]["name"] in names
        jsonschema.validate(json.loads(call["function"]["arguments"]), FUNCTION["parameters"])
        deltas, _ = pieces(chat, **body)
        assert [each["function"] for delta in deltas for each in delta.get("tool_calls", ())] == [call["function"]]


def test_an_answer_has_the_form_that_is_asked_for(chat):
    form = {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA}}
    for choice in asked(chat, response_format=form, n=3):
        jsonschema.validate(json.loads(choice["message"]["content"]), SCHEMA)
    (free,) = asked(chat, response_format={"type": "json_object"}, max_tokens=500, logit_bias={"92": 100})
    assert free["finish_reason"] == "length" or isinstance(json.loads(free["message"]["content"]), dict)
    (choice,) = asked(chat, COMPLETIONS, prompt="a", structured_outputs={"choice": ["yes", "no"]})
    assert choice["text"] in ("yes", "no")
    (choice,) = asked(
        chat, COMPLETIONS, prompt="a", structured_outputs={"grammar": 'start: "(" start ")" | "x"'}, max_tokens=99
    )
    assert re.fullmatch(r"\(*x\)*", choice["text"])


def test_reasoning_that_the_template_begins_stands_apart(tmp_path):
    form = ReplyForm(reasoning=REASONING_FORMATS["think"])
    template = CHATML + "{% if add_generation_prompt %}{{ '<think>\n' }}{% endif %}"
    model, tokenizer, client = made(tmp_path, template, form)
    said = generate(model, tokenizer, [ASKED], chat=True, max_tokens=9, sampling=Sampling(temperature=1, seed=1))[0]
    with client as found:
        (choice,) = asked(found, max_tokens=9, temperature=1)
        assert (choice["message"]["content"], choice["message"]["reasoning_content"]) == ("", said.strip())
        deltas, _ = pieces(found, max_tokens=9, temperature=1)
        assert "".join(delta.get("reasoning_content", "") for delta in deltas) == said.strip()
        tokens = {word: tokenizer.special_tokens.get(word) or tokenizer.number(word) for word in ("</think>",)}
        (choice,) = asked(
            found, response_format={"type": "json_schema", "json_schema": {"schema": SCHEMA}},
            logit_bias={str(tokens["</think>"]): 100},
        )  # fmt: skip
        jsonschema.validate(json.loads(choice["message"]["content"]), SCHEMA)


def test_calls_that_were_made_are_written_as_the_template_wants_them(tmp_path):
    turns = [
        *ASKED,
        {"role": "assistant", "content": None, "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "look_up", "arguments": '{"word": "one"}'}}]},
        {"role": "tool", "tool_call_id": "a", "content": "1"},
    ]  # fmt: skip
    tables = Tokenizer.load(write(tmp_path / "tables", WITH_TOOLS + THINKING))
    wanted = [
        turns[0],
        {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "look_up", "arguments": {"word": "one"}}}]},
        {"role": "tool", "content": "1"},
    ]
    body = ChatBody.parse({"messages": turns, "tools": TOOLS})
    assert asked_tokens(tables, chat_of(body)[0]) == prompt_tokens(tables, Chat(wanted, tools=TOOLS))
    texts = (
        WITH_TOOLS
        + "{% for m in messages %}{{ m.role }}{% for c in m.tool_calls or [] %}{{ '[' + c.function.arguments + ']' }}"
        "{% endfor %}{% endfor %}"
    )
    written = Tokenizer.load(write(tmp_path / "texts", texts))
    assert '[{"word": "one"}]' in written.decode(asked_tokens(written, chat_of(body)[0]))


@pytest.mark.parametrize(
    ("body", "param", "said"),
    [
        ({"tools": [{"type": "function"}]}, "tools", "tools.0: should be"),
        ({"tools": [*TOOLS, TOOLS[0]]}, "tools", "'look_up' is given twice"),
        (
            {"tools": [{"type": "function", "function": {"name": "f", "parameters": {"properties": 3}}}]},
            "tools",
            "no JSON schema",
        ),
        ({"tool_choice": "required"}, "tool_choice", "needs tools"),
        ({"tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": "x"}}}, "tool_choice", "none of the tools"),
        ({"tools": TOOLS, "tool_choice": "sometimes"}, "tool_choice", "should be none, auto, required"),
        ({"functions": [FUNCTION]}, "functions", "give tools"),
        ({"response_format": {"type": "xml"}}, "response_format", "should be one of text, json_object, json_schema"),
        ({"response_format": {"type": "json_schema"}}, "response_format", "should be a JSON schema"),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"schema": {"not": {}}}}},
            "response_format",
            "Unimplemented keys",
        ),
        ({"structured_outputs": {"regex": "("}}, "structured_outputs", "unclosed group"),
        ({"structured_outputs": {"regex": "a", "choice": ["a"]}}, "structured_outputs", "should have one of"),
        ({"structured_outputs": {"choice": []}}, "structured_outputs", "a list of texts"),
        (
            {"structured_outputs": {"regex": "a"}, "response_format": {"type": "json_object"}},
            "structured_outputs",
            "give one of them",
        ),
        ({"structured_outputs": {"regex": "a"}, "ignore_eos": True}, "structured_outputs", "ignore_eos lets none end"),
        (
            {"messages": [*ASKED, {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{"}}]}]},
            "messages",
            "messages.1.tool_calls.0",
        ),
    ],
)
def test_what_cannot_be_had_is_refused_by_name(chat, body, param, said):
    answer = chat.post(CHATS, json={"messages": ASKED, **body})
    error = answer.json()["error"]
    assert (answer.status_code, error["param"], said in error["message"]) == (400, param, True), error


@pytest.mark.parametrize("depth", [100, 300, 900])
@pytest.mark.parametrize("field", ["response_format", "tools", "messages", "chat_template_kwargs"])
def test_what_is_nested_deeply_breaks_nothing(chat, field, depth):
    schema = json.dumps(SCHEMA)
    for _ in range(depth):
        schema = '{"type": "array", "items": ' + schema + "}"
    fields = {
        "response_format": '{"type": "json_schema", "json_schema": {"schema": ' + schema + "}}",
        "tools": '[{"type": "function", "function": {"name": "f", "parameters": ' + schema + "}}]",
        "messages": '[{"role": "user", "content": "a", "more": ' + schema + "}]",
        "chat_template_kwargs": '{"more": ' + schema + "}",
    }
    asked_for = json.dumps({"messages": ASKED, "max_tokens": 1})[:-1] + f', "{field}": {fields[field]}' + "}"
    assert chat.post(CHATS, content=asked_for).status_code in (200, 400)


def test_tools_that_the_model_would_not_see_are_refused(tmp_path):
    *_, client = made(tmp_path, CHATML, ReplyForm(CALL_FORMATS["pythonic"]))
    with client as found:
        answer = found.post(CHATS, json={"messages": ASKED, "tools": TOOLS})
        assert "writes no functions" in answer.json()["error"]["message"]
    *_, client = made(tmp_path / "other", WITH_TOOLS + CHATML, ReplyForm(CALL_FORMATS["pythonic"]))
    with client as found:
        answer = found.post(CHATS, json={"messages": ASKED, "tools": TOOLS, "tool_choice": "required"})
        assert "give auto" in answer.json()["error"]["message"]
