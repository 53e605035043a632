"""Generated tasks that tell architectures apart, one per file; a class enters the registry of `Task` by being defined."""

from anyformer.tasks.addition import Addition
from anyformer.tasks.compression import Compression
from anyformer.tasks.copying import Copying, Reversal
from anyformer.tasks.data import TaskData, named_task
from anyformer.tasks.draws import Draws
from anyformer.tasks.dyck import Dyck
from anyformer.tasks.fuzzy_recall import FuzzyRecall
from anyformer.tasks.indirect_object import IndirectObject
from anyformer.tasks.induction import Induction
from anyformer.tasks.memorisation import Memorisation
from anyformer.tasks.modular_addition import ModularAddition
from anyformer.tasks.mqar import MQAR
from anyformer.tasks.needle import Needle
from anyformer.tasks.parity import Parity
from anyformer.tasks.question import TaskQuestion, questions
from anyformer.tasks.regression import Regression
from anyformer.tasks.selective_copying import SelectiveCopying
from anyformer.tasks.sorting import Sorting
from anyformer.tasks.task import NOTHING, Task, TaskBatch
from anyformer.tasks.transduction import Transduction

__all__ = [
    "MQAR",
    "NOTHING",
    "Addition",
    "Compression",
    "Copying",
    "Draws",
    "Dyck",
    "FuzzyRecall",
    "IndirectObject",
    "Induction",
    "Memorisation",
    "ModularAddition",
    "Needle",
    "Parity",
    "Regression",
    "Reversal",
    "SelectiveCopying",
    "Sorting",
    "Task",
    "TaskBatch",
    "TaskData",
    "TaskQuestion",
    "Transduction",
    "named_task",
    "questions",
]
