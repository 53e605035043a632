"""A group of one process: what needs no second one to be seen."""

from __future__ import annotations

import signal

import pytest
import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor, Shard

from anyformer import checkpoint
from anyformer.api import architecture
from anyformer.describe import change_all
from anyformer.mesh import Mesh
from anyformer.model.divided import whole
from anyformer.model.loss import likeliest, mean_logits, token_losses
from anyformer.model.transformer import build
from anyformer.objectives import DistillationObjective
from anyformer.training import load_run
from anyformer.training.evaluate import Evaluated, evaluate
from anyformer.training.held_out import corpus_of
from anyformer.training.parallel import Alone, launch
from anyformer.training.parallel.context import divide_logits, divide_positions
from anyformer.training.parallel.launch import LostProcessError, disconnect, joined
from anyformer.training.parallel.together import Together
from anyformer.training.parallel.vocabulary import divide_vocabulary
from anyformer.training.precision import Host
from anyformer.training.stop import Stop, Stopped
from anyformer.training.trainer import Trainer
from anyformer.tuning import Dora, Prompt, Tuning


@pytest.fixture
def together():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield Together.of(Mesh(data=1), torch.device("cpu"))
    if dist.is_initialized():
        disconnect()


def test_processes_part_at_the_end(together):
    assert dist.is_initialized()
    disconnect()
    assert not dist.is_initialized()


@pytest.mark.parametrize("vocabulary", [(), (Shard(1),), (Shard(1), Shard(2))])
def test_logits_are_those_of_a_process_s_positions_and_tokens_where_they_may_be_divided(together, vocabulary):
    model = build(architecture("gpt2", tiny=True)).eval()
    tokens = torch.arange(14).view(2, 7)
    whole = model(tokens)
    divide_positions(model, together.mesh["context"])
    if len(vocabulary) > 1:
        divide_vocabulary(model, together.weights["tensor"])
    if vocabulary:
        divide_logits(model, together.mesh)
    logits = model(tokens)
    if vocabulary:
        assert isinstance(logits, DTensor)
        assert logits.placements == vocabulary
        for found, expected in zip(token_losses(logits, tokens), token_losses(whole, tokens), strict=True):
            torch.testing.assert_close(found, expected)
        torch.testing.assert_close(mean_logits(logits), mean_logits(whole))
        assert likeliest(logits).equal(likeliest(whole))
        logits = logits.full_tensor()
    torch.testing.assert_close(logits, whole)


@pytest.mark.parametrize("adapter", [Dora(rank=2), Prompt(tokens=3)], ids=lambda each: each.kind)
def test_frozen_and_second_models_are_divided_before_they_have_values(together, run_of, tmp_path, monkeypatch, adapter):
    """And then have those of one process, in the types that were stored."""
    teacher = build(change_all(architecture("gpt2", tiny=True), {"embedding.vocab": 300}), dtype=torch.bfloat16, seed=5)
    checkpoint.save(teacher, tmp_path / "teacher")
    objective = DistillationObjective(teacher=str(tmp_path / "teacher"))
    run = load_run(run_of("llama-3-8b", objective=objective, tuning=Tuning(adapter=adapter)))
    corpus, host = corpus_of(run), Host(torch.device("cpu"), {})
    divide, seen = Together.divide, list[str]()

    def watched(self, models, plan, *, vocabulary=False):
        seen.extend(parameter.device.type for model in models for parameter in model.parameters())
        return divide(self, models, plan, vocabulary=vocabulary)

    monkeypatch.setattr(Together, "divide", watched)
    found, expected = Trainer.start(run, corpus, host, ranks=together), Trainer.start(run, corpus, host)
    assert len(seen) > 20
    assert set(seen) == {"meta"}
    pairs = [(found.model, expected.model), (found.partners["teacher"], expected.partners["teacher"])]
    for ours, theirs in pairs:
        for (name, weight), (_, same) in zip(ours.named_parameters(), theirs.named_parameters(), strict=True):
            assert whole(weight.detach()).equal(same), name
            assert weight.dtype == same.dtype
    assert {weight.dtype for weight in found.partners["teacher"].parameters()} == {torch.bfloat16}


def test_replicas_evaluate_every_row_once_and_tell_how_far_all_are(run_of):
    """Ten batches of three replicas: in the last round two of them compute again what does not count."""
    run = load_run(run_of("llama-3-8b"))
    trainer = Trainer.start(run, corpus_of(run), Host(torch.device("cpu"), {"fp32": 1e9}))

    def evaluated(ranks: Alone) -> tuple[Evaluated, list[int]]:
        told: list[int] = []
        given = (trainer.model, run.objective, trainer.held_out, run.plan)
        return evaluate(*given, progress=told.append, ranks=ranks), told

    whole, told = evaluated(Alone())
    assert told == [*range(128, 9 * 128 + 1, 128), 1262]
    found = [evaluated(Alone(replica=replica, replicas=3)) for replica in range(3)]
    assert [told[:3] for _, told in found] == [[3 * 128, 6 * 128, 9 * 128]] * 3
    assert [len(told) for _, told in found] == [4, 3, 3]
    assert sum(each.count for each, _ in found) == whole.count == 1262
    assert sum(each.loss * each.count for each, _ in found) / whole.count == pytest.approx(whole.loss)


def test_processes_go_on_until_one_of_them_is_asked_to_stop(together):
    def exit_code(stop: Stop) -> int | None:
        try:
            together.meet(stop, None)
        except Stopped as stopped:
            return stopped.exit_code
        return None

    stop = Stop("computing")
    assert exit_code(stop) is None
    with pytest.raises(Stopped, match="stopped while computing"):
        stop.ask(signal.SIGTERM)
    assert exit_code(stop) == 143


@pytest.mark.parametrize(
    ("error", "lost"),
    [
        (dist.DistBackendError("NCCL communicator was aborted"), True),
        (RuntimeError("[../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer"), True),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied (4x2 and 3x5)"), False),
    ],
    ids=["of torch", "of gloo", "of the computation"],
)
def test_only_an_error_of_the_connection_is_a_lost_process(together, monkeypatch, error, lost):
    monkeypatch.setattr(launch, "started", lambda: 2)
    monkeypatch.setattr(launch, "mesh_of", lambda asked, processes: Mesh(data=1))
    with pytest.raises(RuntimeError if not lost else LostProcessError) as told, joined(Mesh(), torch.device("cpu")):
        raise error
    assert (told.value is error) == (not lost)
    if lost:
        assert str(error) in str(told.value)
        assert "--resume" in str(told.value)
        with pytest.raises(LostProcessError, match=r"Connection closed|aborted"), joined(Mesh(), torch.device("cpu")):
            raise RuntimeError("failed to run forward") from error  # as a schedule wraps it
