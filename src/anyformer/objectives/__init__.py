"""Training objectives, one per file; a class enters the registry of `Objective` by being defined."""

from anyformer.objectives.aspects import LossTraits, Partner, SampleSizes
from anyformer.objectives.captions import CaptionsObjective
from anyformer.objectives.causal import CausalObjective
from anyformer.objectives.choice import default_objective
from anyformer.objectives.classification import ClassificationObjective
from anyformer.objectives.contrastive import ContrastiveObjective
from anyformer.objectives.crosscoder import CrosscoderObjective
from anyformer.objectives.ctc import CTCObjective
from anyformer.objectives.denoising import DenoisingObjective
from anyformer.objectives.diffusion import DiffusionObjective
from anyformer.objectives.distillation import DistillationObjective
from anyformer.objectives.dpo import DPOObjective
from anyformer.objectives.examples import Examples
from anyformer.objectives.feed import Feed
from anyformer.objectives.flow_matching import FlowMatchingObjective
from anyformer.objectives.image_classification import ImageClassificationObjective
from anyformer.objectives.image_features import ImageFeaturesObjective
from anyformer.objectives.image_regression import ImageRegressionObjective
from anyformer.objectives.instruction import InstructionObjective
from anyformer.objectives.kto import KTOObjective
from anyformer.objectives.masked import MaskedObjective
from anyformer.objectives.masked_patches import MaskedPatchesObjective
from anyformer.objectives.multi_token import MultiTokenObjective
from anyformer.objectives.objective import (
    Objective,
    Partners,
    Setting,
    added,
    asked_of,
    beside,
    divides_logits,
    loss_of,
    of_divided_logits,
    penalised,
    prepared,
    without_penalties,
)
from anyformer.objectives.orpo import ORPOObjective
from anyformer.objectives.pair_losses import HingeLoss, LogisticLoss, PairLoss, RobustLoss, SmoothedLoss, SquaredLoss
from anyformer.objectives.policy_objective import PolicyObjective
from anyformer.objectives.preference import PreferenceObjective
from anyformer.objectives.prefix import PrefixObjective
from anyformer.objectives.regression import RegressionObjective
from anyformer.objectives.replaced_tokens import ReplacedTokensObjective
from anyformer.objectives.reward import RewardObjective
from anyformer.objectives.sae import SAEObjective
from anyformer.objectives.segmentation import SegmentationObjective
from anyformer.objectives.seq2seq import Seq2SeqObjective
from anyformer.objectives.signal import ObjectiveSignal
from anyformer.objectives.simpo import SimPOObjective
from anyformer.objectives.sound_classification import SoundClassificationObjective
from anyformer.objectives.sound_to_text import SoundToTextObjective
from anyformer.objectives.span_corruption import SpanCorruptionObjective
from anyformer.objectives.spans import SpansObjective
from anyformer.objectives.speech_to_text import SpeechToTextObjective
from anyformer.objectives.step_rewards import StepRewardsObjective
from anyformer.objectives.task import TaskObjective
from anyformer.objectives.task_seq2seq import TaskSeq2SeqObjective
from anyformer.objectives.token_labels import TokenLabelsObjective
from anyformer.objectives.transcoder import TranscoderObjective
from anyformer.objectives.ul2 import Denoiser, UL2Objective
from anyformer.objectives.vector_classification import VectorClassificationObjective

__all__ = [
    "CTCObjective",
    "CaptionsObjective",
    "CausalObjective",
    "ClassificationObjective",
    "ContrastiveObjective",
    "CrosscoderObjective",
    "DPOObjective",
    "Denoiser",
    "DenoisingObjective",
    "DiffusionObjective",
    "DistillationObjective",
    "Examples",
    "Feed",
    "FlowMatchingObjective",
    "HingeLoss",
    "ImageClassificationObjective",
    "ImageFeaturesObjective",
    "ImageRegressionObjective",
    "InstructionObjective",
    "KTOObjective",
    "LogisticLoss",
    "LossTraits",
    "MaskedObjective",
    "MaskedPatchesObjective",
    "MultiTokenObjective",
    "ORPOObjective",
    "Objective",
    "ObjectiveSignal",
    "PairLoss",
    "Partner",
    "Partners",
    "PolicyObjective",
    "PreferenceObjective",
    "PrefixObjective",
    "RegressionObjective",
    "ReplacedTokensObjective",
    "RewardObjective",
    "RobustLoss",
    "SAEObjective",
    "SampleSizes",
    "SegmentationObjective",
    "Seq2SeqObjective",
    "Setting",
    "SimPOObjective",
    "SmoothedLoss",
    "SoundClassificationObjective",
    "SoundToTextObjective",
    "SpanCorruptionObjective",
    "SpansObjective",
    "SpeechToTextObjective",
    "SquaredLoss",
    "StepRewardsObjective",
    "TaskObjective",
    "TaskSeq2SeqObjective",
    "TokenLabelsObjective",
    "TranscoderObjective",
    "UL2Objective",
    "VectorClassificationObjective",
    "added",
    "asked_of",
    "beside",
    "default_objective",
    "divides_logits",
    "loss_of",
    "of_divided_logits",
    "penalised",
    "prepared",
    "without_penalties",
]
