"""Where a number comes from: the formula that made it, down to weights and tokens."""
