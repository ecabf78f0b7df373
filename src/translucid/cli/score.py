"""`translucid score`: log-probabilities of given texts."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice, zip_longest
from typing import TYPE_CHECKING, Annotated

import typer

from translucid.cli.shared import options as o
from translucid.cli.shared.arguments import files_and_keys
from translucid.cli.shared.messages import in_line, noting
from translucid.core.errors import InputError

if TYPE_CHECKING:
    from translucid.data.records import Text
    from translucid.model import Model
    from translucid.tasks.options import DataConfig
    from translucid.tasks.own_prefixes import PrefixScored

CHUNK = 256


def score(
    model: o.Folder,
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE [TARGET] [data.KEY=VALUE]...",
            help="Texts; for translation, sources and translations line by line, or one table; "
            "settings such as data.source_column=de [default: as in training].",
        ),
    ],
    per_token: Annotated[
        bool, o.in_output("--per-token", help="Also print each token's log-probability.")
    ] = False,
    own_prefixes: Annotated[
        bool,
        o.in_output(
            "--own-prefixes",
            help="Print the loss by position, after true prefixes and after the model's own.",
        ),
    ] = False,
    as_json: o.JsonLines = False,
    ensemble: o.Ensemble = None,
    device: o.Device = "auto",
) -> None:
    """Print the log-probability of each text.

    Includes the end token. For translation models, prints the log-probability of the translation
    given the source.

    With --own-prefixes, prints a table of the mean loss at each position, in nats. After true
    prefixes (teacher forcing), the model reads the true tokens before the position; after its own
    prefixes, it reads the tokens that it generates greedily. The difference is an upper estimate of
    exposure bias, since a missing word shifts all later tokens.

    Example: translucid score runs/toy test.en test.de --per-token

    Example: translucid score runs/toy pairs.tsv --json
    """
    files, keys = files_and_keys(files)
    if own_prefixes and per_token:
        raise InputError(
            "--own-prefixes prints means by position, --per-token prints each text; use one of them"
        )
    held, *others = o.load_models(model, ensemble, device)
    held.generation_config()  # refuses a model that does not generate before files are read
    rows = _rows(held, files, held.evaluation_settings(**keys).data)
    if own_prefixes:
        _print_by_position(held, rows, files, others, as_json)
        return
    with noting(held) as notes:
        while lines := list(islice(rows, CHUNK)):
            texts = _texts(held, lines, files)
            scored = held.scores(*texts, ensemble=others)
            noted = notes(texts[0])
            for line, text_score, note in zip(lines, scored, noted, strict=True):
                if as_json:
                    values = {"line": line[0].line, **vars(text_score), **note.as_json()}
                    typer.echo(json.dumps(values, ensure_ascii=False))
                    continue
                tokens = zip(text_score.pieces, text_score.token_log_probs, strict=True)
                more = "  ".join(f"{piece.strip() or piece} {value:.3f}" for piece, value in tokens)
                shown = f"\t{more}" if per_token else ""
                typer.echo(f"{text_score.log_probability:.4f}{shown}{in_line(note)}")


def _print_by_position(
    held: "Model",
    rows: "Iterator[tuple[Text, ...]]",
    files: Sequence[str],
    others: "Sequence[Model]",
    as_json: bool,
) -> None:
    """Print the mean losses at each position, and over all positions at the end."""
    from translucid.tasks.own_prefixes import by_position

    scored: list[PrefixScored] = []
    while lines := list(islice(rows, CHUNK)):
        scored += held.prefix_scores(*_texts(held, lines, files), ensemble=others)
    if not scored:
        raise InputError(f"{files[0]}: contains no text; expected at least one")
    if not as_json:
        typer.echo(f"{'position':8}  {'tokens':>7}  {'true prefix':>11}  {'own prefix':>10}")
    for loss in by_position(scored):
        if as_json:
            typer.echo(json.dumps(vars(loss)))
            continue
        place = "all" if loss.position is None else loss.position
        typer.echo(
            f"{place:<8}  {loss.tokens:>7,}  {loss.true_prefix:>11.4f}  {loss.own_prefix:>10.4f}"
        )


def _texts(
    held: "Model", lines: "Sequence[Sequence[Text]]", files: Sequence[str]
) -> list[list[str]]:
    """The texts, or sources and translations; refuses texts too long for the model."""
    for line in lines:
        _check(held, line, files)
    return [[record.text for record in side] for side in zip(*lines, strict=True)]


def _check(held: "Model", line: "Sequence[Text]", files: Sequence[str]) -> None:
    """Refuse texts too long for the model."""
    from translucid.tasks.base import check_length

    held.task.check_line(line[0].text, f"{files[0]}:{line[0].line}", held.network)
    tokens = len(held.output_tokenizer.encode(line[-1].text)) + 1
    check_length(tokens, held.context_length, f"{files[-1]}:{line[-1].line}")


def _rows(held: "Model", files: Sequence[str], data: "DataConfig") -> "Iterator[tuple[Text, ...]]":
    """The texts to score, or the pairs of source and target if the model translates."""
    from translucid.data.readers.loading import Loading
    from translucid.data.readers.read import read_text
    from translucid.data.readers.tables import format_of

    table = len(files) == 1 and (data.format or format_of(files[0], "text")) != "text"
    if held.task.shape == "encoder-decoder":
        if table:
            return _pairs(held, files[0], data)
        if len(files) == 2:
            return _side_by_side(files, data)
        raise InputError(
            f"a model for task {held.task.name} needs source and target: two files, or one table "
            "such as pairs.tsv"
        )
    if len(files) != 1:
        raise InputError(f"a model for task {held.task.name} needs one file of texts")
    loading = Loading(expected=held.data_columns)
    column = data.text_column if table else None
    texts = read_text(files[0], column=column, keep_empty=True, rule=data.rule, loading=loading)
    return ((text,) for text in texts)


def _pairs(held: "Model", file: str, data: "DataConfig") -> "Iterator[tuple[Text, ...]]":
    """Rows of a table, read as in training; prints which columns are used."""
    from translucid.data.readers.loading import Loading
    from translucid.data.readers.read import read_pairs
    from translucid.data.records import Text

    loading = Loading(expected=held.data_columns)
    pairs = read_pairs(
        file, source=data.source_column, target=data.target_column, rule=data.rule,
        loading=loading, keep_empty=True,
    )  # fmt: skip
    for number, pair in enumerate(pairs):
        if not number:
            for note in loading.notes:
                o.print_note(f"{file}: {note}")
        yield Text(pair.source, pair.line), Text(pair.target, pair.line)


def _side_by_side(files: Sequence[str], data: "DataConfig") -> "Iterator[tuple[Text, ...]]":
    """Yield each line of the first file together with the same line of the second file."""
    from translucid.data.readers.read import read_text

    rule = replace(data.rule, format="text")
    for sides in zip_longest(*(read_text(file, keep_empty=True, rule=rule) for file in files)):
        if None in sides:
            short = sides.index(None)
            raise InputError(
                f"{files[1 - short]}:{sides[1 - short].line}: {files[short]} has no such line; "
                "give files with the same number of lines"
            )
        yield sides
