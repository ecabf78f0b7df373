"""Initialisation of weights for each family of models, with the reasons for it."""

import math

import torch
from torch import nn

from translucid.parts.activations import ActivationName
from translucid.parts.characters import Characters
from translucid.parts.positions import Learned


def transformer(stack: nn.Module, layers: int) -> None:
    """Initialise a Transformer so that the variance stays constant through the layers.

    Linear layers: Xavier uniform (Glorot & Bengio 2010), which keeps the variance forward and
    backward. Output projections are divided by sqrt(2 * layers), since the residual stream is the
    sum of 2 * layers of their outputs (Radford et al. 2019). Embeddings: standard deviation 1 /
    sqrt(d_model). After the embedding scale it is 1, and the logits of a tied head are about 1. An
    exception is the token just read: its logit is about sqrt(d_model), so an untrained tied model
    predicts it again. Learned positions: small, so that embeddings dominate. Biases: 0.
    """
    for name, module in stack.named_modules():
        if isinstance(module, nn.Linear):
            _xavier(module)
            if name.endswith(".output"):
                with torch.no_grad():
                    module.weight.div_(math.sqrt(2 * layers))
        elif isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=module.embedding_dim**-0.5)
        elif isinstance(module, Learned):
            nn.init.normal_(module.table, std=0.02)
    characters(stack)


def recurrent(model: nn.Module, forget_bias: float) -> None:
    """Initialise a recurrent model so that its state neither vanishes nor explodes over many steps.

    Input weights: Xavier uniform per gate. Recurrent weights: orthogonal per gate, so that repeated
    multiplication neither shrinks nor grows the state (Saxe et al. 2014). Biases: 0, except that of
    an LSTM's forget gate, which starts open (Jozefowicz et al. 2015): with bias 0, the gate would
    halve the cell state at every step. Embeddings: standard deviation 1 / sqrt(d_model), so that
    the logits of a tied head are about 1.
    """
    for module in model.modules():
        if isinstance(module, nn.RNNBase):
            _recurrent_weights(module, forget_bias)
        elif isinstance(module, nn.Linear):
            _xavier(module)
        elif isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=module.embedding_dim**-0.5)
    characters(model)


def characters(model: nn.Module) -> None:
    """Initialise the table of character embeddings with standard deviation 1, since no output head
    shares it and its values are not scaled afterwards."""
    for module in model.modules():
        if isinstance(module, Characters):
            nn.init.normal_(module.table.weight)


def mlp(model: nn.Module, activation: ActivationName) -> None:
    """Initialise an MLP so that the variance stays constant through the layers.

    Activations of the relu family set half of the values to 0, so their weights follow He et al.
    2015. For other activations, the weights follow Xavier, with torch's gain for tanh. Biases: 0.
    """
    for module in model.modules():
        if isinstance(module, nn.Linear):
            if activation not in ("identity", "sigmoid", "tanh"):
                nn.init.kaiming_uniform_(module.weight, nonlinearity="relu")
                nn.init.zeros_(module.bias)
            else:
                _xavier(module, nn.init.calculate_gain("tanh") if activation == "tanh" else 1.0)


def _xavier(linear: nn.Linear, gain: float = 1.0) -> None:
    nn.init.xavier_uniform_(linear.weight, gain)
    if linear.bias is not None:
        nn.init.zeros_(linear.bias)


def _recurrent_weights(part: nn.RNNBase, forget_bias: float) -> None:
    for name, weight in part.named_parameters():
        if name.startswith("bias"):
            nn.init.zeros_(weight)
            if isinstance(part, nn.LSTM) and name.startswith("bias_ih"):
                nn.init.constant_(weight.chunk(4)[1], forget_bias)  # torch's blocks: i, f, g, o
        else:
            fill = nn.init.orthogonal_ if "_hh_" in name else nn.init.xavier_uniform_
            for block in weight.split(part.hidden_size):
                fill(block)
