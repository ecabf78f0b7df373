"""Parts that are handed to an encoder to make vectors of tokens, and one of a user's own."""

import pytest
import torch
from torch import Tensor, nn

from translucid.core.errors import InputError
from translucid.core.trace import NO_TRACE, NoTrace, Trace
from translucid.models import RecurrentConfig, TransformerConfig, build
from translucid.models.base import EncoderModel
from translucid.models.heads import make_head
from translucid.models.recurrent import RecurrentEncoder
from translucid.models.transformer import TransformerEncoder
from translucid.parts.embedding import InputPart, Tokens

IDS = torch.tensor([[5, 6, 7, 6], [6, 5, 5, 7]])
CASE = torch.tensor([[1, 0, 0, 2], [0, 0, 1, 1]])
TAGS = {"shape": "encoder", "head": "tag", "vocab": 8, "outputs": 3, "d_model": 8, "dropout": 0.0}


class Case(InputPart):
    """A row for how a word is written, added to its embedding."""

    needs = True

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.table = nn.Embedding(3, d_model)

    def check(self, tokens: Tokens, given: Tensor | None) -> None:
        if given is None or given.shape != tokens.ids.shape:
            raise InputError("case: give one number for each token")

    def add(self, x: Tensor, given: Tensor | None, trace: NoTrace = NO_TRACE) -> Tensor:
        assert given is not None
        return trace("sum", x + self.table(given))


class Reversed(InputPart):
    """Reads other tokens than were given."""

    def read(self, tokens: Tokens) -> Tokens:
        return Tokens(tokens.ids.flip(1), tokens.mask, tokens.more)


CONFIGS = {
    "recurrent": RecurrentConfig(**TAGS, hidden=8),
    "transformer": TransformerConfig(**TAGS, heads=2, layers=1),
}


def network(family: str, **parts: InputPart) -> EncoderModel:
    config = CONFIGS[family]
    make = RecurrentEncoder if family == "recurrent" else TransformerEncoder
    torch.manual_seed(1)
    encoder = make(config, parts)
    head = make_head(config.head, encoder.d_output, config.outputs, config.pooling)
    return EncoderModel(config, encoder, head).double().eval()


@pytest.mark.parametrize("family", CONFIGS)
def test_a_custom_part_adds_to_the_vectors(family: str) -> None:
    model = network(family, case=Case(8))
    assert "encoder.case.table.weight" in model.state_dict()
    trace = Trace()
    said = model(IDS, trace=trace, case=CASE)
    table = model.get_parameter("encoder.case.table.weight").detach()
    before = "encoder.embedding.scaled" if family == "transformer" else "encoder.embedding.lookup"
    assert torch.equal(trace["encoder.case.sum"], trace[before] + table[CASE])
    assert not torch.allclose(model(IDS, case=1 - CASE.clamp(max=1)), said)
    with torch.no_grad():
        model.get_parameter("encoder.case.table.weight").zero_()
    plain = network(family)
    plain.load_state_dict({k: v for k, v in model.state_dict().items() if ".case." not in k})
    assert torch.equal(model(IDS, case=CASE), plain(IDS))


@pytest.mark.parametrize("family", CONFIGS)
def test_a_part_may_read_other_tokens(family: str) -> None:
    model, plain = network(family, back=Reversed()), network(family)
    plain.load_state_dict(model.state_dict())
    assert torch.equal(model(IDS), plain(IDS.flip(1)))


def test_missing_and_unread_inputs_are_refused() -> None:
    with pytest.raises(InputError, match="one number for each token"):
        network("recurrent", case=Case(8))(IDS)
    with pytest.raises(InputError, match=r"characters.*only ids and case"):
        network("recurrent", case=Case(8))(IDS, case=CASE, characters=CASE)
    with pytest.raises(InputError, match=r"case.*only ids;"):
        build(CONFIGS["transformer"])(IDS, case=CASE)
