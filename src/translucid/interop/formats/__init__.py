"""Files with tensors in them: one reader per format, none of which runs anything."""
