"""OpenAI's protocol: texts are those of `generate`, in pieces too; what is not honoured is refused by name."""

from __future__ import annotations

import base64
import json

import numpy as np
import pytest
import torch
from zoo import DECODERS, ENCODERS

from anyformer.catalogue import architecture
from anyformer.data import Bytes
from anyformer.data.vocabulary import make_tokenizer
from anyformer.describe import change
from anyformer.generation import Sampling, generate
from anyformer.generation.processors import FrequencyPenalty, SequenceBias
from anyformer.model.transformer import build
from anyformer.serving.bodies import INERT, REFUSED, ChatBody, CompletionBody
from serving.service import HERE, LENGTH, running, service
from text.chat.folders import ours

COMPLETIONS, CHATS = "/v1/completions", "/v1/chat/completions"
DRAWN = {"temperature": 0.9, "seed": 5}
TURNS = [{"role": "system", "content": "Be short."}, {"role": "user", "content": "hi"}]


@pytest.fixture(scope="module")
def speaker():
    tokenizer = make_tokenizer(Bytes(), lambda: iter(()), lambda: iter(()))
    return build(change(DECODERS["llama"], "embedding.vocab", 257)).eval(), tokenizer


@pytest.fixture(scope="module")
def talker():
    tokenizer = ours()
    tiny = change(architecture("llama-12m", tiny=True), "embedding.vocab", tokenizer.vocab_size)
    return build(tiny, seed=3).eval(), tokenizer


@pytest.fixture(scope="module")
def client(speaker):
    with running(service(*speaker)) as made:
        yield made


@pytest.fixture(scope="module")
def chat(talker):
    with running(service(*talker)) as made:
        yield made


def events(answer):
    """What a stream says, up to its end."""
    assert answer.status_code == 200, answer.text
    lines = [line.removeprefix("data: ") for line in answer.text.split("\n\n") if line]
    assert lines[-1] == "[DONE]"
    return [json.loads(line) for line in lines[:-1]]


def asked(client, address=COMPLETIONS, **body):
    answer = client.post(address, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.parametrize(
    ("fields", "sampling"),
    [
        ({"temperature": 0}, Sampling(temperature=0)),
        (DRAWN, Sampling(temperature=0.9, seed=5)),
        ({**DRAWN, "top_p": 0.8, "top_k": 9}, Sampling(temperature=0.9, seed=5, top_p=0.8, top_k=9)),
        ({**DRAWN, "frequency_penalty": 1.5}, Sampling(temperature=0.9, seed=5, processors=(FrequencyPenalty(penalty=1.5),))),
        (
            {"temperature": 0, "logit_bias": {"65": 100}},
            Sampling(temperature=0, processors=(SequenceBias(runs=(((65,), 100.0),)),)),
        ),
    ],
)
def test_a_text_is_that_of_generate_whole_and_in_pieces(client, speaker, fields, sampling):
    prompts = ["def ", "x"]
    wanted = [generate(*speaker, prompt, max_tokens=9, sampling=sampling) for prompt in prompts]
    body = {"prompt": prompts, "max_tokens": 9, **fields}
    answer = asked(client, **body)
    assert [choice["text"] for choice in answer["choices"]] == wanted
    assert answer["usage"] == {"prompt_tokens": 5, "completion_tokens": 18, "total_tokens": 23}
    texts = ["", ""]
    for event in events(client.post(COMPLETIONS, json={**body, "stream": True})):
        (choice,) = event["choices"]
        texts[choice["index"]] += choice["text"]
    assert texts == wanted


def test_several_answers_stops_and_ends(client, speaker):
    several = asked(client, prompt="def ", n=3, max_tokens=12, **DRAWN)["choices"]
    wanted = generate(*speaker, "def ", answers=3, max_tokens=12, sampling=Sampling(temperature=0.9, seed=5))
    assert [choice["text"] for choice in several] == wanted
    first = wanted[0]
    stop = first[3:5]
    cut = asked(client, prompt="def ", max_tokens=12, stop=[stop], **DRAWN)["choices"][0]
    assert (cut["text"], cut["finish_reason"]) == (first[: first.index(stop)], "stop")
    token = asked(client, prompt="def ", max_tokens=1, logprobs=0, return_tokens_as_token_ids=True, **DRAWN)
    number = int(token["choices"][0]["logprobs"]["tokens"][0].removeprefix("token_id:"))
    ended = asked(client, prompt="def ", max_tokens=12, stop_token_ids=[number], **DRAWN)
    assert (ended["choices"][0]["finish_reason"], ended["usage"]["completion_tokens"]) == ("stop", 1)


def test_log_probabilities_of_prompt_and_text(client, speaker):
    model, tokenizer = speaker
    found = asked(
        client, prompt="abcd", max_tokens=3, temperature=0, logprobs=2, echo=True, return_tokens_as_token_ids=True
    )["choices"][0]  # fmt: skip
    tokens = [int(name.removeprefix("token_id:")) for name in found["logprobs"]["tokens"]]
    assert tokens[:4] == tokenizer.encode("abcd")
    with torch.inference_mode():
        logs = model(torch.tensor([tokens]))[0].log_softmax(-1)
    assert found["logprobs"]["token_logprobs"][0] is None
    for place, (logprob, top) in enumerate(
        zip(found["logprobs"]["token_logprobs"][1:], found["logprobs"]["top_logprobs"][1:], strict=True)
    ):
        assert logprob == pytest.approx(float(logs[place, tokens[place + 1]]), abs=1e-4)
        assert max(top.values()) == pytest.approx(float(logs[place].max()), abs=1e-4)
    read = asked(client, prompt="abcd", max_tokens=0, logprobs=0, echo=True)
    assert (len(read["choices"][0]["logprobs"]["tokens"]), read["usage"]["completion_tokens"]) == (4, 0)
    assert read["choices"][0]["text"] == "abcd"
    streamed = events(client.post(COMPLETIONS, json={"prompt": "abcd", "max_tokens": 3, "temperature": 0, "logprobs": 2,
                                                     "echo": True, "stream": True}))  # fmt: skip
    assert sum(len(event["choices"][0]["logprobs"]["tokens"]) for event in streamed) == 7


def test_a_chat_is_that_of_generate(chat, talker):
    wanted = generate(*talker, [TURNS], chat=True, max_tokens=8, answers=2, sampling=Sampling(temperature=0.9, seed=5))[0]
    body = {"messages": TURNS, "max_completion_tokens": 8, "n": 2, "logprobs": True, "top_logprobs": 2, **DRAWN}
    answer = asked(chat, CHATS, **body)
    assert [choice["message"]["content"] for choice in answer["choices"]] == wanted
    assert all(len(entry["top_logprobs"]) == 2 for choice in answer["choices"] for entry in choice["logprobs"]["content"])
    texts, roles = ["", ""], []
    *pieces, last = events(chat.post(CHATS, json={**body, "stream": True, "stream_options": {"include_usage": True}}))
    for piece in pieces:
        (choice,) = piece["choices"]
        texts[choice["index"]] += choice["delta"].get("content", "")
        roles += [choice["delta"]["role"]] if "role" in choice["delta"] else []
    assert (texts, roles) == (wanted, ["assistant"] * 2)
    assert last["usage"] == answer["usage"]
    parts = [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]
    assert asked(chat, CHATS, messages=parts, max_tokens=2)["object"] == "chat.completion"


def test_a_seed_that_is_drawn_is_told(client):
    first = asked(client, prompt="def ", max_tokens=6, temperature=1)
    again = asked(client, prompt="def ", max_tokens=6, temperature=1, seed=first["seed"])
    assert again["choices"] == first["choices"]


@pytest.mark.parametrize(
    ("body", "status", "param", "said"),
    [
        ({"prompt": "a", "tempreature": 1}, 400, "tempreature", "did you mean 'temperature'"),
        ({"prompt": "a", "temperature": "1"}, 400, "temperature", "should be a valid number"),
        ({"prompt": "a", "n": 0}, 400, "n", "greater than or equal to 1"),
        ({"prompt": "a", "logit_bias": {"999": 1}}, 400, "logit_bias", "give numbers from 0 to 256"),
        ({"prompt": [[1], "a"], "model": "other"}, 404, "model", "no model 'other'"),
        ({"prompt": [1.5]}, 400, "prompt", "should be a text"),
        ({"prompt": [-1]}, 400, None, "token -1 is below 0"),
        ({"prompt": "a" * 60, "max_tokens": 9}, 400, "max_tokens", "are 69 positions (27,048 bytes of decode state)"),
        ({"prompt": "a", "max_tokens": 0}, 400, "max_tokens", "echo = true"),
        ({}, 400, "prompt", "prompt is required"),
        ({"prompt": ["a"] * 200, "n": 100}, 400, "n", "more than 512 texts"),
    ],
)
def test_what_is_wrong_is_refused_by_name(client, body, status, param, said):
    answer = client.post(COMPLETIONS, json=body)
    assert answer.status_code == status
    error = answer.json()["error"]
    assert (error["param"], error["code"]) == (param, status)
    assert said in error["message"]


@pytest.mark.parametrize("name", [*REFUSED, *INERT])
def test_every_field_of_the_protocol_is_honoured_inert_or_refused(client, name):
    refused = name in REFUSED and name not in CompletionBody.model_fields
    answer = client.post(COMPLETIONS, json={"prompt": "a", "max_tokens": 1, name: {"asks": "something"}})
    assert answer.status_code == (400 if refused else 200)
    if refused:
        error = answer.json()["error"]
        assert error["param"] == name
        assert "is not honoured here: " in error["message"]
        for nothing in REFUSED[name][0]:
            assert client.post(COMPLETIONS, json={"prompt": "a", "max_tokens": 1, name: nothing}).status_code == 200


def test_the_fields_of_the_official_client_are_all_known():
    """Those of openai-python 3.57's `chat.completions.create` and `completions.create`."""
    chats = """messages model audio frequency_penalty function_call functions logit_bias logprobs max_completion_tokens
    max_tokens metadata modalities n parallel_tool_calls prediction presence_penalty prompt_cache_key prompt_cache_retention
    reasoning_effort response_format safety_identifier seed service_tier stop store stream stream_options temperature
    tool_choice tools top_logprobs top_p user verbosity web_search_options"""
    completions = """model prompt best_of echo frequency_penalty logit_bias logprobs max_tokens n presence_penalty seed stop
    stream stream_options suffix temperature top_p user"""
    for names, body in ((chats, ChatBody), (completions, CompletionBody)):
        assert set(names.split()) <= {*body.model_fields, *REFUSED, *INERT}


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"\xff", b"[" * 100_000, b'{"prompt": NaN}', b'{"prompt": 1e999}', b'"a"'])
def test_bodies_that_are_no_requests(client, body):
    answer = client.post(COMPLETIONS, content=body)
    assert (answer.status_code, answer.json()["error"]["type"]) == (400, "invalid_request_error")


def test_chats_need_turns_and_a_template(client, chat):
    for made, body, said in (
        (client, {"messages": TURNS}, "has no chat template"),
        (chat, {"messages": []}, "messages"),
        (chat, {"messages": [{"content": "a"}]}, "messages.0: says no role"),
        (chat, {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "has no data"),
        (chat, {"messages": [{"role": "user", "content": [{"type": "video"}]}]}, "a part 'video', and text"),
        (chat, {"messages": TURNS, "top_logprobs": 2}, "give logprobs = true"),
    ):
        answer = made.post(CHATS, json=body)
        assert (answer.status_code, said in answer.json()["error"]["message"]) == (400, True), answer.text


def test_models_tokens_health_and_other_addresses(client):
    (listed,) = client.get("/v1/models").json()["data"]
    assert (listed["id"], listed["owned_by"], listed["max_model_len"]) == ("tiny", "anyformer", LENGTH)
    assert client.get("/v1/models/tiny").json() == listed
    assert client.get("/v1/models/none").status_code == 404
    tokens = client.post("/tokenize", json={"prompt": "héllo"}).json()["tokens"]
    assert client.post("/detokenize", json={"tokens": tokens}).json() == {"prompt": "héllo"}
    assert "beyond the vocabulary" in client.post("/detokenize", json={"tokens": [300]}).json()["error"]["message"]
    assert client.get("/health").json() == {"status": "ok"}
    for answer, status in ((client.get("/v1/none"), 404), (client.get(COMPLETIONS), 405)):
        assert (answer.status_code, answer.json()["error"]["code"]) == (status, status)


def test_embeddings_have_length_one_in_either_form(client):
    body = {"input": ["a text", "another"]}
    plain = client.post("/v1/embeddings", json=body).json()["data"]
    vectors = np.array([each["embedding"] for each in plain])
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1, abs=1e-5)
    coded = client.post("/v1/embeddings", json={**body, "encoding_format": "base64"}).json()["data"]
    for vector, each in zip(vectors, coded, strict=True):
        assert np.frombuffer(base64.b64decode(each["embedding"]), dtype="<f4") == pytest.approx(vector)


def test_a_model_that_writes_no_text_embeds_and_says_why_not_more(speaker):
    model = build(change(ENCODERS["encoder"], "embedding.vocab", 257)).eval()
    with running(service(model, speaker[1])) as made:
        assert made.post("/v1/embeddings", json={"input": "a"}).status_code == 200
        answer = made.post(COMPLETIONS, json={"prompt": "a"})
    assert answer.status_code == 400
    assert "does not generate text" in answer.json()["error"]["message"]


def test_a_model_without_a_tokenizer_takes_numbers(speaker):
    with running(service(speaker[0], None), headers={"origin": HERE}) as made:
        answer = asked(made, prompt=[3, 1, 4], max_tokens=3, temperature=0, logprobs=1)
        assert all(name.startswith("token_id:") for name in answer["choices"][0]["logprobs"]["tokens"])
        assert "has no tokenizer" in made.post(COMPLETIONS, json={"prompt": "a"}).json()["error"]["message"]


def test_metrics_say_what_was_done(speaker):
    with running(service(*speaker)) as made:
        asked(made, prompt="abc", max_tokens=4, temperature=0)
        made.post(COMPLETIONS, json={"n": 0})
        lines = dict(line.rsplit(" ", 1) for line in made.get("/metrics").text.splitlines() if not line.startswith("#"))
    assert float(lines["anyformer_prompt_tokens_total"]) == 3
    assert float(lines["anyformer_generated_tokens_total"]) == 4
    assert float(lines["anyformer_time_to_first_token_seconds_count"]) == 1
    assert float(lines["anyformer_time_between_tokens_seconds_count"]) == 3
    assert float(lines['anyformer_refusals_total{status="400"}']) == 1
    assert lines["anyformer_state_bytes"] == lines["anyformer_state_foretold_bytes"]


def test_every_address_stands_in_the_document_and_its_bodies_are_those_that_are_read(client):
    told = client.get("/openapi.json").json()
    addresses = {route.path for route in client.app.routes} - {"/v1/models/{name:path}"}
    assert set(told["paths"]) == addresses
    bodies = told["components"]["schemas"]
    assert set(bodies["CompletionBody"]["properties"]) == set(CompletionBody.model_fields)
    assert bodies["ChatBody"]["required"] == ["messages"]
