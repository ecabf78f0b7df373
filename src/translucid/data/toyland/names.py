"""Names, some of which mean a person in one sentence and a city or a firm in the next."""

from translucid.data.toyland.lexicon import Name, name

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
