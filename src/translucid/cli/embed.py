"""`translucid embed`: texts as vectors, and which of them are alike."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from translucid.cli.shared import generation_options as o
from translucid.cli.shared.answering import Answered, answer_lines
from translucid.cli.shared.messages import Noting, noting
from translucid.core.errors import ConfigError

if TYPE_CHECKING:
    from translucid.data.records import Text
    from translucid.model import Model

CHUNK = 256  # texts that are read together
ARRAY, LINES = ".npy", (".jsonl", ".json")


def embed(
    model: o.Folder,
    file: Annotated[
        str | None, typer.Argument(help="One text per line; standard input if - or not given.")
    ] = None,
    text: Annotated[
        list[str] | None, typer.Option(help="A text instead of a file; may be repeated.")
    ] = None,
    nearest: Annotated[
        str | None, typer.Option(help="Show the lines that are most similar to this text.")
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(help="Show the pairs of lines whose similarity differs most from this model."),
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="How many to show.")] = 5,
    as_json: o.Json = False,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Output file: one array (.npy), JSON Lines (.jsonl), or a tab-separated table. If "
            "stopped, run the command again to continue (except for .npy)."
        ),
    ] = None,
    device: o.Device = "auto",
) -> None:
    """Embed each text as a vector; with --nearest, find the most similar texts.

    For sentence-transformers models, and for encoders without a head, whose token vectors are
    averaged.

    Example: translucid embed ./all-MiniLM-L6-v2 sentences.txt --nearest "Someone is eating."

    Example: translucid embed ./all-MiniLM-L6-v2 sentences.txt --out sentences.npy

    Example: translucid embed runs/tuned sentences.txt --against ./all-MiniLM-L6-v2
    """
    from translucid.tasks.model_folder import check_task

    if text and file is not None:
        raise ConfigError(f"--text and the file {file} were both given; leave one out")
    chosen = {"--nearest": nearest, "--against": against, "--out": out}
    if len(named := [option for option, value in chosen.items() if value is not None]) > 1:
        raise ConfigError(f"{' and '.join(named)} were both given; leave one out")
    (held,) = o.load_models(model, None, device)
    check_task(held.task, "embed")
    name = file or "-"
    with noting(held) as notes:
        _answer(held, model, notes, name, text, nearest, against, top, as_json, out, device)


def _answer(
    held: "Model", model: Path, notes: Noting, name: str, text: list[str] | None,
    nearest: str | None, against: str | None, top: int, as_json: bool, out: Path | None,
    device: str,
) -> None:  # fmt: skip
    """What the options ask for."""
    if against is not None:
        before, texts = o.load_models(Path(against), None, device)[0], text or _texts(name)
        notes.of(texts)
        _against(held, before, texts, top, as_json)
    elif nearest is not None:
        texts = text or _texts(name)
        notes.of([nearest, *texts])
        _nearest(held, nearest, texts, top, as_json)
    elif out is not None and out.suffix == ARRAY:
        texts = text or _texts(name)
        notes.of(texts)
        _save_array(held, texts, out)
    elif text:
        if out is not None:
            raise ConfigError(f"--out {out}: with --text, {ARRAY} is written only; give a file")
        typer.echo("".join(_written(held, text, notes, as_json)), nl=False)
    else:
        _all_lines(held, model, notes, name, as_json or _as_lines(out), out)


def _nearest(held: "Model", query: str, texts: list[str], top: int, as_json: bool) -> None:
    for neighbour in held.nearest_texts(query, texts, top):
        if as_json:
            values = {
                "line": neighbour.place + 1, "text": neighbour.text, "cosine": neighbour.cosine
            }  # fmt: skip
            typer.echo(json.dumps(values, ensure_ascii=False))
        else:
            typer.echo(f"{neighbour.cosine:7.4f}  {neighbour.text}")


def _against(held: "Model", before: "Model", texts: list[str], top: int, as_json: bool) -> None:
    from translucid.tasks.model_folder import check_task

    check_task(before.task, "embed")
    moved = held.compare_embeddings(before, texts)
    if not as_json:
        typer.echo(moved.text(top))
        return
    for pair in (*moved.nearer(top), *reversed(moved.apart(top))):
        typer.echo(json.dumps(vars(pair), ensure_ascii=False))


def _save_array(held: "Model", texts: list[str], out: Path) -> None:
    import numpy as np

    from translucid.core.atomic_files import saving

    vectors = held.embed(texts).numpy()
    part = out.with_name(out.name + ".part")
    with saving(out):
        with part.open("wb") as stream:
            np.save(stream, vectors)
        part.replace(out)
    rows, dimensions = vectors.shape
    typer.echo(f"{out}: {rows:,} texts x {dimensions:,} dimensions", err=True)


def _all_lines(
    held: "Model", folder: Path, notes: Noting, file: str, as_json: bool, out: Path | None
) -> None:
    from translucid.cli.translate import digest_of_model

    def answer(records: "Sequence[Text]") -> list[Answered]:
        texts = [record.text for record in records]
        return [Answered(line) for line in _written(held, texts, notes, as_json)]

    settings = {"model": digest_of_model(folder), "json": as_json}
    answer_lines(
        file, answer, out=out, settings=settings, chunk=CHUNK, verb="embedded", as_it_comes=True
    )


def _written(held: "Model", texts: list[str], notes: Noting, as_json: bool) -> list[str]:
    task: Any = held.task
    noted = notes.of(texts)
    answers = zip(texts, task.predict_lines(held.network, texts), strict=True)
    if not as_json:
        return [task.answer_text(vector) + "\n" for _, vector in answers]
    return [
        json.dumps(task.answer_json(text, vector) | note.as_json(), ensure_ascii=False) + "\n"
        for (text, vector), note in zip(answers, noted, strict=True)
    ]


def _texts(file: str) -> list[str]:
    from translucid.data.readers.read import read_text

    return [record.text for record in read_text(file, keep_empty=True)]


def _as_lines(out: Path | None) -> bool:
    return out is not None and out.suffix in LINES
