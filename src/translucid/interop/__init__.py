"""Models that other tools have made: their files, their names, their options."""
