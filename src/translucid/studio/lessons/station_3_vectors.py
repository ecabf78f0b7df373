"""Station 3 of *Start here*: words as vectors."""

import math

from translucid.studio.lesson import Answer, Lesson, Stop, number_stop, right, wrong

lesson = Lesson(
    name="Words as vectors",
    teaches="How a word becomes a row of numbers, what it means that two rows point the same way, "
    "what a vector does not know, and how context comes into it.",
    model="demo:translate",
    text="The dog does not sleep.",
    needs={"encoder.embedding.lookup": "it has no encoder that reads words"},
)
EMBEDDING = "encoder.embedding.lookup"


@lesson.stop(
    "A word is an entry",
    view="flow",
    at=EMBEDDING,
    do="Select a word on the left: its own strand starts there.",
)
def a_word_is_an_entry(run):
    word = run.point(EMBEDDING).row(1)
    return Stop(
        f"To the model {word} is entry {word.id} of its vocabulary. The number itself means "
        "nothing: neighbouring entries need not have anything in common.",
        light=[f"part:{EMBEDDING}"],
    )


@lesson.stop(
    "A row of a table",
    view="flow",
    at=EMBEDDING,
    i=(1, 0),
    do="Click another word: it has a different row.",
)
def a_row_of_a_table(run):
    embedding = run.point(EMBEDDING)
    word = embedding.row(1)
    return Stop(
        f"The entry selects a row of the [embedding table](part:{EMBEDDING}): "
        f"{embedding.shape[1]:,} numbers, learned in training. Those of {word} begin "
        f"{embedding[word, 0]}, {embedding[word, 1]}, {embedding[word, 2]}.",
        pin=[word],
    )


@lesson.stop(
    "What a single number says",
    view="flow",
    at=EMBEDDING,
    i=(1, 2),
    do="Look down a column: is there a pattern you could name?",
)
def what_a_single_number_says(run):
    embedding = run.point(EMBEDDING)
    first, second = embedding.row(0), embedding.row(1)
    return Stop(
        f"One of these numbers alone means little: the third of {second} is "
        f"{embedding[second, 2]}, that of {first} is {embedding[first, 2]}. What counts is the "
        "direction of the whole row."
    )


@lesson.stop(
    "Words in similar directions",
    view="flow",
    at=EMBEDDING,
    do="What is the angle to the second? Type it in degrees, without decimals: it is the angle "
    "whose cosine you see.",
)
def words_in_similar_directions(run):
    word = run.point(EMBEDDING).row_of("not")
    first, second, third, *_ = run.neighbours(word)
    return Stop(
        f"Of all rows, these are closest in direction to that of {word}: {first.word} (cosine "
        f"{first.cosine}), {second.word} ({second.cosine}), {third.word} ({third.cosine}). The "
        f"angle to the first is {first.angle:.0f} degrees. The training data does not say that "
        "these words are related.",
        pin=[word],
    )


@words_in_similar_directions.answer
def angle_to_the_second(run, page):
    first, second, third, *_ = run.neighbours(run.point(EMBEDDING).row_of("not"))
    return Answer(
        second.angle,
        decimals=0,
        slips={
            "type degrees, not radians.": math.radians(second.angle),
            "that is the angle to the first word.": first.angle,
            "that is the angle to the third word.": third.angle,
            "that is the arc sine; take the arc cosine.": 90 - second.angle,
        },
    )


@lesson.stop(
    "Cosine",
    view="flow",
    at=EMBEDDING,
    do="In German the forms of a verb have different endings, so the rows must differ.",
)
def cosine(run):
    verb = run.point(EMBEDDING).row_of("sleep")
    nearest = run.neighbours(verb)[0]
    say = (
        f"The cosine is 1 for the same direction, 0 for a right angle. The word nearest to {verb} "
        f"is {nearest.word}, with {nearest.cosine}, which is an angle of {nearest.angle:.0f} "
        "degrees. "
    )
    if nearest.word == "sleeps":
        say += "It is another form of the same verb."
    return Stop(say, pin=[verb])


@lesson.stop(
    "Nouns",
    view="flow",
    at=EMBEDDING,
    do="What do the neighbours have in common in German? (Think of der, die, das.)",
)
def nouns(run):
    noun = run.point(EMBEDDING).row_of("dog")
    first, second, third, *_ = run.neighbours(noun)
    say = (
        f"The words nearest to {noun} are {first.word} ({first.cosine}), {second.word} "
        f"({second.cosine}) and {third.word} ({third.cosine}). "
    )
    if [first.word, second.word, third.word] == ["teacher", "boy", "student"]:
        say += "They are nouns, too: each can be the subject of a sentence."
    return Stop(say, pin=[noun])


@lesson.stop(
    "Another word",
    view="flow",
    at=EMBEDDING,
    do="Press Edit and write a sentence that contains “never”. What is the translation? Then "
    "press Check.",
)
def another_word(run):
    return Stop("Before the model has read the sentence, all it knows of a word is its row.")


@another_word.check
def reads_never(run, page):
    if run.reads("never"):
        return right(f"The model writes: {run.answer}")
    return wrong("This sentence does not contain “never”.")


@lesson.stop(
    "What the row does not know",
    view="flow",
    i=(1, 0),
    do="Press Edit and use a word twice: both have the same row.",
)
def what_the_row_does_not_know(run):
    scaled = run.point("encoder.embedding.scaled", lacks="it does not scale its rows")
    word = scaled.row(1)
    return Stop(
        "The row of a word is the same at every position: it contains neither the order of the "
        f"words nor the word's neighbours. Scaled by √{scaled.shape[1]:,}, the first number of "
        f"{word} is {scaled[word, 0]}, in this sentence and in any other.",
        at=scaled,
    )


@lesson.stop(
    "Context comes in",
    view="flow",
    i=(1, 0),
    do="Swap a word in What-if and see which vectors change.",
)
def context_comes_in(run):
    embedding = run.point(EMBEDDING)
    output = run.point("encoder.final_norm.output", lacks="it has no final norm")
    word = output.row(1)
    return Stop(
        f"At the end of the encoder the vector of {word} contains information about its "
        f"neighbours. It began {embedding[word, 0]}, {embedding[word, 1]}; now it begins "
        f"{output[word, 0]}, {output[word, 1]}.",
        at=output,
        pin=[word],
    )


@lesson.stop("Back to words", view="flow")
def back_to_words(run):
    row = run.point("decoder.embedding.lookup", lacks="it does not write “nicht”").row_writing(
        "nicht"
    )
    logits, likeliest = run.point("head.logits"), run.prediction(row)
    do = "Click another row: which word does it predict?"
    if run.config("tied"):
        do = f"These are the rows of the embedding table: the model's embeddings are tied. {do}"
    return number_stop(
        "At the end a vector becomes a word again: its dot product with a row for every word is "
        f"that word's [logit](part:{logits}). The softmax turns the logits into probabilities: "
        f"{likeliest.word}, with the logit {logits[row, likeliest.id]}, gets "
        f"{likeliest.probability}.",
        logits[row, likeliest.id],
        row,
        do=do,
    )
