"""Images among the tokens of a text: a tower that encodes them, and projectors to the width of the text."""
