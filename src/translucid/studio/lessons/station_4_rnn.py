"""Station 4 of *Start here*: a recurrent network, and backpropagation through time."""

from translucid.studio.lesson import Lesson, SentenceLacks, Stop, right, wrong

lesson = Lesson(
    name="A network that remembers",
    teaches="How a recurrent network reads one word after the other, what its state carries on, "
    "how backpropagation through time brings the error back, and why it fades.",
    model="demo:generate-rnn",
    text="The dogs that the old man sees are tired.",
    needs={"decoder.recurrent.layers.0.rnn.hidden": "it is not a plain RNN"},
)
EMBEDDING = "decoder.embedding.lookup"
WEIGHTED_SUM = "decoder.recurrent.layers.0.rnn.preactivation"
HIDDEN = "decoder.recurrent.layers.0.rnn.hidden"
LAYER = "decoder.recurrent.layers.0"  # a switch


def find_clause(run):
    """Find the subject, the noun between it and the verb, and the last word before the verb."""
    hidden = run.point(HIDDEN)
    before_verb = hidden.row_of("sees")
    return hidden.row_of("dogs", "dog"), hidden.row_of("man"), before_verb


@lesson.stop(
    "One word at a time",
    view="recurrent",
    do="Move along the words: every column is one step of reading.",
)
def one_word_at_a_time(run):
    word = run.point(EMBEDDING).row_up_to(2)
    likeliest = run.prediction(word)
    return Stop(
        "This model reads a sentence word by word and predicts the next word after each. After "
        f"{word} the likeliest is {likeliest.word}, with {likeliest.probability}."
    )


@lesson.stop(
    "The state",
    view="recurrent",
    unit=0,
    do="Look along a row: which units change at every word, which keep their value?",
)
def the_state(run):
    hidden = run.point(HIDDEN)
    first, second = hidden.row_up_to(1), hidden.row_up_to(2)
    return Stop(
        f"All it keeps of what it has read is its state: {hidden.shape[1]:,} numbers. After "
        f"{first} they begin {hidden[first, 0]}, {hidden[first, 1]}, {hidden[first, 2]}; one word "
        f"later {hidden[second, 0]}, {hidden[second, 1]}, {hidden[second, 2]}.",
        pin=[second],
    )


@lesson.stop(
    "The step",
    view="flow",
    at=WEIGHTED_SUM,
    do="The step is worked out in the panel: W x + U h + b.",
)
def the_step(run):
    weighted_sum = run.point(WEIGHTED_SUM)
    word = weighted_sum.row_up_to(2)
    return Stop(
        "The new state is computed from two things: the next word and the state before. Weighted "
        f"and summed, unit 0 gets {weighted_sum[word, 0]} at {word}.",
        i=(word, 0),
        pin=[word],
    )


@lesson.stop(
    "The activation",
    view="recurrent",
    unit=0,
    do="Which units are near −1 or 1? There tanh is flat, and little of the gradient passes back.",
)
def the_activation(run):
    hidden, weighted_sum = run.point(HIDDEN), run.point(WEIGHTED_SUM)
    word = hidden.row_up_to(2)
    return Stop(
        f"tanh keeps the state between −1 and 1: tanh of {weighted_sum[word, 0]} is "
        f"{hidden[word, 0]}. Without it the state could grow from step to step without limit.",
        pin=[word],
    )


@lesson.stop(
    "A unit of your choice",
    view="recurrent",
    unit=0,
    do="Click a unit other than 0. Then press Check.",
)
def a_unit_of_your_choice(run):
    return Stop(
        "Each unit has a value of its own after each word. The list on the left sorts the units "
        "by how much they change; what a unit responds to is rarely obvious."
    )


@a_unit_of_your_choice.check
def another_unit_is_chosen(run, page):
    if page.view == "recurrent" and page.unit >= 1:
        return right(f"Unit {page.unit}. Try a few: which one changes most at the verb?")
    return wrong("This is still unit 0: click another row or another unit.")


@lesson.stop(
    "What is remembered",
    view="recurrent",
    do="Press Edit and write “dog” instead of “dogs”: what changes?",
)
def what_is_remembered(run):
    subject, between, before_verb = find_clause(run)
    plural, singular = run.probability(before_verb, "are"), run.probability(before_verb, "is")
    if plural < 2 * singular and singular < 2 * plural:
        remembered = (
            "These differ by less than a factor of 2: it has nearly lost whether the subject was "
            "plural."
        )
    else:
        remembered = "It still distinguishes the two."
    return Stop(
        f"The verb belongs to {subject}, not to {between}. After {before_verb} the model gives "
        f"“are” {plural} and “is” {singular}. {remembered}",
        pin=[subject, before_verb],
    )


@lesson.stop(
    "Your turn",
    view="recurrent",
    do="Write a sentence that begins with “The dog”, and compare “is” and “are” after it. Then "
    "press Check.",
)
def your_turn(run):
    subject = run.point(EMBEDDING).row_of("dogs", "dog")
    plural, singular = run.probability(subject, "are"), run.probability(subject, "is")
    say = (
        f"What if nothing comes in between? Directly after {subject} the model gives “are” "
        f"{plural} and “is” {singular}."
    )
    correct, incorrect = (plural, singular) if subject.word == "dogs" else (singular, plural)
    if correct >= 2 * incorrect:
        say += f" Here the correct form is {correct / incorrect:.1f} times as likely."
    likeliest = run.prediction(subject)
    if likeliest.word not in ("is", "are"):
        say += f" The likeliest word is {likeliest.word}, with {likeliest.probability}."
    return Stop(say)


@your_turn.check
def begins_with_the_dog(run, page):
    if run.text.lower().split()[:2] != ["the", "dog"]:
        return wrong("This sentence does not begin with “The dog”.")
    subject = run.point(EMBEDDING).row_of("dog")
    plural, singular = run.probability(subject, "are"), run.probability(subject, "is")
    form = "the correct form" if singular > plural else "the wrong form, even"
    return right(
        f"Directly after {subject} the model gives “is” {singular} and “are” {plural}: it prefers "
        f"{form} with nothing in between."
    )


@lesson.stop(
    "Learning through time",
    view="recurrent",
    do="Divide the last by the first: that fraction of the gradient's norm arrives.",
)
def learning_through_time(run):
    hidden = run.point(HIDDEN)
    subject, between, last = find_clause(run)
    return Stop(
        f"How could it learn to remember? The error at {last.next} is propagated back, step by "
        f"step, to the state at {subject} (backpropagation through time). At {last} the norm of "
        f"its gradient is {run.gradient_norm(hidden, last, target=last)}, at {between} "
        f"{run.gradient_norm(hidden, between, target=last)}, at {subject} "
        f"{run.gradient_norm(hidden, subject, target=last)}.",
        pin=[subject, last],
    )


@lesson.stop(
    "Why it can fade",
    view="recurrent",
    unit=0,
    do="Look for a unit near 1 or −1: its slope is nearly 0.",
)
def why_it_can_fade(run):
    hidden = run.point(HIDDEN)
    word = hidden.row_up_to(2)
    return Stop(
        "At every step back the gradient is multiplied by the same matrix U and by the slope of "
        f"tanh, which is 1 − h², a number from 0 to 1. For unit 0 at {word} it is 1 − "
        f"{hidden[word, 0]}². {what_the_gradient_does(run, hidden)}",
        pin=[word],
    )


def what_the_gradient_does(run, hidden):
    unknown = "The product of these factors can shrink the gradient, or let it grow."
    try:
        subject, last = hidden.row_of("dogs", "dog"), hidden.row_of("sees")
    except SentenceLacks:
        return unknown
    at_subject = run.gradient_norm(hidden, subject, target=last)
    at_last = run.gradient_norm(hidden, last, target=last)
    if at_subject < at_last:
        return (
            f"Here the gradient shrinks from {at_last} at {last} to {at_subject} at {subject}; "
            "over more words such a product can vanish."
        )
    return unknown


@lesson.stop(
    "Without its state",
    view="whatif",
    do="Switch the layer off in the list of parts, and look at the next words. Then press Check.",
)
def without_its_state(run):
    return Stop(
        "What does the state do? With the recurrent layer switched off, its output is 0 at every "
        "word."
    )


@without_its_state.check
def layer_is_off(run, page):
    if page.is_off(LAYER) and page.answer_changed:
        return right("Without its state it predicts the same after every word.")
    return wrong("The layer is still on: click it in the list of parts.")


@lesson.stop(
    "What comes next",
    view="recurrent",
    do="Press Next station, or choose another one on the first page.",
)
def what_comes_next(run):
    return Stop(
        "Two remedies: gates that let the state pass unchanged (the next station), and attention "
        "to all words directly (the one after)."
    )
