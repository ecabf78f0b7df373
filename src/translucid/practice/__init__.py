"""Exercises with checked answers: draw one, check an answer, and find the step that went wrong.

The topic and the seed determine an exercise, so both functions are pure:

    exercise = practice.draw("attention", seed=7)
    verdict = practice.check("attention", 7, "0.5 0.5; 1 0; 0.25 0.75")
"""

from translucid.core.lazy import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "checking": ["Verdict", "check", "check_answer", "check_steps", "right_answer"],
        "exercise": ["Exercise", "draw"],
        "topic": ["Draw", "Part", "Slip", "Topic", "slip"],
        "topics": ["TOPICS", "find_topic"],
    },
)
