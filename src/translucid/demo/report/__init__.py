"""The reports of the demo: one HTML file for a run, one file here for each task.

Every picture has two halves: a function that reads its numbers off the model and returns them,
which tests compare with the trace, and one that draws them. `page` is the frame, `pictures` has
what several tasks draw, `baselines` and `fits` train what a model is compared with.
"""
