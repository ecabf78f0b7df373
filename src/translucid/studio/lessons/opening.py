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
    for finding in (unknown_word, from_nicht_to_not, strongest_link):
        with suppress(SentenceLacks):
            return finding(run, attention)
    return second_word(run, attention)


def unknown_word(run, attention):
    column = run.unknown_word()
    row = attention.row_attending_to(column)
    return Stop(
        f"{column} is not in the model's [vocabulary](term:vocabulary). The model reads "
        f"[<unk>](term:<unk>) instead, the same [token](term:token) for every unknown word. While "
        f"it writes {row.next}, {attention.mean_over_heads(row, column)} of its attention goes "
        f"there (decoder [layer](term:layer) {attention.layer}, mean of its heads), but it cannot "
        "tell which word it was.",
        do="Choose one of the known words offered above, and read the sentence again.",
        at=attention,
        layer=attention.layer,
        head="mean",
        pin=[row, column],
    )


def from_nicht_to_not(run, attention):
    row, column = attention.row_writing("nicht"), attention.column_of("not")
    head = min(HEAD, attention.shape[0] - 1)
    if attention[head, row, column] < 0.5 or attention.agreed(row) != column:
        raise SentenceLacks("nicht attends elsewhere")
    return shown(
        run, attention, head, row, column,
        f"To write {row.next}, the network looks back at the English words: "
        f"{attention[head, row, column]} of its attention goes to {column} "
        f"({place(attention, head, row, column)}). Its training data, pairs of sentences, does "
        "not say which words belong together.",
    )  # fmt: skip


def place(attention, head, row, column):
    return (
        f"decoder [layer](term:layer) {attention.layer}, [head](term:head) {head}; the mean of "
        f"the {attention.shape[0]} heads is {attention.mean_over_heads(row, column)}"
    )


def strongest_link(run, attention):
    head, row, column = attention.strongest_link()
    return shown(
        run, attention, head, row, column,
        f"To write {row.next}, the network looks back at the English words, here at one in "
        f"another position: {attention[head, row, column]} of its attention goes to {column} "
        f"({place(attention, head, row, column)}).",
    )  # fmt: skip


def second_word(run, attention):
    row = attention.row_up_to(1)
    column = attention.agreed(row)
    head = int(attention.values()[:, row, column].argmax())
    return shown(
        run, attention, head, row, column,
        f"To write {row.next}, the network looks back at the English words: "
        f"{attention[head, row, column]} of its attention goes to {column} "
        f"({place(attention, head, row, column)}). In this sentence, the heads agree on no strong "
        "link to another position.",
    )  # fmt: skip


def shown(run, attention, head, row, column, say):
    """A stop with the text `say`. As what to try, it shows how the softmax computes one attention
    weight, unless the scores have a bias or are too large for exp."""
    weight, scores = attention[head, row, column], run.point(f"{attention.part}.scaled")
    score, powers = scores[head, row, column], scores.values(head, row).double().exp()
    power, total = float(powers[column.place]), float(powers.sum())
    comes_out = math.isfinite(total) and math.isclose(power / total, weight, abs_tol=1e-3)
    return Stop(
        say,
        do=f"exp({score}) ÷ {written(total)} = {written(power)} ÷ {written(total)} = {weight}"
        if comes_out
        else "",
        at=attention,
        layer=attention.layer,
        head=head,
        pin=[row, column],
    )
