"""Parts against their naive twins and the best public implementations, in one process, turn by turn.

    python -m benchmarks.parts
    python -m benchmarks.parts --only experts

Writes benchmarks/results/parts.json, parts.png and linear.png. Every contender must first give our outputs and gradients
on equal weights; a ratio is the median over rounds of the ratio within a round. All in fp32.
"""
