"""A step-by-step explanation of a run: what happens to a text, from its tokens to the answer."""
