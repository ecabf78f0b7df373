"""Export models to ONNX graphs, which are built node by node."""
