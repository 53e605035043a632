"""M2M-100, whose positions begin after the id of padding."""

from __future__ import annotations

from huggingface.cases.bart import both

CASES = both("m2m_100")
