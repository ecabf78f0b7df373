"""The lessons that come with the package, by the ids that addresses name.

A tour is for any model that has the parts. A station of *Start here* has a model and a sentence of
its own. docs/guides/lessons.md explains how to write one.
"""

from translucid.studio.lesson import Lesson
from translucid.studio.lessons import (
    attention,
    attn,
    gates,
    layers,
    lstm,
    neuron,
    opening,
    rnn,
    transformer,
    vectors,
)

TOURS: dict[str, Lesson] = {"attn": attn.lesson, "gates": gates.lesson}
STATIONS: dict[str, Lesson] = {
    "neuron": neuron.lesson,
    "layers": layers.lesson,
    "vectors": vectors.lesson,
    "rnn": rnn.lesson,
    "lstm": lstm.lesson,
    "attention": attention.lesson,
    "transformer": transformer.lesson,
}
OPENING: dict[str, Lesson] = {"opening": opening.lesson}  # what the first page shows
