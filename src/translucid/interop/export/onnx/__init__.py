"""Models of ours as ONNX graphs, written node by node."""
