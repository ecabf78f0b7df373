"""`translucid predict | classify | tag`: a trained model at work.

Lines in, lines out, in order; a table comes out as the same table with new columns, CoNLL as CoNLL
with a tag behind each word.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from translucid.cli.shared import generation_options as o
from translucid.cli.shared.answering import Answered, answer_lines, check_is_file, name_of
from translucid.cli.shared.arguments import OVERRIDE
from translucid.cli.shared.messages import in_columns, in_line, noting
from translucid.core.errors import ConfigError, InputError, RowError

if TYPE_CHECKING:
    from translucid.data.predictions import InputRow, InputRows
    from translucid.model import Model
    from translucid.tasks.input_notes import InputNote
    from translucid.tasks.options import DataConfig, SpanDecoding

CHUNK = 256  # rows that are answered together

FileAndColumns = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[FILE] [data.KEY=VALUE]...",
        help="Text lines, CSV, TSV, JSON Lines or CoNLL; standard input if - or not given. Columns "
        "are those of the training data; set others with data.text_column=review and the like.",
    ),
]
Probabilities = Annotated[
    bool, typer.Option("--probabilities", help="Print the probability of every label or tag.")
]
Threshold = Annotated[
    float | None,
    typer.Option(
        min=0.0, max=1.0,
        help="For multi-label models: print labels above this probability (default: 0.5).",
    ),
]  # fmt: skip
Spans = Annotated[
    str | None,
    typer.Option(
        help="How tags are chosen: legal (best sequence in IOB2 or BIOES), iob1 (in IOB1), or free "
        "(each word's best tag) (default: the model's own; see info).",
    ),
]


def classify(
    model: o.Folder,
    file: FileAndColumns = None,
    probabilities: Probabilities = False,
    threshold: Threshold = None,
    as_json: o.Json = False,
    out: o.Out = None,
    device: o.Device = "auto",
) -> None:
    """Classify each text: print its label, its labels, or its score.

    Example: echo "The food was not good." | translucid classify demo:classify
    """
    _answer(model, file, "classify", as_json, probabilities, out, device, threshold=threshold)


def tag(
    model: o.Folder,
    file: FileAndColumns = None,
    probabilities: Probabilities = False,
    spans: Spans = None,
    as_json: o.Json = False,
    out: o.Out = None,
    device: o.Device = "auto",
) -> None:
    """Find the labelled spans of each line, or the tag of each word of a CoNLL file.

    Example: echo "Jordan hires Anna Keller." | translucid tag demo:tag
    """
    _answer(model, file, "tag", as_json, probabilities, out, device, spans=spans)


def predict(
    model: o.Folder,
    file: FileAndColumns = None,
    probabilities: Probabilities = False,
    as_json: o.Json = False,
    out: o.Out = None,
    device: o.Device = "auto",
) -> None:
    """Answer each line or row, for any task; regression models answer with numbers.

    Example: echo "0 1" | translucid predict demo:regress
    """
    _answer(model, file, None, as_json, probabilities, out, device)


def files_and_keys(
    words: Sequence[str], sections: Sequence[str] = ("data",)
) -> tuple[list[str], dict[str, Any]]:
    """What was typed, as files and as keys of these sections of a recipe."""
    from translucid.core.config import with_overrides

    matches = [(word, OVERRIDE.match(word)) for word in words]
    overrides = [word for word, match in matches if match and match[1] in sections]
    keys = with_overrides({}, overrides)
    chosen = {key: value for section in sections for key, value in keys.get(section, {}).items()}
    return [word for word in words if word not in overrides], chosen


def _answer(
    folder: Path,
    words: Sequence[str] | None,
    task: str | None,
    as_json: bool,
    probabilities: bool,
    out: Path | None,
    device: str,
    *,
    spans: str | None = None,
    threshold: float | None = None,
) -> None:
    from translucid.cli.translate import digest_of_model
    from translucid.data.predictions import TextLines
    from translucid.model.model import with_spans, with_threshold
    from translucid.tasks.model_folder import check_task
    from translucid.tasks.options import DataConfig

    files, keys = files_and_keys(words or ())
    if files:
        check_is_file(files, task or "predict", folder)
    if len(files) > 1:
        raise ConfigError(f"{', '.join(files)}: give one file; several are answered one by one")
    file, data = files[0] if files else "-", DataConfig(**keys)
    (held,) = o.load_models(folder, None, device)
    if task is not None:
        check_task(held.task, task)
    if spans is not None:
        held = with_spans(held, _span_decoding(spans))
    if threshold is not None:
        held = with_threshold(held, threshold)
    source = _open(held, file, data)
    plain = isinstance(source, TextLines)
    shown = False

    def answer(rows: "Sequence[InputRow]") -> list[Answered]:
        nonlocal shown
        if not shown and not plain:
            for note in source.loading.notes:
                typer.echo(f"{name_of(file)}: {note}", err=True)
        shown = True
        asked = [row for row in rows if row.question is not None]
        for row in asked:
            where = f"{name_of(file)}:{row.line}"
            held.task.check_question(row.question, where, held.network)
        questions = [row.question for row in asked]
        noted = notes.of(questions)
        try:
            if plain and not probabilities:
                return [Answered(text) for text in _plain(held, questions, noted, as_json)]
            columns = held.task.predict_columns(
                held.network, questions, probabilities=probabilities
            )
        except RowError as error:
            where = f"{name_of(file)}:{asked[error.row].line}"
            raise InputError(f"{where}: {error.fact}") from None
        if held.task.vocabularies:  # numbers have no notes
            pairs = zip(columns, noted, strict=True)
            columns = [in_columns(source, new, note, as_json=as_json) for new, note in pairs]
        new = iter(columns)
        return [
            Answered(_written(source, row, next(new) if row.question is not None else {}, as_json))
            for row in rows
        ]

    options = (
        {"json": as_json, "probabilities": probabilities}
        | keys
        | o.typed(spans=spans, threshold=threshold)
    )
    with noting(held) as notes:
        answer_lines(
            file, answer, out=out, settings={"model": digest_of_model(folder)} | options,
            chunk=CHUNK, verb="answered", read=lambda: source.rows(),
            count=_count(held, file, data, out), as_it_comes=True,
        )  # fmt: skip


def _span_decoding(text: str) -> "SpanDecoding":
    from translucid.tasks.options import SpanDecoding

    allowed: tuple[SpanDecoding, ...] = get_args(SpanDecoding)
    chosen = next((name for name in allowed if name == text), None)
    if chosen is None:
        raise ConfigError(f"--spans {text}: no such way to choose tags; use {', '.join(allowed)}")
    return chosen


def _open(held: "Model", file: str, data: "DataConfig") -> "InputRows":
    from dataclasses import replace

    from translucid.data.predictions import SOURCES, format_for
    from translucid.data.readers.loading import Loading

    roles = held.task.traits.asks_about
    kind = data.format
    if kind is None:
        kind = format_for(file, roles, held.task.label_names) if roles else "text"
    chosen = {role: getattr(data, f"{role}_column", None) for role in roles}
    chosen["input"] = data.input_columns
    return SOURCES[kind](
        file, roles, chosen, replace(data.rule, format=kind), Loading(expected=held.data_columns)
    )


def _count(held: "Model", file: str, data: "DataConfig", out: Path | None) -> int | None:
    """How many rows there are, if that can be known before they are read."""
    if out is None or file == "-" or not Path(file).is_file():
        return None
    return sum(1 for _ in _open(held, file, data).rows())


def _plain(
    held: "Model", texts: Sequence[Any], notes: "Sequence[InputNote]", as_json: bool
) -> Iterator[str]:
    answers = held.task.predict_lines(held.network, texts)
    for text, answer, note in zip(texts, answers, notes, strict=True):
        if as_json:
            values = held.task.answer_json(text, answer) | note.as_json()
            yield json.dumps(values, ensure_ascii=False) + "\n"
        else:
            yield held.task.answer_text(answer) + in_line(note) + "\n"


def _written(source: "InputRows", row: "InputRow", new: dict[str, Any], as_json: bool) -> str:
    from translucid.data.predictions import unused

    if not as_json:
        return source.write(row, new)
    values = source.values(row)
    named = dict(zip(unused(new, values), new.values(), strict=True))
    whole = values | named
    return json.dumps(whole, ensure_ascii=False, default=str) + "\n" if whole else ""
