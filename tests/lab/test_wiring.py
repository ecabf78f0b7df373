"""What a run hands to the rules is what was measured, under its own name and in its own order: each
number is found again in another way, on nets too small to have learned anything."""

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from translucid.decoding.search import Hypothesis, Search
from translucid.lab import author as authors
from translucid.lab import (
    cross,
    exposure,
    fitting,
    head_cost,
    head_habits,
    head_links,
    heads,
    searching,
    smoothing,
    writing,
)
from translucid.lab.chains import Chain, small_decoder
from translucid.lab.searching import Tables
from translucid.tasks.base import IGNORE
from translucid.trace import Trace

# ---- searches ----


def chance(seed=0):
    return torch.Generator().manual_seed(seed)


def words_of(text):
    return len(text.tokens)


@pytest.mark.parametrize("seed", [0, 1])
def test_a_beam_is_compared_with_greedy_and_with_the_best_of_all(seed, monkeypatch):
    """All texts are listed; beams are searches of so many beams, over the models of this seed."""
    monkeypatch.setattr(searching, "WORDS", 3)
    monkeypatch.setattr(searching, "LENGTH", 4)
    found = searching._optimum(seed, True)
    models = searching._random_models(60, 3, chance(seed))
    every = torch.cartesian_prod(*[torch.arange(3)] * 4)
    text = torch.cat([torch.zeros(len(every), 2, dtype=torch.long), every], dim=1)
    listed = sum(models[:, text[:, at], text[:, at + 1], text[:, at + 2]] for at in range(4))
    best = listed.amax(dim=1)
    for at, beams in enumerate(searching.BEAMS):
        own, greedy = (
            torch.tensor([each.log_probability for each in
                          Tables(models).find(0, 4, Search(beams=width, alpha=0.0), eos=3)])
            for width in (beams, 1)
        )  # fmt: skip
        assert found["found"][at] == pytest.approx(float((own > best - 1e-6).double().mean()))
        assert found["above"][at] == pytest.approx(float((own > greedy + 1e-6).double().mean()))
        assert found["below"][at] == pytest.approx(float((own < greedy - 1e-6).double().mean()))
    assert found["found"][-1] > found["found"][0]  # or they would all be greedy


def test_dead_ends_of_hard_and_of_soft_models_are_their_own():
    """Under a softmax some way to an end is left; a text of ROOM tokens may hold no end."""
    found = searching._dead_ends(0, True)
    assert found["hard, impossible"] > 0
    assert found["soft, impossible"] == 0
    hard = searching._bracket_models(found["tries"], chance())
    wanted = 0
    for text in Tables(hard.log()).find(
        searching.START, searching.ROOM, Search(beams=1, alpha=0.0), eos=searching.END
    ):
        signs = "".join(searching.SIGNS[sign] for sign in text.tokens)
        beginnings = [signs[:end] for end in range(1, len(signs) + 1)]
        wanted += not all(
            any(whole.startswith(each) for whole in searching.sentences())
            for each in beginnings[: searching.ROOM - 1]
        )
    assert found["hard, ungrammatical"] == wanted


@pytest.mark.parametrize("seed", [0, 1])
def test_texts_are_as_long_as_the_search_writes_them(seed, monkeypatch):
    monkeypatch.setattr(smoothing, "BEAMS", (1, 3))
    found = smoothing._shorter(seed, True)
    size = (60, smoothing.WORDS, smoothing.WORDS, smoothing.WORDS + 1)
    logits = torch.randn(*size, generator=chance(seed), dtype=torch.float64)
    plain = (smoothing.SHARPNESS * logits).softmax(dim=-1)
    even = torch.full_like(plain, 1 / size[-1])
    for share in smoothing.SMOOTHING:
        p = torch.lerp(plain, even, share)
        for score, alpha in smoothing.SCORES.items():
            for at, beams in enumerate((1, 3)):
                texts = Tables(p.log()).find(
                    0, smoothing.MOST, Search(beams=beams, alpha=alpha), eos=smoothing.WORDS
                )
                wanted = sum(map(words_of, texts)) / len(texts)
                assert found[f"{share:g}"][score][at] == pytest.approx(wanted)


# ---- an author ----


@pytest.fixture(scope="module")
def writer():
    return authors.author(0, 2, sentences=50)


def test_sureness_and_loss_are_those_of_the_next_word(writer):
    """Word by word; behind the end nothing is asked."""
    sure, right, losses = [], [], []
    few = authors.Author(writer.net, writer.end, writer.unseen[:6])
    with torch.no_grad():
        for row in few.unseen.tolist():
            words = [word for word in row if word]
            for end in range(1, len(words)):
                p = writer.net(torch.tensor([words[:end]]))[0, -1].softmax(dim=-1)
                sure.append(float(p.max()))
                right.append(int(p.argmax()) == words[end])
                losses.append(-float(p[words[end]].log()))
    found = smoothing._on_unseen(few)
    assert found["sure"] == pytest.approx(np.mean(sure), abs=1e-5)
    assert found["right"] == pytest.approx(np.mean(right), abs=1e-5)
    assert found["loss"] == pytest.approx(np.mean(losses), abs=1e-4)


def test_with_smoothing_comes_after_without(monkeypatch):
    asked = []

    def planted(seed, steps, *, smoothing, sentences):
        asked.append((seed, sentences))
        return smoothing

    monkeypatch.setattr(smoothing, "author", planted)
    monkeypatch.setattr(smoothing, "_on_unseen", lambda share: {"error": share})
    found = smoothing._honesty(7, True)
    assert [found[setting]["error"] for setting in smoothing.SETTINGS] == [[0.0, 0.1]] * 2
    assert asked == [(7, size) for size, _ in smoothing.SETTINGS.values() for _ in range(2)]


def test_lengths_are_means_over_texts_of_each_beam(writer):
    for beams in (1, 3):
        texts = writer.write(beams=beams, alpha=0.0)
        wanted = sum(map(words_of, texts)) / len(texts)
        assert writing.mean_length(writer, beams, 0.0) == pytest.approx(wanted)

    def write(*, beams, alpha):
        return [Hypothesis([1] * count, 0.0, 0.0, [], finished=True) for count in (beams, 9)]

    assert writing.mean_length(SimpleNamespace(write=write), 3, 0.0) == 6.0


def test_words_drawn_stand_in_their_own_texts_with_their_own_log_probability(writer):
    numbers = torch.rand(len(writer.prompts), authors.LONGEST, generator=chance(3))
    texts = writing._drawn(writer, chance(3))
    for row in (0, 5, 39):
        words, gains = texts[row]
        read = list(writer.prompts[row])
        for step, (word, gain) in enumerate(zip(words, gains, strict=True)):
            with torch.no_grad():
                p = writer.net(torch.tensor([read]))[0, -1].softmax(dim=-1)
            assert gain == pytest.approx(float(p[word].log()), abs=1e-4)
            assert 0 <= numbers[row, step] < 1
            read.append(word)


def test_what_is_written_is_told_of_each_way_to_write(writer, monkeypatch):
    drawn = [([1, 2, 3, 4, 5], [-2.0]), ([6, 7], [-4.0])]
    seeds = []

    def planted(_, chance):
        seeds.append(chance.initial_seed())
        return drawn

    monkeypatch.setattr(writing, "author", lambda *_: writer)
    monkeypatch.setattr(writing, "_drawn", planted)
    found = writing._mechanism(5, True)
    greedy = writer.write(beams=1, alpha=0.0)
    gains = [gain for text in greedy for gain in text.gains]
    assert seeds == [5]
    assert found["greedy"]["log p"] == pytest.approx(np.mean(gains))
    assert found["drawn"] == {"new pairs": 1.0, "log p": -3.0}
    real = [[word for word in row if word][2:] for row in writer.unseen[:40].tolist()]
    pairs = [pair for words in real for pair in pairwise(words)]
    assert found["toyland"]["new pairs"] == pytest.approx(len(set(pairs)) / len(pairs))
    assert found["taken"] == 1.0


# ---- translators and gaps ----


def test_a_translator_learns_from_the_source_to_write_the_target(monkeypatch):
    """At each place it reads the target's word before, and is to say the next one, then the end."""
    seen = []

    class Recording(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.zeros(1))

        def forward(self, source, read):
            seen.append([source, read])
            return self.weight

    def loss(logits, wanted):
        seen[-1].append(wanted)
        return logits.sum()

    monkeypatch.setattr(cross, "cross_entropy", loss)
    cross._teach(Recording(), 12, chance())
    assert len({source.shape[1] for source, _, _ in seen}) > 2  # of many lengths
    for source, read, wanted in seen:
        target = (source.flip(1) - cross.FIRST + 3) % cross.WORDS + cross.FIRST
        assert (read[:, 0] == cross.START).all()
        assert torch.equal(read[:, 1:], target)
        assert torch.equal(wanted[:, :-1], target)
        assert (wanted[:, -1] == cross.END).all()


def test_what_is_told_of_translators_is_told_under_its_name(monkeypatch):
    monkeypatch.setattr(cross, "_translator", lambda arm, seed: f"{arm} {seed}")
    monkeypatch.setattr(cross, "_teach", lambda *_: None)
    monkeypatch.setattr(cross, "_right", lambda net, length, _: (net, length))
    monkeypatch.setattr(cross, "_aligned", lambda net, length, _: ("aligned", length))
    monkeypatch.setattr(cross, "_ends", lambda net, length, _: (length, -length))
    found = cross._translate(3, True)
    every = [*cross.LENGTHS, cross.LONGER]
    for arm in cross.ARMS:
        assert found[arm] == [(f"{arm} 3", length) for length in cross.LENGTHS]
    assert found["aligned"] == [("aligned", length) for length in cross.LENGTHS]
    assert found["ends"] == every
    assert found["length right"] == [-length for length in every]
    assert found["untrained ends"] == cross.LENGTHS[-1]


def test_another_seed_is_another_net():
    for make in (
        lambda seed: cross._translator("attention", seed),
        lambda seed: cross._reader("both sides", seed),
        lambda seed: heads._net(seed, 2),
        lambda seed: small_decoder(9, seed=seed),
    ):
        one, same, other = (torch.nn.utils.parameters_to_vector(make(seed).parameters())
                            for seed in (0, 0, 1))  # fmt: skip
        assert torch.equal(one, same)
        assert not torch.equal(one, other)


def test_who_sees_both_sides_does_and_who_sees_the_left_does_not():
    ids, _ = cross.clozes(4, cross.SIDES[1], chance())
    other = ids.clone()
    other[:, -1] = (other[:, -1] + 1) % cross.FILLERS
    for reader in cross.READERS:
        net = cross._reader(reader, 0).eval()
        changed = (net(ids) - net(other))[:, 0].abs().max() > 1e-6
        assert bool(changed) == (reader == "both sides")


def test_gaps_are_filled_on_the_side_that_is_asked(monkeypatch):
    """One who names the clue that stands on the left, and 0 where none does."""

    def left_reader(ids):
        said = torch.zeros(*ids.shape, cross.CLUES)
        for row, place in (ids == cross.GAP).nonzero().tolist():
            clues = [word - cross.FILLERS for word in ids[row, :place].tolist()
                     if word >= cross.FILLERS]  # fmt: skip
            said[row, place, clues[0] if clues else 0] = 1.0
        return said

    assert cross._filled(left_reader, cross.SIDES[0], chance()) == 1.0
    assert cross._filled(left_reader, cross.SIDES[1], chance()) == pytest.approx(1 / 8, abs=0.05)
    monkeypatch.setattr(cross, "_reader", lambda reader, seed: left_reader)
    monkeypatch.setattr(cross, "learn", lambda *_, **__: None)
    for shares in cross._cloze(0, True).values():
        assert shares == pytest.approx([1.0, 1 / 8], abs=0.05)


# ---- exposure ----


def test_distance_from_the_truth_by_hand():
    chain = Chain.random(exposure.WORDS, 2, 1.0, chance())
    net = small_decoder(exposure.WORDS + 1, seed=0, d_model=8).eval()
    texts = chain.draw(3, 6, chance())
    total = []
    with torch.no_grad():
        for row in texts.tolist():
            for end in range(2, 7):
                said = net(torch.tensor([row[:end]]))[0, -1].log_softmax(dim=-1)
                truth = chain.table[row[end - 2], row[end - 1]]
                total.append(sum(float(p * (p.log() - said[word])) for word, p in enumerate(truth)))
    assert exposure._distance(net, chain, texts) == pytest.approx(np.mean(total), abs=1e-5)


def test_exposure_is_tried_on_the_text_and_on_what_the_net_wrote(monkeypatch):
    """And a net that has learned from the text's words says no more of them than its own draws."""
    seeds = []

    def net_of(words, *, seed):
        seeds.append(seed)
        return small_decoder(words, seed=seed, d_model=8)

    own = torch.full((200, exposure.LENGTH), 7)
    monkeypatch.setattr(exposure, "small_decoder", net_of)
    monkeypatch.setattr(exposure, "learn", lambda *_, **__: None)
    monkeypatch.setattr(exposure, "_written", lambda *_: own)
    monkeypatch.setattr(exposure, "_distance", lambda net, chain, texts: float(texts is own))
    monkeypatch.setattr(exposure, "_drawn", lambda net, read, chance: (read + 1) % exposure.WORDS)
    found = exposure._exposure(4, True)
    assert seeds == [4, 4]
    assert [[found[arm][side] for side in exposure.SIDES] for arm in exposure.OWN] == [[0, 1]] * 2
    draws = chance(4)
    chain = Chain.random(exposure.WORDS, 2, 5.0, draws)
    _, test = (chain.draw(count, exposure.BEFORE + exposure.LENGTH + 1, draws)[:, exposure.BEFORE :]
               for count in (400, 200))  # fmt: skip
    after = ((test[:, :-1] + 1) % exposure.WORDS == test[:, 1:]).float().mean()
    assert found["same"] == pytest.approx(float(after))
    assert found["later"] < 1e-4


def test_later_words_change_later_outputs_alone():
    class Reads(torch.nn.Module):
        """Says at each place the sum of the words up to it, and one of those behind."""

        def __init__(self, ahead):
            super().__init__()
            self.ahead = ahead

        def forward(self, ids):
            seen = torch.cat([ids, torch.zeros(len(ids), self.ahead, dtype=ids.dtype)], dim=1)
            return seen.cumsum(dim=1)[:, self.ahead :, None].float()

    texts = torch.randint(exposure.WORDS, (3, 10), generator=chance())
    assert exposure._later(Reads(0), texts) == 0
    assert exposure._later(Reads(1), texts) > 0


# ---- heads ----


@pytest.fixture(scope="module")
def linked():
    """A net of two layers that has learned nothing, and sentences."""
    from translucid.data.toyland import Toyland

    sentences = list(Toyland(seed=0).sentences("train", 120))
    words = head_links.Lexicon(sentences)
    texts = words.texts(sentences)
    return head_links._trained(words, texts, 0, 0), texts


def test_maps_are_those_of_the_heads_in_order(linked):
    """Layer by layer, as a trace names them and as the switches count them."""
    net, texts = linked
    trace = Trace("*")
    with torch.no_grad():
        net(texts.english, texts.real, trace=trace)
    found = head_links._maps(net, texts)
    assert len(found) == len(head_links._heads(net)) == head_links.LAYERS * head_links.HEADS
    for number, pattern in enumerate(found):
        layer, head = divmod(number, head_links.HEADS)
        name = f"encoder.layers.{layer}.self_attention.pattern"
        assert torch.allclose(pattern, trace[name][:, head], atol=1e-6)
        switch = head_links._heads(net)[number]
        assert (switch.layer, switch.head) == (layer, head)


def test_patterns_are_found_by_name_layer_by_layer(linked):
    net, texts = linked
    trace = Trace("*")
    with torch.no_grad():
        net(texts.english, texts.real, trace=trace)
    found = fitting.patterns(net, texts.english, texts.real)
    assert len(found) == head_links.LAYERS
    for layer, pattern in enumerate(found):
        name = f"encoder.layers.{layer}.self_attention.pattern"
        assert torch.allclose(pattern, trace[name], atol=1e-6)
    assert not torch.allclose(*found, atol=1e-3)


def test_what_is_measured_of_links_is_measured_with_the_best_head(monkeypatch):
    """A net that has learned nothing: its best head is found again, and what is lost without it
    is the loss with its part of the output's weights put to 0, less the loss with all."""
    kept = {}
    trained = head_links._trained

    def remembered(words, texts, seed, steps):
        kept["words"], kept["net"] = words, trained(words, texts, seed, steps)
        return kept["net"]

    monkeypatch.setattr(head_links, "_trained", remembered)
    found = head_links._measured(0, (60, 120, 120), 0)
    world = head_links.Toyland(seed=0)
    words, net = kept["words"], kept["net"]
    valid, test = (words.texts(list(world.sentences(split, 120))) for split in ("valid", "test"))

    def losses():
        with torch.no_grad():
            logits = net(test.english, test.real)
            return F.cross_entropy(logits.transpose(1, 2), test.german, reduction="none",
                                   ignore_index=IGNORE)  # fmt: skip

    asked = test.german != head_links.NOTHING
    whole = losses()
    assert found["loss"] == pytest.approx(float(whole[asked].mean()), abs=1e-5)
    for relation in head_links.RELATIONS:
        told = found[relation]
        shares = [
            [head_links.meets(each, texts.links(relation)) for each in head_links._maps(net, texts)]
            for texts in (valid, test)
        ]
        assert told["best"] == int(np.argmax(shares[0]))
        assert told["share"] == pytest.approx(shares[1])
        away = [head - word for _, word, head in test.links(relation).tolist()]
        assert told["baseline"] == pytest.approx(away.count(told["offset"]) / len(away))
        layer, head = divmod(told["best"], head_links.HEADS)
        output = net.encoder.layers[layer].self_attention.output
        before = output.weight.detach().clone()
        with torch.no_grad():
            output.weight.unflatten(1, (head_links.HEADS, -1))[:, head] = 0
        more = losses() - whole
        with torch.no_grad():
            output.weight.copy_(before)
        own = torch.zeros_like(asked)
        for row, word, _ in test.links(relation).tolist():
            own[row, word] = True
        assert told["lost"] == pytest.approx(float(more[own & asked].mean()), abs=1e-5)
        assert told["lost elsewhere"] == pytest.approx(float(more[asked & ~own].mean()), abs=1e-5)
    seen = found["example"]
    rows = [row for row, each in enumerate(test.sentences) if list(each.english) == seen["words"]]
    maps = head_links._maps(net, test)
    for relation, drawn in zip(head_links.RELATIONS, seen["maps"], strict=True):
        size = len(seen["words"])
        own_map = maps[found[relation]["best"]][rows[0], :size, :size]
        assert torch.allclose(torch.tensor(drawn), own_map)


def test_heads_are_asked_about_sequences_that_training_has_not_drawn(monkeypatch):
    """Nets as they begin: what each number of heads gets right, and how far apart its heads look
    at words that have enough words before them."""
    monkeypatch.setattr(heads, "_trained", lambda net, *_: net.eval())
    found = heads._relations(3, True)
    x, wanted = heads.two_back(512, chance(1_000_003))
    for place, count in enumerate(heads.HEADS):
        net = heads._net(3, count).eval()
        with torch.no_grad():
            said = net(x)[:, heads.FAR :].argmax(dim=-1)
        hits = (said == wanted[:, heads.FAR :]).float().mean()
        assert found["accuracy"][place] == pytest.approx(float(hits))
        (pattern,) = fitting.patterns(net, x)
        late = [fitting.apart(pattern[:, :, [query]]) for query in range(heads.FAR, x.shape[1])]
        assert found["apart"][place] == pytest.approx(np.mean(late), abs=1e-6)
        far = [pattern[:, :, query, query - heads.FAR] for query in range(heads.FAR, x.shape[1])]
        wanted_far = torch.stack(far).mean(dim=(0, 1))
        assert [row[-1] for row in found["back"][place]] == pytest.approx(wanted_far.tolist())


def test_heads_go_by_one_half_and_are_counted_on_the_other(monkeypatch):
    """Batches by name; what is right without heads is told by a table."""
    chosen = []

    def without(net, gone, batch):
        if batch == "chosen on":
            chosen.append(list(gone))
            return 1.0 if gone[-1] == 5 - len(gone) else 0.5  # 4 goes first, then 3, 2, 1, 0
        return 0.9 - 0.1 * len(gone)

    monkeypatch.setattr(heads, "MANY", 5)
    monkeypatch.setattr(heads, "_without", without)
    monkeypatch.setattr(heads, "right", lambda net, batch: {"measured on": 0.95}[batch])
    assert heads._gain(None, "chosen on", "measured on") == pytest.approx(0.8 - 0.95)
    found = heads._curve(None, "chosen on", "measured on")
    assert found == pytest.approx([0.95, 0.8, 0.7, 0.6, 0.5])
    assert chosen[-1][:3] == [4, 3, 2]


def test_features_are_fetched_from_the_words_that_are_asked_for():
    """A layer that fetches the word before, coarse and fine, makes no error where that is asked,
    and errs in the fine features alone where they stand two words back."""
    habits = head_habits

    class Before(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.none = torch.nn.Parameter(torch.zeros(1))

        def forward(self, x, layout):
            return x.roll(1, dims=1) + 0 * self.none

    same, different = (habits._fetch(Before(), back, 0, 30) for back in habits.BACK.values())
    assert same == pytest.approx(0.0, abs=1e-9)
    assert different == pytest.approx(
        0.5 * 2, rel=0.1
    )  # half of the features, twice their variance


def test_layers_split_before_and_after_training_are_told_apart(monkeypatch):
    looks = iter(range(100))
    monkeypatch.setattr(head_habits, "split", lambda layer: float(next(looks) % 2))  # after: 1
    monkeypatch.setattr(head_habits, "_fetch", lambda layer, back, seed, steps: float(sum(back)))
    for name, told in head_habits._coarse_fine(0, True).items():
        error = float(sum(head_habits.BACK[name]))
        assert told == {"before": 0.0, "after": 1.0, "split": 1.0, "error": error}


def test_three_words_are_asked_about_the_sentences_of_the_claim(monkeypatch):
    monkeypatch.setattr(head_habits, "train", lambda net, *_, **__: net.eval())
    found = head_habits._three_words(2, True)
    asked = head_habits.numbers([("I", "am", name) for name in ("Tom", "Max", "Anna", "Julia")])
    maps = [fitting.patterns(head_habits._three_net(2000 + number), asked)[0][:, 0].mean(dim=0)
            for number in range(3)]  # fmt: skip
    assert torch.allclose(torch.tensor(found["map"]), torch.stack(maps).mean(dim=0), atol=1e-6)
    first = np.mean([float(each[0, 1] > each[0, 2]) for each in maps])
    second = np.mean([float(each[2, 0] > each[2, 1]) for each in maps])
    assert found["links"] == pytest.approx({"I → am": first, "name → I": second})


def test_held_out_words_are_asked_for_and_padding_is_not():
    net = small_decoder(9, seed=0, d_model=8).eval()
    ids = torch.tensor([[3, 4, 5, 0, 0], [6, 7, 8, 2, 1]])
    losses = []
    with torch.no_grad():
        for row in ids.tolist():
            words = [word for word in row if word]
            for end in range(1, len(words)):
                said = net(torch.tensor([words[:end]]))[0, -1].log_softmax(dim=-1)
                losses.append(-float(said[words[end]]))
    assert head_cost._held_out(net, ids) == pytest.approx(np.mean(losses), abs=1e-5)


def test_nets_that_share_keys_never_see_what_is_held_out(monkeypatch):
    text = head_cost.next_words(0)
    read, asked = [], []
    monkeypatch.setattr(
        head_cost, "fit", lambda net, loss, **_: read.append(loss.func.__self__.ids)
    )
    monkeypatch.setattr(head_cost, "_held_out", lambda net, ids: asked.append(ids) or 0.0)
    found = head_cost._grouped(0, True)
    size = head_cost.HELD_OUT
    assert len(read) == len(asked) == len(head_cost.SHARED)
    assert all(torch.equal(ids, text.ids[:-size]) for ids in read)
    assert all(torch.equal(ids, text.ids[-size:]) for ids in asked)
    assert found["numbers"] == [2 * 2 * shared * 4 for shared in head_cost.SHARED]
