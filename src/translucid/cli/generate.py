"""`translucid generate`: a language model goes on with a text."""

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from translucid.cli.shared import generation_options as o
from translucid.core.errors import ConfigError

if TYPE_CHECKING:
    from translucid.model import Model


def generate(
    model: o.Folder,
    prompt: Annotated[str, typer.Argument(help="The beginning of the text.")] = "",
    prompts: Annotated[
        str | None, typer.Option(help="A file with one prompt per line; - is standard input.")
    ] = None,
    max_length: Annotated[
        int | None,
        typer.Option(min=1, help="Most tokens to generate [default: 100, or as an opened model]."),
    ] = None,
    temperature: o.Temperature = None,
    top_k: o.TopK = None,
    top_p: o.TopP = None,
    min_p: o.MinP = None,
    seed: o.Seed = 0,
    samples: Annotated[int, typer.Option(min=1, help="Number of texts for each prompt.")] = 1,
    stop: Annotated[
        list[str] | None, typer.Option(help="Stop before this text; may be repeated.")
    ] = None,
    no_repeat_ngram: o.NoRepeatNgram = None,
    repetition_penalty: o.RepetitionPenalty = None,
    forbid: o.Forbid = None,
    beam_size: Annotated[
        int | None,
        typer.Option(min=1, help="Use beam search with this beam size instead of sampling."),
    ] = None,
    as_json: o.Json = False,
    device: o.Device = "auto",
    precision: o.InPrecision = "auto",
) -> None:
    """Continue a text by sampling or, with --beam-size, by beam search.

    A model of another tool writes as its generation_config.json says: without do_sample its most
    probable text, unless you give --temperature. On a terminal the text appears as it is written.

    Example: translucid generate demo:generate "The dog" --temperature 0.8 --seed 1
    """
    from translucid.tasks.model_folder import check_task

    drawing = o.typed(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p)
    if beam_size is not None and (drawing or samples > 1 or stop):
        named = o.words([*drawing, *["samples"] * (samples > 1), *["stop"] * bool(stop)])
        raise ConfigError(f"{named}: draws at random, but --beam-size searches; leave one out")
    if prompts is not None and prompt:
        raise ConfigError(f"--prompts {prompts} and the prompt {prompt!r} were both given")
    (plain,) = o.load_models(model, None, device)
    check_task(plain.task, "language")
    (held,) = o.in_precision([plain], precision)
    rules = o.typed(no_repeat_ngram=no_repeat_ngram, repetition_penalty=repetition_penalty)
    rules |= {"forbid": forbid or []}
    prompt_texts = [prompt] if prompts is None else _prompts(prompts)
    if beam_size is not None:
        decoding = rules | {"beam_size": beam_size} | o.typed(max_length=max_length)
        texts = [decoded.texts[0].text for decoded in held.decode(prompt_texts, **decoding)]
        _write(texts, prompt_texts, as_json)
        if precision == "int8":
            o.tell_difference(plain, held, texts)
        return
    options: dict[str, Any] = drawing | rules | o.typed(max_length=max_length) | {"seed": seed}
    options["stop"] = stop or []
    if prompts is None and not as_json and sys.stdout.isatty():
        texts = _stream(held, prompt, samples, options)
        if precision == "int8":
            o.tell_difference(plain, held, texts)
        return
    texts = list(held.generate(prompt_texts, samples=samples, **options))
    _write(texts, [text for text in prompt_texts for _ in range(samples)], as_json)
    if precision == "int8":
        o.tell_difference(plain, held, texts)


def _stream(held: "Model", prompt: str, samples: int, options: dict[str, Any]) -> list[str]:
    texts = [""] * samples
    for sample in range(samples):
        for piece in held.stream(prompt, sample=sample, **options):
            sys.stdout.write(piece)
            sys.stdout.flush()
            texts[sample] += piece
        sys.stdout.write("\n")
    return texts


def _write(texts: list[str], prompts: list[str], as_json: bool) -> None:
    for text, prompt in zip(texts, prompts, strict=True):
        values = {"prompt": prompt, "text": text}
        typer.echo(json.dumps(values, ensure_ascii=False) if as_json else text)


def _prompts(file: str) -> list[str]:
    from translucid.data.readers.read import read_text

    return [record.text for record in read_text(file, keep_empty=True)]
