"""Endpoints for what no other API has: classify, tag, predict, embed, score, fill, and translations
with alternatives, alignment, probabilities and the search tree.

Each takes one text or several and returns `results`, one for each text, as the command line prints
them with --json.
"""

import base64
import struct
from collections.abc import Sequence
from typing import Any, Literal

from pydantic import Field

from translucid.generate.sampling import SamplingConfig
from translucid.serving.bodies import MODEL, MOST_TEXTS, ApiError, Body, Ids, Texts
from translucid.serving.inspecting import Inspected, checked, inspected_jobs, traced
from translucid.serving.job import Answered, Job
from translucid.serving.libretranslate import decode
from translucid.serving.served import Models, Served
from translucid.tasks.language import Language

GENERATING = ("language", "translate")
TEXT = "A text, or several"


class TextBody(Inspected):
    model: str | None = Field(None, description=MODEL)
    text: str | Texts = Field(description=TEXT)

    @property
    def texts(self) -> list[str]:
        return [self.text] if isinstance(self.text, str) else self.text


class TagBody(TextBody):
    pass


class EmbedBody(TextBody):
    pass


class ClassifyBody(TextBody):
    threshold: float | None = Field(
        None, ge=0, le=1, description="Least probability of a label, for models with several labels"
    )


class FillBody(TextBody):
    k: int = Field(5, ge=1, le=1000, description="Number of tokens per mask")


class ScoreBody(TextBody):
    target: str | Texts | None = Field(None, description="The translations to score")


class PredictBody(Inspected):
    model: str | None = Field(None, description=MODEL)
    inputs: list[Any] = Field(
        description="Lines of text; for models of tables, rows: lists of numbers, or objects",
        min_length=1, max_length=MOST_TEXTS,
    )  # fmt: skip


class DecodeBody(TextBody):
    n_best: int = Field(1, ge=1, le=64, description="Number of translations")
    beam_size: int | None = Field(None, ge=1, le=64)
    alpha: float | None = Field(None, ge=0, le=10, description="Length penalty")
    max_length: int | None = Field(None, ge=1)
    min_length: int | None = Field(None, ge=0)
    no_repeat_ngram: int | None = Field(None, ge=0)
    repetition_penalty: float | None = Field(None, ge=0.01, le=100)
    prefix: str = Field("", description="The beginning of every translation")
    forbid: Texts = Field([], description="Words that must not be generated")
    temperature: float | None = Field(None, ge=0, le=100, description="Sample instead of searching")
    top_k: int | None = Field(None, ge=1)
    top_p: float | None = Field(None, gt=0, le=1)
    seed: int = Field(0, ge=0, lt=2**63)
    tree: bool = Field(False, description="Return the search tree")
    alignment: bool = Field(False, description="Return the word alignment of each translation")

    def job(self, text: str) -> Job:
        names = (
            "beam_size",
            "alpha",
            "max_length",
            "min_length",
            "no_repeat_ngram",
            "repetition_penalty",
        )
        search = {name: value for name in names if (value := getattr(self, name)) is not None}
        drawing = {
            name: value
            for name in ("temperature", "top_k", "top_p")
            if (value := getattr(self, name)) is not None
        }
        sampling = SamplingConfig(**drawing) if drawing else None
        if sampling is not None and "beam_size" in search:
            raise ApiError("beam_size is for search, temperature for sampling", param="beam_size")
        return Job(
            text, prefix=self.prefix, generation=search, sampling=sampling, seed=self.seed,
            n=self.n_best, forbid=tuple(self.forbid), tree=self.tree, pieces="text",
        )  # fmt: skip


async def answer(
    served: Served, kind: str, body: Inspected, texts: Sequence[Any], **options: Any
) -> dict[str, Any]:
    """Answer texts as `translucid classify --json` and the like print it, with notes on words that
    the model does not know."""
    if body.inspects and kind == "predict" and served.task in GENERATING:
        paths = {"language": "/v1/completions", "translate": "/translate"}
        raise ApiError(
            f"{body.inspects}: not supported by /predict for task {served.task}; use "
            f"{paths[served.task]}", param=body.inspects,
        )  # fmt: skip
    answered = await run(served, kind, body, texts, **options)
    task = served.model.task

    def results() -> list[dict[str, Any]]:
        notes = served.model.input_notes(texts)
        return [
            task.answer_json(text, one) | note.as_json()
            for text, one, note in zip(texts, answered.results, notes, strict=True)
        ]

    shown = {"model": served.name, "results": await served.in_thread(results)}
    return shown | traced(answered)


async def run(
    served: Served, kind: str, body: Inspected, texts: Sequence[Any], **options: Any
) -> Answered:
    """The engine's answer to texts, with the trace and edits of the request."""
    more = await served.in_thread(lambda: checked(served, body, texts, answers=len(texts)))
    return await served.results(kind, texts, **options, **more)


async def score(served: Served, body: ScoreBody) -> dict[str, Any]:
    targets = [body.target] if isinstance(body.target, str) else body.target
    if served.task != "translate":
        if targets is not None:
            raise ApiError(
                f"target: model {served.name!r} for task {served.task} scores single texts; omit "
                "target", param="target",
            )  # fmt: skip
    elif targets is None or len(targets) != len(body.texts):
        raise ApiError(
            f"target: {len(targets or ())} translations, but text has {len(body.texts)} texts; "
            "send one translation per text", param="target",
        )  # fmt: skip
    answered = await run(served, "score", body, body.texts, targets=targets)
    shown = {"model": served.name, "results": [vars(one) for one in answered.results]}
    return shown | traced(answered)


async def translate(served: Served, body: DecodeBody) -> dict[str, Any]:
    """Translate or continue texts, with everything that `model.decode` returns."""
    if body.alignment and body.edit:
        raise ApiError("alignment: computed without edits; omit edit or alignment", param="edit")
    if body.alignment and served.task != "translate":
        raise ApiError(
            f"alignment: model {served.name!r} for task {served.task} does not translate; omit "
            "alignment", param="alignment",
        )  # fmt: skip
    jobs = await inspected_jobs(served, body, [body.job(text) for text in body.texts])
    finished = await decode(served, jobs)

    def results() -> list[dict[str, Any]]:
        shown = [one.decoded.as_dict(served.model.output_tokenizer) for one in finished]
        if body.alignment:
            for one in shown:
                for text in one["texts"]:
                    text["alignment"] = served.model.align(one["source"], text["text"])
        return shown

    answer = {"model": served.name, "results": await served.in_thread(results)}
    return answer | traced(*finished)


# ---- embeddings of the OpenAI API ----


class EmbeddingsBody(Inspected):
    model: str | None = Field(None, description=MODEL)
    input: str | Texts = Field(description=TEXT)
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: int | None = Field(None, ge=1, description="Only the model's own number is allowed")
    user: str | None = Field(None, description="Ignored")


async def embeddings(models: Models, body: EmbeddingsBody) -> dict[str, Any]:
    served = models.find(body.model, ("embed",))
    texts = [body.input] if isinstance(body.input, str) else body.input
    if not texts:
        raise ApiError("input is an empty list; send one text or more", param="input")
    empty = [number for number, text in enumerate(texts, start=1) if not text.strip()]
    if empty:
        raise ApiError(f"input: text {empty[0]} is empty", param="input")
    answered = await run(served, "embed", body, texts)
    vectors = [[float(x) for x in vector] for vector in answered.results]
    if body.dimensions not in (None, len(vectors[0])):
        raise ApiError(
            f"dimensions = {body.dimensions}: this model's embeddings have {len(vectors[0])}",
            param="dimensions",
        )
    (tokenizer,) = served.model.tokenizers.values()
    count = sum(map(len, await served.in_thread(lambda: tokenizer.encode_batch(texts))))
    return {
        "object": "list",
        "model": served.name,
        "data": [
            {"object": "embedding", "index": number, "embedding": _encoded(vector, body)}
            for number, vector in enumerate(vectors)
        ],
        "usage": {"prompt_tokens": count, "total_tokens": count},
    } | traced(answered)


def _encoded(vector: list[float], body: EmbeddingsBody) -> Any:
    if body.encoding_format == "float":
        return vector
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


# ---- tokens ----


class TokenizeBody(Body):
    model: str | None = Field(None, description=MODEL)
    prompt: str = Field(description="The text; or the text of one special token, such as </s>")
    add_special_tokens: bool = Field(True, description="With the special tokens before the text")
    return_token_strs: bool = Field(False, description="Return the tokens as text too")


class DetokenizeBody(Body):
    model: str | None = Field(None, description=MODEL)
    tokens: Ids


def with_tokenizer(models: Models, name: str | None) -> Served:
    return models.find(name, {one.task for one in models.values() if one.model.tokenizers})


def tokenize(served: Served, body: TokenizeBody) -> dict[str, Any]:
    tokenizer = next(iter(served.model.tokenizers.values()))
    # Clients look up the ids of special tokens in this way. Inside a text, their names are text.
    named = [token for token in tokenizer.special_ids if tokenizer.pieces([token]) == [body.prompt]]
    ids = named[:1]
    if not ids and body.add_special_tokens and isinstance(served.model.task, Language):
        start, rest = served.model.task.prompt(body.prompt)
        ids = [*start, *rest]
    elif not ids:
        ids = tokenizer.encode(body.prompt)
    strings = {"token_strs": tokenizer.pieces(ids)} if body.return_token_strs else {}
    room = served.model.context_length
    return {"count": len(ids), "max_model_len": room, "tokens": ids} | strings


def detokenize(served: Served, body: DetokenizeBody) -> dict[str, Any]:
    tokenizer = [*served.model.tokenizers.values()][-1]
    wrong = [token for token in body.tokens if not 0 <= token < len(tokenizer)]
    if wrong:
        raise ApiError(
            f"tokens: {wrong[0]} is not in the vocabulary of {len(tokenizer):,} tokens",
            param="tokens",
        )
    return {"prompt": tokenizer.decode(body.tokens)}


def tokenizer_info(served: Served) -> dict[str, Any]:
    tokenizer = next(iter(served.model.tokenizers.values()))
    task, special = served.model.task, tokenizer.special
    bos = special.bos
    if isinstance(task, Language):  # the token that its texts begin with
        bos = next(iter(task.prompt("")[0]), bos)

    def text(token: int | None) -> str | None:
        return None if token is None else tokenizer.pieces([token])[0]

    return {
        "tokenizer_class": "Translucid",
        "kind": tokenizer.kind,
        "vocab_size": len(tokenizer),
        "model_max_length": served.model.context_length,
        "bos_token": text(bos),
        "eos_token": text(special.eos),
        "pad_token": text(special.pad),
        "unk_token": text(special.unk),
        "fingerprint": tokenizer.fingerprint,
        "chat_template": None if served.template is None else served.template.source,
    }
