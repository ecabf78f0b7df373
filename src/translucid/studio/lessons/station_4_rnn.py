"""Station 4 of *Start here*: a recurrent network, and backpropagation through time."""

from translucid.studio.lesson import Answer, Lesson, SentenceLacks, Stop, right, wrong

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
    do="Press Edit and write a sentence that begins with “The dog”. How many times as likely as "
    "“are” is “is” after it? Type the number with 1 decimal.",
)
def your_turn(run):
    subject = run.point(EMBEDDING).row_of("dogs", "dog")
    plural, singular = run.probability(subject, "are"), run.probability(subject, "is")
    say = (
        f"What if nothing comes in between? Directly after {subject} the model gives “are” "
        f"{plural} and “is” {singular}."
    )
    if subject.word == "dogs" and plural >= 2 * singular:
        say += f" Here the correct form is {plural / singular:.1f} times as likely."
    likeliest = run.prediction(subject)
    if likeliest.word not in ("is", "are"):
        say += f" The likeliest word is {likeliest.word}, with {likeliest.probability}."
    return Stop(say)


@your_turn.answer
def is_against_are(run, page):
    if run.text.lower().split()[:2] != ["the", "dog"]:
        return wrong("This sentence does not begin with “The dog”.")
    subject = run.point(EMBEDDING).row_of("dog")
    plural, singular = run.probability(subject, "are"), run.probability(subject, "is")
    form = "the correct form" if singular > plural else "the wrong form, even"
    return Answer(
        singular / plural,
        decimals=1,
        slips={
            "divide the probability of “is” by that of “are”.": plural / singular,
            "divide; do not subtract.": singular - plural,
        },
        say=f"“is” has {singular} and “are” {plural}: it prefers {form} with nothing in between.",
    )


@lesson.stop(
    "Learning through time",
    view="recurrent",
    do="What fraction of the gradient's norm arrives at the subject? Divide the last number by the "
    "first, and type it with 2 decimals.",
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


@learning_through_time.answer
def fraction_that_arrives(run, page):
    hidden = run.point(HIDDEN)
    at_subject, at_between, at_last = (
        float(run.gradient_norm(hidden, word, target=find_clause(run)[2]))
        for word in find_clause(run)
    )
    return Answer(
        at_subject / at_last,
        slips={
            "divide the last number by the first.": at_last / at_subject,
            "that is the fraction that arrives at the word in between.": at_between / at_last,
            "divide by the first number, not by the second.": at_subject / at_between,
            "divide; do not subtract.": at_last - at_subject,
        },
    )


@lesson.stop(
    "One step back",
    view="recurrent",
    do="By what factor does the norm change in this step? Type it with 2 decimals.",
)
def one_step_back(run):
    hidden, (before, last, at_before, at_last) = run.point(HIDDEN), last_step(run)
    return Stop(
        "The recursion: the gradient at a state is the gradient at the next state, each unit times "
        "the slope of tanh there, 1 − h², then times Uᵀ: ∂L/∂h(t−1) = Uᵀ ((1 − h(t)²) · ∂L/∂h(t)). "
        f"From {last} one step back to {before}, its norm changes from {at_last} to {at_before}.",
        at=hidden,
        pin=[before, last],
    )


@one_step_back.answer
def factor_of_one_step(run, page):
    _, _, at_before, at_last = last_step(run)
    return Answer(
        at_before / at_last,
        slips={
            "divide the norm one step back by the norm before that step.": at_last / at_before,
            "divide; do not subtract.": at_last - at_before,
        },
        say="A factor above 1 lets it grow, one below 1 lets it shrink.",
    )


def last_step(run):
    """The last word before the verb and the word before it, each with the norm of its gradient."""
    hidden = run.point(HIDDEN)
    last = hidden.row_writing("are", "is")
    before = hidden.row(last.place - 1)
    return (
        before,
        last,
        run.gradient_norm(hidden, before, target=last),
        run.gradient_norm(hidden, last, target=last),
    )


FAR = 10  # words


@lesson.stop(
    "Longer distances",
    view="recurrent",
    do="Press Edit and read “The cat that the woman knows and the boy that the old man sees are "
    "tired.” Which of the listed words has the largest norm? Type it.",
)
def longer_distances(run):
    norms = norms_on_the_way_back(run)
    (last, first_norm), *_, (word, last_norm) = norms
    listed = ", ".join(f"{norm} at {row}" for row, norm in norms)
    say = f"The norms of the gradient on the way back, for the error at {last.next}: {listed}. "
    if any(norm > first_norm for _, norm in norms):
        say += "At some words the gradient is larger than where it starts: it has grown. "
    if last_norm < first_norm:
        say += f"At {word}, {last.place - word.place} words back, it is smaller than at {last}."
    return Stop(say, pin=[row for row, _ in norms])


def norms_on_the_way_back(run):
    """The last word before the verb and words 1, 2, 5 and 12 steps back, with their norms."""
    hidden = run.point(HIDDEN)
    last = hidden.row_writing("are", "is")
    rows = [hidden.row(last.place - back) for back in (0, 1, 2, 5, 12) if back < last.place]
    return [(row, run.gradient_norm(hidden, row, target=last)) for row in rows]


@longer_distances.answer
def where_it_is_largest(run, page):
    norms = norms_on_the_way_back(run)
    if norms[0][0].place < FAR:
        return wrong(f"This sentence has fewer than {FAR} words before the verb.")
    largest, _ = max(norms, key=lambda pair: pair[1])
    return Answer(largest, slips={"there the gradient starts; compare the norms.": norms[0][0]})


U, STATE, STEPS = 1.5, 0.2, 10  # of a network with one unit


@lesson.stop(
    "Why it can fade, or grow",
    view="recurrent",
    unit=0,
    do=f"Suppose there is a single unit, U is {U} and every state is {STATE}. By what factor does "
    f"the gradient change in {STEPS} steps back? Type it with 1 decimal.",
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


@why_it_can_fade.answer
def ten_steps_of_one_unit(run, page):
    slope = 1 - STATE**2
    return Answer(
        (U * slope) ** STEPS,
        decimals=1,
        slips={
            "that is a single step.": U * slope,
            "multiply the factors of the steps; do not add them.": STEPS * U * slope,
            "each step has the slope of tanh, 1 − h², too.": U**STEPS,
            "the slope is 1 − h²; square the state.": (U * (1 - STATE)) ** STEPS,
            "each step multiplies by U, too.": slope**STEPS,
        },
        say=f"Such a gradient explodes. If U were 1, the factor would be {slope**STEPS:.2f}.",
    )


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
