"""Names of languages, as people write them above the columns of a table of translations."""

import re

NAMES = """
    arabic bengali bulgarian catalan chinese croatian czech danish dutch english estonian finnish
    french german greek hebrew hindi hungarian icelandic indonesian irish italian japanese korean
    latin latvian lithuanian malay norwegian persian polish portuguese romanian russian serbian
    slovak slovene slovenian spanish swahili swedish tamil thai turkish ukrainian urdu vietnamese
    welsh
    deutsch englisch französisch spanisch italienisch niederländisch polnisch russisch tschechisch
    français anglais allemand espagnol italien español inglés alemán francés italiano tedesco
    inglese francese português polski nederlands svenska dansk norsk suomi čeština türkçe русский
"""
CODES = """
    ar bg bn ca cs da de el en es et fa fi fr ga he hi hr hu id is it ja ko la lt lv ms nl no pl pt
    ro ru sk sl sr sv sw ta th tr uk ur vi zh
    ara ces chi dan deu dut eng est fas fin fra fre ger gre heb hin hrv hun ind ita jpn kor lat lav
    lit nld nob nor pol por ron rus slk slv spa srp swe tur ukr urd vie zho
"""
KNOWN = frozenset((NAMES + CODES).split())


def is_language(name: str) -> bool:
    """Is it the name of a language or its code, perhaps with one more word: German, de, de_DE,
    english_sentence?"""
    first, *others = re.split(r"[\s_.-]+", name.strip().lower())
    return first in KNOWN and len(others) <= 1
