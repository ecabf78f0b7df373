"""`translucid tokenizer ...`: train and inspect tokenizers."""

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from translucid.cli.shared.options import Json
from translucid.cli.shared.parsing import Commands

if TYPE_CHECKING:
    from translucid.data.tokenizers.tokenizer import Tokenizer

app = typer.Typer(
    name="tokenizer",
    cls=Commands,
    help="Train or inspect a tokenizer.",
    epilog="Example: translucid tokenizer train corpus.txt --out tok --kind bpe --vocab 8000",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command()
def train(
    files: Annotated[list[str], typer.Argument(help="Text files, also .gz and .xz.")],
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Output folder.")],
    kind: Annotated[
        str, typer.Option(metavar="NAME", help="bpe, unigram, word, char, bytes.")
    ] = "bpe",
    vocab: Annotated[
        int, typer.Option(min=1, metavar="N", help="Vocabulary size, for bpe, unigram and word.")
    ] = 8000,
) -> None:
    """Train a tokenizer on text files.

    Example: translucid tokenizer train train.en train.de --out tok --vocab 4000
    """
    from translucid.core.errors import InputError
    from translucid.core.progress import Progress
    from translucid.data.readers.loading import Loading
    from translucid.data.readers.read import read_text
    from translucid.data.tokenizers.pipelines import SIZED, Kind
    from translucid.data.tokenizers.tokenizer import Tokenizer

    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(f"{out} is not an empty folder; choose another with --out")
    loadings = [Loading() for _ in files]
    texts = (
        record.text
        for file, loading in zip(files, loadings, strict=True)
        for record in read_text(file, loading=loading)
    )
    size = vocab if kind in SIZED else None
    with Progress("lines", stays=True) as progress:
        made = Tokenizer.train(cast(Kind, kind), texts, size, progress=progress.move)
    for loading in loadings:
        for line in loading.lines():
            typer.echo(line, err=True)
    made.save(out)
    typer.echo(f"{out}: {made.kind}, {len(made):,} tokens, fingerprint {made.fingerprint[:12]}")
    typer.echo(f'next: translucid tokenizer show {shlex.quote(str(out))} "some text"')


@app.command()
def show(
    folder: Annotated[Path, typer.Argument(help="Tokenizer, model or run folder.")],
    texts: Annotated[list[str] | None, typer.Argument(help="Texts to split.")] = None,
    as_json: Json = False,
) -> None:
    """Show a tokenizer and how it splits texts.

    Example: translucid tokenizer show runs/demo "The dog sleeps."
    """
    for name, made in _tokenizers(folder).items():
        facts = {"folder": name, "kind": made.kind, "tokens": len(made),
                 "fingerprint": made.fingerprint}  # fmt: skip
        split: list[dict[str, Any]] = [
            {"text": text, "tokens": made.tokens(text), "ids": made.encode(text),
             "unknown": made.unknown_rate([text])}
            for text in texts or ()
        ]  # fmt: skip
        if as_json:
            typer.echo(json.dumps(facts | {"texts": split}, ensure_ascii=False))
            continue
        typer.echo(f"{name}: {made.kind}, {len(made):,} tokens, fingerprint {made.fingerprint}")
        for row in split:
            unknown = f", {row['unknown']:.0%} unknown" if row["unknown"] else ""
            typer.echo(f"{row['text']}\n  {len(row['tokens'])} tokens{unknown}")
            for token, number in zip(row["tokens"], row["ids"], strict=True):
                typer.echo(f"  {number:>6}  {token}")


def _tokenizers(folder: Path) -> "dict[str, Tokenizer]":
    """The tokenizers of a model, by the names of their folders. If this folder is that of a single
    tokenizer, return only that one."""
    from translucid.data.tokenizers.tokenizer import Tokenizer

    for place in (folder, folder / "best"):
        names = [n for n in ("tokenizer", "source", "target") if (place / n).is_dir()]
        if names:
            return {name: Tokenizer.load(place / name) for name in names}
    return {folder.name: Tokenizer.load(folder)}
