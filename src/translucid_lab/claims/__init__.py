"""The experiments of the lab, family by family."""

from collections.abc import Sequence
from importlib import import_module

from translucid.core.errors import ConfigError
from translucid_lab.engine.experiment import Experiment, of_module

FILES = (  # in the order of the claims
    "perceptron.threshold_unit", "perceptron.xor", "perceptron.linear_layers",
    "perceptron.universal_approximation",
    "backpropagation.vanishing_gradients", "backpropagation.saturation",
    "backpropagation.relu_loss", "backpropagation.output_gradient",
    "backpropagation.gradient_descent",
    "tasks.sentiment", "tasks.tagging", "tasks.translation",
    "language_models.targets_per_text", "language_models.training_size",
    "language_models.embedding_size", "language_models.parallel_tokens",
    "recurrent.unrolling", "recurrent.weight_sharing", "recurrent.absolute_position",
    "recurrent.sequential_time", "recurrent.gradients_through_time", "recurrent.long_range_recall",
    "recurrent.context_length", "recurrent.forget_gate", "recurrent.input_output_gates",
    "recurrent.exploding_gradients", "recurrent.gradient_clipping",
    "positions.absolute_positions", "positions.rotary_distance", "positions.relative_position",
    "positions.sinusoidal", "positions.frequencies", "positions.permutation",
    "positions.fixed_encoding", "positions.waveforms", "positions.length_extrapolation",
    "attention.scaled_scores", "attention.self_weight", "attention.softmax",
    "attention.key_value_lookup", "attention.token_mixing", "attention.lookup_distance",
    "attention.identical_tokens", "attention.probing",
    "heads.multi_head", "heads.head_size", "heads.grouped_query", "heads.syntactic_heads",
    "heads.head_specialisation", "attention.three_words",
    "norms.feature_scaling", "norms.norm_invariance", "norms.feature_dominance",
    "norms.rms_norm_cost", "norms.batch_norm_batch_size", "norms.batch_norm_padding",
    "norms.gradient_flow", "norms.generalisation", "norms.covariate_shift",
    "blocks.residual_connections", "blocks.block_removal", "blocks.norm_placement",
    "blocks.feed_forward",
    "attention.causal_mask", "attention.mask_visibility", "attention.masked_decoding",
    "decoding.exposure_bias", "attention.cross_attention", "attention.bidirectional_context",
    "decoding.beam_search", "decoding.dead_ends", "decoding.most_likely_token",
    "decoding.beam_length", "language_models.label_smoothing",
)  # fmt: skip


REAL = (  # the same claims beyond toys
    "real.sentiment", "real.text", "real.pretrained", "real.trained_heads", "real.parts",
    "real.order", "real.writing", "real.lengths", "real.gpu_time",
)  # fmt: skip


def experiments() -> dict[str, Experiment]:
    """All that the lab holds, by name, in the order of the claims."""
    return _of(FILES)


def real_experiments() -> dict[str, Experiment]:
    """Those that ask claims of the lab again, of real text or weights that others have trained."""
    return _of(REAL)


def _of(names: Sequence[str]) -> dict[str, Experiment]:
    known: dict[str, Experiment] = {}
    for file in names:
        for experiment in of_module(import_module(f"{__name__}.{file}")):
            if experiment.name in known:
                raise ConfigError(f"two experiments are called {experiment.name}")
            known[experiment.name] = experiment
    return known
