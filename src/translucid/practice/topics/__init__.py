"""The topics of practice, in teaching order."""

from translucid.core.errors import InputError, nearest
from translucid.practice.topic import Topic
from translucid.practice.topics import attention, counting, feedforward, norms, recurrent

TOPICS: dict[str, Topic] = {
    topic.name: topic
    for module in (feedforward, norms, recurrent, attention, counting)
    for topic in module.TOPICS
}


def find_topic(name: str) -> Topic:
    if name in TOPICS:
        return TOPICS[name]
    close = nearest(name, TOPICS, 1)
    hint = f"did you mean {close[0]}?" if close else f"the topics are {', '.join(TOPICS)}"
    raise InputError(f"no such topic: {name!r}; {hint}")
