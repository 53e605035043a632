"""Inference in several processes, started by `torchrun`: each computes a share of a model, and holds no more of it."""

from anyformer.inference.processes import OneProcess, Processes, SeveralProcesses, processes

__all__ = ["OneProcess", "Processes", "SeveralProcesses", "processes"]
