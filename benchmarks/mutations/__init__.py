"""How many one-line mistakes the tests notice: mutants of the package by cosmic-ray's operators, tried against the tests."""
