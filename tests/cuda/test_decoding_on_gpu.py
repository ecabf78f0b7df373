"""Searches on a GPU, captured as graphs, find what a CPU finds without them."""

import copy
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
import torch
from tests.invariants.cases import randomised, transformer

from translucid.fast.decode_graphs import DecodeGraphs, capture
from translucid.generate.beam_search import GenerationConfig, Hypothesis
from translucid.generate.decode import find
from translucid.generate.row_draw import KINDS, Kind, RowDraw
from translucid.generate.sampling import SamplingConfig
from translucid.models import GenerationInputs, ModelConfig

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
EOS, PAD, BOS = 1, 0, 2

SIZES = {"d_model": 64, "d_ff": 96, "vocab": 57}
MODELS: dict[str, ModelConfig] = {
    "sinusoidal": transformer("encoder-decoder", positions="sinusoidal", **SIZES),
    "rotary, few key heads": transformer(
        "encoder-decoder", positions="rotary", norm="rms", kv_heads=2, activation="swiglu", **SIZES
    ),
    "post, learned": transformer("encoder-decoder", positions="learned", placement="post", **SIZES),
    "alibi, without lean steps": transformer("encoder-decoder", positions="alibi", **SIZES),
    "language model": transformer("decoder", positions="none", activation="gelu", **SIZES),
}
SEARCHES = {
    "greedy": GenerationConfig(beam_size=1, max_length=12),
    "beams": GenerationConfig(beam_size=4, n_best=3, max_length=12),
    "no length, not short": GenerationConfig(
        beam_size=5, n_best=2, alpha=0.0, min_length=4, max_length=9
    ),
}


@pytest.fixture(autouse=True)
def _full_precision():
    torch.set_float32_matmul_precision("highest")


def sources_of(config: ModelConfig, rows: int, seed: int) -> GenerationInputs | None:
    if config.shape != "encoder-decoder":
        return None
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(3, 57, (rows, 9), generator=generator)
    lengths = torch.randint(1, 10, (rows, 1), generator=generator)
    return GenerationInputs.of(ids, torch.arange(9) < lengths)


def on_device(given: GenerationInputs) -> GenerationInputs:
    return GenerationInputs.of(given.source.cuda(), given.mask.cuda())


def same(mine: list[list[Hypothesis]], its: list[list[Hypothesis]]) -> None:
    for one, other in zip(mine, its, strict=True):
        assert [(t.tokens, t.finished) for t in one] == [(t.tokens, t.finished) for t in other]
        for a, b in zip(one, other, strict=True):
            assert a.token_log_probs == pytest.approx(b.token_log_probs, abs=1e-3)


@pytest.mark.parametrize("how", SEARCHES.values(), ids=SEARCHES)
@pytest.mark.parametrize("name", MODELS)
def test_captured_equals_plain(name: str, how: GenerationConfig) -> None:
    """Twice the same shape, so that graphs are used again; then with other weights."""
    model = randomised(MODELS[name]).float()
    on_gpu = copy.deepcopy(model).cuda()
    graphs = DecodeGraphs()
    assert graphs.fits(on_gpu)
    for seed, rows in ((1, 3), (2, 3), (3, 6)):
        prefixes = [[BOS, 5], [BOS], [BOS, 3, 4]] * (rows // 3)
        given = sources_of(model.config, rows, seed)
        moved = None if given is None else on_device(given)
        plain = find(model, prefixes, given, how, eos=EOS, pad=PAD)
        same(find(on_gpu, prefixes, moved, how, eos=EOS, pad=PAD, graphs=graphs), plain)
        with torch.no_grad():
            for parameter, twin in zip(model.parameters(), on_gpu.parameters(), strict=True):
                parameter.mul_(1.1)
                twin.copy_(parameter)
    assert graphs.graphs, "nothing was captured"


def new_weight(model: Any) -> None:
    part = model.encoder.layers[0].feedforward.output
    part.weight = torch.nn.Parameter(-2 * part.weight.detach())


def other_eps(model: Any) -> None:
    model.decoder.final_norm.eps = 0.3


def hook_on_the_encoder(model: Any) -> None:
    part = model.encoder.layers[0].feedforward
    part.register_forward_hook(lambda part, given, output: -2 * output)


def hook_on_the_decoder(model: Any) -> None:
    part = model.decoder.layers[0].feedforward
    part.register_forward_hook(lambda part, given, output: -2 * output)


@pytest.mark.parametrize(
    "change", [new_weight, other_eps, hook_on_the_encoder, hook_on_the_decoder]
)
def test_a_model_that_was_changed_after_a_search(change: Callable[[Any], None]) -> None:
    model = randomised(MODELS["sinusoidal"]).float()
    on_gpu, graphs, how = copy.deepcopy(model).cuda(), DecodeGraphs(), SEARCHES["beams"]
    given = sources_of(model.config, 3, 1)
    assert given is not None
    before = find(on_gpu, [[BOS]] * 3, on_device(given), how, eos=EOS, pad=PAD, graphs=graphs)
    for each in (model, on_gpu):
        change(each)
    plain = find(model, [[BOS]] * 3, given, how, eos=EOS, pad=PAD)
    after = find(on_gpu, [[BOS]] * 3, on_device(given), how, eos=EOS, pad=PAD, graphs=graphs)
    same(after, plain)
    assert [t.token_log_probs for one in after for t in one] != [
        t.token_log_probs for one in before for t in one
    ]


def test_two_threads_with_one_owner_of_graphs() -> None:
    model = randomised(MODELS["sinusoidal"]).float()
    on_gpu, graphs, how = copy.deepcopy(model).cuda(), DecodeGraphs(), SEARCHES["beams"]
    batches = [sources_of(model.config, 3, seed) for seed in range(8)]
    plain = [find(model, [[BOS]] * 3, each, how, eos=EOS, pad=PAD) for each in batches]

    def search(each: GenerationInputs) -> list[list[Hypothesis]]:
        found = find(on_gpu, [[BOS]] * 3, on_device(each), how, eos=EOS, pad=PAD, graphs=graphs)
        torch.cuda.synchronize()
        return found

    with ThreadPoolExecutor(2) as pool:
        for found, expected in zip(pool.map(search, batches), plain, strict=True):
            same(found, expected)


def test_bfloat16_stays_near() -> None:
    """8 bits change a score in the second digit, not the search."""
    model = randomised(MODELS["sinusoidal"]).float()
    half = copy.deepcopy(model).cuda().bfloat16()
    given, how = sources_of(model.config, 8, 1), GenerationConfig(beam_size=4, max_length=12)
    moved = on_device(given)
    plain = find(model, [[BOS]] * 8, given, how, eos=EOS, pad=PAD)
    found = find(half, [[BOS]] * 8, moved, how, eos=EOS, pad=PAD, graphs=DecodeGraphs())
    for (one,), (other,) in zip(found, plain, strict=True):
        assert one.score == pytest.approx(other.score, rel=0.1, abs=0.05)


@pytest.mark.parametrize("how", SEARCHES.values(), ids=SEARCHES)
@pytest.mark.parametrize("name", MODELS)
def test_excluded_tokens_and_several_end_tokens(name: str, how: GenerationConfig) -> None:
    model = randomised(MODELS[name]).float()
    on_gpu, graphs = copy.deepcopy(model).cuda(), DecodeGraphs()
    inputs = sources_of(model.config, 3, seed=1)
    moved = None if inputs is None else on_device(inputs)
    prefixes = [[BOS, 5], [BOS], [BOS, 3, 4]]
    plain = find(model, prefixes, inputs, how, eos=EOS, pad=PAD)
    common = [token for texts in plain for token in texts[0].tokens][:2]
    for options in ({"never": common[:1]}, {"ends": common[:1]}, {"never": [PAD], "ends": common}):
        expected = find(model, prefixes, inputs, how, eos=EOS, pad=PAD, **options)
        same(
            find(on_gpu, prefixes, moved, how, eos=EOS, pad=PAD, graphs=graphs, **options), expected
        )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("rows", "vocab", "ends"), [(64, 50257, (7, 9)), (3, 50257, ()),
                                                     (20, 600, (7,))])  # fmt: skip
def test_tokens_drawn_in_a_graph(kind: Kind, rows: int, vocab: int, ends: tuple[int, ...]) -> None:
    """The GPU's kernel for greedy search, and draws in a graph, give what plain torch gives."""
    plain, drawn = (
        RowDraw(torch.zeros(rows + 1, 1, dtype=torch.long, device="cuda"), vocab, 1,
                eos=2, ends=ends, never=(3,))
        for _ in range(2)
    )  # fmt: skip
    plain.on_gpu = False
    logits = 3 * torch.randn(rows, vocab, device="cuda").bfloat16()
    logits[:, 2] = 20  # the end, for which it is too early in every second row
    logits[-1] = -torch.inf  # no token is allowed
    for one in (plain, drawn):
        one.settings[:rows, 4] = torch.arange(rows, device="cuda") % 2
    plain.round(logits, 0, kind)
    capture(lambda: drawn.round(logits, 0, kind), [drawn.taken]).replay()
    assert torch.equal(drawn.newest, plain.newest)
    assert torch.equal(drawn.taken, plain.taken)
    torch.testing.assert_close(
        drawn.written[:, :, :-2], plain.written[:, :, :-2], rtol=0, atol=1e-5
    )


@pytest.mark.parametrize("task", ["translate", "generate"])
def test_served_texts_are_the_librarys(task: str) -> None:
    """Beam searches, which graphs run for several requests."""
    from translucid.model import load
    from translucid.serving import Engine, Failed, Finished, Job, Limits

    model = load(f"demo:{task}", "cuda")
    prompts = ["The dog", "She has not seen the small bird.", "This old man", "The cat sleeps."]
    options = {"max_length": 12, "beam_size": 3}
    ends: dict[str, Any] = {prompt: Future() for prompt in prompts}

    def hear(prompt: str, event: Any) -> None:
        if isinstance(event, Finished | Failed):
            ends[prompt].set_result(event)

    engine = Engine(model, Limits())
    for prompt in prompts:
        engine.submit(Job(prompt, generation=options), partial(hear, prompt))
    for prompt, own in zip(prompts, model.decode(prompts, **options), strict=True):
        served = ends[prompt].result(300).decoded
        assert served.texts[0].text == own.texts[0].text
        assert served.texts[0].score == pytest.approx(own.texts[0].score, abs=1e-4)
    assert engine.close(timeout=300)


@pytest.mark.parametrize("sampling", [SamplingConfig(temperature=0), SamplingConfig(top_k=5)])
def test_served_samples_are_the_librarys(sampling: SamplingConfig) -> None:
    """Texts take over the rows of others, while prompts are read beside the steps."""
    from translucid.model import load
    from translucid.serving import Engine, Failed, Finished, Job, Limits

    model = load("demo:generate", "cuda")
    prompts = [text[:end] for text in ("The old dog does not like the small cat",) * 2
               for end in range(3, 40, 2)]  # fmt: skip
    ends: list[Any] = [Future() for _ in prompts]

    def hear(number: int, event: Any) -> None:
        if isinstance(event, Finished | Failed):
            ends[number].set_result(event)

    engine = Engine(model, Limits(rows=4))
    for number, prompt in enumerate(prompts):
        job = Job(prompt, sampling=sampling, seed=3, generation={"max_length": 10 + number})
        engine.submit(job, partial(hear, number))
    for number, prompt in enumerate(prompts):
        served = ends[number].result(300).decoded.texts[0]
        own = model.decode([prompt], sampling=sampling, seed=3, max_length=10 + number)[0].texts[0]
        assert served.text == own.text
        assert served.token_log_probs == pytest.approx(own.token_log_probs, abs=1e-4)
    assert engine.close(timeout=300)
