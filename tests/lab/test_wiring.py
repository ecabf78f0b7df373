"""What a run hands to the rules is what was measured, under its own name and in its own order: each
number is found again in another way, on nets too small to have learned anything."""

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from translucid.core.trace import Trace
from translucid.generate.beam_search import GenerationConfig, Hypothesis
from translucid.tasks.batch import IGNORE
from translucid_lab.claims import (
    attention_tasks,
    beam_search_errors,
    bidirectional_context,
    cross_attention,
    decoded_texts,
    exposure_bias,
    head_sizes,
    head_specialisation,
    label_smoothing,
    multi_head,
    syntactic_heads,
    three_words,
)
from translucid_lab.claims.beam_search_errors import Tables
from translucid_lab.claims.markov_chain import Chain, small_decoder

# ---- searches ----


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def words_of(text):
    return len(text.tokens)


@pytest.mark.parametrize("seed", [0, 1])
def test_a_beam_is_compared_with_greedy_and_with_the_best_of_all(seed, monkeypatch):
    """All texts are listed; beams are searches of so many beams, over the models of this seed."""
    monkeypatch.setattr(beam_search_errors, "WORDS", 3)
    monkeypatch.setattr(beam_search_errors, "LENGTH", 4)
    found = beam_search_errors._optimum(seed, True)
    models = beam_search_errors._random_models(60, 3, generator(seed))
    every = torch.cartesian_prod(*[torch.arange(3)] * 4)
    text = torch.cat([torch.zeros(len(every), 2, dtype=torch.long), every], dim=1)
    listed = sum(models[:, text[:, at], text[:, at + 1], text[:, at + 2]] for at in range(4))
    best = listed.amax(dim=1)
    for at, beams in enumerate(beam_search_errors.BEAMS):
        own, greedy = (
            torch.tensor([each.log_probability for each in Tables(models).find(
                0, 4, GenerationConfig(beam_size=width, alpha=0.0), eos=3)])
            for width in (beams, 1)
        )  # fmt: skip
        assert found["found"][at] == pytest.approx(float((own > best - 1e-6).double().mean()))
        assert found["above"][at] == pytest.approx(float((own > greedy + 1e-6).double().mean()))
        assert found["below"][at] == pytest.approx(float((own < greedy - 1e-6).double().mean()))
    assert found["found"][-1] > found["found"][0]  # or they would all be greedy


def test_dead_ends_of_hard_and_of_soft_models_are_their_own():
    """Under a softmax some way to an end is left; a text of ROOM tokens may hold no end."""
    found = beam_search_errors._dead_ends(0, True)
    assert found["hard, impossible"] > 0
    assert found["soft, impossible"] == 0
    hard = beam_search_errors._bracket_models(found["tries"], generator())
    wanted = 0
    for text in Tables(hard.log()).find(
        beam_search_errors.START,
        beam_search_errors.ROOM,
        GenerationConfig(beam_size=1, alpha=0.0),
        eos=beam_search_errors.END,
    ):
        signs = "".join(beam_search_errors.SIGNS[sign] for sign in text.tokens)
        beginnings = [signs[:end] for end in range(1, len(signs) + 1)]
        wanted += not all(
            any(whole.startswith(each) for whole in beam_search_errors.sentences())
            for each in beginnings[: beam_search_errors.ROOM - 1]
        )
    assert found["hard, ungrammatical"] == wanted


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_texts_are_as_long_as_the_search_writes_them(seed, monkeypatch):
    monkeypatch.setattr(label_smoothing, "BEAMS", (1, 3))
    found = label_smoothing._shorter(seed, True)
    size = (60, label_smoothing.WORDS, label_smoothing.WORDS, label_smoothing.WORDS + 1)
    logits = torch.randn(*size, generator=generator(seed), dtype=torch.float64)
    plain = (label_smoothing.SHARPNESS * logits).softmax(dim=-1)
    even = torch.full_like(plain, 1 / size[-1])
    for share in label_smoothing.SMOOTHING:
        p = torch.lerp(plain, even, share)
        for score, alpha in label_smoothing.SCORES.items():
            for at, beams in enumerate((1, 3)):
                texts = Tables(p.log()).find(
                    0,
                    label_smoothing.MOST,
                    GenerationConfig(beam_size=beams, alpha=alpha),
                    eos=label_smoothing.WORDS,
                )
                wanted = sum(map(words_of, texts)) / len(texts)
                assert found[f"{share:g}"][score][at] == pytest.approx(wanted)


# ---- an author ----


@pytest.fixture(scope="module")
def writer():
    return decoded_texts.language_model(0, 2, sentences=50)


def test_sureness_and_loss_are_those_of_the_next_word(writer):
    """Word by word; behind the end nothing is asked."""
    sure, right, losses = [], [], []
    few = decoded_texts.LanguageModel(writer.net, writer.end, writer.unseen[:6])
    with torch.no_grad():
        for row in few.unseen.tolist():
            words = [word for word in row if word]
            for end in range(1, len(words)):
                p = writer.net(torch.tensor([words[:end]]))[0, -1].softmax(dim=-1)
                sure.append(float(p.max()))
                right.append(int(p.argmax()) == words[end])
                losses.append(-float(p[words[end]].log()))
    found = label_smoothing._on_unseen(few)
    assert found["sure"] == pytest.approx(np.mean(sure), abs=1e-5)
    assert found["right"] == pytest.approx(np.mean(right), abs=1e-5)
    assert found["loss"] == pytest.approx(np.mean(losses), abs=1e-4)


def test_with_smoothing_comes_after_without(monkeypatch):
    asked = []

    def planted(seed, steps, *, smoothing, sentences):
        asked.append((seed, sentences))
        return smoothing

    monkeypatch.setattr(label_smoothing, "language_model", planted)
    monkeypatch.setattr(label_smoothing, "_on_unseen", lambda share: {"error": share})
    found = label_smoothing._honesty(7, True)
    assert [found[setting]["error"] for setting in label_smoothing.SETTINGS] == [[0.0, 0.1]] * 2
    assert asked == [(7, size) for size, _ in label_smoothing.SETTINGS.values() for _ in range(2)]


def test_lengths_are_means_over_texts_of_each_beam(writer):
    for beams in (1, 3):
        texts = writer.generate(beams=beams, alpha=0.0)
        wanted = sum(map(words_of, texts)) / len(texts)
        assert decoded_texts.mean_length(writer, beams, 0.0) == pytest.approx(wanted)

    def generate(*, beams, alpha):
        return [Hypothesis([1] * count, 0.0, 0.0, [], finished=True) for count in (beams, 9)]

    assert decoded_texts.mean_length(SimpleNamespace(generate=generate), 3, 0.0) == 6.0


def test_sampled_words_have_their_own_log_probability(writer):
    numbers = torch.rand(len(writer.prompts), decoded_texts.MAX_LENGTH, generator=generator(3))
    texts = decoded_texts._drawn(writer, generator(3))
    for row in (0, 5, 39):
        words, token_log_probs = texts[row]
        read = list(writer.prompts[row])
        for step, (word, gain) in enumerate(zip(words, token_log_probs, strict=True)):
            with torch.no_grad():
                p = writer.net(torch.tensor([read]))[0, -1].softmax(dim=-1)
            assert gain == pytest.approx(float(p[word].log()), abs=1e-4)
            assert 0 <= numbers[row, step] < 1
            read.append(word)


def test_each_way_of_decoding_is_reported_under_its_name(writer, monkeypatch):
    drawn = [([1, 2, 3, 4, 5], [-2.0]), ([6, 7], [-4.0])]
    seeds = []

    def planted(_, generator):
        seeds.append(generator.initial_seed())
        return drawn

    monkeypatch.setattr(decoded_texts, "language_model", lambda *_: writer)
    monkeypatch.setattr(decoded_texts, "_drawn", planted)
    found = decoded_texts._mechanism(5, True)
    greedy = writer.generate(beams=1, alpha=0.0)
    token_log_probs = [gain for text in greedy for gain in text.token_log_probs]
    assert seeds == [5]
    assert found["greedy"]["log p"] == pytest.approx(np.mean(token_log_probs))
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

    monkeypatch.setattr(cross_attention, "cross_entropy", loss)
    cross_attention._teach(Recording(), 12, generator())
    assert len({source.shape[1] for source, _, _ in seen}) > 2  # of many lengths
    for source, read, wanted in seen:
        target = (
            source.flip(1) - cross_attention.FIRST + 3
        ) % cross_attention.WORDS + cross_attention.FIRST
        assert (read[:, 0] == cross_attention.START).all()
        assert torch.equal(read[:, 1:], target)
        assert torch.equal(wanted[:, :-1], target)
        assert (wanted[:, -1] == cross_attention.END).all()


def test_each_translator_is_reported_under_its_name(monkeypatch):
    monkeypatch.setattr(cross_attention, "_translator", lambda arm, seed: f"{arm} {seed}")
    monkeypatch.setattr(cross_attention, "_teach", lambda *_: None)
    monkeypatch.setattr(cross_attention, "_picked", lambda seed, steps: (seed, steps))
    monkeypatch.setattr(cross_attention, "_right", lambda net, length, _: (net, length))
    monkeypatch.setattr(cross_attention, "_aligned", lambda net, length, _: ("aligned", length))
    monkeypatch.setattr(cross_attention, "_ends", lambda net, length, _: (length, -length))
    found = cross_attention._translate(3, True)
    every = [*cross_attention.LENGTHS, cross_attention.LONGER]
    for arm in cross_attention.ARMS:
        assert found[arm] == [(f"{arm} 3", length) for length in cross_attention.LENGTHS]
    assert found["aligned"] == [("aligned", length) for length in cross_attention.LENGTHS]
    assert found["ends"] == every
    assert found["length right"] == [-length for length in every]
    assert found["untrained ends"] == cross_attention.LENGTHS[-1]
    assert found["picked"] == (3, 140)


def test_queries_and_values_change_places():
    places = torch.arange(5).view(1, 1, 5, 1)
    assert attention_tasks.swap_first_two(places).flatten().tolist() == [1, 0, 2, 3, 4]
    assert cross_attention._last_two(places).flatten().tolist() == [0, 1, 2, 4, 3]


def test_a_translator_that_picks_by_place_is_found_out(monkeypatch):
    """Untaught, answers do not follow; and what is asked of it are fractions."""
    monkeypatch.setattr(cross_attention, "_teach", lambda *_, **__: None)
    picked = cross_attention._picked(0, 1)
    assert set(picked) == {"right", "aligned", "query", "value"}
    assert max(picked.values()) < 0.6


def test_another_seed_is_another_net():
    for make in (
        lambda seed: cross_attention._translator("attention", seed),
        lambda seed: bidirectional_context._reader("both sides", seed),
        lambda seed: multi_head._net(seed, 2),
        lambda seed: small_decoder(9, seed=seed),
    ):
        one, same, other = (torch.nn.utils.parameters_to_vector(make(seed).parameters())
                            for seed in (0, 0, 1))  # fmt: skip
        assert torch.equal(one, same)
        assert not torch.equal(one, other)


def test_an_encoder_sees_both_sides_and_a_decoder_the_left():
    ids, _ = bidirectional_context.clozes(4, bidirectional_context.SIDES[1], generator())
    other = ids.clone()
    other[:, -1] = (other[:, -1] + 1) % bidirectional_context.FILLERS
    for reader in bidirectional_context.READERS:
        net = bidirectional_context._reader(reader, 0).eval()
        changed = (net(ids) - net(other))[:, 0].abs().max() > 1e-6
        assert bool(changed) == (reader == "both sides")


def test_gap_accuracy_is_that_of_the_requested_side(monkeypatch):
    """One who names the clue that stands on the left, and 0 where none does."""

    def left_reader(ids):
        said = torch.zeros(*ids.shape, bidirectional_context.CLUES)
        for row, place in (ids == bidirectional_context.GAP).nonzero().tolist():
            clues = [word - bidirectional_context.FILLERS for word in ids[row, :place].tolist()
                     if word >= bidirectional_context.FILLERS]  # fmt: skip
            said[row, place, clues[0] if clues else 0] = 1.0
        return said

    assert (
        bidirectional_context._filled(left_reader, bidirectional_context.SIDES[0], generator())
        == 1.0
    )
    assert bidirectional_context._filled(
        left_reader, bidirectional_context.SIDES[1], generator()
    ) == pytest.approx(1 / 8, abs=0.05)
    monkeypatch.setattr(bidirectional_context, "_reader", lambda reader, seed: left_reader)
    monkeypatch.setattr(bidirectional_context, "train", lambda *_, **__: None)
    for shares in bidirectional_context._cloze(0, True).values():
        assert shares == pytest.approx([1.0, 1 / 8], abs=0.05)


# ---- exposure ----


def test_distance_from_the_truth_by_hand():
    chain = Chain.random(exposure_bias.WORDS, 2, 1.0, generator())
    net = small_decoder(exposure_bias.WORDS + 1, seed=0, d_model=8).eval()
    texts = chain.draw(3, 6, generator())
    total = []
    with torch.no_grad():
        for row in texts.tolist():
            for end in range(2, 7):
                said = net(torch.tensor([row[:end]]))[0, -1].log_softmax(dim=-1)
                truth = chain.table[row[end - 2], row[end - 1]]
                total.append(sum(float(p * (p.log() - said[word])) for word, p in enumerate(truth)))
    assert exposure_bias._distance(net, chain, texts) == pytest.approx(np.mean(total), abs=1e-5)


def test_exposure_is_tried_on_the_text_and_on_what_the_net_wrote(monkeypatch):
    """And a net that has learned from the text's words says no more of them than its own draws."""
    seeds = []

    def net_of(words, *, seed):
        seeds.append(seed)
        return small_decoder(words, seed=seed, d_model=8)

    own = torch.full((200, exposure_bias.LENGTH), 7)
    monkeypatch.setattr(exposure_bias, "small_decoder", net_of)
    monkeypatch.setattr(exposure_bias, "train", lambda *_, **__: None)
    monkeypatch.setattr(exposure_bias, "_written", lambda *_: own)
    monkeypatch.setattr(exposure_bias, "_distance", lambda net, chain, texts: float(texts is own))
    monkeypatch.setattr(
        exposure_bias, "_drawn", lambda net, read, generator: (read + 1) % exposure_bias.WORDS
    )
    found = exposure_bias._exposure(4, True)
    assert seeds == [4, 4]
    assert [[found[arm][side] for side in exposure_bias.SIDES] for arm in exposure_bias.OWN] == [
        [0, 1]
    ] * 2
    draws = generator(4)
    chain = Chain.random(exposure_bias.WORDS, 2, 5.0, draws)
    length = exposure_bias.BEFORE + exposure_bias.LENGTH + 1
    _, test = (chain.draw(count, length, draws)[:, exposure_bias.BEFORE :] for count in (400, 200))
    after = ((test[:, :-1] + 1) % exposure_bias.WORDS == test[:, 1:]).float().mean()
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

    texts = torch.randint(exposure_bias.WORDS, (3, 10), generator=generator())
    assert exposure_bias._later(Reads(0), texts) == 0
    assert exposure_bias._later(Reads(1), texts) > 0


# ---- heads ----


@pytest.fixture(scope="module")
def linked():
    """A net of two layers that has learned nothing, and sentences."""
    from translucid.data.toyland import Toyland

    sentences = list(Toyland(seed=0).sentences("train", 120))
    words = syntactic_heads.Lexicon(sentences)
    texts = words.texts(sentences)
    return syntactic_heads._trained(words, texts, 0, 0), texts


def test_maps_are_those_of_the_heads_in_order(linked):
    """Layer by layer, as a trace names them and as the switches count them."""
    net, texts = linked
    trace = Trace("*")
    with torch.no_grad():
        net(texts.english, texts.mask, trace=trace)
    found = syntactic_heads._maps(net, texts)
    assert (
        len(found)
        == len(syntactic_heads._heads(net))
        == syntactic_heads.LAYERS * syntactic_heads.HEADS
    )
    for number, pattern in enumerate(found):
        layer, head = divmod(number, syntactic_heads.HEADS)
        name = f"encoder.layers.{layer}.self_attention.pattern"
        assert torch.allclose(pattern, trace[name][:, head], atol=1e-6)
        switch = syntactic_heads._heads(net)[number]
        assert (switch.layer, switch.head) == (layer, head)


def test_patterns_are_found_by_name_layer_by_layer(linked):
    net, texts = linked
    trace = Trace("*")
    with torch.no_grad():
        net(texts.english, texts.mask, trace=trace)
    found = attention_tasks.patterns(net, texts.english, texts.mask)
    assert len(found) == syntactic_heads.LAYERS
    for layer, pattern in enumerate(found):
        name = f"encoder.layers.{layer}.self_attention.pattern"
        assert torch.allclose(pattern, trace[name], atol=1e-6)
    assert not torch.allclose(*found, atol=1e-3)


@pytest.mark.slow
def test_links_are_measured_with_the_best_head(monkeypatch):
    """A net that has learned nothing: its best head is found again, and what is lost without it
    is the loss with its part of the output's weights put to 0, less the loss with all."""
    kept = {}
    trained = syntactic_heads._trained

    def remembered(words, texts, seed, steps):
        kept["words"], kept["net"] = words, trained(words, texts, seed, steps)
        return kept["net"]

    monkeypatch.setattr(syntactic_heads, "_trained", remembered)
    found = syntactic_heads._measured(0, (60, 120, 120), 0)
    world = syntactic_heads.Toyland(seed=0)
    words, net = kept["words"], kept["net"]
    valid, test = (words.texts(list(world.sentences(split, 120))) for split in ("valid", "test"))

    def losses():
        with torch.no_grad():
            logits = net(test.english, test.mask)
            return F.cross_entropy(logits.transpose(1, 2), test.german, reduction="none",
                                   ignore_index=IGNORE)  # fmt: skip

    asked = test.german != IGNORE
    whole = losses()
    assert found["loss"] == pytest.approx(float(whole[asked].mean()), abs=1e-5)
    for relation in syntactic_heads.RELATIONS:
        told = found[relation]
        shares = [
            [
                syntactic_heads.meets(each, texts.links(relation))
                for each in syntactic_heads._maps(net, texts)
            ]
            for texts in (valid, test)
        ]
        assert told["best"] == int(np.argmax(shares[0]))
        assert told["share"] == pytest.approx(shares[1])
        away = [head - word for _, word, head in test.links(relation).tolist()]
        assert told["baseline"] == pytest.approx(away.count(told["offset"]) / len(away))
        layer, head = divmod(told["best"], syntactic_heads.HEADS)
        output = net.encoder.layers[layer].self_attention.output
        before = output.weight.detach().clone()
        with torch.no_grad():
            output.weight.unflatten(1, (syntactic_heads.HEADS, -1))[:, head] = 0
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
    maps = syntactic_heads._maps(net, test)
    for relation, drawn in zip(syntactic_heads.RELATIONS, seen["maps"], strict=True):
        size = len(seen["words"])
        own_map = maps[found[relation]["best"]][rows[0], :size, :size]
        assert torch.allclose(torch.tensor(drawn), own_map)


def test_heads_are_measured_on_new_sequences(monkeypatch):
    """Nets as they begin: what each number of heads gets right, and how far apart its heads look
    at words that have enough words before them."""
    monkeypatch.setattr(multi_head, "_trained", lambda net, *_: net.eval())
    found = multi_head._relations(3, True)
    x, wanted = multi_head.two_back(512, generator(1_000_003))
    for place, count in enumerate(multi_head.HEADS):
        net = multi_head._net(3, count).eval()
        with torch.no_grad():
            said = net(x)[:, multi_head.FAR :].argmax(dim=-1)
        hits = (said == wanted[:, multi_head.FAR :]).float().mean()
        assert found["accuracy"][place] == pytest.approx(float(hits))
        (pattern,) = attention_tasks.patterns(net, x)
        late = [
            attention_tasks.apart(pattern[:, :, [query]])
            for query in range(multi_head.FAR, x.shape[1])
        ]
        assert found["apart"][place] == pytest.approx(np.mean(late), abs=1e-6)
        far = [
            pattern[:, :, query, query - multi_head.FAR]
            for query in range(multi_head.FAR, x.shape[1])
        ]
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

    monkeypatch.setattr(multi_head, "MANY", 5)
    monkeypatch.setattr(multi_head, "_without", without)
    monkeypatch.setattr(multi_head, "right", lambda net, batch: {"measured on": 0.95}[batch])
    assert multi_head._gain(None, "chosen on", "measured on") == pytest.approx(0.8 - 0.95)
    found = multi_head._curve(None, "chosen on", "measured on")
    assert found == pytest.approx([0.95, 0.8, 0.7, 0.6, 0.5])
    assert chosen[-1][:3] == [4, 3, 2]


def test_features_are_fetched_from_the_requested_words():
    """A layer that fetches the word before, coarse and fine, makes no error where that is asked,
    and errs in the fine features alone where they stand two words back."""
    habits = head_specialisation

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


def test_splits_before_and_after_training_are_kept_apart(monkeypatch):
    looks = iter(range(100))
    monkeypatch.setattr(
        head_specialisation, "split", lambda layer: float(next(looks) % 2)
    )  # after: 1
    monkeypatch.setattr(
        head_specialisation, "_fetch", lambda layer, back, seed, steps: float(sum(back))
    )
    for name, told in head_specialisation._coarse_fine(0, True).items():
        error = float(sum(head_specialisation.BACK[name]))
        assert told == {"before": 0.0, "after": 1.0, "split": 1.0, "error": error}


def test_three_words_are_measured_on_the_sentences_of_the_claim(monkeypatch):
    monkeypatch.setattr(three_words, "train", lambda net, *_, **__: net.eval())
    found = three_words._three_words(2, True)["names depend on the subject"]
    nets = [three_words._three_net(2000 + number) for number in range(3)]
    maps = []
    for net in nets:
        rows = []
        for place in range(3):  # each looks while it is hidden
            asked = three_words.numbers([("I", "am", name) for name in ("Tom", "Max")])
            asked[:, place] = three_words.VOCABULARY.index("?")
            rows.append(attention_tasks.patterns(net, asked)[0][:, 0].mean(dim=0)[place])
        maps.append(torch.stack(rows))
    assert torch.allclose(torch.tensor(found["map"]), torch.stack(maps).mean(dim=0), atol=1e-6)
    first = np.mean([float(each[0, 1] > each[0, 2]) for each in maps])
    second = np.mean([float(each[2, 0] > each[2, 1]) for each in maps])
    assert found["links"] == pytest.approx({"I → am": first, "name → I": second})


def test_held_out_loss_ignores_padding():
    net = small_decoder(9, seed=0, d_model=8).eval()
    ids = torch.tensor([[3, 4, 5, 0, 0], [6, 7, 8, 2, 1]])
    losses = []
    with torch.no_grad():
        for row in ids.tolist():
            words = [word for word in row if word]
            for end in range(1, len(words)):
                said = net(torch.tensor([words[:end]]))[0, -1].log_softmax(dim=-1)
                losses.append(-float(said[words[end]]))
    assert head_sizes._held_out(net, ids) == pytest.approx(np.mean(losses), abs=1e-5)


def test_held_out_sentences_are_never_trained_on(monkeypatch):
    text = head_sizes.next_words(0)
    read, asked = [], []
    monkeypatch.setattr(
        head_sizes, "fit", lambda net, loss, **_: read.append(loss.func.__self__.ids)
    )
    monkeypatch.setattr(head_sizes, "_held_out", lambda net, ids: asked.append(ids) or 0.0)
    found = head_sizes._grouped(0, True)
    size = head_sizes.HELD_OUT
    assert len(read) == len(asked) == len(head_sizes.SHARED)
    assert all(torch.equal(ids, text.ids[:-size]) for ids in read)
    assert all(torch.equal(ids, text.ids[-size:]) for ids in asked)
    assert found["numbers"] == [2 * 2 * shared * 4 for shared in head_sizes.SHARED]
