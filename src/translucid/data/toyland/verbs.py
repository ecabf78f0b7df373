"""What one can do in Toyland, and what it takes: the frames, the kinds, the German forms."""

from translucid.data.toyland.lexicon import Verb, verb

# fmt: off

ALONE = (
    verb("sleep / slept", "schlafen schläft geschlafen", "none", "person animal", place=True,
         reasons="tired sick"),
    verb("laugh / laughed", "lachen lacht gelacht", "none", place=True),
    verb("work / worked", "arbeiten arbeitet gearbeitet", "none", place=True),
    verb("sing / sung", "singen singt gesungen", "none", "person bird", place=True),
    verb("dance / danced", "tanzen tanzt getanzt", "none", place=True),
    verb("swim / swum", "schwimmen schwimmt geschwommen", "none", "person animal", sein=True),
    verb("wait / waited", "warten wartet gewartet", "none", place=True),
    verb("bark / barked", "bellen bellt gebellt", "none", "dog", place=True,
         reasons="hungry"),
    verb("get up / got up", "auf|stehen steht aufgestanden", "none", sein=True,
         reasons="hungry thirsty"),
    verb("wake up / woken up", "auf|wachen wacht aufgewacht", "none", "person animal", sein=True,
         reasons="hungry thirsty"),
    verb("fall asleep / fallen asleep", "ein|schlafen schläft eingeschlafen", "none",
         "person animal", sein=True, reasons="tired sick"),
    verb("come back / come back", "zurück|kommen kommt zurückgekommen", "none", "person animal",
         sein=True, reasons="hungry tired"),
)

MOVING = (
    verb("go / gone", "gehen geht gegangen", "to", "person", "place", sein=True,
         reasons="curious"),
    verb("drive / driven", "fahren fährt gefahren", "to", "person", "sight city country",
         sein=True),
    verb("live / lived", "wohnen wohnt gewohnt", "live", stative=True),
    verb("put / put", "legen legt gelegt", "put", "person", "flat"),
    verb("lie / lain", "liegen liegt gelegen", "lie", "flat", stative=True),
    verb("stand / stood", "stehen steht gestanden", "lie", "upright", stative=True),
)

HAVE = verb("have / had", "haben hat gehabt", "acc", "person", "pet thing vehicle", stative=True,
            past="had hatte")

DOING = (
    verb("see / seen", "sehen sieht gesehen", "acc", "person",
         "person animal thing vehicle sight"),
    verb("see / seen", "sehen sieht gesehen", "acc", "animal", "person animal"),
    verb("eat / eaten", "essen isst gegessen", "acc", "person", "food", place=True,
         reasons="hungry"),
    verb("drink / drunk", "trinken trinkt getrunken", "acc", "person", "drink", place=True,
         reasons="thirsty tired"),
    verb("drink / drunk", "trinken trinkt getrunken", "acc", "animal", "lapped", place=True,
         reasons="thirsty"),
    verb("read / read", "lesen liest gelesen", "acc", "person", "text", place=True,
         reasons="curious"),
    verb("write / written", "schreiben schreibt geschrieben", "acc", "person", "written",
         place=True),
    verb("buy / bought", "kaufen kauft gekauft", "acc", "person",
         "thing food text vehicle clothing", reasons="rich"),
    verb("sell / sold", "verkaufen verkauft verkauft", "acc", "person", "thing food text vehicle",
         reasons="poor"),
    verb("find / found", "finden findet gefunden", "acc", "person", "thing flat portable",
         place=True),
    verb("know / known", "kennen kennt gekannt", "acc", "person", "person", stative=True),
    verb("chase / chased", "jagen jagt gejagt", "acc", "dog hunter", "prey", place=True,
         reasons="hungry"),
    verb("visit / visited", "besuchen besucht besucht", "acc", "person", "person sight"),
    verb("meet / met", "treffen trifft getroffen", "acc", "person", "person", place=True),
    verb("repair / repaired", "reparieren repariert repariert", "acc", "person", "repaired"),
    verb("cook / cooked", "kochen kocht gekocht", "acc", "person", "cooked", reasons="hungry"),
    verb("open / opened", "öffnen öffnet geöffnet", "acc", "person", "opened door",
         reasons="curious"),
    verb("close / closed", "schließen schließt geschlossen", "acc", "person", "opened door"),
    verb("look for / looked for", "suchen sucht gesucht", "acc", "person",
         "person animal portable", place=True),
    HAVE,
)

SPLITTING = (
    verb("call / called", "an|rufen ruft angerufen", "acc", "person", "person",
         reasons="curious sick"),
    verb("invite / invited", "ein|laden lädt eingeladen", "acc", "person", "person"),
    verb("pick up / picked up", "ab|holen holt abgeholt", "acc", "person", "person",
         phrasal=True),
    verb("turn on / turned on", "ein|schalten schaltet eingeschaltet", "acc", "person", "machine",
         phrasal=True),
    verb("put on / put on", "an|ziehen zieht angezogen", "acc", "person", "clothing",
         phrasal=True),
    verb("throw away / thrown away", "weg|werfen wirft weggeworfen", "acc", "person",
         "portable flat paper", phrasal=True),
    verb("hire / hired", "ein|stellen stellt eingestellt", "acc", "firm", "expert person"),
    verb("produce / produced", "her|stellen stellt hergestellt", "acc", "firm", "product machine"),
    verb("listen to / listened to", "zu|hören hört zugehört", "dat", "person", "person",
         reasons="curious"),
)

HELPING = (
    verb("help / helped", "helfen hilft geholfen", "dat", "person", "person"),
    verb("thank / thanked", "danken dankt gedankt", "dat", "person", "person"),
    verb("follow / followed", "folgen folgt gefolgt", "dat", "person animal", "person animal",
         sein=True, reasons="curious"),
    verb("wait / waited", "warten wartet gewartet", "prep", "person", "awaited person",
         preposition="for auf acc"),
    verb("talk / talked", "sprechen spricht gesprochen", "prep", "person", "person",
         preposition="to mit dat", place=True),
    verb("play / played", "spielen spielt gespielt", "prep", "person pet", "pet toy",
         preposition="with mit dat", place=True),
    verb("work / worked", "arbeiten arbeitet gearbeitet", "prep", "person", "firm",
         preposition="for für acc"),
)

GIVING = (
    verb("give / given", "geben gibt gegeben", "give", "person", "gift portable fruit"),
    verb("show / shown", "zeigen zeigt gezeigt", "give", "person", "gift text sight"),
    verb("send / sent", "schicken schickt geschickt", "give", "person", "gift paper"),
    verb("tell / told", "erzählen erzählt erzählt", "give", "person", "told"),
)

TELLING = (
    verb("say / said", "sagen sagt gesagt", "that"),
    verb("think / thought", "denken denkt gedacht", "that", stative=True),
    verb("believe / believed", "glauben glaubt geglaubt", "that", stative=True),
    verb("know / known", "wissen weiß gewusst", "that", stative=True, german_first="weiß"),
    verb("hope / hoped", "hoffen hofft gehofft", "that", stative=True),
)

OPINIONS = (
    verb("like / liked", "mögen mag gemocht", "acc", polarity=1, past="liked mochte",
         german_first="mag", stative=True),
    verb("hate / hated", "hassen hasst gehasst", "acc", polarity=-1, past="hated hasste",
         stative=True),
    verb("love / loved", "lieben liebt geliebt", "acc", polarity=1, past="loved liebte",
         stative=True),
    verb("despise / despised", "verachten verachtet verachtet", "acc", polarity=-1,
         past="despised verachtete", stative=True),
    verb("praise / praised", "loben lobt gelobt", "acc", polarity=1),
    verb("criticize / criticized", "kritisieren kritisiert kritisiert", "acc", polarity=-1),
    verb("recommend / recommended", "empfehlen empfiehlt empfohlen", "acc", polarity=1),
    verb("reject / rejected", "ab|lehnen lehnt abgelehnt", "acc", polarity=-1),
)

BE = verb("be / been", "sein ist gewesen", "be", stative=True, german_first="bin", sein=True)

VERBS: tuple[Verb, ...] = (
    *ALONE, *MOVING, *DOING, *SPLITTING, *HELPING, *GIVING, *TELLING, *OPINIONS, BE,
)
