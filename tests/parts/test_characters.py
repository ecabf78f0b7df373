"""Characters against windows counted by hand; neighbours of a word do not change its vector."""

import pytest
import torch
from torch import Tensor

from translucid.core.trace import Trace
from translucid.data.tokenizers.pipelines import UNK
from translucid.parts.characters import NUMBERS, Characters
from translucid.parts.dropout import WordDropout

WORDS = torch.tensor([[[8, 3, 5, 9], [7, 0, 0, 0]], [[2, 4, 0, 0], [0, 0, 0, 0]]])


@pytest.fixture
def part() -> Characters:
    """Many filters, some of which like no character of a word, and which speak up by themselves: so
    that windows of nothing but padding would be the loudest."""
    torch.manual_seed(0)
    part = Characters(40, 5, d_character=4, width=3).double()
    with torch.no_grad():
        part.filters.bias.copy_(0.7 * (-1.0) ** torch.arange(40))  # half of them rather keep quiet
    return part


def same(one: Tensor, other: Tensor) -> None:
    torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


def by_hand(part: Characters, word: list[int]) -> Tensor:
    """One word, window by window."""
    zero = torch.zeros(4, dtype=torch.float64)
    weight = part.filters.weight.unflatten(1, (4, 3))  # (filters, d_character, width)
    rows = [zero, zero, *(part.table.weight[character] for character in word), zero, zero]
    answers = [
        torch.einsum("fdw,wd->f", weight, torch.stack(rows[i : i + 3])) + part.filters.bias
        for i in range(len(word) + 2)
    ]
    loudest = torch.stack([torch.zeros_like(answers[0]), *answers]).amax(dim=0)
    return part.linear.weight @ loudest + part.linear.bias


def test_a_word_is_its_windows_loudest_answers(part: Characters) -> None:
    found = part(WORDS)
    for row, place in ((0, 0), (0, 1), (1, 0)):
        characters = [character for character in WORDS[row, place].tolist() if character]
        same(found[row, place], by_hand(part, characters))
    same(found[1, 1], part.linear.bias)  # a word without characters says nothing


@pytest.mark.parametrize(("before", "after"), [(0, 3), (2, 0), (1, 4)])
def test_padding_is_not_a_character(part: Characters, before: int, after: int) -> None:
    with torch.no_grad():
        part.table.weight[0].fill_(3.0)  # whatever was loaded into its row
    for word in (WORDS[:1, :1], WORDS[:1, 1:, :1], WORDS[1:, :1, :2]):  # with nothing behind it yet
        same(part(torch.nn.functional.pad(word, (before, after))), part(word))


def test_it_is_torchs_convolution(part: Characters) -> None:
    trace = Trace()
    part(WORDS, trace)
    weight = part.filters.weight.unflatten(1, (4, 3))
    x = trace["lookup"].flatten(0, 1).transpose(1, 2)  # (words, d_character, characters)
    slid = torch.nn.functional.conv1d(x, weight, part.filters.bias, padding=2)
    same(trace["convolved"].flatten(0, 1).transpose(1, 2), slid)


def test_words_are_independent(part: Characters) -> None:
    together = part(WORDS)
    for row in range(2):
        for place in range(2):
            word = WORDS[row, place]
            alone = word[: max(int((word > 0).sum()), 1)]
            same(together[row, place], part(alone[None, None])[0, 0])


def test_every_value_can_be_seen_and_changed(part: Characters) -> None:
    x = torch.randn(2, 2, 5, dtype=torch.float64)
    trace = Trace()
    same(part.add(x, WORDS, trace), part.add(x, WORDS))
    names = ["lookup", "convolved", "activated", "loudest", "output", "sum"]
    assert trace.names() == names
    assert trace["convolved"].shape == (2, 2, 6, 40)  # windows, filters
    same(trace["loudest"], trace["activated"].amax(dim=2))
    same(trace["sum"], x + trace["output"])
    deaf = Trace([], edit={"loudest": 0.0})
    same(part.add(x, WORDS, deaf), x + part.linear.bias)


def test_training_and_evaluation_give_the_same_vectors() -> None:
    part = Characters(6, 5)
    assert torch.equal(part.train()(WORDS), part.eval()(WORDS))


def test_every_byte_has_a_row() -> None:
    assert Characters(2, 3).table.num_embeddings == NUMBERS == 1 + 256


def test_word_dropout_hides_words_only_in_training_and_no_special_tokens() -> None:
    ids = torch.randint(0, 50, (100, 100))
    part = WordDropout(0.3)
    assert part.unknown == UNK
    torch.manual_seed(1)
    read = part(ids)
    changed = read != ids
    assert (read[changed] == UNK).all()
    assert (ids[changed] > UNK).all()
    assert float(changed[ids > UNK].float().mean()) == pytest.approx(0.3, abs=0.02)
    torch.manual_seed(1)
    assert torch.equal(part(ids), read)  # drawn from torch's generator, which a resume puts back
    assert torch.equal(part.eval()(ids), ids)
    before = torch.get_rng_state()
    assert torch.equal(WordDropout(0.0)(ids), ids)
    assert torch.equal(torch.get_rng_state(), before)


def test_word_dropout_takes_the_ids_of_the_tokenizer() -> None:
    ids = torch.randint(0, 50, (100, 100))
    part = WordDropout(0.3)
    torch.manual_seed(1)
    usual = part(ids)
    part.set_ids(40, [7, 41])
    torch.manual_seed(1)
    read = part(ids)
    changed = read != ids
    assert (read[changed] == 40).all()
    assert not set(ids[changed].tolist()) & {7, 40, 41}
    both = (ids > UNK) & (ids != 7) & (ids < 40)
    assert torch.equal(changed[both], (usual != ids)[both])  # the same words, by another id
    assert "kept" not in part.state_dict()
    part.to("meta").set_ids(40, [7])  # of a network that stands on another device already
    assert part.kept.device.type == "meta"
