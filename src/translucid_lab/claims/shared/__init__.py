"""Models, data and tasks that several experiments share."""
