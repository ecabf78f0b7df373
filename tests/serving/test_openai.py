"""The OpenAI API through its own client: every answer equals the library's."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from tests.interop.own_models import own
from tests.serving.running import Running, running, served, shipped, until, usual

from translucid.generate import SamplingConfig
from translucid.model import Model
from translucid.serving.completions import legacy_logprobs
from translucid.serving.job import TokenChoice

openai = pytest.importorskip("openai", reason="the openai client is not installed")

PROMPT = "The old dog"
PROMPTS = ["The dog", "A cat", "Anna"]
CHAT = [{"role": "system", "content": "the cat"}, {"role": "user", "content": "a dog"}]
RENDERED = "Peter sees the cat. Anna sees a dog. The"


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with running([*usual(), served("embed", Model(own("embed")))]) as one:
        yield one


@pytest.fixture(scope="module")
def client(server: Running) -> Any:
    return openai.OpenAI(base_url=f"{server.address}/v1", api_key="unused", max_retries=0)


def completion(client: Any, **fields: Any) -> Any:
    asked = {"model": "generate", "prompt": PROMPT, "max_tokens": 8, "seed": 3} | fields
    return client.completions.create(**asked)


def test_the_list_of_models_names_all(client: Any) -> None:
    listed = list(client.models.list())
    names = [one.id for one in listed]
    assert names == ["translate", "generate", "chat", "classify", "tag", "regress", "embed"]
    assert [client.models.retrieve(name) for name in names] == listed
    with pytest.raises(openai.NotFoundError, match="model 'other' does not exist"):
        client.models.retrieve("other")


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize(
    ("fields", "options"),
    [
        ({}, {}),
        ({"temperature": 0}, {"temperature": 0}),
        ({"max_tokens": 20}, {"max_length": 20}),
        ({"top_p": 0.8}, {"top_p": 0.8}),
        ({"extra_body": {"top_k": 5}}, {"top_k": 5}),
        ({"extra_body": {"min_p": 0.1}}, {"min_p": 0.1}),
        ({"extra_body": {"repetition_penalty": 5}}, {"repetition_penalty": 5.0}),
        ({"n": 3}, {"samples": 3}),
        ({"stop": "play"}, {"stop": ["play"]}),
        ({"stop": ["Motors", " Software"]}, {"stop": ["Motors", " Software"]}),
    ],
)
def test_a_completion_equals_the_library(
    client: Any, fields: dict[str, Any], options: dict[str, Any], stream: bool
) -> None:
    texts = [""] * fields.get("n", 1)
    answer = completion(client, **{"temperature": 3.0} | fields, stream=stream)
    for part in answer if stream else [answer]:
        for choice in part.choices:
            texts[choice.index] += choice.text
    settings = {"max_length": 8, "seed": 3, "temperature": 3.0}
    expected = shipped("generate").generate([PROMPT], **settings | options)
    assert [PROMPT + text for text in texts] == expected
    assert not options or expected != shipped("generate").generate([PROMPT], **settings)


@pytest.mark.parametrize("fields", [{"temperature": 0}, {"temperature": 2, "n": 3}])
def test_the_completion_of_a_source_is_its_translation(client: Any, fields: Any) -> None:
    source = "The old dog does not like the cat."
    answer = completion(client, model="translate", prompt=source, max_tokens=16, **fields)
    model = shipped("translate")
    (decoded,) = model.decode(
        [source], sampling=SamplingConfig(temperature=float(fields["temperature"])),
        n_best=fields.get("n", 1), seed=3, max_length=16,
    )  # fmt: skip
    assert [c.text for c in answer.choices] == [one.text for one in decoded.texts]


def test_streamed_pieces_join_to_the_completion(server: Running, client: Any) -> None:
    options = {"n": 2, "echo": True, "logprobs": 2}
    whole = completion(client, **options)
    texts = ["", ""]
    reasons: dict[int, str] = {}
    log_probs: list[list[float]] = [[], []]
    *chunks, last = completion(
        client, **options, stream=True, stream_options={"include_usage": True}
    )
    for chunk in chunks:
        assert chunk.usage is None
        (choice,) = chunk.choices
        texts[choice.index] += choice.text
        if choice.logprobs is not None:
            log_probs[choice.index] += choice.logprobs.token_logprobs
        if choice.finish_reason:
            reasons[choice.index] = choice.finish_reason
    assert texts == [choice.text for choice in whole.choices]
    assert log_probs == [choice.logprobs.token_logprobs for choice in whole.choices]
    assert [reasons[i] for i in range(2)] == [c.finish_reason for c in whole.choices]
    assert last.choices == []
    assert last.usage == whole.usage
    asked = {"model": "generate", "prompt": PROMPT, "max_tokens": 3, "stream": True}
    *_, end, nothing = server.get("/v1/completions", asked).split("\n\n")
    assert (end, nothing) == ("data: [DONE]", "")


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


@pytest.mark.parametrize("as_ids", [False, True], ids=["texts", "ids"])
def test_prompts_are_answered_in_order(server: Running, client: Any, as_ids: bool) -> None:
    """A text, several texts, the ids of one, and those of several."""
    asked = [server.get("/tokenize", {"model": "generate", "prompt": one}) for one in PROMPTS]
    prompts = [one["tokens"] for one in asked] if as_ids else PROMPTS
    expected = shipped("generate").generate(PROMPTS, max_length=8, samples=2, seed=3)
    answer = completion(client, prompt=prompts, n=2)
    made = [PROMPTS[choice.index // 2] + choice.text for choice in answer.choices]
    assert made == expected
    assert [choice.index for choice in answer.choices] == list(range(6))
    single = [completion(client, prompt=one, n=2).choices for one in prompts]
    assert [choice.text for choices in single for choice in choices] == [
        choice.text for choice in answer.choices
    ]


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


@pytest.mark.parametrize("penalties", [(0.7, 0.0), (0.0, 2.0), (-1.0, 0.5)])
def test_penalties_are_subtracted_from_the_logits(
    client: Any, penalties: tuple[float, float]
) -> None:
    """As in single steps of the library."""
    frequency, presence = penalties
    model, bias = shipped("generate"), {"10": 8.0, "11": 8.0}
    text, made = PROMPT, Counter[int]()
    for _ in range(12):
        logits = model.trace(text)["head.logits"][0, -1]
        for token, value in bias.items():
            logits[int(token)] += value
        for known, count in made.items():
            logits[known] -= frequency * count + presence
        token = int(logits.argmax())
        if token == model.output_tokenizer.eos_id:
            break
        made[token] += 1
        text = model.output_tokenizer.decode([*model.output_tokenizer.encode(text), token])
    answer = completion(
        client, temperature=0, max_tokens=12, logit_bias=bias, frequency_penalty=frequency,
        presence_penalty=presence,
    )  # fmt: skip
    assert PROMPT + answer.choices[0].text == text


def test_ignoring_the_end_generates_up_to_the_limit(client: Any) -> None:
    more = {"extra_body": {"ignore_eos": True}}
    answer = completion(client, max_tokens=40, temperature=0, **more)
    assert answer.usage.completion_tokens == 40
    assert answer.choices[0].finish_reason == "length"


@pytest.mark.parametrize("limit", ["max_tokens", "max_completion_tokens"])
def test_a_chat_renders_the_template_and_continues_it(client: Any, limit: str) -> None:
    asked = {"model": "chat", "messages": CHAT, "seed": 1, "n": 2, limit: 6}
    answer = client.chat.completions.create(**asked, logprobs=True, top_logprobs=2)
    model = shipped("generate-rnn")
    expected = model.generate(RENDERED, max_length=6, seed=1, samples=2)
    assert [RENDERED + choice.message.content for choice in answer.choices] == expected
    read = len(model.output_tokenizer.encode(RENDERED))
    for choice, text in zip(answer.choices, expected, strict=True):
        tokens = choice.logprobs.content
        known = model.score(text).token_log_probs[read : read + len(tokens)]
        assert [one.logprob for one in tokens] == pytest.approx(list(known), abs=1e-4)
        spelled = b"".join(bytes(one.bytes or ()) for one in tokens)
        assert spelled.decode() == choice.message.content
        for one in tokens:
            best = [other.logprob for other in one.top_logprobs]
            assert len(best) == 2
            assert best == sorted(best, reverse=True)
            assert best[0] >= one.logprob
    *chunks, last = client.chat.completions.create(
        **asked, stream=True, stream_options={"include_usage": True}
    )
    assert (last.choices, last.usage) == ([], answer.usage)
    texts, reasons = ["", ""], ["", ""]
    for chunk in chunks:
        (choice,) = chunk.choices
        texts[choice.index] += choice.delta.content or ""
        reasons[choice.index] += choice.finish_reason or ""
    assert texts == [choice.message.content for choice in answer.choices]
    assert reasons == [choice.finish_reason for choice in answer.choices]


@pytest.mark.parametrize("several", [False, True], ids=["text", "list"])
def test_embeddings_equal_the_library(server: Running, client: Any, several: bool) -> None:
    """By default, the client requests base64."""
    texts = ["The dog sleeps.", "A cat sees the dog."] if several else ["The dog sleeps."]
    asked = texts if several else texts[0]
    expected = server.models["embed"].model.embed(texts).tolist()
    for options in ({}, {"encoding_format": "float"}, {"dimensions": len(expected[0])}):
        answer = client.embeddings.create(model="embed", input=asked, **options)
        assert [one.index for one in answer.data] == list(range(len(texts)))
        for one, vector in zip(answer.data, expected, strict=True):
            assert one.embedding == pytest.approx(vector, abs=1e-6)


def test_the_id_of_a_request_is_answered_and_logged(server: Running, client: Any) -> None:
    number = "load-tool-42"
    answer = client.completions.with_raw_response.create(
        model="generate", prompt=PROMPT, max_tokens=1, extra_headers={"x-request-id": number}
    )
    assert answer.headers["x-request-id"] == number
    until(lambda: any(number in line for line in server.log))
    with pytest.raises(openai.NotFoundError) as caught:
        client.completions.create(model="none", prompt=PROMPT)
    assert caught.value.request_id


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
        ({"model": "translate", "echo": True}, openai.BadRequestError, "echo", "translation model"),
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
