"""`translucid translate`: lines in, translations out, in order, however many there are."""

import hashlib
import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from translucid.cli.shared import generation_options as o
from translucid.cli.shared.input_notes import noting
from translucid.cli.shared.lines import Answered, answer_lines, check_is_file, chunk_size
from translucid.core.errors import ConfigError, InputError

if TYPE_CHECKING:
    from translucid.data.records import Text
    from translucid.generate.results import Candidate, Decoded
    from translucid.model import Model
    from translucid.tasks.input_notes import InputNote


def translate(
    model: o.Folder,
    file: o.File = "-",
    beam_size: o.BeamSize = None,
    alpha: o.Alpha = None,
    n_best: o.NBest = 1,
    prefix: o.Prefix = "",
    forbid: o.Forbid = None,
    force: o.Force = None,
    no_repeat_ngram: o.NoRepeatNgram = None,
    repetition_penalty: o.RepetitionPenalty = None,
    min_length: o.MinLength = None,
    max_length: o.MaxLength = None,
    beam_groups: o.BeamGroups = None,
    diversity_penalty: o.DiversityPenalty = None,
    ensemble: o.Ensemble = None,
    sample: Annotated[
        bool, typer.Option("--sample", help="Sample: draw at random instead of searching.")
    ] = False,
    temperature: o.Temperature = None,
    top_k: o.TopK = None,
    top_p: o.TopP = None,
    min_p: o.MinP = None,
    seed: o.Seed = 0,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show the tree of the beam search.")
    ] = False,
    as_json: o.Json = False,
    out: o.Out = None,
    max_input_length: Annotated[
        int,
        typer.Option(min=1, help="Most tokens of a line; a longer one is reported and left empty."),
    ] = 1024,
    device: o.Device = "auto",
    precision: o.InPrecision = "auto",
) -> None:
    """Translate each line.

    Beam size and alpha are those of validation unless given. --n-best N writes `number ||| text |||
    score`, numbered from 0. A line too long for the model is reported and left empty.

    Example: echo "The dog sleeps." | translucid translate demo:translate --n-best 3
    """
    search = o.typed(
        beam_size=beam_size, alpha=alpha, no_repeat_ngram=no_repeat_ngram,
        repetition_penalty=repetition_penalty, min_length=min_length, max_length=max_length,
        beam_groups=beam_groups, diversity_penalty=diversity_penalty,
    )  # fmt: skip
    drawing = o.typed(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p)
    _check(search, drawing, sample=sample, explain=explain)
    word_constraints: dict[str, Any] = {
        "prefix": prefix,
        "forbid": forbid or [],
        "force": o.places(force),
    }
    plain = o.load_models(model, ensemble, device)
    plain[0].check_task("translate")
    _check_lines(file, model)
    held, *others = o.in_precision(plain, precision)
    unmeasured = precision == "int8"
    options = search | word_constraints | {"n_best": n_best, "tree": explain, "ensemble": others}
    settings = search | word_constraints | {"n_best": n_best, "json": as_json, "explain": explain}
    settings |= {"line": max_input_length, "precision": precision}
    if sample:
        from translucid.generate.sampling import SamplingConfig

        options |= {"sampling": SamplingConfig(**drawing), "seed": seed}
        settings |= {"sampling": drawing, "seed": seed}
    held.decode([""], **options)  # a mistake in the options shows before anything is read
    settings["models"] = [digest_of_model(folder) for folder in (model, *(ensemble or ()))]

    def answer(records: "Sequence[Text]") -> list[Answered]:
        faults = {record.line: _too_long(held, record.text, max_input_length) for record in records}
        fine = [record for record in records if not faults[record.line]]
        decoded = held.decode([record.text for record in fine], **options)
        nonlocal unmeasured
        if unmeasured and any(sentence.texts for sentence in decoded):
            pairs = [
                (sentence.texts[0].text, sentence.source) for sentence in decoded if sentence.texts
            ]
            o.tell_difference(plain[0], held, *map(list, zip(*pairs, strict=True)))
            unmeasured = False
        sentences = iter(decoded)
        noted = {
            record.line: note
            for record, note in zip(
                records, notes.of([record.text for record in records]), strict=True
            )
        }
        return [
            _failed(record, faults[record.line], as_json, n_best)
            if faults[record.line]
            else _written(
                record,
                next(sentences),
                held,
                noted[record.line],
                as_json=as_json,
                n_best=n_best,
                explain=explain,
            )
            for record in records
        ]

    on_gpu = next(held.network.parameters()).is_cuda
    chunk = chunk_size(file, large=1024 if on_gpu else 256)
    with noting(held) as notes:
        answer_lines(file, answer, out=out, settings=settings, chunk=chunk, verb="translated")


def _check_lines(file: str, folder: Path) -> None:
    """Refuse what is no file of lines: a text, or a table, whose rows would be read as texts."""
    from translucid.data.predictions import format_for

    if file == "-":
        return
    check_is_file([file], "translate", folder)
    if (kind := format_for(file, ())) != "text":
        again = shlex.join(["translucid", "predict", o.name_of_model(folder), file])
        raise InputError(
            f"{file}: is {kind}, but translate reads one text a line; the same table with a column "
            f"of translations: {again}"
        )


def _check(search: dict[str, Any], drawing: dict[str, Any], *, sample: bool, explain: bool) -> None:
    """Options that speak of different ways to write."""
    if drawing and not sample:
        raise ConfigError(f"{o.words(drawing)}: only with --sample, which draws at random")
    searching = [n for n in search if n in ("beam_size", "beam_groups", "diversity_penalty")]
    if sample and searching:
        raise ConfigError(
            f"{o.words(searching)}: of a search, but --sample draws at random; leave one out"
        )
    if sample and explain:
        raise ConfigError("--explain shows a search, but --sample draws at random; leave one out")


def digest_of_model(folder: Path) -> str:
    """Which model it is, wherever it lies; of another tool's, which files it is."""
    from translucid.core.atomic_files import MANIFEST, digest_of
    from translucid.interop.kinds import kind_of
    from translucid.tasks.model_folder import place

    # Another tool's weights have no manifest, and are too large to be read for this.
    if folder.is_file() or kind_of(folder) is not None:
        files = sorted(folder.iterdir()) if folder.is_dir() else [folder]
        facts = [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files]
        return hashlib.sha256(repr(facts).encode()).hexdigest()
    return digest_of(place(folder) / MANIFEST)


def _too_long(held: "Model", text: str, most: int) -> str:
    from translucid.tasks.base import check_length

    tokens = max(held.task.sizes(held.task.read_line(text, "", held.network)))
    context_length = held.context_length
    try:
        check_length(tokens, context_length, "")
    except InputError as error:
        return str(error).removeprefix(": ")
    if tokens > most and (context_length is None or most < context_length):
        return f"{tokens:,} tokens, above --max-input-length {most:,}; split the line, or raise it"
    return ""


def _failed(record: "Text", fault: str, as_json: bool, n_best: int) -> Answered:
    values = {"source": record.text, "translation": "", "texts": [], "error": fault}
    plain = "\n" if n_best == 1 else ""
    text = json.dumps(values, ensure_ascii=False) + "\n" if as_json else plain
    return Answered(text, f"{record.line}: {fault}")


def _written(
    record: "Text",
    decoded: "Decoded",
    held: "Model",
    note: "InputNote",
    *,
    as_json: bool,
    n_best: int,
    explain: bool,
) -> Answered:
    if not decoded.texts:
        fault = (
            "the constraints leave nothing to write; loosen --forbid, --force, --no-repeat-ngram "
            "or --min-length"
        )
        return _failed(record, fault, as_json, n_best)
    if as_json:
        values = decoded.as_dict(held.output_tokenizer if explain else None)
        values = {"source": decoded.source, "translation": decoded.texts[0].text} | values
        values |= note.as_json()
        return Answered(json.dumps(values, ensure_ascii=False) + "\n")
    if explain:
        from translucid.cli.shared.tree_text import explained

        return Answered(explained(decoded, held.output_tokenizer, colour=sys.stdout.isatty()))
    if n_best == 1:
        return Answered(_one_line(decoded.texts[0]) + "\n")
    lines = [f"{record.line - 1} ||| {_one_line(t)} ||| {t.score:.4f}\n" for t in decoded.texts]
    return Answered("".join(lines))


def _one_line(text: "Candidate") -> str:
    """A model may write a line end; as many lines come out as go in."""
    return " ".join(text.text.splitlines())
