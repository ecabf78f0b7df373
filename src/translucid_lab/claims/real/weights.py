"""Models that others have trained, opened as this library's own, and what they are given to read.

The weights of a model are the same for every seed; a seed is a sample of texts.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache

import torch
from torch import Tensor

from translucid.core.trace import NO_TRACE, Edit, Trace
from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.generate.beam_search import GenerationConfig, Hypothesis
from translucid.generate.decode import find
from translucid.interop.importing import load
from translucid.models.autoregressive import GenerationInputs
from translucid.models.base import DecoderModel, EncoderDecoderModel
from translucid_lab.claims.real.files import lines, real_file

LEAST = 8  # tokens of a sentence that is read

# Cities and names of people as Arabic writes them: what the transliteration model was made for.
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
    """A small LLaMA of children's stories: rotary positions, RMS norm, five layers of eight heads
    that share four of keys and values."""
    bundle = load(real_file("weights/stories260K/stories260K.bin"))
    assert isinstance(bundle.network, DecoderModel)
    return bundle.network.eval(), bundle.tokenizers["tokenizer"]


@lru_cache(maxsize=1)
def names() -> tuple[EncoderDecoderModel, Tokenizer, Tokenizer]:
    """A small encoder-decoder that writes Arabic names in Latin script: sinusoidal positions,
    layer norm, six and six layers of eight heads."""
    bundle = load(real_file("weights/ct2-aren-transliteration/model.bin").parent)
    assert isinstance(bundle.network, EncoderDecoderModel)
    return bundle.network.eval(), bundle.tokenizers["source"], bundle.tokenizers["target"]


def story_sentences(seed: int, count: int) -> list[Tensor]:
    """Everyday English, each with what begins a text: (1, tokens)."""
    tokenizer, every = stories()[1], lines("data/tatoeba-de-en/test.en")
    order = torch.randperm(len(every), generator=torch.Generator().manual_seed(seed)).tolist()
    rows = (torch.tensor([[tokenizer.bos_id, *tokenizer.encode(every[at])]]) for at in order)
    return [row for row in rows if row.shape[1] >= LEAST][:count]


def arabic_names(seed: int, count: int) -> list[Tensor]:
    """Names, a character a token, framed as the model read them in training: (1, characters)."""
    tokenizer = names()[1]
    order = torch.randperm(len(NAMES), generator=torch.Generator().manual_seed(seed)).tolist()
    framed = tokenizer.frame()
    return [torch.tensor([framed(tokenizer.encode(NAMES[at]))]) for at in order[:count]]


def latin_names(
    sources: Sequence[Tensor],
    config: GenerationConfig,
    edit: Mapping[str, Edit] | None = None,
) -> list[Hypothesis]:
    """What the transliteration model writes for each, best first, with an edit of its insides."""
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
