"""`translucid score`: what a model thinks of given texts."""

import json
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from translucid.cli.shared import generation_options as o
from translucid.errors import InputError

if TYPE_CHECKING:
    from translucid.data.records import Text
    from translucid.model import Model

CHUNK = 256


def score(
    model: o.Folder,
    source: Annotated[str, typer.Argument(help="Sources, or for a language model texts.")],
    target: Annotated[str | None, typer.Argument(help="Translations, line by line.")] = None,
    per_token: Annotated[
        bool, typer.Option("--per-token", help="Also each token's log-probability.")
    ] = False,
    ensemble: o.Ensemble = None,
    as_json: o.Json = False,
    device: o.Device = "auto",
) -> None:
    """Give the log-probability of each line, the end included.

    For a translator: of the translation in the second file, given the source in the first.

    Example: translucid score runs/toy test.en test.de --per-token
    """
    held, *others = o.load_models(model, ensemble, device)
    held.search()  # a model that does not write says so before files are read
    if (target is None) == (held.task.shape == "encoder-decoder"):
        needed = "source and target files" if target is None else "one file of texts"
        raise InputError(f"a model for task {held.task.name} needs {needed}")
    for lines in _chunks(source, target):
        texts = [[record.text for record in side] for side in zip(*lines, strict=True)]
        for pair in lines:
            _check(held, pair, source, target)
        scored = held.scores(texts[0], texts[1] if target is not None else None, ensemble=others)
        for pair, text_score in zip(lines, scored, strict=True):
            if as_json:
                values = {"line": pair[0].line, **vars(text_score)}
                typer.echo(json.dumps(values, ensure_ascii=False))
            else:
                tokens = zip(text_score.pieces, text_score.token_log_probs, strict=True)
                more = "  ".join(f"{piece.strip() or piece} {value:.3f}" for piece, value in tokens)
                typer.echo(f"{text_score.log_probability:.4f}" + (f"\t{more}" if per_token else ""))


def _check(held: "Model", pair: "Sequence[Text]", source: str, target: str | None) -> None:
    """Refuse what is too long for the model."""
    from translucid.tasks.base import check_length

    held.check_text(pair[0].text, f"{source}:{pair[0].line}")
    tokens = len(held.output_tokenizer.encode(pair[-1].text)) + 1
    check_length(tokens, held.context_length, f"{target or source}:{pair[-1].line}")


def _chunks(source: str, target: str | None) -> "Iterator[list[tuple[Text, ...]]]":
    from translucid.data.readers.read import read_text

    files = [source] if target is None else [source, target]
    streams = [read_text(file, keep_empty=True) for file in files]
    while True:
        sides = [list(islice(stream, CHUNK)) for stream in streams]
        counts = {len(side) for side in sides}
        if len(counts) > 1:
            short = min(range(2), key=lambda i: len(sides[i]))
            line = sides[1 - short][len(sides[short])].line
            raise InputError(
                f"{files[1 - short]}:{line}: {files[short]} has no such line; give files with as "
                "many lines"
            )
        if not sides[0]:
            return
        yield list(zip(*sides, strict=True))
