"""Chats over several turns: each answer is that of the whole chat read anew, and only what is new is read."""

from __future__ import annotations

from functools import cache

import pytest
import torch

from anyformer.catalogue import architecture
from anyformer.describe import InputError, change_all
from anyformer.generation import GREEDY, Beams, Conversation, Sampling, generate
from anyformer.generation.processors import RepetitionPenalty, Suppress
from anyformer.generation.reader import TextReader
from anyformer.model.transformer import Transformer, build
from anyformer.text import Tokenizer
from anyformer.text.chat import Chat, prompt_tokens
from text.chat.folders import LOGICS, ours, plain, write

SAID = ("hi", "what is <|im_end|> then?", "and now")
SHORT = ("a", "b", "c")
NAMES = ("llama-12m", "qwen3-next-80b-a3b", "gemma-2-2b", "gpt2")
"""Full attention, recurrences, a window, learnt positions."""


@cache
def greedy(tokenizer: Tokenizer) -> Sampling:
    """The likeliest token that is not special, so that a model that learnt nothing says something."""
    return GREEDY.but(processors=(Suppress(tokens=tuple(tokenizer.special_tokens.values())),))


@cache
def model(name: str, vocab: int) -> Transformer:
    tiny = architecture(name, tiny=True).but(mtp=None)
    return build(change_all(tiny, {"embedding.vocab": vocab}), seed=3).eval()


@pytest.fixture(scope="module")
def thinking(tmp_path_factory) -> Tokenizer:
    """A template that takes the reasoning out of earlier turns, so that what was read is written otherwise later."""
    return Tokenizer.load(write(tmp_path_factory.mktemp("thinking"), plain(LOGICS["thinking"])))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("drawn", [False, True])
def test_every_answer_is_that_of_the_whole_chat(name, drawn):
    tokenizer = ours()
    penalised = Sampling(temperature=1.5, processors=(RepetitionPenalty(penalty=1.3),))
    sampling = penalised if drawn else greedy(tokenizer)
    talk = Conversation(model(name, tokenizer.vocab_size), tokenizer, max_tokens=6, sampling=sampling)
    for number, text in enumerate(SAID):
        before = talk.messages
        answer = "".join(talk.say(text))
        assert talk.messages[len(before) :] == [{"role": "user", "content": text}, {"role": "assistant", "content": answer}]
        whole = [*before, {"role": "user", "content": text}]
        if sampling.greedy or number == 0:
            assert generate(talk.model, tokenizer, whole, chat=True, max_tokens=6, sampling=sampling) == answer


def test_only_what_is_new_is_read(monkeypatch):
    tokenizer, read = ours(), []
    monkeypatch.setattr(TextReader, "begin", spied(TextReader.begin, lambda tokens: read.append(("begin", len(tokens)))))
    monkeypatch.setattr(TextReader, "read", spied(TextReader.read, lambda tokens: read.append(("read", len(tokens)))))
    talk = Conversation(model("llama-12m", tokenizer.vocab_size), tokenizer, max_tokens=4, sampling=greedy(tokenizer))
    "".join(talk.say("hi"))
    asked = len(prompt_tokens(tokenizer, talk.messages[:1]))
    assert read == [("begin", asked), *[("read", 1)] * 3]
    read.clear()
    before = talk.messages
    "".join(talk.say("and now"))
    assert all(kind == "read" for kind, _ in read)
    whole = len(prompt_tokens(tokenizer, [*before, {"role": "user", "content": "and now"}]))
    assert sum(count for _, count in read) < whole
    assert read[-3:] == [("read", 1)] * 3


def spied(function, tell):
    def call(self, tokens, *more):
        tell(tokens)
        return function(self, tokens, *more)

    return call


@pytest.mark.parametrize("name", NAMES[:3])
def test_what_a_template_writes_otherwise_later_is_read_again(thinking, name):
    """The answer of a turn, `<think>` and all, is written without its reasoning in the next one."""
    loaded = model(name, 512)
    talk = Conversation(loaded, thinking, max_tokens=3, sampling=greedy(thinking))
    talk.chat = Chat([])
    for text in SHORT:
        before = talk.messages
        answer = "".join(talk.say(text))
        whole = [*before, {"role": "user", "content": text}]
        assert generate(loaded, thinking, whole, chat=True, max_tokens=3, sampling=greedy(thinking)) == answer
        reasoned = {"role": "assistant", "content": f"<think>\nx\n</think>\n\n{answer}"}
        talk.chat = talk.chat.but([*whole, reasoned])


def test_earlier_turns_tools_and_variables(thinking):
    loaded, tools = model("llama-12m", 512), [{"type": "function", "function": {"name": "f"}}]
    begun = Chat([{"role": "system", "content": "Be short."}], tools=tools, variables={"enable_thinking": False})
    talk = Conversation(loaded, thinking, begun, max_tokens=5, sampling=GREEDY)
    answer = "".join(talk.say("hi"))
    whole = begun.but([*begun.messages, {"role": "user", "content": "hi"}])
    assert generate(loaded, thinking, whole, chat=True, max_tokens=5, sampling=GREEDY) == answer
    assert generate(loaded, thinking, [whole, whole], chat=True, max_tokens=5, sampling=GREEDY) == [answer] * 2


def test_an_answer_ends_at_every_end(thinking):
    """At the template's end of a turn, and at the ends that the model's authors name."""
    loaded = model("llama-12m", 512)
    given = {"max_tokens": 30, "sampling": GREEDY}
    talk = Conversation(loaded, thinking, **given)
    assert thinking.special_tokens["<|im_end|>"] in talk.ends
    assert set(thinking.ends) <= set(talk.ends)
    token = int(next_token(loaded, thinking, "hi"))
    first = Conversation(loaded, thinking, ends=[token], **given)
    assert "".join(first.say("hi")) == thinking.decode([token]), "an end that is no special token is shown"


def next_token(loaded: Transformer, tokenizer: Tokenizer, text: str) -> torch.Tensor:
    tokens = prompt_tokens(tokenizer, [{"role": "user", "content": text}])
    with torch.no_grad():
        return loaded(torch.tensor([tokens]))[0, -1, : tokenizer.vocab_size].argmax()


def test_an_answer_that_is_left_counts_as_far_as_it_was_read():
    tokenizer = ours()
    talk = Conversation(model("llama-12m", tokenizer.vocab_size), tokenizer, max_tokens=20, sampling=greedy(tokenizer))
    pieces = talk.say("hi")
    first = next(pieces)
    pieces.close()
    assert talk.messages[-1] == {"role": "assistant", "content": first}
    before = talk.messages
    again = "".join(talk.say("go on"))
    whole = [*before, {"role": "user", "content": "go on"}]
    assert generate(talk.model, tokenizer, whole, chat=True, max_tokens=20, sampling=greedy(tokenizer)) == again


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"batch": 2, "logprobs": 1}, "leave batch and logprobs out"),
        ({"beams": Beams(count=2), "sampling": GREEDY}, "leave beams out"),
        ({"answers": 2}, "leave answers out"),
    ],
)
def test_what_makes_no_conversation_is_refused(settings, said):
    tokenizer = ours()
    with pytest.raises(InputError, match=said):
        Conversation(model("llama-12m", tokenizer.vocab_size), tokenizer, **settings)


def test_turns_need_the_chat_template():
    tokenizer = ours()
    with pytest.raises(InputError, match="give chat = True"):
        generate(model("llama-12m", tokenizer.vocab_size), tokenizer, [{"role": "user", "content": "hi"}])
