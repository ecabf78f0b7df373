"""One model, several threads: each gets what it would have got alone."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from tests.studio.serving import model

import translucid as tl
from translucid.fast import attention_kernels

TEXTS = ["the dog sees a cat .", "a cat and the bird sleep ."]
ROUNDS = 3  # of all questions about all texts, shuffled by how the threads run


def _numbers(found: Any) -> list[Any]:
    """What can be compared to the bit."""
    return [found.loss, *(value.tolist() for value in found.parameters.values())]


ASKED: dict[str, Callable[[tl.Model, str], Any]] = {
    "gradients": lambda m, text: _numbers(m.gradients(text)),
    "saliency": lambda m, text: m.saliency(text).values.tobytes(),
    "saliency_map": lambda m, text: m.saliency_map(text).values.tobytes(),
    "trace": lambda m, text: (lambda found: {n: found[n].tolist() for n in found})(m.trace(text)),
    "write": lambda m, text: vars(m.decode([text], max_length=12)[0].texts[0]),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "family",
    [
        "translate-transformer",
        pytest.param("translate-lstm", marks=pytest.mark.thorough),
        "language-rnn",
    ],
)
def test_threads_share_a_model(family: str) -> None:
    asked = model(family)
    asked.network.requires_grad_(False)  # as a user may have it
    questions = [(name, text) for name in ASKED for text in TEXTS]
    alone = {each: ASKED[each[0]](asked, each[1]) for each in questions}
    with ThreadPoolExecutor(4) as pool:
        rounds = questions * ROUNDS
        together = list(pool.map(lambda each: ASKED[each[0]](asked, each[1]), rounds))
    wrong = [each for each, got in zip(rounds, together, strict=True) if got != alone[each]]
    assert wrong == []
    assert not any(weight.requires_grad for weight in asked.network.parameters())


def test_a_setting_is_restored_whatever_the_order_of_threads() -> None:
    gpu, enabled = torch.device("cuda"), torch.backends.cuda.cudnn_sdp_enabled
    before = enabled()
    torch.backends.cuda.enable_cudnn_sdp(True)
    try:
        first, second = (attention_kernels.without_plans(gpu) for _ in range(2))
        first.__enter__()
        second.__enter__()
        assert not enabled()
        first.__exit__(None, None, None)
        assert not enabled()
        second.__exit__(None, None, None)
        assert enabled()
        with attention_kernels.without_plans(torch.device("cpu")):
            assert enabled()
    finally:
        torch.backends.cuda.enable_cudnn_sdp(before)
