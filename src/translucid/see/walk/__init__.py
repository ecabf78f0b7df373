"""The walk through a model: what happens to a text, from its tokens to the answer."""
