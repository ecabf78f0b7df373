"""The nouns, names and adjectives of Toyland. Some names mean a person in one sentence and a city
or a firm in the next; some adjectives describe, others praise or blame."""

from translucid.data.toyland.lexicon import Adjective, Name, Noun, adjective, name, noun

PEOPLE = (
    noun("man/men", "Mann", "m", "Männer", "person"),
    noun("boy", "Junge", "m", "Jungen", "person minor", oblique="Jungen"),
    noun("father", "Vater", "m", "Väter", "person family single"),
    noun("brother", "Bruder", "m", "Brüder", "person family"),
    noun("teacher", "Lehrer", "m", "Lehrer", "person expert"),
    noun("student", "Student", "m", "Studenten", "person", oblique="Studenten"),
    noun("doctor", "Arzt", "m", "Ärzte", "person expert"),
    noun("farmer", "Bauer", "m", "Bauern", "person", oblique="Bauern"),
    noun("neighbor", "Nachbar", "m", "Nachbarn", "person family", oblique="Nachbarn"),
    noun("friend", "Freund", "m", "Freunde", "person family"),
    noun("chef", "Koch", "m", "Köche", "person expert"),
    noun("waiter", "Kellner", "m", "Kellner", "person expert"),
    noun("woman/women", "Frau", "f", "Frauen", "person"),
    noun("mother", "Mutter", "f", "Mütter", "person family single"),
    noun("sister", "Schwester", "f", "Schwestern", "person family"),
    noun("daughter", "Tochter", "f", "Töchter", "person family"),
    noun("nurse", "Krankenschwester", "f", "Krankenschwestern", "person"),
    noun("child/children", "Kind", "n", "Kinder", "person minor"),
    noun("girl", "Mädchen", "n", "Mädchen", "person minor"),
)

ANIMALS = (
    noun("dog", "Hund", "m", "Hunde", "animal dog pet"),
    noun("cat", "Katze", "f", "Katzen", "animal hunter pet"),
    noun("horse", "Pferd", "n", "Pferde", "animal pet"),
    noun("bird", "Vogel", "m", "Vögel", "animal prey bird"),
    noun("mouse/mice", "Maus", "f", "Mäuse", "animal prey"),
    noun("rabbit", "Kaninchen", "n", "Kaninchen", "animal prey pet"),
    noun("bear", "Bär", "m", "Bären", "animal", oblique="Bären"),
)

FOOD = (
    noun("bread", "Brot", "n", "", "food baked"),
    noun("cake", "Kuchen", "m", "Kuchen", "food baked gift review dish"),
    noun("apple", "Apfel", "m", "Äpfel", "food fruit snack"),
    noun("pear", "Birne", "f", "Birnen", "food fruit snack"),
    noun("egg", "Ei", "n", "Eier", "food cooked snack"),
    noun("soup", "Suppe", "f", "Suppen", "food cooked review dish warmable"),
    noun("cheese", "Käse", "m", "", "food snack"),
    noun("water", "Wasser", "n", "", "drink lapped warmable"),
    noun("milk", "Milch", "f", "", "drink lapped warmable"),
    noun("coffee", "Kaffee", "m", "", "drink warmable review dish"),
    noun("wine", "Wein", "m", "", "drink review dish"),
)

TEXTS = (
    noun("book", "Buch", "n", "Bücher", "text gift flat portable review story lengthy"),
    noun("letter", "Brief", "m", "Briefe", "text written flat portable paper lengthy"),
    noun("newspaper", "Zeitung", "f", "Zeitungen", "text flat portable paper"),
    noun("story", "Geschichte", "f", "Geschichten", "text written told review story lengthy"),
    noun("film", "Film", "m", "Filme", "show review story lengthy"),
    noun("song", "Lied", "n", "Lieder", "heard review"),
    noun("concert", "Konzert", "n", "Konzerte", "show review event lengthy"),
    noun("trip", "Reise", "f", "Reisen", "review event lengthy"),
    noun("party", "Feier", "f", "Feiern", "review event"),
    noun("plan", "Plan", "m", "Pläne", "idea review"),
)

THINGS = (
    noun("key", "Schlüssel", "m", "Schlüssel", "thing flat portable"),
    noun("spoon", "Löffel", "m", "Löffel", "thing flat washed"),
    noun("bottle", "Flasche", "f", "Flaschen", "thing upright portable opened vessel"),
    noun("lamp", "Lampe", "f", "Lampen", "thing upright machine repaired colored product"),
    noun("computer", "Computer", "m", "Computer", "thing machine repaired product"),
    noun("picture", "Bild", "n", "Bilder", "thing seen gift review pretty"),
    noun("ball", "Ball", "m", "Bälle", "thing portable colored toy"),
    noun("bag", "Tasche", "f", "Taschen", "thing portable opened vessel colored"),
    noun("umbrella", "Regenschirm", "m", "Regenschirme", "thing portable colored opened"),
    noun("coat", "Mantel", "m", "Mäntel", "thing clothing colored washed"),
    noun("dress", "Kleid", "n", "Kleider", "thing clothing colored washed review pretty"),
    noun("table", "Tisch", "m", "Tische", "surface furniture"),
    noun("chair", "Stuhl", "m", "Stühle", "surface furniture"),
    noun("bed", "Bett", "n", "Betten", "surface furniture"),
    noun("door", "Tür", "f", "Türen", "door"),
    noun("car", "Auto", "n", "Autos", "vehicle repaired product colored washed"),
    noun("bicycle", "Fahrrad", "n", "Fahrräder", "vehicle repaired product colored"),
    noun("bus", "Bus", "m", "Busse", "awaited"),
)

PLACES = (
    noun("garden", "Garten", "m", "Gärten", "place outside owned", place="in in", toward="in"),
    noun("park", "Park", "m", "Parks", "place outside sight", place="in in", toward="in"),
    noun("forest", "Wald", "m", "Wälder", "place outside", place="in in", toward="in"),
    noun("kitchen", "Küche", "f", "Küchen", "place owned stay", place="in in", toward="in"),
    noun("house", "Haus", "n", "Häuser", "place dwelling built owned", place="in in", toward="in"),
    noun("school", "Schule", "f", "Schulen", "place built", place="in in"),
    noun("city", "Stadt", "f", "Städte", "place dwelling sight", place="in in", toward="in"),
    noun("museum", "Museum", "n", "Museen", "place sight review", place="in in", toward="in"),
    noun("hospital", "Krankenhaus", "n", "Krankenhäuser", "place", place="in in", toward="in"),
    noun("church", "Kirche", "f", "Kirchen", "place sight built", place="in in"),
    noun(
        "restaurant",
        "Restaurant",
        "n",
        "Restaurants",
        "place review stay",
        place="in in",
        toward="in",
    ),
    noun("hotel", "Hotel", "n", "Hotels", "place dwelling review stay", place="in in"),
    noun("room", "Zimmer", "n", "Zimmer", "place review stay owned", place="in in", toward="in"),
    noun("station", "Bahnhof", "m", "Bahnhöfe", "place", place="at an"),
    noun("market", "Markt", "m", "Märkte", "place shop", place="at auf"),
    noun("beach", "Strand", "m", "Strände", "place outside review stay", place="on an"),
    noun("street", "Straße", "f", "Straßen", "place outside lengthy", place="on auf", toward=""),
)

SPECIAL = {
    "food": noun("food", "Essen", "n", "", "review dish"),
    "music": noun("music", "Musik", "f", "", "review heard"),
    "service": noun("service", "Service", "m", "", "review"),
    "weather": noun("weather", "Wetter", "n", "", "review"),
    "time": noun("time", "Zeit", "f", "", ""),
    "company": noun("company", "Firma", "f", "Firmen", "firm"),
    "mister": noun("Mr", "Herr", "m", "", "title", oblique="Herrn"),
    "mistress": noun("Mrs", "Frau", "f", "", "title"),
}

NOUNS: tuple[Noun, ...] = (*PEOPLE, *ANIMALS, *FOOD, *TEXTS, *THINGS, *PLACES, *SPECIAL.values())


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


FIRST = (
    *(name(one, "PER", "person", gender="m") for one in
      ("Peter", "Paul", "Thomas", "Max", "Felix")),
    *(name(one, "PER", "person", gender="f") for one in
      ("Anna", "Maria", "Julia", "Laura", "Lisa")),
)  # fmt: skip

LAST = ("Weber", "Schmidt", "Fischer", "Keller", "Hansen", "Jordan", "Lincoln")

CITIES = (
    name("Berlin", "LOC", "city", inside="Germany"),
    name("Munich/München", "LOC", "city", inside="Germany"),
    name("Cologne/Köln", "LOC", "city", inside="Germany"),
    name("Vienna/Wien", "LOC", "city", inside="Austria"),
    name("Rome/Rom", "LOC", "city", inside="Italy"),
    name("London", "LOC", "city", inside="England"),
    name("Madrid", "LOC", "city", inside="Spain"),
    name("New York", "LOC", "city", inside="America"),
    name("Los Angeles", "LOC", "city", inside="America"),
)

COUNTRIES = (
    name("Germany/Deutschland", "LOC", "country", inside="Europe"),
    name("Austria/Österreich", "LOC", "country", inside="Europe"),
    name("Italy/Italien", "LOC", "country", inside="Europe"),
    name("France/Frankreich", "LOC", "country", inside="Europe"),
    name("England", "LOC", "country", inside="Europe"),
    name("Spain/Spanien", "LOC", "country", inside="Europe"),
    name("Australia/Australien", "LOC", "country"),
    name("America/Amerika", "LOC", "country"),
)
CONTINENTS = (
    name("Europe/Europa", "LOC", "continent"),
    name("Asia/Asien", "LOC", "continent"),
)

FIRMS = (
    name("Lumina", "ORG", "firm"),
    name("Orion", "ORG", "firm"),
    name("Nordwind", "ORG", "firm"),
    name("Alpha Software", "ORG", "firm"),
    name("Nova Motors", "ORG", "firm"),
    name("Delta Systems", "ORG", "firm"),
)

# One spelling, several types: only the words around it tell. In German the cities and countries
# among them may change their form, the people never do.
AMBIGUOUS = (
    name("Jordan", "PER", "person", gender="m"),
    name("Jordan/Jordanien", "LOC", "country", inside="Asia"),
    name("Jordan", "ORG", "firm"),
    name("Florence", "PER", "person", gender="f"),
    name("Florence/Florenz", "LOC", "city", inside="Italy"),
    name("Sydney", "PER", "person", gender="f"),
    name("Sydney", "LOC", "city", inside="Australia"),
    name("Paris", "PER", "person", gender="f"),
    name("Paris", "LOC", "city", inside="France"),
    name("Austin", "PER", "person", gender="m"),
    name("Austin", "LOC", "city", inside="America"),
    name("Austin", "ORG", "firm"),
    name("Lincoln", "PER", "person", gender="m"),
    name("Lincoln", "LOC", "city", inside="England"),
    name("Lincoln", "ORG", "firm"),
    name("Hansen", "ORG", "firm"),
)

NAMES: tuple[Name, ...] = (*FIRST, *CITIES, *COUNTRIES, *CONTINENTS, *FIRMS, *AMBIGUOUS)
