"""Real text and pretrained models.

Each seed is a sample of texts for the same weights. TRANSLUCID_SHARED names the folder with the
files:

data/sst2/{train,valid,test}.tsv                 a label and a text on each line
data/wikitext-2/{train,test}.txt                 a line of text on each line
data/tatoeba-de-en/test.en                       a sentence on each line
weights/stories260K/stories260K.bin              a small LLaMA, trained on stories
"""

import os
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

import torch
from torch import Tensor

from translucid import NO_TRACE, Trace, load
from translucid.core import ConfigError, Edit
from translucid.data import Tokenizer
from translucid.generate import GenerationConfig, Hypothesis, find
from translucid.models import DecoderModel, EncoderDecoderModel, GenerationInputs

VARIABLE = "TRANSLUCID_SHARED"


def real_file(name: str) -> Path:
    folder = os.environ.get(VARIABLE)
    if not folder:
        raise ConfigError(
            f"{VARIABLE} is not set; set it to the folder that contains {name} (docs/guides/lab.md)"
        )
    path = Path(folder) / name
    if not path.is_file():
        raise ConfigError(
            f"{path}: no such file; put it there, or let {VARIABLE} name another folder"
        )
    return path


def lines(name: str) -> list[str]:
    return [line for line in real_file(name).read_text("utf-8").splitlines() if line.strip()]


LEAST = 8  # tokens of a sentence

# Names of cities and people in Arabic script, for the transliteration model.
TEXT = """
    واشنطن باريس برلين مدريد موسكو القاهرة بغداد بيروت الرياض طهران اسطنبول نيويورك شيكاغو
    بوسطن تورونتو سيدني ملبورن طوكيو كراتشي جاكرتا مانيلا هونولولو اوسلو ستوكهولم كوبنهاغن
    هلسنكي لشبونة فيينا زيورخ ميلانو نابولي برشلونة اشبيلية مرسيليا تولوز همبورغ ميونيخ
    فرانكفورت شتوتغارت وارسو بودابست بوخارست صوفيا بلغراد جونسون ويليام روبرت مايكل ديفيد
    ريتشارد توماس دانيال اندرسون مارتن طومسون جاكسون ويلسون هاريس روبنسون ادامز نيلسون كارتر
    ميتشل روبرتس كامبل باركر ايفانز ادواردز كولينز ستيوارت موريس مورفي بيترسون ساندرز برايس
    بينيت الكسندر فيكتوريا اليزابيث كاترين مارغريت باتريسيا جنيفر ليندا سوزان دوروثي نانسي
    كارين هيلين ساندرا
"""
NAMES = TEXT.split()


@lru_cache(maxsize=1)
def stories() -> tuple[DecoderModel, Tokenizer]:
    """A small LLaMA of children's stories: rotary positions, RMS norm, five layers with eight query
    heads and four key/value heads."""
    model = load(real_file("weights/stories260K/stories260K.bin"))
    assert isinstance(model.network, DecoderModel)
    return model.network.eval(), model.tokenizers["tokenizer"]


@lru_cache(maxsize=1)
def names() -> tuple[EncoderDecoderModel, Tokenizer, Tokenizer]:
    """A small encoder-decoder that transliterates Arabic names into Latin script: sinusoidal
    positions, layer norm, six layers of eight heads in each stack."""
    model = load(real_file("weights/ct2-aren-transliteration/model.bin").parent)
    assert isinstance(model.network, EncoderDecoderModel)
    return model.network.eval(), model.tokenizers["source"], model.tokenizers["target"]


def story_sentences(seed: int, count: int) -> list[Tensor]:
    """Everyday English sentences, each after the start token: (1, tokens)."""
    tokenizer, every = stories()[1], lines("data/tatoeba-de-en/test.en")
    order = torch.randperm(len(every), generator=torch.Generator().manual_seed(seed)).tolist()
    rows = (torch.tensor([[tokenizer.bos_id, *tokenizer.encode(every[at])]]) for at in order)
    return [row for row in rows if row.shape[1] >= LEAST][:count]


def arabic_names(seed: int, count: int) -> list[Tensor]:
    """Names, one token per character, framed as in training: (1, characters)."""
    tokenizer = names()[1]
    order = torch.randperm(len(NAMES), generator=torch.Generator().manual_seed(seed)).tolist()
    framed = tokenizer.frame()
    return [torch.tensor([framed(tokenizer.encode(NAMES[at]))]) for at in order[:count]]


def latin_names(
    sources: Sequence[Tensor],
    config: GenerationConfig,
    edit: Mapping[str, Edit] | None = None,
) -> list[Hypothesis]:
    """The best transliteration of each name, with an edit of the model."""
    net, _, target = names()
    trace = Trace([], edit=edit) if edit else NO_TRACE
    written = []
    for source in sources:
        (several,) = find(
            net, [target.start_ids], GenerationInputs.of(source), config, eos=target.eos_id,
            pad=target.pad_id, never=target.never_generated(net.vocab), trace=trace,
        )  # fmt: skip
        written.append(several[0])
    return written
