"""The bodies of requests: every field that is honoured, and by name every other one that the protocol has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

from pydantic import Field

from anyformer.describe import DescriptionError, Value, did_you_mean, json_data
from anyformer.serving.protocol_error import ProtocolError

Made = TypeVar("Made", bound=Value)
MOST_ANSWERS, MOST_LIKELIEST, MOST_STOPS, MOST_TOOLS, BIAS = 128, 100, 64, 128, 100.0
Token = Annotated[int, Field(ge=0)]
Penalty = Annotated[float, Field(ge=-2, le=2)]


class StreamOptions(Value):
    """What else a stream gives."""

    include_usage: bool = False
    """A last piece says how many tokens were read and made."""
    include_obfuscation: bool = False
    """Is taken, and nothing is added: the stream says no more than the text."""


class ChoiceBody(Value):
    """The fields that completions and chats share: how tokens are chosen and where texts end."""

    model: str | None = None
    """The name of the model, or of it with an adapter, as `/v1/models` lists them; left out, the model itself."""
    max_tokens: Annotated[int, Field(ge=0)] | None = None
    """Tokens that are made at most: by default as the model's authors say, or 128. 0 with `echo` alone."""
    min_tokens: Annotated[int, Field(ge=0)] | None = None
    """No text ends before so many."""
    temperature: Annotated[float, Field(ge=0, le=100)] | None = None
    """Divides the logits; 0 takes the likeliest token. By default as the model's authors say."""
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    """Draw among the likeliest tokens that add up to this."""
    top_k: Annotated[int, Field(ge=-1)] | None = None
    """Draw among so many of the likeliest tokens; 0 or -1: among all."""
    min_p: Annotated[float, Field(ge=0, le=1)] | None = None
    """Draw among tokens with this share of the likeliest one's probability."""
    frequency_penalty: Penalty | None = None
    """Is taken from a token's logit once per time that it was made."""
    presence_penalty: Penalty | None = None
    """Is taken from the logit of every token that was made."""
    repetition_penalty: Annotated[float, Field(gt=0, le=100)] | None = None
    """Weakens the tokens of prompt and text by this factor."""
    logit_bias: Mapping[str, Annotated[float, Field(ge=-BIAS, le=BIAS)]] | None = None
    """By a token's number, what is added to its logit."""
    seed: int | None = None
    """The same seed gives the same text, whatever else the server does. Without one it is drawn, and told in the answer."""
    n: Annotated[int, Field(ge=1, le=MOST_ANSWERS)] = 1
    """Texts of each prompt."""
    stop: str | Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Field(max_length=MOST_STOPS)] | None = None
    """Texts before which a text ends, special tokens by their names among them."""
    stop_token_ids: tuple[Token, ...] | None = None
    """Tokens that end a text beside those of the model."""
    ignore_eos: bool = False
    """No token ends a text, but for `stop_token_ids`."""
    skip_special_tokens: bool = True
    """Special tokens are left out of texts."""
    return_tokens_as_token_ids: bool = False
    """Log-probabilities name tokens by number, as `token_id:17`; always so for a model without a tokenizer."""
    response_format: Mapping[str, Any] | None = None
    """`{"type": "json_schema", "json_schema": {"schema": ...}}`: the answer is JSON of this schema; `json_object`: any JSON
    object. By llguidance (extra `grammars`), which refuses what it cannot hold to. Reasoning may stand in front."""
    structured_outputs: Mapping[str, Any] | None = None
    """One of `json` (a schema), `regex`, `choice` (a list of texts), `grammar` (Lark's form, as llguidance reads it)."""
    stream: bool = False
    """Pieces of text come as server-sent events."""
    stream_options: StreamOptions | None = None
    """What else a stream gives."""


class CompletionBody(ChoiceBody):
    """A request at /v1/completions."""

    prompt: Any = None
    """A text, a list of them, token numbers, or a list of lists of these."""
    echo: bool = False
    """The prompt stands before its text, with its log-probabilities where these are asked for."""
    logprobs: Annotated[int, Field(ge=0, le=MOST_LIKELIEST)] | None = None
    """The log-probability of every token, and those of so many of the likeliest, as the model gives them before any choice."""


class ChatBody(ChoiceBody):
    """A request at /v1/chat/completions."""

    messages: Annotated[tuple[Mapping[str, Any], ...], Field(min_length=1)]
    """What was said, which the tokenizer's chat template writes: texts, and with `--images` and `--audio` parts `image_url` and
    `input_audio` whose bytes stand in the request. Calls that were made, their results as `tool`, `reasoning_content`."""
    max_completion_tokens: Annotated[int, Field(ge=1)] | None = None
    """The same as `max_tokens`, by its newer name."""
    logprobs: bool = False
    """The log-probability of every token, as the model gives it before any choice."""
    top_logprobs: Annotated[int, Field(ge=0, le=MOST_LIKELIEST)] | None = None
    """Those of so many of the likeliest tokens."""
    chat_template_kwargs: Mapping[str, Any] | None = None
    """The template's own variables, such as `enable_thinking`."""
    tools: Annotated[tuple[Mapping[str, Any], ...], Field(max_length=MOST_TOOLS)] | None = None
    """Functions with the schemas of their parameters, which the chat template writes. Calls come as `tool_calls`, each when it
    is whole, if the form of the model's calls is known (`--tool-format`); else they stay text."""
    tool_choice: str | Mapping[str, Any] | None = None
    """`none`: no tool is shown; `auto`, by default: the model calls or answers; `required`, or one by name: it calls, by
    llguidance (extra `grammars`), in the forms hermes, mistral and llama."""
    parallel_tool_calls: bool | None = None
    """`false` gives the first call alone."""


class EmbeddingBody(Value):
    """A request at /v1/embeddings."""

    input: str | Annotated[tuple[str, ...], Field(min_length=1, max_length=2048)]
    """A text or several."""
    model: str | None = None
    """The name of the model, or of it with an adapter, as `/v1/models` lists them; left out, the model itself."""
    encoding_format: str = "float"
    """`float`, or `base64` of the numbers' bytes."""


class TokenizeBody(Value):
    """A request at /tokenize."""

    prompt: str
    """A text."""
    model: str | None = None
    """The name of the model, or of it with an adapter, as `/v1/models` lists them; left out, the model itself."""
    add_special_tokens: bool = True
    """With what the tokenizer puts around a text."""


class DetokenizeBody(Value):
    """A request at /detokenize."""

    tokens: tuple[Token, ...]
    """Token numbers."""
    model: str | None = None
    """The name of the model, or of it with an adapter, as `/v1/models` lists them; left out, the model itself."""
    skip_special_tokens: bool = False
    """Special tokens are left out of the text."""


INERT = ("user", "safety_identifier", "prompt_cache_key", "prompt_cache_retention", "metadata", "service_tier", "verbosity")
"""Fields that say nothing about the text, and are taken without effect."""
_FORM = "give structured_outputs, or response_format"
_TOOLS = "give tools at /v1/chat/completions"
REFUSED: Mapping[str, tuple[tuple[Any, ...], str]] = {
    "best_of": ((1,), "ask for n answers with logprobs, and choose one"),
    "suffix": (("",), "write the text with its gap as the model's authors mark it, into the prompt"),
    "tools": (([],), _TOOLS),
    "tool_choice": (("none", "auto"), _TOOLS),
    "parallel_tool_calls": ((True, False), _TOOLS),
    "functions": (([],), _TOOLS),
    "function_call": (("none", "auto"), _TOOLS),
    "guided_json": ((), _FORM),
    "guided_regex": ((), _FORM),
    "guided_choice": ((), _FORM),
    "guided_grammar": ((), _FORM),
    "modalities": ((["text"],), "texts alone are written: leave it out"),
    "audio": ((), "texts alone are written: leave it out"),
    "prediction": ((), "it would change no token: leave it out"),
    "reasoning_effort": ((), "give the template's own variable in chat_template_kwargs"),
    "store": ((False,), "nothing is kept: leave it out"),
    "web_search_options": ((), "nothing outside is asked: leave it out"),
    "use_beam_search": ((False,), "anyformer generate searches with --beams"),
    "length_penalty": ((1, 1.0), "anyformer generate searches with --beams"),
    "early_stopping": ((False,), "anyformer generate searches with --beams"),
    "prompt_logprobs": ((), "give echo with logprobs"),
    "dimensions": ((), "leave it out, and take the first numbers of an embedding if the model was trained so"),
}
"""Fields that are not honoured: the values that ask for nothing, and what to do instead."""


def body_of(kind: type[Made], text: bytes) -> Made:
    """The body of a request; `ProtocolError` names the field that is wrong, unknown, or not honoured."""
    try:
        table = json_data(text.decode())
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"the body is no JSON in UTF-8 ({error}): send an object of fields") from None
    if not isinstance(table, dict):
        raise ProtocolError(f"the body is a {type(table).__name__}, and should be an object of fields")
    given = {key: value for key, value in table.items() if value is not None and key not in INERT}
    for key in [key for key in given if key in REFUSED and key not in kind.model_fields]:
        nothing, remedy = REFUSED[key]
        if not any(type(given[key]) is type(each) and given[key] == each for each in nothing):
            raise ProtocolError(f"{key} is not honoured here: {remedy}", param=key)
        del given[key]
    for key in [key for key in given if key not in kind.model_fields]:
        raise ProtocolError(f"the request has no field {key[:80]!r}{did_you_mean(key[:80], kind.model_fields)}", param=key[:80])
    try:
        return kind.parse(given)
    except DescriptionError as error:
        first = error.problems[0]
        raise ProtocolError(
            str(error), param=next((name for name in given if f"{first.path}.".startswith(f"{name}.")), None)
        ) from None
