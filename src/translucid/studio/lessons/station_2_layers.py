"""Station 2 of *Start here*: what a hidden layer is for, and gradient descent."""

from translucid.studio.lesson import Answer, Lesson, Stop, right, wrong

lesson = Lesson(
    name="XOR, and a second layer",
    teaches="What a hidden layer is for, how an activation bends what a line cannot, how an "
    "answer is worked out layer by layer, and how gradient descent finds the weights.",
    model="demo:regress",
    text="0 1",
    needs={"layers.0.dense.activation": "it has no hidden layer"},
)
SCALED_INPUT = "standardise.output"
WEIGHTED_SUM = "layers.0.dense.preactivation"
HIDDEN = "layers.0.dense.activation"
OUTPUT = "output.dense.activation"


@lesson.stop("XOR", view="flow", at=OUTPUT, do="Press Edit and try all four corners of the square.")
def xor(run):
    return Stop(
        "This network was trained on XOR: one of the two numbers, but not both. A single line is "
        "right at 3 of the 4 corners, never at all 4. With a hidden layer: for "
        f"{run.input(0):g} and {run.input(1):g} it outputs {run.point(OUTPUT)[0]}."
    )


@lesson.stop("Inputs at one scale", view="flow", do="Which input value would become 0?")
def inputs_at_one_scale(run):
    scaled = run.point(SCALED_INPUT, lacks="it takes its inputs as they are")
    return Stop(
        f"First each input is measured in standard deviations from its mean: {run.input(0):g} "
        f"becomes {scaled[0]}, {run.input(1):g} becomes {scaled[1]}. This way neither input "
        "dominates the other.",
        at=scaled,
    )


@lesson.stop("Hidden neurons", view="flow", at=HIDDEN, do="Click one of them in the middle box.")
def hidden_neurons(run):
    hidden = run.point(HIDDEN)
    return Stop(
        f"Then come {hidden.shape[0]:,} neurons side by side. Each has weights of its own, and so "
        f"a line of its own. They output {hidden[0]}, {hidden[1]}, {hidden[2]}, {hidden[3]}."
    )


@lesson.stop(
    "One of them",
    view="flow",
    at=WEIGHTED_SUM,
    i=0,
    do="Choose preactivation in the panel's list.",
)
def one_of_them(run):
    scaled = run.point(SCALED_INPUT)
    weight, bias = "layers.0.linear.weight", "layers.0.linear.bias"
    return Stop(
        f"The first: {run.weight(weight, 0, 0)} × {scaled[0]} + {run.weight(weight, 0, 1)} × "
        f"{scaled[1]} + {run.weight(bias, 0)} = {run.point(WEIGHTED_SUM)[0]}. A weighted sum, as "
        "before."
    )


@lesson.stop(
    "The activation",
    view="flow",
    at=HIDDEN,
    i=0,
    do="What is the slope of tanh for the second neuron? Type it with 2 decimals.",
)
def the_activation(run):
    return Stop(
        f"The sum passes through an activation function: tanh of {run.point(WEIGHTED_SUM)[0]} is "
        f"{run.point(HIDDEN)[0]}; for the second neuron, tanh of {run.point(WEIGHTED_SUM)[1]} is "
        f"{run.point(HIDDEN)[1]}. tanh is smooth: it has a slope everywhere, 1 − tanh². That makes "
        "learning by gradients possible."
    )


@the_activation.answer
def slope_of_the_second(run, page):
    total, active = float(run.point(WEIGHTED_SUM)[1]), float(run.point(HIDDEN)[1])
    return Answer(
        1 - active**2,
        slips={
            "the slope is 1 − tanh²; square it.": 1 - active,
            "subtract the square from 1.": active**2,
            "that is the value of tanh, not its slope.": active,
            "h (1 − h) is the slope of the sigmoid.": active * (1 - active),
            "square tanh of the sum, not the sum.": 1 - total**2,
            "subtract the square; do not add it.": 1 + active**2,
        },
    )


@lesson.stop(
    "The answer",
    view="flow",
    at=OUTPUT,
    do="What does the second hidden neuron add to this answer? Type it with 2 decimals.",
)
def the_answer(run):
    hidden = run.point(HIDDEN)
    terms = " + ".join(
        f"{run.weight('output.linear.weight', 0, unit)} × {hidden[unit]}" for unit in range(4)
    )
    return Stop(
        f"The output is another weighted sum: {terms} + {run.weight('output.linear.bias', 0)} = "
        f"{run.point(OUTPUT)[0]}."
    )


@the_answer.answer
def part_of_the_second(run, page):
    active = float(run.point(HIDDEN)[1])
    weight = float(run.weight("output.linear.weight", 0, 1))
    return Answer(
        weight * active,
        slips={
            "that is the first neuron's part.": float(run.weight("output.linear.weight", 0, 0))
            * float(run.point(HIDDEN)[0]),
            "multiply its value by its weight.": active,
            "multiply its weight by its value.": weight,
            "multiply the two; do not add them.": weight + active,
            "that is the whole answer.": float(run.point(OUTPUT)[0]),
        },
    )


@lesson.stop(
    "Your turn",
    view="flow",
    at=OUTPUT,
    do="Press Edit and find two numbers for which it outputs nearly 0. Then press Check.",
)
def your_turn(run):
    return Stop(
        f"For {run.input(0):g} and {run.input(1):g} it outputs {run.point(OUTPUT)[0]}. Two "
        "parallel lines can cut a strip out of the plane; that is what XOR needs."
    )


@your_turn.check
def says_nearly_0(run, page):
    answer = run.point(OUTPUT)[0]
    if -0.2 <= answer <= 0.2:
        return right(f"Yes: for {run.input(0):g} and {run.input(1):g} it outputs {answer}.")
    return wrong(f"It outputs {answer}. Try both inputs high, or both low.")


@lesson.stop(
    "Without the layer",
    view="whatif",
    off="layers.0",
    do="Switch it on and off in the list, and look at the answer.",
)
def without_the_layer(run):
    return Stop(
        "What does the hidden layer do? Here it is switched off: nothing passes through it, so "
        f"the output is the last bias, {run.weight('output.linear.bias', 0)}.",
        light=["switch:layers.0"],
    )


@lesson.stop(
    "Before it has learnt",
    view="train",
    problem="xor",
    step=0,
    do="Press Step: all weights move a little, each against its gradient.",
)
def before_it_has_learnt(run):
    start = run.training(problem="xor", step=0)
    return Stop(
        "Another network of the same shape, with weights drawn at random. It gets "
        f"{start.mistakes} points wrong. The loss, {start.loss}, is half the squared error, "
        "averaged over the points."
    )


@before_it_has_learnt.check
def has_taken_a_step(run, page):
    if page.step >= 1:
        return right(
            "In a step of gradient descent, each weight moves by its gradient times the learning "
            f"rate. You have taken {page.step}."
        )
    return wrong("It has taken no step yet: press Step.")


@lesson.stop(
    "Gradient descent",
    view="train",
    problem="xor",
    step=0,
    do="Press Run until every point is right. Then press Check.",
)
def gradient_descent(run):
    return Stop(
        "Step after step the boundary turns and bends. The gradient of the loss alone decides "
        "what the hidden neurons detect."
    )


@gradient_descent.check
def has_learnt_xor(run, page):
    if page.problem == "xor" and page.training.mistakes == 0:
        return right(f"All points are right after {page.step} steps.")
    return wrong(f"It still makes {page.training.mistakes} mistakes: continue.")


BAD_START = {"problem": "xor", "seed": 0, "step": 200}


@lesson.stop(
    "A bad start",
    view="train",
    **BAD_START,
    do="Press New start until you find one that learns, and run it. Then press Check.",
)
def a_bad_start(run):
    training = run.training(**BAD_START)
    say = "Training does not always succeed. "
    if training.mistakes >= 1:
        say += (
            f"From these first weights, the same training still gets {training.mistakes} points "
            f"wrong after {training.step} steps, with a loss of {training.loss}: small steps "
            "downhill have not led it to weights that fit every point."
        )
    return Stop(say)


@a_bad_start.check
def has_learnt_from_another_start(run, page):
    if page.problem == "xor" and page.training.mistakes == 0:
        return right(f"From this start it learns: no mistakes after {page.step} steps.")
    return wrong(f"With this start it makes {page.training.mistakes} mistakes at step {page.step}.")
