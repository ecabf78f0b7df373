"""The lesson on the first page: one attention weight of a translation model, for any sentence."""

import math
from contextlib import suppress

from translucid.studio.lesson import Lesson, SentenceLacks, Stop, written

lesson = Lesson(
    name="Start here",
    teaches="One number of a translator: how much of its attention a head gives to not while it "
    "writes nicht.",
    model="demo:translate",
    text="The dog does not sleep.",
    needs={"decoder.layers.?.cross_attention.pattern": "it has no cross-attention"},
)
HEAD = 2  # the head that links not to nicht


@lesson.stop("One number", view="attention", kind="cross")
def one_number(run):
    attention = run.point(
        "decoder.layers.1.cross_attention.pattern", "decoder.layers.0.cross_attention.pattern"
    )
    with suppress(SentenceLacks):
        return from_nicht_to_not(run, attention)
    with suppress(SentenceLacks):
        return strongest_link(run, attention)
    return second_word(run, attention)


def from_nicht_to_not(run, attention):
    row, column = attention.row_writing("nicht"), attention.column_of("not")
    weight = attention[HEAD, row, column]
    if weight < 0.5:
        raise SentenceLacks("nicht attends elsewhere")
    return shown(
        run, attention, HEAD, row, column,
        f"To write {row.next}, the network looks back at the English words: {weight} of its "
        f"attention goes to {column} (decoder layer {attention.layer}, head {HEAD}; the mean of "
        f"the {attention.shape[0]} heads is {attention.mean_over_heads(row, column)}). Its "
        "training data, pairs of sentences, does not say which words belong together.",
    )  # fmt: skip


def strongest_link(run, attention):
    head, row, column = attention.strongest_link()
    return shown(
        run, attention, head, row, column,
        f"A strong link of this sentence to another position. After reading {row}, the decoder "
        f"writes {row.next}: in decoder layer {attention.layer}, head {head} gives "
        f"{attention[head, row, column]} of its attention to {column}; the mean of the "
        f"{attention.shape[0]} heads is {attention.mean_over_heads(row, column)}.",
    )  # fmt: skip


def second_word(run, attention):
    row = attention.row_up_to(1)
    column = attention.largest(HEAD, row)
    return shown(
        run, attention, HEAD, row, column,
        "In this sentence no written word attends strongly to a source word at another position. "
        f"After reading {row}, the decoder writes {row.next}: in decoder layer {attention.layer}, "
        f"head {HEAD} gives {attention[HEAD, row, column]} of its attention to {column}.",
    )  # fmt: skip


def shown(run, attention, head, row, column, say):
    """A stop with the text `say`. As what to try, it shows how the softmax computes one attention
    weight."""
    scores = run.point(f"{attention.part}.scaled")
    total = sum(math.exp(scores[head, row, key]) for key in range(attention.shape[-1]))
    score = scores[head, row, column]
    return Stop(
        say,
        do=f"exp({score}) ÷ {written(total)} = {written(math.exp(score))} ÷ {written(total)} = "
        f"{attention[head, row, column]}",
        at=attention,
        layer=attention.layer,
        head=head,
        pin=[row, column],
    )
