"""Station 1 of *Start here*: what one neuron computes, and how the perceptron learns."""

from translucid.studio.lesson import Answer, Lesson, Stop, right, wrong

lesson = Lesson(
    name="A neuron, and how it learns",
    teaches="What one neuron computes with two numbers, which line its weights and bias draw, how "
    "the perceptron's rule moves that line, and what no line can do.",
    model="demo:perceptron",
    text="1 1",
    needs={"perceptron.sum": "it is not a perceptron"},
)
SUM, OUTPUT = "perceptron.sum", "perceptron.output"


@lesson.stop(
    "Numbers in, a number out",
    view="flow",
    at=OUTPUT,
    do="Select each of the two boxes: the first is a sum, the second is the neuron's output.",
)
def numbers_in_a_number_out(run):
    return Stop(
        f"A neuron takes numbers and outputs one. This one takes two, {run.input(0):g} and "
        f"{run.input(1):g}, and outputs {run.point(OUTPUT).value}."
    )


@lesson.stop("Weights", view="flow", at=SUM, do="Which of the two inputs counts more?")
def weights(run):
    return Stop(
        f"Each input has a weight: {run.weight('weight', 0)} for x1, {run.weight('weight', 1)} for "
        "x2. A weight controls how much its input counts; with a negative weight, it counts "
        "against."
    )


@lesson.stop(
    "The weighted sum",
    view="flow",
    at=SUM,
    do=f"What is the [sum](part:{SUM}) for the inputs 2 and 1? Type it with 2 decimals.",
)
def the_weighted_sum(run):
    return Stop(
        f"{run.input(0):g} × {run.weight('weight', 0)} + {run.input(1):g} × "
        f"{run.weight('weight', 1)} + {run.weight('bias')} = {run.point(SUM).value}. The last term "
        "is the bias."
    )


@the_weighted_sum.answer
def sum_for_2_and_1(run, page):
    first, second = float(run.weight("weight", 0)), float(run.weight("weight", 1))
    bias = float(run.weight("bias"))
    return Answer(
        2 * first + second + bias,
        slips={
            "add the bias, too.": 2 * first + second,
            "the input 2 belongs to the first weight, the input 1 to the second.": first
            + 2 * second
            + bias,
            "add the bias with its sign.": 2 * first + second - bias,
            "the first input is 2 now, not 1.": first + second + bias,
        },
    )


@lesson.stop("The bias", view="flow", at=SUM, do="Press Edit and give it 0 0: the sum is the bias.")
def the_bias(run):
    bias = run.weight("bias")
    if bias < 0:
        sign = (
            "It is negative: the neuron outputs 1 only where the weighted inputs add up to more "
            "than its size."
        )
    else:
        sign = "It is not negative: the weighted inputs need not make up for it."
    return Stop(f"Where both inputs are 0, the sum is the bias, {bias}. {sign}")


@lesson.stop(
    "The threshold",
    view="flow",
    at=OUTPUT,
    do="Press Edit and find two numbers for which it outputs 0. Then press Check.",
)
def the_threshold(run):
    return Stop(
        f"Above 0 the neuron outputs 1, otherwise 0. The sum is {run.point(SUM).value}, so it "
        f"outputs {run.answer}."
    )


@the_threshold.check
def says_0(run, page):
    total = run.point(SUM).value
    if run.says("0"):
        return right(f"Yes: the sum is {total}, not above 0.")
    return wrong(f"It outputs {run.answer}: the sum is {total}. Try smaller numbers.")


@lesson.stop(
    "A line",
    view="train",
    step=200,
    do="The short line shows the weights: it is at a right angle to the long one.",
)
def a_line(run):
    return Stop(
        "All pairs with a sum of exactly 0 lie on a line. On one side the neuron outputs 1, on "
        "the other 0: the line is all it knows. Here is the line in the plane, with the points of "
        "the training data."
    )


@lesson.stop(
    "Before it has learnt",
    view="train",
    step=0,
    do="Press Step: it looks at one point at a time, and changes the weights where it is wrong.",
)
def before_it_has_learnt(run):
    return Stop(
        "Now from the beginning: all weights are 0, and it outputs 0 for every point. Filled "
        "points should get 1, open ones 0."
    )


@before_it_has_learnt.check
def has_taken_a_step(run, page):
    if page.step >= 1:
        return right(
            f"That was {page.step} of its steps. A point that should get 1 and got 0 is added to "
            "the weights; one that should get 0 and got 1 is subtracted."
        )
    return wrong("It has taken no step yet: press Step.")


@lesson.stop(
    "One step of the rule",
    view="flow",
    at=SUM,
    do="Apply the rule once, as if the point 1 1 should get 0: type the new w1, w2 and bias with 2 "
    "decimals each.",
)
def one_step_of_the_rule(run):
    return Stop(
        "The rule (Rosenblatt): w becomes w + (y − ŷ) x, and the bias becomes b + (y − ŷ), where y "
        f"is what a point should get and ŷ what it gets. This neuron has w1 = "
        f"{run.weight('weight', 0)}, w2 = {run.weight('weight', 1)} and the bias "
        f"{run.weight('bias')}, so the point 1 1 gets {output_for_1_1(run):g}."
    )


def output_for_1_1(run):
    total = run.weight("weight", 0) + run.weight("weight", 1) + run.weight("bias")
    return 1.0 if total > 0 else 0.0


@one_step_of_the_rule.answer
def weights_after_a_step(run, page):
    w = [float(run.weight("weight", i)) for i in (0, 1)]
    bias = float(run.weight("bias"))
    gets = output_for_1_1(run)
    return Answer(
        [w[0] - gets, w[1] - gets, bias - gets],
        slips={
            "y − ŷ is 0 − 1 here: subtract the input.": [w[0] + 1, w[1] + 1, bias + 1],
            "the bias changes, too.": [w[0] - gets, w[1] - gets, bias],
            "the weights change, too.": [*w, bias - gets],
            "type the new weights, not their changes.": [-gets, -gets, -gets],
        },
        say=f"Its sum is {3 * gets:g} less now.",
    )


@lesson.stop(
    "Until it is right",
    view="train",
    step=0,
    do="Press Run until no point lies on the wrong side. Then press Check.",
)
def until_it_is_right(run):
    return Stop(
        "The rule is applied to one point after the other. If a line exists that separates the "
        "points, the rule finds one."
    )


@until_it_is_right.check
def makes_no_mistake(run, page):
    if page.training.mistakes == 0:
        return right(f"No mistake after {page.step} points.")
    return wrong(f"It still makes {page.training.mistakes} mistakes: continue.")


@lesson.stop(
    "Another problem",
    view="train",
    problem="or",
    step=0,
    do="Press Run until OR is learnt. Then press Check.",
)
def another_problem(run):
    return Stop(
        "AND asks for both inputs, OR for one of them. The neuron and the rule are the same; "
        "different points are filled."
    )


@another_problem.check
def has_learnt_or(run, page):
    if page.problem == "or" and page.training.mistakes == 0:
        return right("OR is learnt too, with a different line.")
    return wrong(f"On this problem it still makes {page.training.mistakes} mistakes.")


@lesson.stop(
    "What no line can do",
    view="train",
    problem="xor",
    step=0,
    do="Let it run to the end: does it ever get all of them right? Then press Check.",
)
def what_no_line_can_do(run):
    return Stop(
        "XOR asks for one input but not both. The points that should get 1 lie at opposite "
        "corners: a line is right at 3 of the 4 corners, never at all 4."
    )


@what_no_line_can_do.check
def has_tried_xor(run, page):
    if page.problem == "xor" and page.step >= 150:
        return right(
            f"Still {page.training.mistakes} mistakes, and it would continue forever: no line "
            "separates these points. The next station adds a layer."
        )
    return wrong(f"It has taken {page.step} steps: let it continue.")
