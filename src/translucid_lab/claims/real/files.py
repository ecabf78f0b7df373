"""Where real text and real weights are: a folder that TRANSLUCID_SHARED names.

data/sst2/{train,valid,test}.tsv                 a label and a text on each line
data/wikitext-2/{train,test}.txt                 a line of text on each line
data/tatoeba-de-en/test.en                       a sentence on each line
weights/stories260K/stories260K.bin              a small LLaMA, trained on stories
"""

import os
from pathlib import Path

from translucid.core.errors import ConfigError

VARIABLE = "TRANSLUCID_SHARED"


def real_file(name: str) -> Path:
    folder = os.environ.get(VARIABLE)
    if not folder:
        raise ConfigError(
            f"{VARIABLE} is not set; set it to the folder that holds {name}, as docs/lab.md says"
        )
    path = Path(folder) / name
    if not path.is_file():
        raise ConfigError(
            f"{path}: no such file; put it there, or let {VARIABLE} name another folder"
        )
    return path


def lines(name: str) -> list[str]:
    return [line for line in real_file(name).read_text("utf-8").splitlines() if line.strip()]
