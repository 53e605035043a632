"""Images and sound among the tokens of a text: towers that encode them, and projectors to the width of the text."""
