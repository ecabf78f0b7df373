"""Export to ONNX graphs, built node by node."""
