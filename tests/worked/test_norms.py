"""Layer, RMS and batch norm on numbers small enough to check by hand; eps = 0."""

from tests.worked.helpers import numbers, same

from translucid.core.trace import Trace
from translucid.parts.norms import BatchNorm, LayerNorm, RMSNorm

VECTOR = numbers("1 2 4 9")[None, None]  # (batch, length, d_model)
BATCH = numbers("1 10; 3 20; 5 60; 7 30")[:, None]  # four sequences of one token


def test_w39_layer_norm():
    norm, trace = LayerNorm(4, eps=0.0).double(), Trace()
    wanted = "-0.9733285267845753 -0.6488856845230502 0 1.6222142113076254"
    same(norm(VECTOR, trace=trace.at("norm"))[0, 0], wanted)
    same(norm(VECTOR)[0, 0], wanted)
    same(trace["norm.mean"][0, 0], [4.0])
    same(trace["norm.variance"][0, 0], [9.5])

    # "sqrt(S.D.)" in the source is garbled: dividing by it leaves a spread of 1.76, not 1.
    garbled = Trace(edit={"norm.variance": lambda variance: variance.sqrt()})
    spread = norm(VECTOR, trace=garbled.at("norm"))[0, 0].std(correction=0)
    same(spread, 1.7556215427832074)
    same(trace["norm.output"][0, 0].std(correction=0), 1.0)


def test_w39_rms_norm():
    norm, trace = RMSNorm(4, eps=0.0).double(), Trace()
    wanted = "0.19802950859533489 0.39605901719066977 0.7921180343813395 1.7822655773580138"
    same(norm(VECTOR, trace=trace.at("norm"))[0, 0], wanted)
    same(norm(VECTOR)[0, 0], wanted)
    same(trace["norm.rms"][0, 0], [5.049752469181039])
    same(trace["norm.output"].mean(), 0.7921180343813394)  # the mean is left alone


def test_w39_batch_norm_equalises_features_and_layer_norm_tokens():
    wanted = """-1.3416407864998738 -1.0690449676496976; -0.4472135954999579 -0.5345224838248488;
        0.4472135954999579 1.6035674514745462; 1.3416407864998738 0"""
    same(BatchNorm(2, eps=0.0).double().train()(BATCH)[:, 0], wanted)
    same(LayerNorm(2, eps=0.0).double()(BATCH)[:, 0], "-1 1; -1 1; -1 1; -1 1")
