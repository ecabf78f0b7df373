"""Station 5 of *Start here*: the gates of an LSTM."""

from translucid.studio.lesson import Answer, Lesson, Stop, right, wrong

LSTM = "encoder.recurrent.layers.0.lstm"
lesson = Lesson(
    name="Gates",
    teaches="How an LSTM decides what to forget, what to write and what to show, with the numbers "
    "of one that distinguishes praise from blame, and what happens if a gate is held.",
    model="demo:classify",
    text="The food was on the table.",
    needs={f"{LSTM}.forget_gate": "it has no LSTM that reads the text from left to right alone"},
)


class OneUnit:
    """The unit with the largest cell state at the fourth word."""

    def __init__(self, run):
        self.forget_gate = run.point(f"{LSTM}.forget_gate")
        self.cell = run.point(f"{LSTM}.cell")
        self.before, self.word = self.forget_gate.row_up_to(2), self.forget_gate.row_up_to(3)
        self.unit = self.cell.largest(self.word)
        self.view = {"unit": self.unit, "pin": [self.word]}
        self.run = run

    def now(self, name):
        """The value of one of the layer's gates or states, for this unit at the fourth word."""
        return self.run.point(f"{LSTM}.{name}")[self.word, self.unit]


@lesson.stop("Two states", view="recurrent", do="Move along the words: gates above, states below.")
def two_states(run):
    cell = run.point(f"{LSTM}.cell")
    return Stop(
        f"An LSTM carries two vectors of {cell.shape[1]:,} numbers from word to word: the cell, "
        "which can pass unchanged, and the hidden state h, which other parts see. This one reads "
        f"a sentence and answers: {run.answer}."
    )


@lesson.stop(
    "A gate",
    view="recurrent",
    do="Move along the row of the forget gate, and read the numbers in the status bar.",
)
def a_gate(run):
    at = OneUnit(run)
    return Stop(
        f"A gate is a number between 0 and 1 for every unit. The forget gate of unit {at.unit} is "
        f"{at.now('forget_gate')} at {at.word}: that fraction of the old cell stays. 1 keeps "
        "everything, 0 forgets everything.",
        **at.view,
        light=["gate:forget_gate"],
    )


@lesson.stop("Where it comes from", view="recurrent", do="Its sum is worked out in the panel.")
def where_it_comes_from(run):
    at = OneUnit(run)
    return Stop(
        "A gate is a small network of its own: a weighted sum of the word and of the previous h, "
        f"here {at.now('forget_sum')}, mapped to a number between 0 and 1 by the logistic "
        f"function, which gives {at.now('forget_gate')}.",
        **at.view,
    )


@lesson.stop(
    "What is new",
    view="recurrent",
    do="Which words open the input gate, which leave it closed?",
)
def what_is_new(run):
    at = OneUnit(run)
    return Stop(
        f"The candidate is what the cell might store: {at.now('candidate')} at {at.word}. The "
        f"input gate controls how much of it is stored: {at.now('input_gate')}.",
        **at.view,
        light=["gate:input_gate"],
    )


@lesson.stop(
    "One step by hand",
    view="recurrent",
    do="What would the new cell be if the forget gate were 1? Type it with 2 decimals.",
)
def one_step_by_hand(run):
    at = OneUnit(run)
    say = (
        "The new cell is the forget gate times the old cell plus the input gate times the "
        f"candidate: {at.now('forget_gate')} × {at.cell[at.before, at.unit]} + "
        f"{at.now('input_gate')} × {at.now('candidate')} = {at.now('cell')}. The old cell is "
        "multiplied by the forget gate, not by a matrix. "
    )
    if at.now("forget_gate") < 1:
        say += "Where the gate stays near 1, the cell lasts; elsewhere the cell fades too."
    return Stop(say, unit=at.unit, pin=[at.word, at.before])


@one_step_by_hand.answer
def cell_that_forgets_nothing(run, page):
    at = OneUnit(run)
    old, new = float(at.cell[at.before, at.unit]), float(at.now("candidate"))
    write, keep = float(at.now("input_gate")), float(at.now("forget_gate"))
    return Answer(
        old + write * new,
        slips={
            "with the forget gate at 1, all of the old cell stays.": keep * old + write * new,
            "multiply the candidate by the input gate.": old + new,
            "add the old cell, too.": write * new,
            "with the forget gate at 1, the old cell stays; it is not lost.": new,
            "only the forget gate is 1; the input gate stays as it is.": keep + write * new,
        },
    )


@lesson.stop(
    "What is shown",
    view="recurrent",
    do="Look for a unit whose cell is large and whose h is small.",
)
def what_is_shown(run):
    at = OneUnit(run)
    return Stop(
        f"The output gate, {at.now('output_gate')}, controls how much of the cell is shown: times "
        f"tanh of {at.now('cell')} that gives {at.now('hidden')}. A unit can store something now "
        "and show it later.",
        **at.view,
        light=["gate:output_gate"],
    )


def mean_at_lowest(run):
    """The word at which the forget gates are lowest, and their mean there."""
    forget_gate = run.point(f"{LSTM}.forget_gate")
    word = forget_gate.lowest_row()
    return word, float(forget_gate.values(word).mean())


@lesson.stop(
    "Make the forget gate close",
    view="recurrent",
    do="Press Edit and write a sentence in which the forget gates fall below one half on average "
    "at some word. Then press Check.",
)
def make_the_forget_gate_close(run):
    word, mean = mean_at_lowest(run)
    if mean >= 0.5:
        lowest = (
            "At every word of this sentence the forget gates keep at least half of the cell on "
            f"average; they are lowest at {word}."
        )
    else:
        lowest = f"In this sentence the forget gates fall below one half on average at {word}."
    return Stop(
        f"{lowest} The model was trained to distinguish praise from blame: what could make it "
        "discard what it knows?"
    )


@make_the_forget_gate_close.check
def forget_gates_close(run, page):
    word, mean = mean_at_lowest(run)
    if mean < 0.5:
        return right(f"At {word} they fall below one half. The model answers {run.answer}.")
    return wrong(
        f"Not yet; they are lowest at {word}. Try a word of praise or blame, such as “The food was "
        "…”"
    )


@lesson.stop(
    "Not bad",
    view="recurrent",
    do="Write a sentence with “bad” in it that the model calls positive. Then press Check.",
)
def not_bad(run):
    return Stop(
        "One word can reverse the meaning of another. The model reads from left to right, so at "
        "the second word its state must still contain something of the first."
    )


@not_bad.check
def bad_is_positive(run, page):
    if run.reads("bad") and run.says("positive"):
        return right(
            f"It answers {run.answer}: the negation was still in its state when it read “bad”."
        )
    return wrong(
        f"It answers {run.answer}. Does the sentence contain “bad”, and a word that reverses it?"
    )


HELD_OPEN = f"{LSTM}.forget_gate=1"


@lesson.stop(
    "Hold a gate open",
    view="whatif",
    off=HELD_OPEN,
    do="Compare as trained and changed: does the answer change?",
)
def hold_a_gate_open(run):
    return Stop(
        "To see what a gate is for, hold it. Here the forget gate is held at 1: nothing is ever "
        "forgotten, and everything that was written adds up.",
        light=[f"switch:{HELD_OPEN}"],
    )


@lesson.stop(
    "Hold it closed",
    view="whatif",
    do="Set Forget gate = 0 in the list, and find a sentence whose answer changes. Then press "
    "Check.",
)
def hold_it_shut(run):
    return Stop(
        "Now the opposite: with the forget gate at 0, the cell starts from zero at each word. "
        "Earlier words still arrive through h, which the gates and the candidate read."
    )


@hold_it_shut.check
def answer_changes(run, page):
    if page.is_off("forget_gate=0") and page.answer_changed:
        return right(f"With a cell that starts from zero at each word it answers {run.answer}.")
    return wrong(
        "Set Forget gate = 0 in the list; if the answer stays, try another sentence, such as “The "
        "food was not bad.”"
    )


@lesson.stop(
    "The answer",
    view="flow",
    do="The next station attends to all words instead of relying on one state.",
)
def the_answer(run):
    logits = run.point("head.class_logits")
    return Stop(
        f"After the last word the state becomes {logits.shape[0]:,} numbers, one for each label. "
        f"The model answers {run.answer}.",
        at=logits,
    )
