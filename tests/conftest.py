"""One thread per test process: the workers share the cores, and threads that fight over them make every test slower."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
