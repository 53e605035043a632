"""Our class beside a class of transformers: the same weights, data and trainer give the same losses and gradients."""

from __future__ import annotations

import pytest
import torch
import transformers
from zoo import ENCODERS

import anyformer as af
from anyformer.describe import change
from anyformer.huggingface.auto import AnyformerForCausalLM
from anyformer.model.transformer import build
from anyformer.parts import Head
from huggingface.cases.llama import BASE

ROWS, LENGTH, VOCAB = 32, 12, 53


@pytest.fixture(scope="module")
def directories(tmp_path_factory):
    """A tiny Qwen3 of transformers, and the same weights in our own layout."""
    folder = tmp_path_factory.mktemp("trainer")
    torch.manual_seed(0)
    theirs = transformers.Qwen3ForCausalLM(transformers.Qwen3Config(**BASE, head_dim=8, vocab_size=VOCAB))
    theirs.save_pretrained(folder / "qwen3")
    af.export(af.load(folder / "qwen3")[0], folder / "own", model_type="anyformer")
    return folder / "qwen3", folder / "own"


@pytest.fixture
def models(directories):
    return tuple(transformers.AutoModelForCausalLM.from_pretrained(directory) for directory in directories)


def rows(seed: int = 0) -> list[dict[str, list[int]]]:
    """Texts of unequal length, padded on the right, whose padding and first tokens do not count."""
    generator = torch.Generator().manual_seed(seed)
    made = []
    for i in range(ROWS):
        tokens = torch.randint(1, VOCAB, (LENGTH,), generator=generator).tolist()
        real = LENGTH - i % 5
        labels = [-100] * (i % 3) + tokens[i % 3 : real] + [-100] * (LENGTH - real)
        mask = [1] * real + [0] * (LENGTH - real)
        made.append({"input_ids": tokens, "attention_mask": mask, "labels": labels})
    return made


def batch(count: int = 4) -> dict[str, torch.Tensor]:
    return {name: torch.tensor([row[name] for row in rows()[:count]]) for name in rows()[0]}


def test_a_trainer_trains_a_classifier(tmp_path):
    af.export(
        build(change(ENCODERS["encoder"].but(head=Head(outputs=2, pool="mean")), "embedding.vocab", VOCAB)),
        tmp_path / "own",
        model_type="anyformer",
    )
    model = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "own")
    labelled = [{"input_ids": row["input_ids"], "labels": i % 2} for i, row in enumerate(rows())]
    arguments = transformers.TrainingArguments(
        output_dir=str(tmp_path), max_steps=2, per_device_train_batch_size=2, gradient_accumulation_steps=2, save_strategy="no",
        report_to=[], use_cpu=True, disable_tqdm=True,
    )  # fmt: skip
    trainer = transformers.Trainer(model=model, args=arguments, train_dataset=labelled)
    assert trainer.train().training_loss == pytest.approx(0.7, abs=0.3)


@pytest.mark.parametrize("accumulation", [1, 4])
def test_a_trainer_reports_the_losses_and_gradients_of_transformers(models, accumulation, tmp_path):
    logs, evaluated = [], []
    for model in models:
        arguments = transformers.TrainingArguments(
            output_dir=str(tmp_path), max_steps=3, per_device_train_batch_size=2, gradient_accumulation_steps=accumulation,
            logging_steps=1, save_strategy="no", report_to=[], use_cpu=True, seed=1, learning_rate=1e-2, disable_tqdm=True,
        )  # fmt: skip
        trainer = transformers.Trainer(model=model, args=arguments, train_dataset=rows())
        trainer.train()
        logs.append([(line["loss"], line["grad_norm"]) for line in trainer.state.log_history if "grad_norm" in line])
        evaluated.append(trainer.evaluate(rows(seed=1))["eval_loss"])
    assert evaluated[1] == pytest.approx(evaluated[0], rel=1e-5)
    torch.testing.assert_close(torch.tensor(logs[1]), torch.tensor(logs[0]), rtol=1e-5, atol=0)


def losses_of(model, items: int | None) -> torch.Tensor:
    """A loop by hand: losses of three updates, each of two batches."""
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(3):
        for start in (0, 2):
            part = {name: x[start : start + 2] for name, x in batch().items()}
            loss = model(**part, num_items_in_batch=items).loss
            loss.backward()
            losses.append(loss.detach())
        optimiser.step()
        optimiser.zero_grad()
    return torch.stack(losses)


@pytest.mark.parametrize("items", [None, 30])
def test_a_loop_by_hand_gives_the_losses_of_transformers(models, items):
    theirs, ours = (losses_of(model, items) for model in models)
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=0)
    assert not torch.equal(ours[:2], ours[4:]), "nothing was learnt"


def gradients(model) -> list[torch.Tensor]:
    model.zero_grad()
    model(**batch()).loss.backward()
    return [parameter.grad.clone() for parameter in model.parameters()]


def test_gradient_checkpointing_gives_the_same_gradients(models):
    _, ours = models
    plain = gradients(ours)
    kept: list[int] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: (kept.append(x.numel()), x)[1], lambda x: x):
        ours(**batch())
    before = sum(kept)
    ours.gradient_checkpointing_enable()
    assert ours.is_activation_checkpointing
    kept.clear()
    with torch.autograd.graph.saved_tensors_hooks(lambda x: (kept.append(x.numel()), x)[1], lambda x: x):
        ours(**batch())
    assert sum(kept) < before / 2, "the layers still keep what they computed"
    for once, again in zip(plain, gradients(ours), strict=True):
        assert torch.equal(once, again)
    ours.gradient_checkpointing_disable()
    with pytest.raises(ValueError, match="every layer is checkpointed or none"):
        ours.activation_checkpointing_enable(every_n_layers=2)
    with pytest.raises(ValueError, match="never reentrant"):
        ours.gradient_checkpointing_enable({"use_reentrant": True})


@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_and_positions_as_in_transformers(models, side):
    theirs, ours = (model.eval() for model in models)
    x = batch(2)["input_ids"]
    mask = torch.ones_like(x)
    real = slice(3, None) if side == "left" else slice(None, LENGTH - 3)
    mask[0] = 0
    mask[0, real] = 1
    for positions in (None, (mask.cumsum(1) - 1).clamp(min=0), torch.arange(LENGTH)[None] + 5):
        call = {"input_ids": x, "attention_mask": mask, "position_ids": positions}
        for row, seen in ((0, real), (1, slice(None))):
            torch.testing.assert_close(ours(**call).logits[row, seen], theirs(**call).logits[row, seen], rtol=1e-4, atol=1e-5)


def test_position_ids_that_start_again_are_documents_as_in_transformers(models):
    theirs, ours = (model.eval() for model in models)
    x = batch(2)["input_ids"]
    packed = torch.cat([torch.arange(5), torch.arange(LENGTH - 5)])[None].expand(2, -1)
    logits = ours(x, position_ids=packed).logits
    torch.testing.assert_close(logits, theirs(x, position_ids=packed, use_cache=False).logits, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(logits[:, 5:], ours(x[:, 5:]).logits, rtol=1e-4, atol=1e-5)
    assert (logits - ours(x).logits)[:, 5:].abs().max() > 0.01
    with pytest.raises(ValueError, match="leave attention_mask out"):
        ours(x, position_ids=packed, attention_mask=torch.ones_like(x))


def test_hidden_states_tuples_and_embeddings_as_in_transformers(models):
    theirs, ours = (model.eval() for model in models)
    call = batch(2)
    mine, other = (model(**call, output_hidden_states=True) for model in (ours, theirs))
    assert len(mine.hidden_states) == len(other.hidden_states) == ours.config.num_hidden_layers + 1
    for one, two in zip(mine.hidden_states, other.hidden_states, strict=True):
        torch.testing.assert_close(one[0], two[0], rtol=1e-4, atol=1e-5)
    plain = ours(**call, return_dict=False)
    assert isinstance(plain, tuple)
    assert len(plain) == 2
    assert torch.equal(plain[1], mine.logits)
    x = call["input_ids"]
    assert torch.equal(ours(inputs_embeds=ours.get_input_embeddings()(x)).logits, ours(x).logits)
    assert torch.equal(ours(x, logits_to_keep=3).logits, ours(x).logits[:, -3:])
    assert torch.equal(ours(x, logits_to_keep=torch.tensor([1, 4])).logits, ours(x).logits[:, [1, 4]])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"output_attentions": True}, "cannot honour output_attentions: attention weights are never written out"),
        ({"is_causal": False, "seq_idx": torch.zeros(2, LENGTH)}, "seq_idx: give position_ids that start again"),
        ({"atention_mask": None}, "takes no argument 'atention_mask'; did you mean 'attention_mask'"),
        ({"attention_mask": torch.ones(2, 1, LENGTH, LENGTH)}, r"attention_mask should have shape \(B, T\)"),
        ({"attention_mask": torch.ones(2, 5)}, r"should have shape \(2, 12\)"),
        ({"position_ids": torch.zeros(2, 5, dtype=torch.int64)}, r"position_ids should have shape \(2, 12\)"),
        ({"token_type_ids": torch.ones(2, LENGTH, dtype=torch.int64)}, "this architecture has one kind of segment"),
        ({"past_key_values": transformers.DynamicCache()}, "takes an AnyformerCache, got DynamicCache"),
        ({"inputs_embeds": torch.zeros(2, LENGTH, 32)}, "either input_ids or inputs_embeds"),
        ({"labels": torch.ones(2, LENGTH, dtype=torch.int64), "logits_to_keep": 1}, "leave logits_to_keep out"),
    ],
)
def test_what_is_not_honoured_is_refused_in_words(directories, arguments, words):
    model = AnyformerForCausalLM.from_pretrained(directories[1])
    with pytest.raises(ValueError, match=words):
        model(batch(2)["input_ids"], **arguments)
