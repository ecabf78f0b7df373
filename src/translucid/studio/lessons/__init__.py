"""The lessons included in the package, by the ids used in page addresses.

A tour works with any model that has the parts it explains. A station of *Start here* has its own
model and sentence. docs/guides/lessons.md explains how to write a lesson.
"""

from translucid.studio.lesson import Lesson
from translucid.studio.lessons import (
    opening,
    station_1_neuron,
    station_2_layers,
    station_3_vectors,
    station_4_rnn,
    station_5_lstm,
    station_6_attention,
    station_7_transformer,
    tour_recurrent,
    tour_transformer,
)

TOURS: dict[str, Lesson] = {"attn": tour_transformer.lesson, "gates": tour_recurrent.lesson}
STATIONS: dict[str, Lesson] = {
    "neuron": station_1_neuron.lesson,
    "layers": station_2_layers.lesson,
    "vectors": station_3_vectors.lesson,
    "rnn": station_4_rnn.lesson,
    "lstm": station_5_lstm.lesson,
    "attention": station_6_attention.lesson,
    "transformer": station_7_transformer.lesson,
}
OPENING: dict[str, Lesson] = {"opening": opening.lesson}  # shown on the first page
