"""Adapters by name beside their model, and new weights without a dropped stream."""

from __future__ import annotations

import threading

import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM

from anyformer import export
from anyformer.catalogue import architecture
from anyformer.data import Bytes
from anyformer.data.vocabulary import make_tokenizer
from anyformer.describe import UserError, change
from anyformer.generation import Sampling, generate, generating
from anyformer.loading import load
from anyformer.model.transformer import build
from anyformer.serving.application import ModelService
from anyformer.serving.guard import ServingLimits
from anyformer.serving.memory_of_states import StateMemory
from anyformer.serving.reloading import LoadedModels, Reloading
from anyformer.serving.request import ServedRequest
from serving.service import LENGTH, running, service

COMPLETIONS = "/v1/completions"
FIELDS = {"prompt": "def ", "max_tokens": 12, "temperature": 0.9, "seed": 5}
SAMPLING = Sampling(temperature=0.9, seed=5)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A model, and two adapters that PEFT wrote beside it."""
    root = tmp_path_factory.mktemp("adapters")
    tokenizer = make_tokenizer(Bytes(), lambda: iter(()), lambda: iter(()))
    export(
        build(change(architecture("llama-12m", tiny=True), "embedding.vocab", 257), seed=3), root / "model", tokenizer=tokenizer
    )
    for number, name in enumerate(("one", "two")):
        torch.manual_seed(number)
        adapted = get_peft_model(
            AutoModelForCausalLM.from_pretrained(root / "model"),
            LoraConfig(r=2, target_modules=["q_proj", "down_proj"], init_lora_weights=False, lora_alpha=400),
        )
        adapted.save_pretrained(root / name)
    return root


def loaded(folders, name=None):
    return load(folders / "model", adapter=None if name is None else folders / name)


@pytest.mark.parametrize("own", [False, True])
def test_tokens_are_those_of_generate_with_the_adapter_whatever_stands_beside(folders, own):
    base, tokenizer = loaded(folders)
    beside = {name: generating(loaded(folders, name)[0]) for name in ("one", "two")}
    wanted = {"tiny": generate(base, tokenizer, "def ", max_tokens=12, sampling=SAMPLING)}
    for name in beside:
        wanted[f"tiny:{name}"] = generate(*loaded(folders, name), "def ", max_tokens=12, sampling=SAMPLING)
    assert len(set(wanted.values())) == 3
    found = {}
    with running(service(base, tokenizer, adapters=beside, own=own, memory=2**30)) as client:

        def ask(name):
            answer = client.post(COMPLETIONS, json={**FIELDS, "model": name}).json()
            found[name] = answer["model"], answer["choices"][0]["text"]

        threads = [threading.Thread(target=ask, args=(name,)) for name in [*wanted, *wanted]]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        listed = client.get("/v1/models").json()["data"]
        one, other = (client.post("/v1/embeddings", json={"input": "a", "model": name}).json() for name in ("tiny", "tiny:one"))
        assert one["data"] != other["data"]
        assert (one["model"], other["model"]) == ("tiny", "tiny:one")
        assert "known: tiny, tiny:one, tiny:two" in client.post(COMPLETIONS, json={**FIELDS, "model": "tiny:onee"}).text
    assert found == {name: (name, text) for name, text in wanted.items()}
    assert [(each["id"], each.get("parent")) for each in listed] == [
        ("tiny", None),
        ("tiny:one", "tiny"),
        ("tiny:two", "tiny"),
    ]


def test_adapters_share_one_bound_of_memory(folders):
    base, tokenizer = loaded(folders)
    beside = {name: loaded(folders, name)[0] for name in ("one", "two")}
    memory = StateMemory(places=1, length=8, memory=2**20)
    own = memory.own_states(base)
    request = ServedRequest((1, 2), 4, adapter="one")
    needed = own._needs(request)
    made = service(base, tokenizer, adapters=beside, places=1, length=8, memory=needed + needed // 2 + 2**18)
    states = made.worker.scheduler.states
    for each in states.adapters.values():
        each.total = needed + needed // 2
    states.enter(0, request)
    assert not states.fits(ServedRequest((1, 2), 4, adapter="two"))
    assert states.fits(ServedRequest((1, 2), 4))
    states.leave(0)
    assert states.fits(ServedRequest((1, 2), 4, adapter="two"))


@pytest.mark.parametrize("own", [False, True])
def test_texts_end_with_the_weights_with_which_they_began(folders, own):
    base, tokenizer = loaded(folders)
    new = build(base.architecture, seed=99).eval()
    made = service(base, tokenizer, own=own, memory=2**30)
    scheduler, states = made.worker.scheduler, made.worker.scheduler.states
    prompt = tuple(tokenizer.encode("def "))
    texts: dict[int, list[int]] = {0: [], 1: []}

    def step():
        for event in scheduler.step():
            if event.token is not None:
                texts[event.number].append(event.token.number)

    scheduler.submit(0, ServedRequest(prompt, 12, SAMPLING))
    for _ in range(4):
        step()
    held = states.held
    memory = StateMemory(places=3, length=LENGTH, own=own, memory=2**30)
    states.renew(*LoadedModels(new).states(memory, LENGTH))
    scheduler.submit(1, ServedRequest(prompt, 12, SAMPLING))
    while not scheduler.idle:
        step()
    for number, model in ((0, base), (1, new)):
        assert texts[number] == generate(model, None, prompt, max_tokens=12, sampling=SAMPLING)
    assert states.held == (0 if own else held)
    assert states.held == states.foretold


def test_weights_are_loaded_again_for_who_has_a_key(folders):
    base, tokenizer = loaded(folders)
    made = service(base, tokenizer, memory=2**30, limits=ServingLimits(keys=("secret",)))
    new, right = build(base.architecture, seed=99).eval(), {"authorization": "Bearer secret"}
    coming = [LoadedModels(new), LoadedModels(build(change(base.architecture, "decoder.layer.attention.kv_heads", 2)).eval())]

    def load_next():
        if not coming:
            raise UserError("no such directory")
        return coming.pop(0)

    reloading = Reloading(made.model, made.worker, StateMemory(places=3, length=LENGTH, memory=2**30), load_next)
    kept = ModelService(made.model, made.worker, made.limits, reload=reloading)
    with running(kept, headers=right) as client:
        before = client.post(COMPLETIONS, json=FIELDS).json()["choices"][0]["text"]
        assert client.post("/reload").json() == {"status": "ok", "texts_with_old_weights": 0}
        after = client.post(COMPLETIONS, json=FIELDS).json()["choices"][0]["text"]
        assert before == generate(base, tokenizer, "def ", max_tokens=12, sampling=SAMPLING)
        assert after == generate(new, tokenizer, "def ", max_tokens=12, sampling=SAMPLING)
        for said in ("of another architecture", "no such directory"):
            answer = client.post("/reload")
            assert (answer.status_code, said in answer.json()["error"]["message"]) == (400, True)
        assert client.post(COMPLETIONS, json=FIELDS).json()["choices"][0]["text"] == after
        assert client.post("/reload", headers={"authorization": "Bearer x"}).status_code == 401
    with running(service(base, tokenizer)) as client:
        assert client.post("/reload").status_code == 403
