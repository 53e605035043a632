"""A port of a model type that nothing here reads, from a configuration, names and shapes of weights, and code that is read."""

from anyformer.porting.authors import logits_by
from anyformer.porting.changes import Biased, Gated, HeadsNormed, Normed, Put, Wired
from anyformer.porting.derivation import Derivation
from anyformer.porting.files import ported_files, write_port
from anyformer.porting.neighbours import Neighbour, neighbours
from anyformer.porting.proof import PortProof
from anyformer.porting.proposal import PortProposal, Unknown, check_new, proposal

__all__ = [
    "Biased",
    "Derivation",
    "Gated",
    "HeadsNormed",
    "Neighbour",
    "Normed",
    "PortProof",
    "PortProposal",
    "Put",
    "Unknown",
    "Wired",
    "check_new",
    "logits_by",
    "neighbours",
    "ported_files",
    "proposal",
    "write_port",
]
