"""`translucid generate`: continue a text with a language model."""

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from translucid.cli.shared import options as o
from translucid.core.errors import ConfigError

if TYPE_CHECKING:
    from translucid.model import Model


def generate(
    model: o.Folder,
    prompt: Annotated[str, typer.Argument(help="The beginning of the text.")] = "",
    prompts: Annotated[
        str | None,
        o.in_data(metavar="FILE", help="File with one prompt per line; - for standard input."),
    ] = None,
    chat: Annotated[
        bool, o.in_data("--chat", help="Answer the prompt as a message, with the chat template.")
    ] = False,
    temperature: o.Temperature = None,
    top_k: o.TopK = None,
    top_p: o.TopP = None,
    min_p: o.MinP = None,
    seed: o.Seed = 0,
    samples: Annotated[int, o.in_sampling(min=1, metavar="N", help="Texts per prompt.")] = 1,
    beam_size: Annotated[
        int | None,
        o.in_search(min=1, metavar="N", help="Use beam search with beam size N, not sampling."),
    ] = None,
    max_length: Annotated[
        int | None,
        o.in_constraints(
            min=1, metavar="N", help="Maximum number of new tokens [default: the model's, or 100]."
        ),
    ] = None,
    stop: Annotated[
        list[str] | None,
        o.in_constraints(metavar="TEXT", help="Stop before this text; may be repeated."),
    ] = None,
    no_repeat_ngram: o.NoRepeatNgram = None,
    repetition_penalty: o.RepetitionPenalty = None,
    forbid: o.Forbid = None,
    as_json: o.JsonLines = False,
    device: o.Device = "auto",
    precision: o.InPrecision = "auto",
) -> None:
    """Continue a text by sampling or beam search.

    Models from other tools follow their generation_config.json: without do_sample they use greedy
    search unless you set --temperature. On a terminal, text is printed as it is generated.

    Example: translucid generate ./smollm2-instruct "What is gravity?" --chat

    Example: translucid generate demo:generate "The dog" --temperature 0.8 --seed 1
    """
    from translucid.tasks.model_folder import check_task

    drawing = o.typed(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p)
    if beam_size is not None and (drawing or samples > 1 or stop):
        named = o.words([*drawing, *["samples"] * (samples > 1), *["stop"] * bool(stop)])
        raise ConfigError(f"{named}: for sampling, but --beam-size was given; omit one")
    if prompts is not None and prompt:
        raise ConfigError(f"--prompts {prompts} and the prompt {prompt!r}: give only one")
    (plain,) = o.load_models(model, None, device)
    check_task(plain.task, "language")
    (held,) = o.in_precision([plain], precision)
    if chat and (beam_size is not None or samples > 1):
        raise ConfigError("--chat gives one sampled answer; omit --beam-size and --samples")
    rules = o.typed(no_repeat_ngram=no_repeat_ngram, repetition_penalty=repetition_penalty)
    rules |= {"forbid": forbid or []}
    options: dict[str, Any]
    prompt_texts = [prompt] if prompts is None else o.read_lines(prompts)
    rules |= o.typed(max_length=max_length)
    if chat:
        options = drawing | rules | {"seed": seed, "stop": stop or []}
        messages = [{"role": "user", "content": text} for text in prompt_texts]
        texts = [held.chat([message], **options) for message in messages]
        _write(texts, prompt_texts, as_json)
    elif beam_size is not None:
        decoded = held.decode(prompt_texts, beam_size=beam_size, **rules)
        texts = [one.texts[0].text for one in decoded]
        _write(texts, prompt_texts, as_json)
    else:
        options = drawing | rules | {"seed": seed, "stop": stop or []}
        if prompts is None and not as_json and sys.stdout.isatty():
            texts = _stream(held, prompt, samples, options)
        else:
            texts = list(held.generate(prompt_texts, samples=samples, **options))
            _write(texts, [text for text in prompt_texts for _ in range(samples)], as_json)
    if precision == "int8":
        o.print_difference(plain, held, texts)


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
