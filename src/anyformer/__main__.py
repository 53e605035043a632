"""`python -m anyformer`: the command line."""

from anyformer.cli import main

main()
