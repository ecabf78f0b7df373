"""Small language models on Toyland, trained for a short time: recurrent, or a Transformer."""

import torch
import torch.nn.functional as F
from torch import Tensor

from translucid.models import ModelConfig, RecurrentConfig, TransformerConfig, build
from translucid.models.base import DecoderModel
from translucid.parts.recurrent_cells import CellName
from translucid_lab.claims.shared.toyland_text import Sentences
from translucid_lab.engine.fit import fit, random_rows

BATCH, RATE = 32, 3e-3


def recurrent(vocab: int, *, wide: int = 32, cell: CellName = "gru") -> ModelConfig:
    return RecurrentConfig(
        shape="decoder", head="language", vocab=vocab, d_model=wide, hidden=32, cell=cell,
        dropout=0.0, tied=False,
    )  # fmt: skip


def transformer(vocab: int, *, wide: int = 32) -> ModelConfig:
    return TransformerConfig(
        shape="decoder", head="language", vocab=vocab, d_model=wide, heads=2, layers=1,
        dropout=0.0, tied=False,
    )  # fmt: skip


def made(config: ModelConfig, seed: int) -> DecoderModel:
    torch.manual_seed(seed)
    net = build(config)
    assert isinstance(net, DecoderModel)
    return net


def train(net: DecoderModel, texts: Sentences, steps: int, seed: int, *, one: bool = False) -> None:
    """With `one`, each text of a batch is cut at a random place and only the word there counts."""
    generator = torch.Generator().manual_seed(seed)

    def loss() -> Tensor:
        ids = random_rows(texts.train, BATCH, generator)
        wanted = ids[:, 1:]
        return _loss(net, ids, _only_one(wanted, generator) if one else wanted)

    fit(net, loss, steps=steps, learning_rate=RATE, clip_norm=1.0)
    net.eval()


def _only_one(wanted: Tensor, generator: torch.Generator) -> Tensor:
    lengths = (wanted != 0).sum(1)
    places = (torch.rand(len(wanted), generator=generator) * lengths).long()
    return torch.zeros_like(wanted).scatter(1, places[:, None], wanted.gather(1, places[:, None]))


def _loss(net: DecoderModel, ids: Tensor, wanted: Tensor) -> Tensor:
    logits = net(ids[:, :-1], ids[:, :-1] != 0)
    return F.cross_entropy(logits.flatten(0, 1), wanted.flatten(), ignore_index=0)


@torch.no_grad()
def new_loss(net: DecoderModel, texts: Sentences) -> float:
    """Nats for each word of sentences that were not trained on."""
    return float(_loss(net, texts.new, texts.new[:, 1:]))
