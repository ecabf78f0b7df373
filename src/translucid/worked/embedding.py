"""Exercise: from a sentence to token ids, their vectors, and the vectors with positions."""

import torch
from torch import Tensor

from translucid.core.errors import InputError
from translucid.core.trace import Trace
from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.parts.embedding import Embedding
from translucid.parts.positions import Sinusoidal
from translucid.worked import plain as in_numpy
from translucid.worked.board import Board
from translucid.worked.plain import Program
from translucid.worked.solution.content import SolutionTable, first_and_last, literal
from translucid.worked.solution.numbers import Numbers, many, matrix, shape, whole
from translucid.worked.solution.solution import Solution

EXAMPLE = "the cat sees the dog"
_SHOWN = 16  # maximum rows of the vocabulary; --format json has all


def embedding(
    text: str | None = None,
    *,
    table: Numbers | None = None,
    d: int | str | None = None,
    vocabulary: str | None = None,
    scale: bool = False,
    first: int | str | None = None,
    digits: int = 3,
) -> Solution:
    """From a sentence to ids and vectors.

    Looks up the embedding of each token and adds its position. The vocabulary
    consists of the special tokens and the words of a text.

    text: The sentence to embed, in quotes.
    table: The embedding table E, one row for each id [default: small numbers].
    d: Dimensions of a vector, if there is no table [default: 4].
    vocabulary: The text whose words form the vocabulary [default: the sentence itself].
    scale: Multiply each embedding by √d, as in the original Transformer.
    first: Position of the first token [default: 0].

    Example: translucid work embedding "the cat sees the dog" --d 4
    """
    sentence = EXAMPLE if text is None else text
    for name, given in (("text", sentence), ("vocabulary", vocabulary)):
        if given is not None and not given.split():
            raise InputError(f"{name} is empty; pass a sentence, such as {EXAMPLE!r}")
    tokenizer = _tokenizer(sentence if vocabulary is None else vocabulary)
    ids = tokenizer.encode(sentence)
    start = 0 if first is None else whole(first, "first", least=0)
    rows = _table(table, d, len(tokenizer))
    if rows.shape[1] % 2:
        raise InputError(
            f"table has {rows.shape[1]} columns: sines and cosines come in pairs; "
            "use an even number"
        )
    board = Board(digits)
    _write_ids(board, tokenizer, ids)
    _write_vectors(board, rows, ids, start, scale)
    unknown = tokenizer.tokens(sentence).count("<unk>")
    return board.solution(
        title="From a sentence to vectors",
        notes=(
            (f"{many(unknown, 'word')} not in the vocabulary became <unk>, one id for all.",)
            if unknown
            else ()
        ),
        closing=f"{many(len(ids), 'token')} became a matrix of {len(ids)} x {rows.shape[1]} "
        "numbers, the input of the first layer.",
        next=f"translucid work positions --d {rows.shape[1]} --count {min(len(ids), 16)}"
        if scale
        else "translucid work embedding --scale",
        more="" if scale else "--scale",
        program=None
        if scale
        else Program(in_numpy.embedding, {"table": rows, "ids": ids, "first": start}),
        example=text is None or table is None,
        asked=any(v is not None for v in (text, table, d, vocabulary, first)) or scale,
    )


def _tokenizer(text: str) -> Tokenizer:
    """A word tokenizer whose vocabulary is the words of a text."""
    return Tokenizer.train("word", [text])


def _table(table: Numbers | None, d: int | str | None, vocab: int) -> Tensor:
    """The embedding table. In the built-in one, each entry encodes its row and column."""
    if table is not None:
        rows = matrix(table, "table")
        if d is not None and whole(d, "d") != rows.shape[1]:
            raise InputError(f"d = {d}, but table has {many(rows.shape[1], 'column')}; omit d")
        if len(rows) != vocab:
            raise InputError(
                f"table is {shape(rows)}: it needs one row for each of the {vocab} ids of the "
                "vocabulary, including 4 special tokens"
            )
        return rows
    width = 4 if d is None else whole(d, "d", least=2)
    if width % 2:
        raise InputError(f"d = {width}: sines and cosines come in pairs; try {width + 1}")
    ids, columns = torch.arange(vocab).double()[:, None], torch.arange(width).double()
    return ids / 10 + columns / 100


def _write_ids(board: Board, tokenizer: Tokenizer, ids: list[int]) -> None:
    """Write the vocabulary, the tokens and their ids."""
    pieces = tokenizer.pieces(range(len(tokenizer)))
    rows = [(str(i), literal(piece)) for i, piece in enumerate(pieces)]
    board.section = "From text to ids"
    board.table(
        f"Vocabulary: {len(pieces)} entries, each with its id",
        SolutionTable(("id", "token"), first_and_last(rows, _SHOWN)),
        name="vocabulary",
        value=list(pieces),
        note="Ids count from 0. The first four are special: padding, start, end and unknown word.",
    )
    tokens = tokenizer.pieces(ids)
    board.table(
        "Tokens and their ids",
        SolutionTable(
            ("position", "token", "id"),
            tuple(
                (str(p), literal(token), str(i))
                for p, (token, i) in enumerate(zip(tokens, ids, strict=True))
            ),
        ),
        name="ids",
        value=list(ids),
    )


@torch.no_grad()
def _write_vectors(board: Board, rows: Tensor, ids: list[int], start: int, scale: bool) -> None:
    """Write the lookup, the scaling if requested, and the sum with the positions."""
    part, trace = Embedding(*rows.shape, scale=scale).double(), Trace()
    part.table.weight.copy_(rows)
    x = part(torch.tensor([ids]), trace.at("embedding"))
    places = torch.arange(start, start + len(ids))[None]
    Sinusoidal(rows.shape[1]).add(x, places, trace.at("positions"))
    values = {name.replace(".", "_"): trace[name][0] for name in trace.names("*")}
    board.state("E", rows, name="table")
    board.section = "From ids to vectors"
    onehot = torch.nn.functional.one_hot(torch.tensor(ids), len(rows)).double()
    lookup = values["embedding_lookup"]
    board.step(
        "Lookup: the row of the embedding table for each token id",
        "X",
        r"<onehot> <E>",
        lookup,
        {"onehot": onehot, "E": rows},
        symbols={"onehot": r"\mathrm{onehot}(\mathrm{ids})", "E": "E"},
        name="embedding.lookup",
        note="Row $i$ of $E$ for id $i$ is the same as a product with one-hot rows. A word has the "
        "same vector wherever it occurs.",
    )
    if scale:
        board.step(
            "Scaled: the embedding, scaled to the magnitude of the positional encoding",
            "X'",
            r"\sqrt{<d>} \cdot <X>",
            values["embedding_scaled"],
            {"d": torch.tensor(float(rows.shape[1])), "X": lookup},
            symbols={"d": "d", "X": "X"},
            name="embedding.scaled",
        )
    board.section = "Adding positions"
    encoding = values["positions_encoding"]
    board.step(
        f"Encoding: sines and cosines of the positions {start} to {start + len(ids) - 1}",
        r"\mathrm{PE}",
        "",
        encoding,
        {},
        name="positions.encoding",
        note="The command “work positions” shows how to compute them.",
    )
    output = {"x": x[0], "encoding": encoding, "output": values["positions_output"]}
    board.point(
        "positions.output", output, {"x": "X'" if scale else "X"},
        note="Now the same word has a different vector at each position.",
    )  # fmt: skip
