"""The lab: what the textbooks say, as experiments that run, measure, draw and give a verdict."""
