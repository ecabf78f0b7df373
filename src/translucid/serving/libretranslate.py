"""The API of LibreTranslate, which translation platforms and editors speak.

https://docs.libretranslate.com
"""

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import Field

from translucid.serving.bodies import ApiError, Body, Texts
from translucid.serving.job import Finished, Job
from translucid.serving.markup import Alignment, translate_html
from translucid.serving.served import Models, Served

MOST_ALTERNATIVES = 16
MOST_LINES = 10_000  # in all texts of a request
NAMES = {
    "ar": "Arabic", "bg": "Bulgarian", "ca": "Catalan", "cs": "Czech", "da": "Danish",
    "de": "German", "el": "Greek", "en": "English", "es": "Spanish", "et": "Estonian",
    "fa": "Persian", "fi": "Finnish", "fr": "French", "ga": "Irish", "he": "Hebrew",
    "hi": "Hindi", "hu": "Hungarian", "id": "Indonesian", "it": "Italian", "ja": "Japanese",
    "ko": "Korean", "lt": "Lithuanian", "lv": "Latvian", "nl": "Dutch", "no": "Norwegian",
    "pl": "Polish", "pt": "Portuguese", "ro": "Romanian", "ru": "Russian", "sk": "Slovak",
    "sl": "Slovenian", "sv": "Swedish", "th": "Thai", "tr": "Turkish", "uk": "Ukrainian",
    "vi": "Vietnamese", "zh": "Chinese",
}  # fmt: skip
UNKNOWN = ("source", "target")  # the codes of a model whose languages are not known


class TranslateBody(Body):
    q: str | Texts = Field(description="A text, or several")
    source: str = Field(
        "auto", description="Code of the source language; auto: the only one there is"
    )
    target: str | None = Field(None, description="Code of the target language")
    format: Literal["text", "html"] = Field("text", description="html: markup is kept")
    alternatives: int = Field(0, ge=0, le=MOST_ALTERNATIVES, description="Further translations")
    api_key: str | None = None

    @property
    def texts(self) -> list[str]:
        return [self.q] if isinstance(self.q, str) else self.q


class DetectBody(Body):
    q: str
    api_key: str | None = None


def from_form(values: dict[str, list[str]]) -> dict[str, Any]:
    """The fields of a form: one value is a text, several are a list."""
    fields: dict[str, Any] = {
        name: several[0] if len(several) == 1 else several for name, several in values.items()
    }
    if str(fields.get("alternatives", "")).isdecimal():
        fields["alternatives"] = int(fields["alternatives"][:9])
    return fields


def pair_of(one: Served) -> tuple[str, str]:
    return one.languages or UNKNOWN


def languages(models: Models) -> list[dict[str, Any]]:
    """The source languages, each with its targets."""
    targets: dict[str, set[str]] = {}
    for one in models.values():
        if one.task == "translate":
            source, target = pair_of(one)
            targets.setdefault(source, set()).add(target)
            targets.setdefault(target, set())
    return [
        {"code": code, "name": NAMES.get(code, code), "targets": sorted(reached)}
        for code, reached in sorted(targets.items())
    ]


def choose(models: Models, source: str, target: str | None) -> Served:
    """The model for a pair of languages."""
    translators = [one for one in models.values() if one.task == "translate"]
    if not translators:
        raise ApiError("this server has no translation model", 404)
    pairs = sorted({pair_of(one) for one in translators})
    fits = [
        one
        for one in translators
        if source in ("auto", pair_of(one)[0]) and target in (None, pair_of(one)[1])
    ]
    shown = ", ".join(f"{a} to {b}" for a, b in pairs)
    if not fits:
        raise ApiError(
            f"there is no model from {source[:20]!r} to {str(target)[:20]!r}; this server "
            f"translates {shown}", 400, "target",
        )  # fmt: skip
    if len({pair_of(one) for one in fits}) > 1:
        raise ApiError(
            f"the language is not clear, and this server does not detect languages; set source and "
            f"target to one of: {shown}", 400, "source",
        )  # fmt: skip
    return fits[0]


async def translate(models: Models, body: TranslateBody) -> dict[str, Any]:
    served = choose(models, body.source, body.target)
    if body.format == "html":
        if body.alternatives:
            raise ApiError("alternatives are for format = text; omit one", param="alternatives")
        several: list[list[str]] = [[text] for text in await _translate_html(served, body.texts)]
    else:
        several = await _translate_lines(served, body.texts, 1 + body.alternatives)
    one = isinstance(body.q, str)
    best = [texts[0] for texts in several]
    answer: dict[str, Any] = {"translatedText": best[0] if one else best}
    if body.alternatives:
        others = [texts[1:] for texts in several]
        answer["alternatives"] = others[0] if one else others
    if body.source == "auto":  # not detected, but the only one
        detected = {"confidence": 0, "language": pair_of(served)[0]}
        answer["detectedLanguage"] = detected if one else [detected] * len(best)
    return answer


async def decode(served: Served, jobs: Sequence[Job]) -> list[Finished]:
    """The results of jobs, in order."""
    results = {
        number: event async for number, event in served.events(jobs) if isinstance(event, Finished)
    }
    return [results[number] for number in range(len(jobs))]


async def _decode_lines(served: Served, lines: Sequence[str], count: int = 1) -> list[Finished]:
    if len(lines) > MOST_LINES:
        raise ApiError(
            f"q: {len(lines):,} lines or elements, but at most {MOST_LINES:,} are allowed; send "
            "several requests",
            param="q",
        )
    return await decode(served, [Job(line, n=count) for line in lines])


async def _translate_lines(served: Served, texts: Sequence[str], count: int) -> list[list[str]]:
    """`count` translations of each text at most, best first. Each line is translated by itself; the
    alternatives of a text are those of all its lines."""
    lines = [text.split("\n") for text in texts]
    flat = [line for of_text in lines for line in of_text if line.strip()]
    results = iter(await _decode_lines(served, flat, count))
    translated = []
    for of_text in lines:
        ranked = []
        for line in of_text:
            texts_of_line = (
                [one.text for one in next(results).decoded.texts] if line.strip() else []
            )
            ranked.append(texts_of_line or [line])
        texts_of_rank = (
            "\n".join(several[min(rank, len(several) - 1)] for several in ranked)
            for rank in range(count)
        )
        translated.append(list(dict.fromkeys(texts_of_rank)))
    return translated


async def _translate_html(served: Served, texts: Sequence[str]) -> list[str]:
    """Translate HTML: collect its texts, translate them together, and put them in place."""
    collected: list[str] = []

    def collect(segments: list[str]) -> list[tuple[str, Alignment]]:
        collected.extend(segments)
        return [("", ())] * len(segments)

    await served.in_thread(lambda: translate_html(texts, collect))
    results = await _decode_lines(served, collected)
    made = [result.decoded.texts[0].text if result.decoded.texts else "" for result in results]
    pairs = list(zip(collected, made, strict=True))
    aligned = await served.in_thread(lambda: [served.model.align(*pair) for pair in pairs])
    pieces: list[tuple[str, Alignment]] = list(zip(made, aligned, strict=True))
    return await served.in_thread(lambda: translate_html(texts, lambda _: pieces))
