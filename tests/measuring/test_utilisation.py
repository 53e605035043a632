"""MFU of trainings by other programs: FLOPs of the batches that they really see, over a clock that tests set."""

from __future__ import annotations

import importlib
import sys
from itertools import count
from types import ModuleType, SimpleNamespace

import pytest
import torch
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM, T5Config, T5ForConditionalGeneration, Trainer, TrainingArguments

import anyformer as af
from anyformer.describe import UserError
from anyformer.measuring import utilisation
from anyformer.measuring.trainer_callback import MfuCallback
from anyformer.measuring.utilisation import UtilisationMeter

LLAMA = LlamaConfig(
    vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
)  # fmt: skip
BATCH, LENGTH, ACCUMULATED = 2, 12, 3


@pytest.fixture
def ticking(monkeypatch):
    """Every look at the clock is a second after the one before."""
    seconds = count()
    monkeypatch.setattr(utilisation.time, "perf_counter", lambda: float(next(seconds)))
    monkeypatch.setattr(UtilisationMeter.__init__, "__kwdefaults__", {
        **UtilisationMeter.__init__.__kwdefaults__, "clock": utilisation.time.perf_counter,
    })  # fmt: skip


def test_utilisation_is_flops_per_second_over_the_peak():
    per_row = af.flops("llama-3-8b", length=2048)
    assert per_row == af.cost("llama-3-8b", length=2048).flops.total.exact
    assert af.flops("llama-3-8b", length=2048, pairs="dense") > per_row
    assert af.mfu("llama-3-8b", 8_000, length=2048) == pytest.approx(8_000 * per_row / 2048 / 989.4e12)
    assert af.mfu("llama-3-8b", 8_000, 4, length=2048) == pytest.approx(af.mfu("llama-3-8b", 2_000, length=2048))
    named = LLAMA.to_diff_dict()
    assert af.mfu(named, 1e6, length=64, hardware="a100") == pytest.approx(1e6 * af.flops(named, length=64) / 64 / 312e12)


@pytest.mark.parametrize("wrong", [{"tokens_per_second": 0}, {"tokens_per_second": 1, "devices": 0}])
def test_what_is_no_rate_is_refused(wrong):
    with pytest.raises(UserError, match="give a number above 0"):
        af.mfu("gpt2", **wrong)


def test_the_callback_of_transformers_counts_batches_and_no_evaluation(tmp_path, ticking):
    rows = [{"input_ids": torch.arange(LENGTH) % 64, "labels": torch.arange(LENGTH) % 64}] * 24
    arguments = TrainingArguments(
        output_dir=str(tmp_path), per_device_train_batch_size=BATCH, gradient_accumulation_steps=ACCUMULATED, max_steps=4,
        logging_steps=2, eval_strategy="steps", eval_steps=1, save_strategy="no", report_to=[], use_cpu=True, bf16=True,
        disable_tqdm=True,
    )  # fmt: skip
    callback = MfuCallback(hardware="h100")
    trainer = Trainer(LlamaForCausalLM(LLAMA), arguments, train_dataset=rows, eval_dataset=rows[:4], callbacks=[callback])
    trainer.train()
    # Of two steps the clock is read at the beginning of the first and at the end of each.
    steps = 2 * ACCUMULATED * BATCH * af.flops(LLAMA.to_diff_dict(), length=LENGTH)
    found = [entry["mfu"] for entry in trainer.state.log_history if "loss" in entry]
    assert found == pytest.approx([steps / 2 / 989.4e12] * 2)
    assert not any("mfu" in entry for entry in trainer.state.log_history if "eval_loss" in entry)


def test_both_inputs_of_an_encoder_and_a_decoder_are_counted():
    config = T5Config(vocab_size=64, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, pad_token_id=0)
    config.decoder_start_token_id = 0
    model, meter = T5ForConditionalGeneration(config), UtilisationMeter(config.to_diff_dict(), hardware="h100")
    hook = meter.watch(model)
    tokens = torch.arange(14).reshape(2, 7)
    targets = tokens[:, :5].contiguous()
    model.train()(input_ids=tokens, labels=targets)
    model.eval()(input_ids=tokens, labels=targets)
    assert meter.flops == 2 * af.flops(config.to_diff_dict(), length=5, source_length=7)
    hook.remove()
    model.train()(input_ids=tokens, labels=targets)
    assert meter.flops == 2 * af.flops(config.to_diff_dict(), length=5, source_length=7)


def test_an_unknown_device_and_a_batch_without_tokens_are_refused():
    with pytest.raises(UserError, match="name one as hardware="):
        UtilisationMeter("gpt2")
    meter, model = UtilisationMeter("gpt2", hardware="h100"), nn.Identity()
    meter.watch(model)
    with pytest.raises(UserError, match="count it yourself"):
        model(torch.zeros(3))


def test_the_callback_of_lightning_logs_what_was_trained_since_the_last_time(monkeypatch, ticking):
    """Lightning itself is not among the tests' packages: a stand-in has the one class that the callback builds on."""
    inner = ModuleType("lightning.pytorch")
    inner.Callback = object
    for name, module in (("lightning", ModuleType("lightning")), ("lightning.pytorch", inner)):
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.delitem(sys.modules, "anyformer.measuring.lightning_callback", raising=False)
    made = importlib.import_module("anyformer.measuring.lightning_callback").LightningMfuCallback
    monkeypatch.delitem(sys.modules, "anyformer.measuring.lightning_callback")
    module, logged = nn.Module(), []
    module.model, module.log = LlamaForCausalLM(LLAMA), lambda *entry: logged.append(entry)
    callback, trainer = made(LLAMA.to_diff_dict(), hardware="h100", every=2), SimpleNamespace(precision="bf16-mixed")
    callback.on_train_start(trainer, module)
    for i in range(4):
        callback.on_train_batch_start(trainer, module, None, i)
        module.model(input_ids=torch.arange(24).reshape(2, 12))
        callback.on_train_batch_end(trainer, module, None, None, i)
        if i == 2:
            callback.on_validation_start(trainer, module)
    per_batch = 2 * af.flops(LLAMA.to_diff_dict(), length=12)
    assert logged == [("mfu", pytest.approx(2 * per_batch / 2 / 989.4e12)), ("mfu", pytest.approx(per_batch / 989.4e12))]
