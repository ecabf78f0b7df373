"""Special tokens by role: a model whose tokens are numbered otherwise does the same."""

from copy import deepcopy
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.invariants.cases import randomised, recurrent, transformer

from translucid.core.errors import ConfigError, InputError
from translucid.data.records import Labelled, Pair, Tagged, Text
from translucid.data.tokenizers.imported import Imported
from translucid.data.tokenizers.special_tokens import Frame, SpecialTokens
from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.fast.decode_graphs import Graphs
from translucid.fast.fixed_search import PlainRound, Rounds, SearchSettings, Shape, filled
from translucid.generate import decode
from translucid.generate.beam import Beams, choose
from translucid.generate.beam_search import GenerationConfig, harvest
from translucid.generate.sampling import SamplingConfig
from translucid.interop.tokenizers.specs import spec_text, split_on
from translucid.models import GenerationInputs, RecurrentConfig, build
from translucid.parts.dropout import WordDropout
from translucid.runs.checks.overfitting import _renumbered
from translucid.runs.recipe import recipe
from translucid.runs.setup import set_up
from translucid.see.embeddings import neighbours
from translucid.tasks import model_folder
from translucid.tasks.classify import Classify
from translucid.tasks.generator import Generator
from translucid.tasks.language import Language
from translucid.tasks.model_folder import Bundle
from translucid.tasks.tag import Tag
from translucid.tasks.translate import Translate

OURS = Tokenizer.train("char", ["abcdefg "])
TOKENS = len(OURS)
ORDER = torch.randperm(
    TOKENS, generator=torch.Generator().manual_seed(3)
).tolist()  # ours to theirs
TEXTS = ["abc", "g", "fedcba", "a b", "c"]
HOW = GenerationConfig(beam_size=3, n_best=3, max_length=12)
FAMILIES: dict[str, Any] = {
    "translator": lambda vocab: transformer("encoder-decoder", positions="rotary", vocab=vocab),
    "lstm translator": lambda vocab: recurrent("encoder-decoder", attention="dot", vocab=vocab),
    "decoder": lambda vocab: transformer("decoder", positions="alibi", vocab=vocab),
}
every = pytest.mark.parametrize("name", FAMILIES)


def renumbered(special: SpecialTokens) -> Tokenizer:
    """Our tokenizer of characters, as another tool might have numbered it."""
    vocab = {piece: ORDER[i] for piece, i in OURS.vocab.items()}
    model = {"type": "WordLevel", "vocab": vocab, "unk_token": "<unk>"}
    control = {ORDER[i]: piece for piece, i in OURS.vocab.items() if i < 3}
    spec = spec_text(
        model, pre_tokenizers=[split_on(r"[\s\S]")], decoders=[{"type": "Fuse"}], control=control
    )
    return Tokenizer.imported(Imported(spec, special))


PAD, BOS, EOS, UNK = ORDER[:4]
ROLES = SpecialTokens(pad=PAD, bos=BOS, eos=EOS, unk=UNK)
SOURCE = replace(ROLES, frame=Frame((), (EOS,)), start=(BOS,))
ALONE = replace(ROLES, frame=Frame((EOS,)), start=(EOS,))


def task_of(name: str, special: SpecialTokens | None = None) -> Translate | Language:
    translates = "translator" in name
    theirs = renumbered(special or (SOURCE if translates else ALONE))
    return Translate(theirs, theirs) if translates else Language(theirs)


@cache
def ours(name: str) -> Generator:
    task = Translate(OURS, OURS) if "translator" in name else Language(OURS)
    return Generator(task, randomised(FAMILIES[name](TOKENS)))


def network_of(name: str, spare: int = 0) -> Any:
    """The same network with its rows in the other order, and with rows that are no tokens, which
    it would like best of all."""
    network = deepcopy(randomised(FAMILIES[name](TOKENS + spare)))
    weights = ours(name).network.state_dict()
    for key, value in network.state_dict().items():
        old = weights[key]
        if not key.endswith(("embedding.table.weight", "head.linear.weight")):
            value.copy_(old)
            continue
        assert old.shape[0] == TOKENS
        value[ORDER] = old
        value[TOKENS:] = 30 * old[:1]
    return network


@every
def test_renumbered_tokens_generate_the_same_texts(name: str) -> None:
    theirs = Generator(task_of(name), network_of(name))
    prefix = "ab" if "translator" in name else ""
    for options in ({}, {"prefix": prefix}):
        mine = ours(name).search(TEXTS, HOW, **options)
        other = theirs.search(TEXTS, HOW, **options)
        for one, two in zip(mine, other, strict=True):
            assert [c.text for c in one.texts] == [c.text for c in two.texts]
            assert [c.pieces for c in one.texts] == [c.pieces for c in two.texts]
            for a, b in zip(one.texts, two.texts, strict=True):
                assert [ORDER[i] for i in a.tokens] == b.tokens
                torch.testing.assert_close(a.token_log_probs, b.token_log_probs)


@every
def test_renumbered_tokens_score_and_trace_the_same(name: str) -> None:
    theirs = Generator(task_of(name), network_of(name))
    targets = TEXTS[::-1] if "translator" in name else None
    for one, two in zip(
        ours(name).scores(TEXTS, targets), theirs.scores(TEXTS, targets), strict=True
    ):
        assert one.pieces == two.pieces
        torch.testing.assert_close(one.token_log_probs, two.token_log_probs)
    for text in (*TEXTS, ""):
        target = ("cab",) if "translator" in name else ()
        one, two = ours(name).task.example(text, *target), theirs.task.example(text, *target)
        assert one.words == two.words
        assert [ORDER[i] for i in one.target_ids] == two.target_ids
        mine, other = (
            generator.network(**example.inputs_for(generator.network))
            for generator, example in ((ours(name), one), (theirs, two))
        )
        torch.testing.assert_close(mine, other[..., ORDER])


@every
@pytest.mark.parametrize("beams", [1, 3])
def test_unused_vocabulary_rows_are_never_generated(name: str, beams: int) -> None:
    """With them the sums differ, the choices among tokens do not where they weigh the same."""
    how = replace_config(HOW, beam_size=beams, n_best=1)
    theirs = Generator(task_of(name), network_of(name, spare=3))
    for decoded in theirs.search(TEXTS, how):
        assert all(i < TOKENS for text in decoded.texts for i in text.tokens)
    for decoded in theirs.sample(TEXTS, SamplingConfig(), HOW, samples=3):
        assert all(i < TOKENS for text in decoded.texts for i in text.tokens)
    if beams == 1:  # greedy: the sum is the same for all
        mine = [d.texts[0].text for d in ours(name).search(TEXTS, how)]
        assert mine == [d.texts[0].text for d in theirs.search(TEXTS, how)]


def replace_config(config: GenerationConfig, **options: Any) -> GenerationConfig:
    return GenerationConfig(**(config.model_dump() | options))


@every
def test_tokens_in_never_are_not_generated(name: str) -> None:
    likely = [i for d in ours(name).search(TEXTS, HOW) for i in d.texts[0].tokens]
    banned = ORDER[max(set(likely), key=likely.count)]
    special = replace(SOURCE if "translator" in name else ALONE, never=(banned,))
    theirs = Generator(task_of(name, special), network_of(name))
    assert all(banned not in t.tokens for d in theirs.search(TEXTS, HOW) for t in d.texts)
    drawn = theirs.sample(TEXTS, SamplingConfig(), HOW, samples=4)
    assert all(banned not in text.tokens for decoded in drawn for text in decoded.texts)


@every
def test_further_end_tokens_end_a_text(name: str) -> None:
    """The likeliest of the ends counts: no text goes on behind one."""
    frequent = [i for d in ours(name).search(TEXTS, HOW) for i in d.texts[0].tokens]
    second = ORDER[max(set(frequent), key=frequent.count)]
    special = SOURCE if "translator" in name else ALONE
    ended = Generator(task_of(name, replace(special, ends=(second,))), network_of(name))
    plain = Generator(task_of(name), network_of(name))
    greedy = replace_config(HOW, beam_size=1, n_best=1)
    for before, after in zip(plain.search(TEXTS, greedy), ended.search(TEXTS, greedy), strict=True):
        old, new = before.texts[0], after.texts[0]
        cut = old.tokens.index(second) if second in old.tokens else len(old.tokens)
        assert new.tokens == old.tokens[:cut]
        assert new.finished or cut == len(old.tokens)
        steps = len(new.token_log_probs)
        torch.testing.assert_close(new.token_log_probs, old.token_log_probs[:steps])


@pytest.mark.parametrize("name", ["translator", "decoder"])
@pytest.mark.parametrize("ends", [(), (ORDER[6],)])
def test_captured_search_equals_plain_search(name: str, ends: tuple[int, ...]) -> None:
    """What graphs replay, against the plain search."""
    network, task = network_of(name, spare=2), task_of(name)
    items = Generator(task, network).items(["abc", "gfe"], "")
    batch = task.collate(items)
    prefixes, inputs = decode_inputs(batch)
    never = (PAD, TOKENS, TOKENS + 1)
    least, most = decode.limits(network, prefixes, inputs, HOW)
    settings = SearchSettings(HOW.beam_size, HOW.n_best, HOW.alpha, EOS, PAD, never, ends)
    prefix = decode.as_rows(prefixes, network.device)
    given = filled(prefix, inputs or GenerationInputs(2), least, most, 2)
    length = 0 if given.ids is None else given.ids.shape[1]
    shape = Shape(2, length, prefix.shape[1], 16, settings)
    with torch.no_grad():
        rounds = Rounds(network, shape, given.copy(), PlainRound(choose, decode._settled))
        graphs = Graphs(rounds)
        graphs.begin(given)
        for number in range(int(most.max())):
            graphs.round(number)
        fixed = harvest(Beams(*rounds.sequences(int(most.max()))), HOW)
    plain = decode.find(network, prefixes, inputs, HOW, eos=EOS, pad=PAD, never=never, ends=ends)
    for one, two in zip(plain, fixed, strict=True):
        assert [h.tokens for h in one] == [h.tokens for h in two]
        for a, b in zip(one, two, strict=True):
            torch.testing.assert_close(a.token_log_probs, b.token_log_probs, rtol=1e-4, atol=1e-4)


def decode_inputs(batch: Any) -> Any:
    from translucid.tasks.next_tokens import prefixes_and_sources

    return prefixes_and_sources(batch)


def test_a_text_without_a_start_begins_with_itself() -> None:
    """As GPT-2's: the first token is read, not guessed; an empty prompt needs something."""
    task = Language(renumbered(replace(ROLES, frame=Frame())))
    ids = task.tokenizer.encode("abc")
    item = task.encode(Text("abc", 1))
    assert item.ids == ids
    assert item.targets == [*ids[1:], EOS]
    assert task.example("abc").words.target == ("a", "b", "c")
    assert task.example("abc").words.follows == ("b", "c", "?")
    generator = Generator(task, network_of("decoder"))
    assert generator.search(["abc"], HOW)[0].texts[0].text.startswith("abc")
    assert generator.search([""], HOW)[0].texts
    (drawn,) = generator.sample(["abc"], SamplingConfig(), HOW, seed=1)
    pieces = list(generator.sample_stream("abc", SamplingConfig(), HOW, seed=1))
    assert "".join(pieces) == drawn.texts[0].text
    for letter in "abcdefg":  # the first token is text, too, which may not come again
        once = generator.search([letter], replace_config(HOW, no_repeat_ngram=1))[0]
        assert not set(once.texts[0].tokens).intersection(task.tokenizer.encode(letter))


def test_a_decoder_may_start_with_several_tokens() -> None:
    """As BART's, which reads </s> <s> before its text."""
    special = replace(SOURCE, start=(EOS, BOS))
    tokenizer = renumbered(special)
    task = Translate(tokenizer, tokenizer)
    batch = task.collate([task.encode(Pair("ab", "cd", 1))])
    assert batch.inputs["target"].tolist() == [[EOS, BOS, *tokenizer.encode("cd")]]
    assert batch.targets.tolist() == [[-100, *tokenizer.encode("cd"), EOS]]
    assert task.example("ab", "cd").words.target == ("</s>", "<s>", "c", "d")
    generator = Generator(task, network_of("translator"))
    decoded = generator.search(["ab"], HOW)[0]
    forced = generator.search(["ab"], HOW, prefix=decoded.texts[0].text[:2])[0]
    assert forced.texts[0].text.startswith(decoded.texts[0].text[:2])
    assert generator.search([""], HOW)[0].texts[0].text == ""


def test_encoders_read_what_the_frame_says() -> None:
    tokenizer = renumbered(replace(ROLES, frame=Frame((BOS,), (EOS,), (EOS,))))
    task = Classify(tokenizer, ["x", "y"])
    mine = Classify(OURS, ["x", "y"])
    for text in TEXTS:
        one, two = mine.encode(Labelled(text, "y", 1)), task.encode(Labelled(text, "y", 1))
        assert [ORDER[i] for i in one.ids] == two.ids
        assert [ORDER[i] for i in mine.shorten(one, 3).ids] == task.shorten(two, 3).ids
        assert mine.example(text).words == task.example(text).words
    tagger = Tag(tokenizer, ["N", "V"])
    item = tagger.encode(Tagged(("ab", "c"), ("N", "V"), 1))
    assert item.ids == [BOS, *tokenizer.encode("ab c"), EOS]
    assert item.firsts == [1, 4]
    assert item.tags == [-100, 0, -100, -100, 1, -100]


def test_a_bundle_keeps_imported_tokenizers(tmp_path: Path) -> None:
    network, task = network_of("decoder", spare=2), task_of("decoder")
    assert isinstance(task, Language)
    held = model_folder.Bundle(network, "language", {"tokenizer": task.tokenizer})
    model_folder.save(held, tmp_path / "model")
    opened = model_folder.load(tmp_path / "model")
    again = opened.tokenizers["tokenizer"]
    assert again.fingerprint == task.tokenizer.fingerprint
    assert again.special == task.tokenizer.special
    mine, other = (Generator(Language(t), n).search(TEXTS, HOW) for t, n in
                   ((task.tokenizer, network), (again, opened.network)))  # fmt: skip
    assert [d.texts[0].text for d in mine] == [d.texts[0].text for d in other]
    assert "2 of 11 other words" in str(neighbours(network, again, "a", 2).note)
    small = model_folder.Bundle(randomised(FAMILIES["decoder"](5)), "language", held.tokenizers)
    model_folder.save(small, tmp_path / "small")
    with pytest.raises(InputError, match="tokenizer' has 12 tokens, but the model has 5"):
        model_folder.load(tmp_path / "small")


def test_dropped_words_become_their_unknown_token(tmp_path: Path) -> None:
    """Of a bundle, and of a run whose recipe names the tokenizer's folder."""
    tags = {"shape": "encoder", "head": "tag", "outputs": 2, "word_dropout": 0.5, "d_model": 8}
    network = build(RecurrentConfig(**tags, vocab=TOKENS))  # type: ignore[arg-type]
    theirs = renumbered(ROLES)
    Bundle(network, "tag", {"tokenizer": theirs}, ("a", "b"))
    (part,) = [part for part in network.modules() if isinstance(part, WordDropout)]
    ids = torch.tensor([[*range(TOKENS)]] * 50)
    read = part.train()(ids)
    assert set(read[read != ids].tolist()) == {UNK}
    assert (read[:, [PAD, BOS, EOS]] == ids[:, [PAD, BOS, EOS]]).all()
    spells_all = renumbered(replace(ROLES, unk=None))
    with pytest.raises(ConfigError, match=r"model\.word_dropout = 0\.5.*no unknown token"):
        Bundle(network, "tag", {"tokenizer": spells_all}, ("a", "b"))
    theirs.save(tmp_path / "tokenizer")
    (tmp_path / "train.tsv").write_text("a b\tgood\nc d\tbad\n" * 8)
    chosen = recipe.parse(
        {"task": {"kind": "classify"}, "data": {"train": [str(tmp_path / "train.tsv")]},
         "tokenizer": {"folder": str(tmp_path / "tokenizer")}, "training": {"device": "cpu"},
         "model": {"kind": "recurrent", "d_model": 8, "hidden": 8, "word_dropout": 0.5}}
    )  # fmt: skip
    built = set_up(chosen, lambda line: None, tokenizers=tmp_path).network
    (part,) = [part for part in built.modules() if isinstance(part, WordDropout)]
    assert part.unknown == UNK


def test_the_overfitting_check_renumbers_special_tokens() -> None:
    """Numbered anew, the batch of both tokenizers is the same one but for the special tokens."""
    kept = []
    for tokenizer in (OURS, renumbered(SOURCE)):
        task = Classify(tokenizer, ["x", "y"])
        items = [task.read_line(text, "", network_of("translator")) for text in ("abc", "gfe")]
        config = RecurrentConfig(
            shape="encoder", head="classify", outputs=2, vocab=TOKENS, d_model=8, hidden=8
        )
        batch, few = _renumbered(task.collate(items), config, task.vocabularies)
        assert isinstance(few, RecurrentConfig)
        assert int(batch.inputs["ids"].max()) < few.vocab
        kept.append(few.vocab)
    assert kept[0] == kept[1] == 4 + 6
