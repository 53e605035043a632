"""Where trials run: processes of this machine, Ray tasks, or one Slurm array; the directories, keys and numbers are alike."""

from anyformer.studies.engines.engine import ENGINES, Launch, engine_of

__all__ = ["ENGINES", "Launch", "engine_of"]
