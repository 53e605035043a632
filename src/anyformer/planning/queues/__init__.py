"""Serving under load: requests that come at random, the steps in which engines read and answer them, and how long each waits.

Event by event: an engine's next step ends at a time that follows from the texts in it (`steps.py`); nothing is approximated by
formulas of queues, which are what the tests hold this against.
"""
