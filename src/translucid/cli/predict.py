"""`translucid predict`, `classify` and `tag`: apply a model to lines, tables or CoNLL files.

Output has the format of the input: one line per line, the table with new columns, or CoNLL with a
tag column.
"""

import json
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from translucid.cli.shared import options as o
from translucid.cli.shared.answering import (
    Answered,
    answer_lines,
    digest_of_model,
)
from translucid.cli.shared.inputs import Inputs, inputs_of, prompt
from translucid.cli.shared.messages import in_columns, in_line, noting
from translucid.core.errors import InputError, RowError

if TYPE_CHECKING:
    from translucid.data.predictions import InputRow, InputRows
    from translucid.model import Model
    from translucid.tasks.input_notes import InputNote

CHUNK = 256  # rows per batch of answers

FileAndColumns = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[FILE|TEXT...] [data.KEY=VALUE]...",
        help="Text, CSV, TSV, JSON or CoNLL file, or texts in quotes [default: standard input]; "
        "settings such as data.text_column=review [default: as in training].",
    ),
]
Probabilities = Annotated[
    bool, o.in_output("--probabilities", help="Print the probability of every label or tag.")
]
Threshold = Annotated[
    float | None,
    o.in_output(
        min=0.0,
        max=1.0,
        metavar="P",
        help="For multi-label models: print labels above this probability [default: 0.5].",
    ),
]
Spans = Annotated[
    str | None,
    o.in_output(
        metavar="NAME",
        help="How to choose tags: legal (best IOB2 or BIOES sequence), iob1, or free (best tag of "
        "each word) [default: as trained; see `translucid info`].",
    ),
]


def classify(
    model: o.Folder,
    file: FileAndColumns = None,
    probabilities: Probabilities = False,
    threshold: Threshold = None,
    as_json: o.JsonLines = False,
    out: o.Out = None,
    ray: o.Ray = False,
    device: o.Device = "auto",
) -> None:
    """Print the label of each text.

    For multi-label models, prints every label above --threshold; for models with one output, a
    score.

    Example: translucid classify demo:classify "The food was not good."
    """
    _answer(
        model, file, "classify", as_json, probabilities, out, device, ray=ray, threshold=threshold
    )


def tag(
    model: o.Folder,
    file: FileAndColumns = None,
    probabilities: Probabilities = False,
    spans: Spans = None,
    as_json: o.JsonLines = False,
    out: o.Out = None,
    ray: o.Ray = False,
    device: o.Device = "auto",
) -> None:
    """Find the labelled spans of each line.

    For CoNLL files, prints the tag of each word.

    Example: translucid tag demo:tag "Jordan hires Anna Keller."
    """
    _answer(model, file, "tag", as_json, probabilities, out, device, ray=ray, spans=spans)


def predict(
    model: o.Folder,
    file: FileAndColumns = None,
    probabilities: Probabilities = False,
    threshold: Annotated[
        list[str] | None,
        o.in_output(
            metavar="LABEL=P",
            help="For task table: predict LABEL if its probability is at least P [default: the "
            "model's decoding.thresholds].",
        ),
    ] = None,
    as_json: o.JsonLines = False,
    out: o.Out = None,
    ray: o.Ray = False,
    device: o.Device = "auto",
) -> None:
    """Predict the output for each line or row, for any task.

    Example: translucid predict demo:regress "0 1"
    """
    _answer(model, file, None, as_json, probabilities, out, device, ray=ray, of_label=threshold)


def _answer(
    folder: Path,
    words: Sequence[str] | None,
    task: str | None,
    as_json: bool,
    probabilities: bool,
    out: Path | None,
    device: str,
    *,
    ray: bool,
    spans: str | None = None,
    threshold: float | None = None,
    of_label: list[str] | None = None,
) -> None:
    from translucid.data.predictions import TextLines
    from translucid.model.model import with_spans, with_threshold, with_thresholds
    from translucid.tasks.model_folder import check_task
    from translucid.tasks.options import SpanDecoding

    inputs = inputs_of(words, task or "predict", folder, keys=())
    (held,) = o.load_models(folder, None, device)
    if task is not None:
        check_task(held.task, task)
    if spans is not None:
        held = with_spans(held, o.one_of("--spans", spans, SpanDecoding))
    if threshold is not None:
        held = with_threshold(held, threshold)
    if of_label:
        held = with_thresholds(held, _label_threshold(of_label))
    source = _open(held, inputs)
    plain = isinstance(source, TextLines)
    shown = False

    def answer(rows: "Sequence[InputRow]") -> list[Answered]:
        nonlocal shown
        if not shown and not plain:
            for note in source.loading.notes:
                typer.echo(f"{inputs.name}: {note}", err=True)
        if not shown and held.task.prediction_note:
            typer.echo(held.task.prediction_note, err=True)
        shown = True
        asked = [row for row in rows if row.question is not None]
        for row in asked:
            where = f"{inputs.name}:{row.line}"
            held.task.check_question(row.question, where, held.network)
        questions = [row.question for row in asked]
        noted = notes(questions)
        try:
            if plain and not probabilities:
                return [Answered(text) for text in _plain(held, questions, noted, as_json)]
            columns = held.task.predict_columns(
                held.network, questions, probabilities=probabilities
            )
        except RowError as error:
            where = f"{inputs.name}:{asked[error.row].line}"
            raise InputError(f"{where}: {error.fact}") from None
        if held.task.notes_inputs:  # numbers have no notes
            pairs = zip(columns, noted, strict=True)
            columns = [in_columns(source, new, note, as_json=as_json) for new, note in pairs]
        new = iter(columns)
        return [
            Answered(_written(source, row, next(new) if row.question is not None else {}, as_json))
            for row in rows
        ]

    options: dict[str, Any] = {} if out is None else {"model": digest_of_model(folder)}
    options |= {"json": as_json, "probabilities": probabilities}
    options |= inputs.data.model_dump(exclude_unset=True)
    options |= o.typed(spans=spans, threshold=of_label if threshold is None else threshold)
    prompt(inputs, held)
    with noting(held) as notes:
        answer_lines(
            inputs, answer, out=out, settings=options, chunk=CHUNK,
            verb="answered", read=source.rows,
            count=partial(_count, held, inputs, out), as_it_comes=True, ray=ray,
        )  # fmt: skip


def _label_threshold(typed_options: list[str]) -> dict[str, float]:
    if len(typed_options) > 1:
        raise InputError(
            f"--threshold is given {len(typed_options)} times; set the threshold of one label, "
            "because the others share the rest"
        )
    (typed,) = typed_options
    label, _, number = typed.rpartition("=")
    try:
        threshold = float(number)
    except ValueError:
        threshold = -1.0
    if not label or not 0 <= threshold <= 1:
        raise InputError(
            f"--threshold {typed}: must be a label and a probability from 0 to 1, such as yes=0.3"
        )
    return {label: threshold}


def _open(held: "Model", inputs: Inputs) -> "InputRows":
    from dataclasses import replace

    from translucid.data.predictions import SOURCES, GivenTexts, format_for
    from translucid.data.readers.loading import Loading

    roles, file, data = held.task.traits.asks_about, inputs.file, inputs.data
    if inputs.texts:
        return GivenTexts("text", roles, texts=inputs.texts)
    kind = data.format
    if kind is None:
        kind = "text"
        if roles:
            kind = format_for(file, roles, held.task.label_names, data.rule.lines)
    chosen = {role: getattr(data, f"{role}_column", None) for role in roles}
    chosen["input"] = data.input_columns
    loading = Loading(expected=held.data_columns)
    return SOURCES[kind](file, roles, chosen, replace(data.rule, format=kind), loading)


def _count(held: "Model", inputs: Inputs, out: Path | None) -> int | None:
    """The number of rows. None if the input can be read only once, or if the output does not go to
    a file."""
    if out is None or not (inputs.texts or Path(inputs.file).is_file()):
        return None
    return sum(1 for _ in _open(held, inputs).rows())


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
