"""The OpenAI API through its own client: every answer equals the library's."""

import math
from dataclasses import replace
from typing import Any

import pytest
from tests.serving.running import Running, shipped

from translucid.serving.completions import legacy_logprobs
from translucid.serving.job import TokenChoice

openai = pytest.importorskip("openai", reason="the openai client is not installed")

PROMPT = "The old dog"


@pytest.fixture(scope="module")
def client(server: Running) -> Any:
    return openai.OpenAI(base_url=f"{server.address}/v1", api_key="unused", max_retries=0)


def completion(client: Any, **fields: Any) -> Any:
    asked = {"model": "generate", "prompt": PROMPT, "max_tokens": 8, "seed": 3} | fields
    return client.completions.create(**asked)


def test_the_list_of_models_names_all(client: Any) -> None:
    names = [one.id for one in client.models.list()]
    assert names == ["translate", "generate", "chat", "classify", "tag", "regress"]


@pytest.mark.parametrize("fields", [{}, {"temperature": 0}, {"temperature": 0.7, "top_p": 0.8}])
def test_a_completion_equals_the_library(client: Any, fields: dict[str, Any]) -> None:
    answer = completion(client, **fields)
    expected = shipped("generate").generate(
        PROMPT, max_length=8, seed=3, **{"temperature": 1.0} | fields
    )
    assert PROMPT + answer.choices[0].text == expected


def test_streamed_pieces_join_to_the_completion(client: Any) -> None:
    whole = completion(client, n=2)
    texts = ["", ""]
    reasons: dict[int, str] = {}
    counts = None
    for chunk in completion(client, n=2, stream=True, stream_options={"include_usage": True}):
        counts = chunk.usage or counts
        for choice in chunk.choices:
            texts[choice.index] += choice.text
            if choice.finish_reason:
                reasons[choice.index] = choice.finish_reason
    assert texts == [choice.text for choice in whole.choices]
    assert [reasons[i] for i in range(2)] == [c.finish_reason for c in whole.choices]
    assert counts == whole.usage


def test_a_stream_may_count_tokens_with_every_piece(client: Any) -> None:
    """As load tools ask for."""
    counting = {"include_usage": True, "continuous_usage_stats": True}
    options = {"stream": True, "stream_options": counting, "extra_body": {"ignore_eos": True}}
    prompts = [PROMPT, "A cat"]
    *chunks, last = completion(client, prompt=prompts, n=2, max_tokens=5, **options)
    ends = {one.choices[0].index: one.usage for one in chunks}
    assert [ends[index].completion_tokens for index in range(4)] == [5] * 4
    first = [one for one in chunks if one.choices[0].index == 0]
    assert [one.usage.completion_tokens for one in first] == [1, 2, 3, 4, 5, 5]
    alone = [completion(client, prompt=one, max_tokens=1).usage.prompt_tokens for one in prompts]
    assert alone[0] != alone[1]
    assert [ends[index].prompt_tokens for index in range(4)] == [n for n in alone for _ in range(2)]
    assert last.usage.completion_tokens == 20
    assert last.usage.prompt_tokens == sum(alone)
    *chunks, last = client.chat.completions.create(
        model="chat", messages=[{"role": "user", "content": "a dog"}], max_tokens=5, **options
    )
    assert [one.usage.completion_tokens for one in chunks] == [0, 1, 2, 3, 4, 5, 5]
    assert {one.usage.prompt_tokens for one in chunks} == {last.usage.prompt_tokens}


@pytest.mark.parametrize("as_ids", [False, True], ids=["text", "ids"])
def test_echoed_log_probabilities_equal_the_library(
    server: Running, client: Any, as_ids: bool
) -> None:
    """The request of evaluation tools that score a text: nothing is generated."""
    text = "The dog sleeps."
    ids = server.get(
        "/tokenize", {"model": "generate", "prompt": text, "add_special_tokens": False}
    )
    asked = ids["tokens"] if as_ids else text
    answer = completion(client, prompt=asked, max_tokens=0, echo=True, logprobs=3)
    got = answer.choices[0].logprobs
    expected = shipped("generate").score(text)
    assert answer.choices[0].text == text
    assert len(got.tokens) == len(ids["tokens"])
    known = [i for i, log_prob in enumerate(got.token_logprobs) if log_prob is not None]
    assert len(known) >= len(ids["tokens"]) - 1
    for i in known:
        assert got.token_logprobs[i] == pytest.approx(expected.token_log_probs[i], abs=1e-4)
        assert got.top_logprobs[i][got.tokens[i]] == pytest.approx(got.token_logprobs[i])
        assert max(got.top_logprobs[i].values()) >= got.token_logprobs[i]
    starts = zip(got.text_offset, got.tokens, strict=True)
    assert all(text[i:].lstrip().startswith(piece.strip()) for i, piece in starts)


def test_start_tokens_that_a_client_sends_are_echoed(server: Running, client: Any) -> None:
    """Evaluation tools begin a text with the start token, and count tokens from there."""
    info = server.get("/tokenizer_info?model=generate")
    asked = {"model": "generate", "prompt": info["bos_token"], "add_special_tokens": False}
    start = server.get("/tokenize", asked)["tokens"]
    assert start == shipped("generate").task.prompt("")[0]
    text = "The dog sleeps."
    ids = server.get("/tokenize", asked | {"prompt": text})["tokens"]
    options = {"max_tokens": 1, "temperature": 0, "echo": True, "logprobs": 1}
    with_start = completion(client, prompt=[*start, *ids], **options).choices[0]
    without = completion(client, prompt=ids, **options).choices[0]
    assert with_start.text == without.text
    got, expected = with_start.logprobs, without.logprobs
    assert got.tokens == [info["bos_token"], *expected.tokens]
    assert got.token_logprobs == [None, *expected.token_logprobs]
    assert len(got.tokens) == len(start) + len(ids) + 1  # also if the generated token is the end
    assert got.text_offset == [0, *expected.text_offset]


def test_alternatives_with_the_same_text_are_all_reported() -> None:
    """Such as a letter and the byte of this letter."""
    top = [(5, "a", -0.1), (6, "a", -1.0), (7, "b", -2.0)]
    tokens = [TokenChoice(token, piece, value, top) for token, piece, value in top]
    shown = legacy_logprobs(tokens, [0, 1, 2], top=3)["top_logprobs"]
    assert shown == [
        {"a": -0.1, "token_id:6": -1.0, "b": -2.0},
        {"a": -1.0, "token_id:5": -0.1, "b": -2.0},
        {"b": -2.0, "a": -0.1, "token_id:6": -1.0},
    ]


def test_best_of_returns_the_most_probable_texts(client: Any) -> None:
    def mean(choice: Any) -> float:
        return sum(choice.logprobs.token_logprobs) / len(choice.logprobs.token_logprobs)

    every = completion(client, n=5, logprobs=0)
    best = completion(client, n=2, best_of=5, logprobs=0)
    ranked = sorted(every.choices, key=mean, reverse=True)[:2]
    assert [one.text for one in best.choices] == [one.text for one in ranked]


def test_several_prompts_are_answered_in_order(client: Any) -> None:
    prompts = ["The dog", "A cat", "She"]
    answer = completion(client, prompt=prompts, temperature=0, n=2)
    single = [completion(client, prompt=one, temperature=0).choices[0].text for one in prompts]
    assert [c.text for c in answer.choices] == [text for text in single for _ in range(2)]
    assert [c.index for c in answer.choices] == list(range(6))


def test_a_stop_text_ends_the_text_before_it(client: Any) -> None:
    whole = completion(client, max_tokens=30, extra_body={"ignore_eos": True}).choices[0].text
    word = whole.split()[3]
    cut = completion(client, max_tokens=30, stop=[word], extra_body={"ignore_eos": True})
    assert cut.choices[0].text == whole[: whole.find(word)]
    assert cut.choices[0].finish_reason == "stop"


def test_a_bias_of_minus_100_forbids_a_token_and_100_forces_it(
    server: Running, client: Any
) -> None:
    first = completion(client, temperature=0, max_tokens=1, logprobs=2).choices[0]
    asked = {"model": "generate", "prompt": first.text, "add_special_tokens": False}
    (token,) = server.get("/tokenize", asked)["tokens"]
    other = completion(client, temperature=0, max_tokens=1, logit_bias={str(token): -100})
    again = completion(client, temperature=1, max_tokens=3, logit_bias={str(token): 100})
    assert other.choices[0].text != first.text
    assert again.choices[0].text == first.text * 3


def test_a_frequency_penalty_makes_repetition_rarer(client: Any) -> None:
    """With a bias, every token is the same one, until the penalty outweighs the bias."""
    tokens = {str(token): 8.0 for token in (10, 11)}
    plain = completion(client, temperature=0, max_tokens=12, logit_bias=tokens, logprobs=0)
    fewer = completion(
        client, temperature=0, max_tokens=12, logit_bias=tokens, logprobs=0,
        extra_body={"frequency_penalty": 2.0},
    )  # fmt: skip
    once = completion(
        client, temperature=0, max_tokens=12, logit_bias=tokens, logprobs=0,
        extra_body={"presence_penalty": 2.0},
    )  # fmt: skip

    def repeated(answer: Any) -> int:
        pieces = answer.choices[0].logprobs.tokens
        return len(pieces) - len(set(pieces))

    assert repeated(fewer) < repeated(plain)
    assert repeated(once) <= repeated(plain)


def test_ignoring_the_end_generates_up_to_the_limit(client: Any) -> None:
    more = {"extra_body": {"ignore_eos": True}}
    answer = completion(client, max_tokens=40, temperature=0, **more)
    assert answer.usage.completion_tokens == 40
    assert answer.choices[0].finish_reason == "length"


def test_a_chat_renders_the_template_and_continues_it(client: Any) -> None:
    messages = [{"role": "system", "content": "the cat"}, {"role": "user", "content": "a dog"}]
    answer = client.chat.completions.create(
        model="chat", messages=messages, max_tokens=6, seed=1, logprobs=True, top_logprobs=2
    )
    rendered = "Peter sees the cat. Anna sees a dog. The"
    model = shipped("generate-rnn")
    expected = model.generate(rendered, max_length=6, seed=1)
    assert rendered + answer.choices[0].message.content == expected
    choices = answer.choices[0].logprobs.content
    total = sum(one.logprob for one in choices)
    assert math.isfinite(total)
    assert all(len(one.top_logprobs) == 2 for one in choices)
    streamed = client.chat.completions.create(
        model="chat", messages=messages, max_tokens=6, seed=1, stream=True
    )
    pieces = [chunk.choices[0].delta.content or "" for chunk in streamed]
    assert "".join(pieces) == answer.choices[0].message.content


@pytest.mark.parametrize(
    ("fields", "error", "param", "words"),
    [
        ({"model": "none"}, openai.NotFoundError, "model", "does not exist; the models are"),
        ({"model": "tag"}, openai.BadRequestError, "model", "is for task tag"),
        ({"max_tokens": -1}, openai.BadRequestError, "max_tokens", "greater than or equal to 0"),
        ({"max_tokens": 10**6}, openai.BadRequestError, "max_tokens", "server's limit of 4,096"),
        ({"temperature": "hot"}, openai.BadRequestError, "temperature", "valid number"),
        ({"n": 3, "best_of": 2}, openai.BadRequestError, "best_of", "below n"),
        ({"stop": [""]}, openai.BadRequestError, "stop", "empty text"),
        ({"prompt": []}, openai.BadRequestError, "prompt", "empty list"),
        ({"prompt": [10**9]}, openai.BadRequestError, "prompt", "not in the vocabulary"),
        ({"logit_bias": {"dog": 1}}, openai.BadRequestError, "logit_bias", "not a token id"),
        ({"extra_body": {"colour": 1}}, openai.BadRequestError, "colour", "no such key"),
        ({"suffix": "x"}, openai.BadRequestError, "suffix", "suffix"),
    ],
)
def test_the_client_unwraps_errors(
    client: Any, fields: dict[str, Any], error: Any, param: str | None, words: str
) -> None:
    with pytest.raises(error) as caught:
        completion(client, **fields)
    assert words in caught.value.message
    if param is not None:
        assert caught.value.param == param


def test_tokens_return_to_their_text(server: Running) -> None:
    text = "The old dog sleeps."
    ids = server.get("/tokenize", {"model": "generate", "prompt": text})
    assert ids["count"] == len(ids["tokens"])
    back = server.get("/detokenize", {"model": "generate", "tokens": ids["tokens"]})
    assert back == {"prompt": text}
    info = server.get("/tokenizer_info?model=generate")
    assert info["vocab_size"] == len(shipped("generate").output_tokenizer)
    for role in ("bos", "eos", "pad", "unk"):
        asked = {"model": "generate", "prompt": info[f"{role}_token"]}
        (token,) = server.get("/tokenize", asked)["tokens"]
        assert token in shipped("generate").output_tokenizer.special_ids


def test_a_vocabulary_without_some_special_tokens_is_described(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokenizer = shipped("generate").output_tokenizer
    without = replace(tokenizer.special, unk=None, pad=None)
    monkeypatch.setattr(tokenizer, "special", without)
    info = server.get("/tokenizer_info?model=generate")
    assert (info["unk_token"], info["pad_token"], info["eos_token"]) == (None, None, "</s>")
