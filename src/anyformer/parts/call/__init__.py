"""Data of one call beside the stream: context, values that layers share, decode state, noise, reports of experts."""
