"""Toyland, the embedded world: English sentences, their German, and everything true about them.

    for sentence in Toyland(seed=0).sentences("train", 20000):
        sentence.source, sentence.target, sentence.alignment, sentence.sentiment, ...

From the bottom up: `lexicon` says what a word is; `nouns`, `verbs`, `adjectives`, `names` and
`particles` list them; `german` inflects; `phrases` and `clauses` put words in order; `cast` and
`scenes` choose what is said; `sentences`, `nested` and `opinions` are the families of sentences;
`generate` numbers them; `views` and `files` hand them out.
"""

from translucid.data.toyland.generate import LABELS, SPLITS, STRUCTURES, Toyland, generate
from translucid.data.toyland.toyland_files import (
    entity_records,
    language_lines,
    pharaoh,
    sentiment_records,
    translation_pairs,
    write_toyland,
)
from translucid.data.toyland.words import Sentence

__all__ = [
    "LABELS",
    "SPLITS",
    "STRUCTURES",
    "Sentence",
    "Toyland",
    "entity_records",
    "generate",
    "language_lines",
    "pharaoh",
    "sentiment_records",
    "translation_pairs",
    "write_toyland",
]
