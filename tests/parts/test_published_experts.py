"""Mixtures of experts against the published implementations, weight by weight: what a family chooses, and how it weighs."""

from __future__ import annotations

import pytest
import torch
from transformers import (
    AXK2Config,
    Cohere2MoeConfig,
    DeepseekV3Config,
    DeepseekV4Config,
    Ernie4_5_MoeConfig,
    Gemma4TextConfig,
    GptOssConfig,
    Kolibri1Config,
    LagunaConfig,
    Llama4TextConfig,
    LongcatFlashConfig,
    Mistral4Config,
    PhimoeConfig,
)
from transformers.models.axk2.modeling_axk2 import AXK2MoE
from transformers.models.cohere2_moe.modeling_cohere2_moe import Cohere2MoeSparseMoeBlock
from transformers.models.deepseek_v3.modeling_deepseek_v3 import DeepseekV3MoE
from transformers.models.deepseek_v4.modeling_deepseek_v4 import DeepseekV4SparseMoeBlock
from transformers.models.ernie4_5_moe.modeling_ernie4_5_moe import Ernie4_5_MoeSparseMoeBlock
from transformers.models.gemma4.modeling_gemma4 import Gemma4RMSNorm, Gemma4TextExperts, Gemma4TextRouter
from transformers.models.gpt_oss.modeling_gpt_oss import GptOssMLP
from transformers.models.kolibri1.modeling_kolibri1 import Kolibri1SparseMoeBlock
from transformers.models.laguna.modeling_laguna import LagunaSparseMoeBlock
from transformers.models.llama4.modeling_llama4 import Llama4TextMoe
from transformers.models.longcat_flash.modeling_longcat_flash import LongcatFlashMoE
from transformers.models.mistral4.modeling_mistral4 import Mistral4MoE
from transformers.models.phimoe.modeling_phimoe import PhimoeSparseMoeBlock
from transformers.models.step3p7.configuration_step3p7 import Step3p7TextConfig
from transformers.models.step3p7.modeling_step3p7 import Step3p7SparseMoeBlock

from anyformer.describe import change_all
from anyformer.parts import (
    Experts,
    FeedForward,
    Groups,
    Renormalise,
    RMSNorm,
    Router,
    ScoreCorrectionBias,
    SharedExpert,
    SparseMixer,
    TopK,
)
from anyformer.parts.call.context import Context
from anyformer.plan import Plan

B, T, D, F, X, K = 2, 33, 16, 10, 6, 2
EAGER = {"experts_implementation": "eager", "hidden_size": D}
SUM = Renormalise(eps=0.0)
CORRECTED = TopK(correction=ScoreCorrectionBias())


def loud(module: torch.nn.Module, bias: str | None = None) -> torch.nn.Module:
    """With weights of which every part leaves a trace, and corrections (`bias`, by its path) that change choices."""
    generator = torch.Generator().manual_seed(0)
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, std=0.5, generator=generator)
    if bias is not None:
        torch.nn.init.normal_(_at(module, bias), std=0.3, generator=generator)
    return module.eval()


def _at(module: torch.nn.Module, path: str) -> torch.Tensor:
    *modules, name = path.split(".")
    return getattr(module.get_submodule(".".join(modules)), name)


def halves(experts) -> dict[str, torch.Tensor]:
    """Stacked [gate | up] and down."""
    gate, up = experts.gate_up_proj[: len(experts.down_proj)].chunk(2, 1)
    return {"gate": gate, "up": up, "down": experts.down_proj}


def shared(mlp) -> dict[str, torch.Tensor]:
    return {f"shared.{name}.weight": _at(mlp, f"{name}_proj.weight") for name in ("gate", "up", "down")}


def usual(theirs) -> dict[str, torch.Tensor]:
    """Experts, a shared one, and a router that is corrected, under the names that most families give them."""
    router = {"router.weight": theirs.gate.weight, "router.correction": theirs.gate.e_score_correction_bias}
    return halves(theirs.experts) | shared(theirs.shared_experts) | router


def of(**fields) -> Experts:
    return Experts(**{"experts": X, "chosen": K, "width": F} | fields)


def small(width: int = F, **fields) -> SharedExpert:
    return SharedExpert(feedforward=FeedForward(width=width), **fields)


def kolibri():
    config = Kolibri1Config(
        **EAGER, num_experts=X, num_experts_per_tok=K, moe_intermediate_size=F, shared_expert_intermediate_size=F,
        norm_topk_prob=True,
    )  # fmt: skip
    theirs = loud(Kolibri1SparseMoeBlock(config), "gate.e_score_correction_bias")
    choice = TopK(by="logits", correction=ScoreCorrectionBias())
    ours = of(router=Router(score="sigmoid", choice=choice, renormalise=SUM), shared=small())
    return ours, usual(theirs), theirs


def laguna():
    config = LagunaConfig(
        **EAGER, num_experts=X, num_experts_per_tok=K, moe_intermediate_size=F, shared_expert_intermediate_size=F,
        moe_router_logit_softcapping=0.8, moe_routed_scaling_factor=1.7,
    )  # fmt: skip
    theirs = loud(LagunaSparseMoeBlock(config), "gate.e_score_correction_bias")
    router = Router(score="sigmoid", softcap=0.8, choice=CORRECTED, renormalise=SUM, scale=1.7)
    return of(router=router, shared=small()), usual(theirs), theirs


def gemma4():
    """The router reads the residual stream, and the experts its norm, as in the layer."""
    config = Gemma4TextConfig(**EAGER, num_experts=X, top_k_experts=K, moe_intermediate_size=F, enable_moe_block=True)
    router, experts = loud(Gemma4TextRouter(config)), loud(Gemma4TextExperts(config))
    norm = loud(Gemma4RMSNorm(D, eps=config.rms_norm_eps))
    read = RMSNorm(eps=config.rms_norm_eps)
    ours = of(
        activation="gelu_tanh", norm=read,
        router=Router(norm=read, multiplier=D**-0.5, renormalise=SUM, expert_scale=True),
    )  # fmt: skip
    weights = {
        "norm.weight": norm.weight, "router.norm.weight": router.scale, "router.weight": router.proj.weight,
        "router.expert_scale": router.per_expert_scale,
    }  # fmt: skip

    def theirs(x):
        flat = x.flatten(0, 1)
        _, shares, chosen = router(flat)
        return experts(norm(flat), chosen, shares).view(x.shape)

    return ours, halves(experts) | weights, theirs


def longcat():
    config = LongcatFlashConfig(
        **EAGER, n_routed_experts=X, zero_expert_num=4, moe_topk=3, expert_ffn_hidden_size=F, routed_scaling_factor=6.0
    )
    theirs = loud(LongcatFlashMoE(config), "router.e_score_correction_bias")
    ours = of(identity_experts=4, chosen=3, router=Router(choice=CORRECTED, scale=6.0))
    weights = {
        "router.weight": theirs.router.classifier.weight, "router.correction": theirs.router.e_score_correction_bias
    }  # fmt: skip
    return ours, halves(theirs.experts) | weights, theirs


def cohere2(function="sigmoid"):
    config = Cohere2MoeConfig(
        **EAGER, num_experts=X, num_experts_per_tok=K, intermediate_size=F, num_shared_experts=2,
        shared_expert_combination_strategy="average", expert_selection_fn=function,
    )  # fmt: skip
    theirs = loud(Cohere2MoeSparseMoeBlock(config))
    choice = TopK(by="logits")
    router = (
        Router(score="sigmoid", choice=choice, renormalise=SUM)
        if function == "sigmoid"
        else Router(over="chosen", choice=choice)
    )
    weights = halves(theirs.experts) | shared(theirs.shared_experts) | {"router.weight": theirs.gate.weight}
    return of(router=router, shared=small(2 * F, join="mean")), weights, theirs


def cohere2_softmax():
    return cohere2("softmax")


def gpt_oss():
    config = GptOssConfig(**EAGER, num_local_experts=X, num_experts_per_tok=K, intermediate_size=F, swiglu_limit=0.9)
    theirs = loud(GptOssMLP(config))
    experts = theirs.experts
    ours = of(
        router=Router(over="chosen", bias=True, choice=TopK(by="logits")), bias=("gate", "up", "down"),
        activation="quick_gelu", clamp=0.9, up_offset=1.0,
    )  # fmt: skip
    (gate, up), (gate_bias, up_bias) = (
        (joined[..., ::2], joined[..., 1::2]) for joined in (experts.gate_up_proj, experts.gate_up_proj_bias)
    )
    weights = {
        "gate": gate.mT, "up": up.mT, "down": experts.down_proj.mT, "gate_bias": gate_bias, "up_bias": up_bias,
        "down_bias": experts.down_proj_bias, "router.weight": theirs.router.weight, "router.bias": theirs.router.bias,
    }  # fmt: skip
    return ours, weights, lambda x: theirs(x)[0]


def step():
    config = Step3p7TextConfig(
        **EAGER, n_routed_experts=X, num_local_experts=X, num_experts_per_tok=K, moe_intermediate_size=F, share_expert_dim=F,
        moe_router_scaling_factor=2.0, swiglu_limits=[0.4], swiglu_limits_shared=[0.6], num_hidden_layers=1,
    )  # fmt: skip
    theirs = loud(Step3p7SparseMoeBlock(config, 0), "gate.e_score_correction_bias")
    both = {"clamp_at": "after_activation"}
    ours = of(
        router=Router(score="sigmoid", choice=CORRECTED, renormalise=SUM, scale=2.0), clamp=0.4, **both,
        shared=SharedExpert(feedforward=FeedForward(width=F, clamp=0.6, **both)),
    )  # fmt: skip
    return ours, usual(theirs), theirs


def deepseek(config, block, bias=None, **groups):
    """Groups, and corrections where there are any."""
    sizes = {"n_routed_experts": X, "num_experts_per_tok": 3, "moe_intermediate_size": F, "n_shared_experts": 1}
    sizes |= {"n_group": groups["count"], "topk_group": groups["keep"], "norm_topk_prob": True, "routed_scaling_factor": 2.5}
    theirs = loud(block(config(**EAGER, **sizes)), bias)
    choice = TopK(groups=Groups(**groups, score="top_2"), correction=ScoreCorrectionBias() if bias else None)
    router = Router(score="sigmoid" if bias else "softmax", choice=choice, renormalise=Renormalise(), scale=2.5)
    return of(chosen=3, router=router, shared=small()), theirs


def deepseek_v3():
    ours, theirs = deepseek(DeepseekV3Config, DeepseekV3MoE, "gate.e_score_correction_bias", count=3, keep=2)
    return ours, usual(theirs), theirs


def mistral4():
    """It masks with 0, which below a softmax is as good as never."""
    ours, theirs = deepseek(Mistral4Config, Mistral4MoE, count=3, keep=2)
    return ours, halves(theirs.experts) | shared(theirs.shared_experts) | {"router.weight": theirs.gate.weight}, theirs


def deepseek_v4():
    config = DeepseekV4Config(**EAGER, n_routed_experts=X, num_experts_per_tok=K, moe_intermediate_size=F, swiglu_limit=0.5)
    config.mlp_layer_types = ["moe"]
    theirs = loud(DeepseekV4SparseMoeBlock(config, 0), "gate.e_score_correction_bias")
    scale = config.routed_scaling_factor
    router = Router(score="sqrt_softplus", choice=CORRECTED, renormalise=Renormalise(), scale=scale)
    shared = SharedExpert(feedforward=FeedForward(width=F, clamp=0.5))
    return of(router=router, clamp=0.5, shared=shared), usual(theirs), theirs


def llama4():
    """Its loop over all experts keeps the rows of those not chosen at 0."""
    config = Llama4TextConfig(**EAGER, num_local_experts=X, num_experts_per_tok=K, intermediate_size=F)
    theirs = loud(Llama4TextMoe(config))
    gate, up = theirs.experts.gate_up_proj.chunk(2, 2)
    weights = {"gate": gate.mT, "up": up.mT, "down": theirs.experts.down_proj.mT, "router.weight": theirs.router.weight}
    ours = of(router=Router(score="sigmoid", choice=TopK(by="logits")), weigh="input", shared=small())
    return ours, weights | shared(theirs.shared_expert), lambda x: theirs(x)[0].view(x.shape)


def axk2():
    """Corrections so far below zero that the group kept is not chosen: all of the other, as its experts tie at 0."""
    ours, theirs = deepseek(AXK2Config, AXK2MoE, "gate.e_score_correction_bias", count=2, keep=1, others="zero")
    torch.nn.init.uniform_(theirs.gate.e_score_correction_bias, -1.5, -1.1)
    return ours, usual(theirs), theirs


def ernie():
    config = Ernie4_5_MoeConfig(
        **EAGER, moe_num_experts=X, moe_k=K, moe_intermediate_size=F, moe_num_shared_experts=2, moe_norm_min=0.8
    )
    theirs = loud(Ernie4_5_MoeSparseMoeBlock(config), "gate.moe_statics.e_score_correction_bias")
    router = Router(choice=CORRECTED, renormalise=Renormalise(eps=0.0, least=0.8))
    correction = theirs.gate.moe_statics.e_score_correction_bias.flatten()
    weights = {"router.weight": theirs.gate.weight, "router.correction": correction}
    return of(router=router, shared=small(2 * F)), halves(theirs.experts) | shared(theirs.shared_experts) | weights, theirs


def phimoe():
    """A margin so wide that the softmaxes are over several experts."""
    config = PhimoeConfig(
        **EAGER, num_local_experts=X, num_experts_per_tok=2, intermediate_size=F, router_jitter_noise=0.4, hidden_act="silu"
    )
    config.input_jitter_noise = 0.0
    theirs = loud(PhimoeSparseMoeBlock(config))
    ours = of(chosen=2, router=Router(choice=SparseMixer(margin=0.8)))
    return ours, halves(theirs.experts) | {"router.weight": theirs.router.weight}, theirs


FAMILIES = [
    kolibri, laguna, gemma4, longcat, cohere2, cohere2_softmax, gpt_oss, step, axk2, ernie, phimoe, deepseek_v3, deepseek_v4,
    mistral4, llama4,
]  # fmt: skip


def run(description: Experts, weights: dict[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    ours = description.build(D, Plan(), "experts").eval()
    ours.load_state_dict(weights)
    return ours(x, Context(positions=torch.arange(T)[None], plan=Plan(), padded=False))


def inputs() -> torch.Tensor:
    return torch.randn(B, T, D, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("family", FAMILIES)
def test_the_same_weights_give_the_same_outputs(family):
    description, weights, theirs = family()
    with torch.no_grad():
        torch.testing.assert_close(run(description, weights, inputs()), theirs(inputs()), rtol=1e-4, atol=1e-5)


PLAIN_CHOICE, NO_CLAMP = {"router.choice": CORRECTED}, {"clamp": None, "clamp_at": "before_activation"}


@pytest.mark.parametrize(
    ("family", "without"),
    [
        (kolibri, PLAIN_CHOICE),
        (laguna, {"router.softcap": None}),
        (gemma4, {"router.multiplier": 1.0}),
        (longcat, {"router.scale": 1.0}),
        (cohere2, {"shared.join": "sum"}),
        (gpt_oss, {"clamp": None}),
        (gpt_oss, {"up_offset": 0.0}),
        (step, NO_CLAMP),
        (step, {"clamp_at": "before_activation"}),
        (axk2, {"router.choice.groups.others": "never"}),
        (ernie, {"router.renormalise.least": 0.0}),
        (phimoe, {"router.choice.margin": 0.02}),
        (phimoe, {"router.choice": TopK()}),
        (deepseek_v3, {"router.choice.groups": None}),
        (deepseek_v4, {"clamp": None}),
        (mistral4, {"router.choice.groups": None}),
        (llama4, {"weigh": "output"}),
    ],
)
def test_what_a_family_adds_matters(family, without):
    """Else the agreement above says nothing."""
    description, weights, theirs = family()
    with torch.no_grad():
        difference = run(change_all(description, without), weights, inputs()) - theirs(inputs())
    assert difference.abs().max() > 0.01
