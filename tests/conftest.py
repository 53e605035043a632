"""One thread per test process: the workers share the cores, and threads that fight over them make every test slower."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

from hypothesis import settings

# Time is no property of a value: on a busy machine a deadline fails what is right.
settings.register_profile("steady", deadline=None)
settings.load_profile("steady")
