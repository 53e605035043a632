"""A server of texts over HTTP: the engine room, which computes them, and OpenAI's protocol in front of it."""
