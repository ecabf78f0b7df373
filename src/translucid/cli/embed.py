"""`translucid embed`: embed texts as vectors, and compare them."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from translucid.cli.shared import options as o
from translucid.cli.shared.answering import Answered, answer_lines, digest_of_model
from translucid.cli.shared.inputs import Inputs, inputs_of, prompt
from translucid.cli.shared.messages import Notes, noting
from translucid.core.errors import ConfigError

if TYPE_CHECKING:
    from translucid.data.records import Text
    from translucid.model import Model

CHUNK = 256  # texts per batch
ARRAY, LINES = ".npy", (".jsonl", ".json")


def embed(
    model: o.Folder,
    file: o.FileOrTexts = None,
    text: Annotated[
        list[str] | None,
        o.in_data(
            metavar="TEXT", help="Text, or a single word, instead of a file; may be repeated."
        ),
    ] = None,
    nearest: Annotated[
        str | None, o.in_output(metavar="TEXT", help="Show the lines most similar to this text.")
    ] = None,
    against: Annotated[
        str | None,
        o.in_output(
            metavar="MODEL",
            help="Compare with this model: show the text pairs whose similarity differs most.",
        ),
    ] = None,
    top: Annotated[int, o.in_output(min=1, metavar="N", help="Number of results to show.")] = 5,
    as_json: o.JsonLines = False,
    out: Annotated[
        Path | None,
        o.in_output(
            metavar="FILE",
            help="Output file: array (.npy), JSON Lines (.jsonl) or tab-separated table. To resume "
            "(except .npy), run the same command again.",
        ),
    ] = None,
    ray: o.Ray = False,
    device: o.Device = "auto",
) -> None:
    """Embed each text as a vector, or find similar texts.

    For sentence-transformers models, and for encoders without a head, whose token vectors are
    averaged.

    Example: translucid embed ./all-MiniLM-L6-v2 sentences.txt --nearest "Someone is eating."

    Example: translucid embed ./all-MiniLM-L6-v2 sentences.txt --out sentences.npy

    Example: translucid embed runs/tuned sentences.txt --against ./all-MiniLM-L6-v2
    """
    from translucid.tasks.model_folder import check_task

    if text and file:
        words = " ".join(map(repr, file))
        raise ConfigError(f"--text and {words} were both given; repeat --text for each text")
    inputs = inputs_of(file, "embed", model)
    inputs = replace(inputs, texts=tuple(text)) if text else inputs
    chosen = {"--nearest": nearest, "--against": against, "--out": out}
    if len(named := [option for option, value in chosen.items() if value is not None]) > 1:
        raise ConfigError(f"{' and '.join(named)} were both given; omit one")
    if ray and (out is None or out.suffix == ARRAY):
        raise ConfigError("--ray writes JSON Lines or a tab-separated table; give --out FILE")
    (held,) = o.load_models(model, None, device)
    check_task(held.task, "embed")
    prompt(inputs, held)
    with noting(held) as notes:
        if nearest is not None:
            texts = [record.text for record in inputs.records()]
            notes([nearest, *texts])
            _print_nearest(held, nearest, texts, top, as_json)
        elif against is not None or (out is not None and out.suffix == ARRAY):
            texts = [record.text for record in inputs.records()]
            notes(texts)
            if against is not None:
                before = o.load_models(Path(against), None, device)[0]
                _print_differences(held, before, texts, top, as_json)
            elif out is not None:
                _save_array(held, texts, out)
        else:
            as_json = as_json or (out is not None and out.suffix in LINES)
            _embed_lines(held, model, notes, inputs, as_json, out, ray)


def _print_nearest(held: "Model", query: str, texts: list[str], top: int, as_json: bool) -> None:
    for neighbour in held.nearest_texts(query, texts, top):
        if as_json:
            values = {
                "line": neighbour.place + 1, "text": neighbour.text, "cosine": neighbour.cosine
            }  # fmt: skip
            typer.echo(json.dumps(values, ensure_ascii=False))
        else:
            typer.echo(f"{neighbour.cosine:7.4f}  {neighbour.text}")


def _print_differences(
    held: "Model", before: "Model", texts: list[str], top: int, as_json: bool
) -> None:
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


def _embed_lines(
    held: "Model", folder: Path, notes: Notes, inputs: Inputs, as_json: bool, out: Path | None,
    ray: bool,
) -> None:  # fmt: skip
    def answer(records: "Sequence[Text]") -> list[Answered]:
        texts = [record.text for record in records]
        return [Answered(line) for line in _written(held, texts, notes, as_json)]

    model = {} if out is None else {"model": digest_of_model(folder)}
    answer_lines(
        inputs, answer, out=out, settings=model | {"json": as_json}, chunk=CHUNK,
        verb="embedded", as_it_comes=True, ray=ray,
    )  # fmt: skip


def _written(held: "Model", texts: list[str], notes: Notes, as_json: bool) -> list[str]:
    task: Any = held.task
    noted = notes(texts)
    answers = zip(texts, task.predict_lines(held.network, texts), strict=True)
    if not as_json:
        return [task.answer_text(vector) + "\n" for _, vector in answers]
    return [
        json.dumps(task.answer_json(text, vector) | note.as_json(), ensure_ascii=False) + "\n"
        for (text, vector), note in zip(answers, noted, strict=True)
    ]
