"""Sampling on the page: the distribution beside each token is the one it was drawn from."""

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
import torch
from tests.studio.browser import Page
from tests.studio.serving import TEXT, Served, model, serving, text_for
from tests.studio.shown import same

from translucid.core.trace import Trace
from translucid.generate.sampling import SamplingConfig, pick, uniforms
from translucid.studio import answers
from translucid.studio.handlers import Handlers
from translucid.studio.library import Library

DIALS = {
    "plain": "seed=1",
    "hot": "temperature=1.7&seed=2",
    "cut": "temperature=0.8&top_k=5&top_p=0.7&seed=3",
    "penalty": "repetition_penalty=2.5&seed=4",
    "greedy": "temperature=0",
}


def asked(family: str, question: str) -> tuple[Any, Any]:
    library = Library({family: model(family)})
    run = library.run("a", text_for(family))
    reply = Handlers(library).ask("GET", f"/api/runs/{run.key}/draws?{question}")
    return json.loads(reply.body), run


@pytest.mark.parametrize(
    ("family", "dials"),
    [
        ("translate-transformer", "plain"), ("translate-transformer", "cut"),
        ("translate-transformer", "penalty"), ("language-rnn", "hot"), ("language-rnn", "greedy"),
    ],
)  # fmt: skip
def test_each_token_follows_from_its_random_number(family: str, dials: str) -> None:
    """Drawn again from the distributions that are shown, with the numbers of the seed."""
    found, run = asked(family, DIALS[dials])
    given = dict(pair.split("=") for pair in DIALS[dials].split("&"))
    penalty, seed = float(given.pop("repetition_penalty", 1)), int(given.pop("seed", 0))
    by = SamplingConfig(**{name: json.loads(value) for name, value in given.items()})
    (decoded,) = run.opened.model.decode(
        [run.text], sampling=by, seed=seed, n_best=3, beam_size=3, repetition_penalty=penalty,
        **({} if run.example.source else {"max_length": 40}),
    )  # fmt: skip
    assert [text["text"] for text in found["texts"]] == [text.text for text in decoded.texts]
    tokenizer, first = run.outputs.tokenizer, decoded.texts[0]
    allowed, own = answers.allowed_at(run, tokenizer, first, penalty)
    inputs = run.example.inputs_for(run.opened.model.network)
    prompt = (
        [*inputs["source"][0].tolist(), *tokenizer.start_ids]
        if run.example.source
        else inputs["ids"][0].tolist()
    )
    numbers = uniforms(seed, prompt, 0, 100)
    assert len(found["steps"]) == len(own) > 0
    for n, step in enumerate(found["steps"]):
        token = int(pick(allowed[n][None], numbers[n : n + 1], by)[0])
        assert token == step["taken"]
        assert step["before"] == pytest.approx(own[n].exp()[step["ids"]].tolist())
        now = answers.distribution(allowed[n], by)
        assert float(now.sum()) == pytest.approx(1, abs=1e-4)
        assert step["now"] == pytest.approx(now[step["ids"]].tolist())
        assert step["left"] == int(torch.count_nonzero(now))
        assert now[token] > 0


@pytest.mark.parametrize("family", ["translate-transformer", "language-transformer"])
def test_steps_without_the_causal_mask_do_not_read_later_tokens(family: str) -> None:
    """Each distribution equals that of the text up to there, sampled again."""
    library = Library({family: model(family)})
    run = library.run("a", text_for(family), None, ["decoder.masks.causal"])
    (decoded,) = run.opened.model.decode(
        [run.text], sampling=SamplingConfig(), seed=1, max_length=7, min_length=6,
        trace=Trace([], edit=run.edit),
    )  # fmt: skip
    tokenizer, whole = run.outputs.tokenizer, decoded.texts[0]
    _, own = answers.allowed_at(run, tokenizer, whole, 1)
    assert len(own) > 3
    for n, row in enumerate(own[: len(whole.tokens)]):
        assert float(row[whole.tokens[n]]) == pytest.approx(whole.token_log_probs[n], abs=1e-4)


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ("temperature=-1", "temperature: must be a number from 0 to 10"),
        ("temperature=nan", "temperature: must be a number from 0 to 10"),
        ("top_p=0", "top_p: must be a number from 0.001 to 1"),
        ("top_k=0", "top_k: must be a whole number from 1"),
        ("repetition_penalty=0.5", "repetition_penalty: must be a number from 1 to 10"),
        ("samples=9", "samples: must be a whole number from 1 to 8"),
    ],
)
def test_invalid_sampling_settings_are_refused(question: str, message: str) -> None:
    found, _ = asked("translate-transformer", question)
    assert message in found["error"]


def test_models_that_do_not_write_text_have_no_sampling() -> None:
    found, _ = asked("tag-lstm", "seed=0")
    assert "cannot be sampled" in found["error"]


# ---- on the page ----


@pytest.fixture(scope="module")
def studio() -> Iterator[Served]:
    with serving({"translate": model("translate-transformer")}) as served:
        yield served


@pytest.mark.slow
def test_a_dial_is_turned_and_the_page_draws_anew(studio: Served, leaf: Page) -> None:
    leaf.turn(f"{studio.address}#/decode?mode=sample&top_k=20&text={quote(TEXT)}")
    leaf.wait("document.querySelectorAll('.sampled li').length === 3")
    leaf.inner.focus(".dials input >> nth=0")
    for _ in range(5):
        leaf.inner.keyboard.press("ArrowRight")
    leaf.wait("location.hash.includes('temperature=1.5')")
    (decoded,) = studio.library.opened["a"].model.decode(
        [TEXT], sampling=SamplingConfig(temperature=1.5, top_k=20), n_best=3, beam_size=3
    )
    assert leaf.words(".sampled .word") == [text.text or "(nothing)" for text in decoded.texts]
    leaf.inner.click(".beads button >> nth=-1")
    run = studio.library.run("a", TEXT)
    found = answers.draws(run, SamplingConfig(temperature=1.5, top_k=20), 1.0, 0, 3)
    last = found["steps"][-1]
    shown = leaf.words(".panel .probrow .n")
    assert all(same(text, now) for text, now in zip(shown, last["now"], strict=True)), shown
    assert f"{last['left']} of {last['vocab']} tokens" in leaf.text(".panel .tail")
