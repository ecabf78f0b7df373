"""Look into a model: figures, tables and words of a trace; gradients, saliency, ablation."""

# Steps of integrated gradients: the output of a trained Transformer may change abruptly along the
# path, and 64 steps can miss a third of the change.
INTEGRATION_STEPS = 256
