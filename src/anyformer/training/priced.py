"""What of a run its price depends on: the weights that learn, their optimiser, and averages of them."""

from __future__ import annotations

from torch.utils.flop_counter import FlopCounterMode

from anyformer.costs.examples import examples
from anyformer.costs.fine_tuning import FineTuning, Method
from anyformer.costs.memory import ADAM
from anyformer.model import Architecture, build
from anyformer.operations import Shape
from anyformer.plan import Plan
from anyformer.training.adapting import tune
from anyformer.training.run import Run


def method_of(run: Run) -> Method | None:
    """How the run fine-tunes; None for a run in which every weight learns and no average is kept."""
    if run.tuning.everything and run.average is None:
        return None
    precision = run.plan.precision
    return Method(
        "this run",
        run.tuning,
        run.optimiser,
        "fp32" if precision.weight_bytes == ADAM.weights else "bf16",
        averaged=run.average is not None,
        masters=precision.masters,
    )


def flops_of(run: Run) -> int:
    """FLOPs of an update, with every query-key pair."""
    piece = run.piece
    if run.tuning.everything:
        return 3 * run.accumulation * run.architecture.trained_cost(piece, run.plan).total_flops.dense
    method = method_of(run)
    assert method is not None, "not everything learns"
    return run.accumulation * FineTuning(run.architecture, method, run.length, run.plan).flops(piece.batch)


def counted_flops(architecture: Architecture, method: Method, shape: Shape, plan: Plan) -> int:
    """FLOPs of forward and backward pass, counted on the tuned model without numbers."""
    model = build(architecture, plan, device="meta")
    tune(model, method.tuning, 0)
    with FlopCounterMode(display=False) as counter:
        model.eval()(*(x.to("meta") for x in examples(architecture, shape))).float().sum().backward()
    return int(counter.get_total_flops())
