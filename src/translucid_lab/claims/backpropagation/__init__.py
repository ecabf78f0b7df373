"""Claims about gradients, the chain rule and gradient descent."""
