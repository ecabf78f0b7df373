"""Toyland, a built-in synthetic corpus: English sentences with German translations and complete
annotations (alignment, sentiment, entities, ...).

    for sentence in Toyland(seed=0).sentences("train", 20000):
        sentence.source, sentence.target, sentence.alignment, sentence.sentiment, ...

From the bottom up: `lexicon` and `particles` list the words, and `german` inflects them; `phrases`
and `clauses` put words in order; `cast` and `scenes` choose what happens; `sentences`, `nested` and
`opinions` build families (kinds) of sentences; `generate` numbers the sentences; `text_tasks`
generates small tasks; `toyland_files` writes both to files.
"""

from translucid.data.toyland.generate import LABELS, SPLITS, STRUCTURES, Toyland, generate
from translucid.data.toyland.text_tasks import TEXT_TASKS, TaskText, TextTask, TextTasks
from translucid.data.toyland.toyland_files import write_text_task, write_toyland
from translucid.data.toyland.words import Sentence

__all__ = [
    "LABELS", "SPLITS", "STRUCTURES", "TEXT_TASKS", "Sentence", "TaskText", "TextTask", "TextTasks",
    "Toyland", "generate", "write_text_task", "write_toyland",
]  # fmt: skip
