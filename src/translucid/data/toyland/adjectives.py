"""What things in Toyland are like. The first table only describes; the second praises or blames."""

from translucid.data.toyland.lexicon import Adjective, adjective

DESCRIBING = (
    adjective("big", "groß", "animal thing place vehicle furniture fruit", topic="size"),
    adjective("small", "klein", "animal thing place vehicle furniture fruit", topic="size"),
    adjective("old", "alt", "person animal thing place vehicle furniture text show", topic="age"),
    adjective("new", "neu", "thing built vehicle furniture text show idea", topic="age"),
    adjective("young", "jung", "person animal", topic="age"),
    adjective("tired", "müde", "person animal", stem="müd"),
    adjective("hungry", "hungrig", "person animal"),
    adjective("thirsty", "durstig", "person animal"),
    adjective("sick", "krank", "person animal"),
    adjective("curious", "neugierig", "person pet"),
    adjective("rich", "reich", "person", topic="money"),
    adjective("poor", "arm", "person", topic="money"),
    adjective("red", "rot", "colored fruit", topic="color"),
    adjective("green", "grün", "colored fruit door", topic="color"),
    adjective("blue", "blau", "colored door", topic="color"),
    adjective("white", "weiß", "colored door pet", topic="color"),
    adjective("black", "schwarz", "colored pet", topic="color"),
    adjective("long", "lang", "lengthy clothing", topic="length"),
    adjective("short", "kurz", "lengthy", topic="length"),
    adjective("heavy", "schwer", "portable furniture"),
    adjective("warm", "warm", "warmable baked", topic="warmth"),
    adjective("cold", "kalt", "warmable", topic="warmth"),
    adjective("fresh", "frisch", "food"),
    adjective("important", "wichtig", "paper idea"),
    adjective("broken", "kaputt", "repaired"),
)

JUDGING = (
    adjective("good", "gut", "review", polarity=1),
    adjective("bad", "schlecht", "review", polarity=-1),
    adjective("great", "großartig", "review", polarity=1),
    adjective("terrible", "schrecklich", "review", polarity=-1),
    adjective("wonderful", "wunderbar", "review", polarity=1),
    adjective("awful", "furchtbar", "review", polarity=-1),
    adjective("excellent", "ausgezeichnet", "review", polarity=1),
    adjective("horrible", "entsetzlich", "review", polarity=-1),
    adjective("delicious", "lecker", "dish", polarity=1),
    adjective("disgusting", "ekelhaft", "dish", polarity=-1),
    adjective("exciting", "spannend", "story", polarity=1),
    adjective("boring", "langweilig", "story", polarity=-1),
    adjective("beautiful", "schön", "pretty stay", polarity=1),
    adjective("ugly", "hässlich", "pretty stay", polarity=-1),
    adjective("friendly", "freundlich", "expert", polarity=1),
    adjective("unfriendly", "unfreundlich", "expert", polarity=-1),
)

# A state that passes and would keep most people from doing things.
HINDERING = ("tired", "hungry", "thirsty", "sick")

ADJECTIVES: tuple[Adjective, ...] = (*DESCRIBING, *JUDGING)
BY_NAME: dict[str, Adjective] = {one.english: one for one in ADJECTIVES}
