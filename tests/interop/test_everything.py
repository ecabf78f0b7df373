"""All that can be done with a model of ours can be done with one of another tool: family by family,
each answer computed a second time with the reference."""

import json
import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tests.in_process import run
from tests.interop.reference import FLOAT32, far
from tests.interop.tiny_foreign import Foreign, written
from tests.tiny.dealt import chosen
from torch import Tensor, nn

import translucid as tl
from translucid.core.catalogue import describe
from translucid.core.trace import Trace
from translucid.fast.cpu_kernels import largest_pairs
from translucid.fast.decode_step import DecodeStep
from translucid.fast.precision import prepare
from translucid.generate.sampling import SamplingConfig
from translucid.see.part_switches import choose, switches
from translucid.tasks.batch import IGNORE

GENERATING = ("llama", "qwen3", "gpt2", "neox", "marian", "t5")
FAMILIES = (*GENERATING, "classifier", "tagger")
TEXT = "the cat is in"
TARGETS = {"translate": "the cat", "classify": "bad", "tag": "O B-CAT O B-PLACE"}
OFTEN = ("llama", "marian", "classifier")  # of every shape one; the others are for CI


def families(names: Sequence[str]) -> pytest.MarkDecorator:
    marked = [pytest.param(n, marks=() if n in OFTEN else pytest.mark.slow) for n in names]
    return pytest.mark.parametrize("foreign", marked, indirect=True)


generating, all_families = families(GENERATING), families(FAMILIES)


@pytest.fixture(scope="module")
def opened() -> dict[str, Foreign]:
    return {}


@pytest.fixture
def foreign(
    request: pytest.FixtureRequest,
    opened: dict[str, Foreign],
    tmp_path_factory: pytest.TempPathFactory,
) -> Foreign:
    if request.param not in opened:
        opened[request.param] = written(request.param, tmp_path_factory.mktemp(request.param))
    return opened[request.param]


@contextmanager
def hooked(handle: Any) -> Iterator[None]:
    try:
        yield
    finally:
        handle.remove()


def target_of(foreign: Foreign) -> str | None:
    return TARGETS.get(foreign.task)


def loss_of(logits: Tensor, targets: Tensor) -> float:
    """Mean nats of a target."""
    return float(F.cross_entropy(logits.flatten(0, -2), targets.flatten(), ignore_index=IGNORE))


@all_families
def test_trace_has_our_names_and_their_values(foreign: Foreign) -> None:
    """Attention weights of every layer, and the outputs."""
    reading = foreign.model.trace(TEXT, target_of(foreign))
    assert all(describe(name).meaning for name in reading)
    with torch.inference_mode():
        theirs = foreign.reference(reading.example.batch.inputs, output_attentions=True)
    output = reading[foreign.model.network.output_point]
    assert far(output, theirs.logits, float(theirs.logits.abs().max())) < FLOAT32
    if foreign.task == "translate":
        patterns = {
            "encoder.layers.{}.self_attention": theirs.encoder_attentions,
            "decoder.layers.{}.self_attention": theirs.decoder_attentions,
            "decoder.layers.{}.cross_attention": theirs.cross_attentions,
        }
    else:
        patterns = {f"{foreign.stack}.layers.{{}}.self_attention": theirs.attentions}
    for part, layers in patterns.items():
        for number, pattern in enumerate(layers):
            ours = reading[f"{part.format(number)}.pattern"]
            assert ours.shape == pattern.shape
            assert far(ours, pattern, 1.0) < FLOAT32, part.format(number)


@all_families
def test_edit_is_what_a_hook_does_there(foreign: Foreign) -> None:
    """A factor on what the first attention gives."""
    point = f"{foreign.stack}.layers.0.self_attention.output"
    reading = foreign.model.trace(TEXT, target_of(foreign), edit={point: lambda x: -2 * x})
    before = foreign.model.trace(TEXT, target_of(foreign))
    hook = foreign.output.register_forward_hook(lambda module, given, output: -2 * output)
    with hooked(hook), torch.inference_mode():
        theirs = foreign.reference(reading.example.batch.inputs).logits
    output = foreign.model.network.output_point
    largest = float(theirs.abs().max())
    assert far(reading[output], theirs, largest) < FLOAT32
    assert far(before[output], theirs, largest) > 1000 * FLOAT32


def examples_file(foreign: Foreign, folder: Path) -> list[str]:
    """One example, as a file (of a translator two)."""
    names = {"classify": "one.jsonl", "tag": "one.conll"}
    first = folder / names.get(foreign.task, "one.txt")
    match foreign.task:
        case "classify":
            first.write_text(json.dumps({"text": TEXT, "label": "bad"}) + "\n")
        case "tag":
            pairs = zip(TEXT.split(), TARGETS["tag"].split(), strict=True)
            first.write_text("".join(f"{word} {tag}\n" for word, tag in pairs), "utf-8")
        case _:
            first.write_text(f"{TEXT}\n", "utf-8")
    if foreign.task != "translate":
        return [str(first)]
    (folder / "two.txt").write_text(f"{TARGETS['translate']}\n", "utf-8")
    return [str(first), str(folder / "two.txt")]


def batch_of(foreign: Foreign, files: list[str]) -> Any:
    (item,) = foreign.model.encoded_examples(*files)
    return foreign.model.task.collate([item])


@pytest.mark.slow
@all_families
def test_evaluation_and_ablation_are_losses_of_the_reference(
    foreign: Foreign, tmp_path: Path
) -> None:
    files = examples_file(foreign, tmp_path)
    batch = batch_of(foreign, files)
    score = foreign.model.evaluate(*files).numbers
    with torch.inference_mode():
        logits = foreign.reference(batch.inputs).logits
    assert score["loss"] == pytest.approx(loss_of(logits, batch.targets), abs=1e-5)
    if foreign.task == "language":
        assert score["perplexity"] == pytest.approx(math.exp(score["loss"]), rel=1e-5)
    if foreign.task in ("classify", "tag"):
        right = (logits.argmax(-1) == batch.targets)[batch.targets != IGNORE].float().mean()
        free = foreign.model.evaluate(
            *files, **({"spans": "free"} if foreign.task == "tag" else {})
        )
        assert free.numbers["accuracy"] == pytest.approx(float(right))
    if foreign.task == "translate":
        pair = [tmp_path / "source", tmp_path / "target"]
        pair[0].write_text("in the sun\n")
        pair[1].write_text(foreign.model.translate(["in the sun"])[0] + "\n", "utf-8")
        assert foreign.model.evaluate(*map(str, pair)).numbers["exact_match"] == 1

    ablation = foreign.model.ablate(*files, of=["heads"])
    row = next(m for switch, m in ablation.rows if switch.key.endswith("0.self_attention.head.1"))
    size = foreign.model.network.get_submodule(f"{foreign.stack}.layers.0.self_attention").d_head
    head = slice(size, 2 * size)

    def without(module: Any, given: tuple[Tensor, ...]) -> tuple[Tensor]:
        mixed = given[0].clone()
        mixed[..., head] = 0
        return (mixed,)

    with hooked(foreign.output.register_forward_pre_hook(without)), torch.inference_mode():
        batch = batch_of(foreign, files)
        logits = foreign.reference(batch.inputs).logits
    assert row.loss == pytest.approx(loss_of(logits, batch.targets), abs=1e-5)
    assert abs(row.loss - ablation.whole.loss) > 1e-3


@all_families
def test_gradients_are_those_of_the_reference(foreign: Foreign) -> None:
    """Of the loss at the embedding table, and of an answer at what was read."""
    example = foreign.example(TEXT, target_of(foreign))
    gradients = foreign.model.gradients(TEXT, target_of(foreign))
    table = foreign.theirs.get_input_embeddings().weight
    logits = foreign.reference(example.batch.inputs).logits
    loss = F.cross_entropy(
        logits.flatten(0, -2), example.batch.targets.flatten(), ignore_index=IGNORE
    )
    (wanted,) = torch.autograd.grad(loss, table)
    ours = gradients.parameters[f"{foreign.stack}.embedding.table.weight"]
    padding = foreign.theirs.config.pad_token_id
    counted = torch.arange(len(table)) != padding  # whose gradient the reference leaves out
    assert far(ours[counted], wanted[counted], float(wanted.abs().max())) < 1e-4

    saliency = foreign.model.saliency(TEXT, target_of(foreign))
    answer, kept = saliency.answer, []
    with ExitStack() as stack:
        for part in foreign.theirs.modules():
            if isinstance(part, nn.Embedding) and part.weight is table:
                hook = part.register_forward_hook(lambda m, ids, output: kept.append(output))
                stack.callback(hook.remove)
        logits = foreign.reference(example.batch.inputs).logits[0]
    value = logits[answer.choice] if answer.place is None else logits[answer.place, answer.choice]
    slopes = torch.autograd.grad(value, kept)  # of a translator: of its source, then its target
    products = torch.cat([(x * slope)[0].sum(-1) for x, slope in zip(kept, slopes, strict=True)])
    products = products.detach()
    attributed = torch.tensor(saliency.values, dtype=torch.float32)
    products = products[: len(attributed)]  # what comes after the answer is left out
    assert far(attributed, products, float(products.abs().max())) < 1e-4


@pytest.mark.parametrize("foreign", ["tagger"], indirect=True)
def test_saliency_of_tags_asks_about_words(foreign: Foreign) -> None:
    """Not about what the tokenizer puts around a text; with tags that are given, or without."""
    rows = foreign.model.saliency_map(TEXT).rows.labels
    assert rows == foreign.model.saliency_map(TEXT, TARGETS["tag"]).rows.labels
    assert len(rows) == len(TEXT.split())
    assert foreign.model.saliency(TEXT).answer.place == len(TEXT.split())  # behind [CLS]


def after(foreign: Foreign, tokens: list[int]) -> tuple[dict[str, Tensor], int]:
    """What the reference reads before and while these tokens are written to TEXT, and the place
    that says the first of them."""
    task = foreign.model.task
    if foreign.task == "translate":
        source = torch.tensor([task.frame(task.source.encode(TEXT))])
        start = list(task.target.start_ids)
        return {"source": source, "target": torch.tensor([[*start, *tokens]])}, len(start) - 1
    ids = [part for parts in task.prompt(TEXT) for part in parts]
    return {"ids": torch.tensor([[*ids, *tokens]])}, len(ids) - 1


def check_candidate(foreign: Foreign, candidate: Any) -> None:
    """Its log-probabilities, token by token, are those of the reference."""
    tokenizer = foreign.model.output_tokenizer
    inputs, first = after(foreign, candidate.tokens)
    log_probs = foreign.log_probs(inputs)
    tokens = [*candidate.tokens, *([tokenizer.eos_id] if candidate.finished else [])]
    wanted = [float(log_probs[first + n, token]) for n, token in enumerate(tokens)]
    assert candidate.token_log_probs == pytest.approx(wanted, abs=1e-4)
    assert candidate.log_probability == pytest.approx(sum(wanted), abs=1e-3)


@generating
def test_decoding_with_every_option(foreign: Foreign) -> None:
    model, tokenizer = foreign.model, foreign.model.output_tokenizer
    common = {"max_length": 6, "min_length": 2}
    (greedy,) = model.decode([TEXT], beam_size=1, **common)
    (beams,) = model.decode([TEXT], beam_size=4, n_best=3, tree=True, **common)
    (drawn,) = model.decode([TEXT], sampling=SamplingConfig(top_k=9), n_best=3, seed=4, **common)
    forced = greedy.texts[0].tokens[0] ^ 1 or 5  # another than the likeliest
    (told,) = model.decode([TEXT], force={0: forced}, **common)
    assert told.texts[0].tokens[0] == forced != greedy.texts[0].tokens[0]
    assert len(beams.texts) == len(drawn.texts) == 3
    assert beams.texts[0].score >= beams.texts[1].score >= beams.texts[2].score
    chosen = [node.token for node in beams.tree.nodes if node.chosen and node.parent is not None]
    assert chosen[: len(beams.texts[0].tokens)] == beams.texts[0].tokens
    for decoded in (greedy, beams, drawn, told):
        for candidate in decoded.texts:
            check_candidate(foreign, candidate)
    log_probs = foreign.log_probs(after(foreign, [])[0])[-1].clone()
    log_probs[list(tokenizer.never_generated(len(log_probs)))] = -math.inf
    log_probs[tokenizer.eos_id] = -math.inf  # min_length
    assert greedy.texts[0].tokens[0] == int(log_probs.argmax())
    (once,) = model.decode([TEXT], beam_size=1, no_repeat_ngram=1, **common)
    assert len({*once.texts[0].tokens}) == len(once.texts[0].tokens)
    word = tokenizer.encode("the the")[-1]

    def urged(logits: Tensor) -> Tensor:
        return logits + 100 * F.one_hot(torch.tensor(word), logits.shape[-1])

    edit = {model.network.output_point: urged}
    for forbid in ([], ["the"]):
        (decoded,) = model.decode([TEXT], trace=Trace([], edit=edit), forbid=forbid, **common)
        assert (word in decoded.texts[0].tokens) == (not forbid)
    if foreign.task == "language":
        text = model.generate(TEXT, max_length=7, seed=3, top_p=0.9)
        assert "".join(model.stream(TEXT, max_length=7, seed=3, top_p=0.9)) == text


@generating
def test_scores_are_sums_of_the_reference(foreign: Foreign) -> None:
    model = foreign.model
    target = target_of(foreign)
    scored = model.score(TEXT, target) if target else model.score(TEXT)
    if target:
        tokens = model.task.target.encode(target)
        inputs, first = after(foreign, tokens)
    else:
        (inputs, _), first = after(foreign, []), 0
        tokens = inputs["ids"][0, 1:].tolist()
    tokens = [*tokens, model.output_tokenizer.eos_id]
    log_probs = foreign.log_probs(inputs)
    wanted = [float(log_probs[first + n, token]) for n, token in enumerate(tokens)]
    assert scored.token_log_probs == pytest.approx(wanted, abs=1e-4)
    assert scored.log_probability == pytest.approx(sum(wanted), abs=1e-3)


@pytest.mark.slow
@all_families
def test_trains_by_hand_and_is_saved_bit_for_bit(foreign: Foreign, tmp_path: Path) -> None:
    model = tl.load(foreign.folder)
    network, example = model.network.double(), foreign.example(TEXT, target_of(foreign))

    def loss() -> Tensor:
        outputs = network(**example.batch.inputs)
        return F.cross_entropy(
            outputs.flatten(0, -2), example.batch.targets.flatten(), ignore_index=IGNORE
        )

    name, weight = next(
        (name, weight) for name, weight in network.named_parameters() if "0.self_att" in name
    )
    (gradient,) = torch.autograd.grad(loss(), weight)
    direction = torch.randn_like(weight)
    with torch.no_grad():
        ends = []
        for sign in (1, -2):  # forth, then as far back
            weight.add_(sign * 1e-5 * direction)
            ends.append(float(loss()))
        weight.add_(1e-5 * direction)
    slope = (ends[0] - ends[1]) / 2e-5
    assert slope == pytest.approx(float((gradient * direction).sum()), rel=1e-5, abs=1e-8), name

    network.float().train()
    optimizer = torch.optim.AdamW(network.parameters(), lr=0.01)
    losses = []
    for _ in range(5):
        value = loss()
        losses.append(value.item())
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
    network.eval()
    assert loss().item() < 0.8 * losses[0]
    model.save(tmp_path / "ours")
    again = tl.load(tmp_path / "ours")
    assert again.facts == model.facts
    for name, value in network.state_dict().items():
        assert torch.equal(again.network.state_dict()[name], value), name
    assert again.predict([TEXT]) == model.predict([TEXT])


def rounding(linear: nn.Linear, x: Tensor) -> float:
    """How far W x in 8 bits lies from W x, as a root mean square: a number that is rounded is off
    by a step / √12. A step of the weights is at most 1/119 of the largest pair of an output; the
    inputs of a call have at least 127 steps between their extremes."""
    weights, values = linear.weight.double(), x.double()
    steps = largest_pairs(weights).maximum(weights.abs().amax(dim=1)) / 119
    step = (values.amax().clamp(min=0) - values.amin().clamp(max=0)) / 127
    of_weights = steps**2 * (values**2).sum(-1, keepdim=True)
    return float(((of_weights + step**2 * (weights**2).sum(dim=1)) / 12).mean().sqrt())


@all_families
def test_int8_is_that_of_a_model_of_ours(foreign: Foreign) -> None:
    """The same weights in a network that was never imported; each layer as near to what it does
    to the same inputs in float32 as 8 bits can be."""
    inputs = foreign.example(TEXT, target_of(foreign)).batch.inputs
    own = tl.build(foreign.model.network.config)
    own.load_state_dict(foreign.model.network.state_dict())
    small, off = foreign.model.optimized("int8"), {}
    linears = {name: part for name, part in own.named_modules() if isinstance(part, nn.Linear)}

    def compare(name: str, x: Tensor, output: Tensor) -> None:
        exact = deepcopy(linears[name]).double()(x.double())
        far_off = (output - exact).square().mean().sqrt()
        # The fewer numbers there are, the farther their mean may lie from what is expected.
        off[name] = float(far_off) / rounding(linears[name], x) / (1 + 2 / output.numel())

    for name, part in small.network.named_modules():
        if name in linears:
            part.register_forward_hook(lambda _, x, y, name=name: compare(name, x[0], y))
    with torch.inference_mode():
        quantised = small.network(**inputs)
        assert torch.equal(prepare(own.eval(), "int8")(**inputs), quantised)
    assert off.keys() == linears.keys()
    assert all(0 < times < 1.25 for times in off.values()), off
    if foreign.family in GENERATING:
        (decoded,) = small.decode([TEXT], beam_size=2, max_length=5)
        assert decoded.texts[0].tokens


@generating
def test_the_fast_step_writes_what_the_plain_one_does(foreign: Foreign) -> None:
    """A trace takes the plain step. Of the families: normed queries and keys, parallel sub-layers,
    a bias by distance, no norm behind the last layer."""
    assert DecodeStep.fits(foreign.model.network)
    options: dict[str, Any] = {"beam_size": 3, "n_best": 3, "min_length": 5, "max_length": 6}
    (fast,) = foreign.model.decode([TEXT], **options)
    still = {f"{foreign.stack}.embedding.lookup": lambda x: x}
    (plain,) = foreign.model.decode([TEXT], trace=Trace([], edit=still), **options)
    assert [c.tokens for c in fast.texts] == [c.tokens for c in plain.texts]
    for one, other in zip(fast.texts, plain.texts, strict=True):
        assert one.token_log_probs == pytest.approx(other.token_log_probs, abs=1e-4)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@generating
def test_cuda_graphs_write_what_the_processor_does(foreign: Foreign) -> None:
    options: dict[str, Any] = {"beam_size": 3, "n_best": 3, "min_length": 5, "max_length": 6}
    on_gpu = tl.load(foreign.folder, device="cuda")
    for _ in range(3):  # captured, then replayed
        (captured,) = on_gpu.decode([TEXT], **options)
        (plain,) = foreign.model.decode([TEXT], **options)
        assert [c.tokens for c in captured.texts] == [c.tokens for c in plain.texts]


@pytest.mark.slow
@pytest.mark.parametrize("foreign", chosen(FAMILIES, *OFTEN), indirect=True)
def test_commands(foreign: Foreign, tmp_path: Path) -> None:
    """Each command that fits, thinly."""
    folder, files = str(foreign.folder), examples_file(foreign, tmp_path)
    data = [word for file in files for word in ("--data", file)]
    page = tmp_path / "page.html"

    def asked(*words: str) -> str:
        done = run(*words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    number = foreign.model.evaluate(*files).numbers["loss"]
    assert f"{number:.4f}" in asked("evaluate", folder, *data)
    assert "layer 1, head 1" in asked("ablate", folder, *data, "--of", "heads")
    assert json.loads(asked("explain", folder, TEXT, "--json"))
    assert TEXT in asked("explain", folder, TEXT)
    asked("explain", folder, TEXT, "--html", str(page), "--layer", "1")
    assert "<svg" in page.read_text("utf-8")
    if foreign.family in GENERATING:
        scored = foreign.model.score(*[Path(file).read_text("utf-8").strip() for file in files])
        assert asked("score", folder, *files).strip() == f"{scored.log_probability:.4f}"
    answer = foreign.model.predict([TEXT])[0]
    shown = foreign.model.task.answer_text(answer)
    predicted = run("predict", folder, stdin=f"{TEXT}\n").stdout
    assert shown.isprintable() is False or shown in predicted


@all_families
def test_every_switch_can_be_thrown(foreign: Foreign) -> None:
    """In the studio's What-if too, which takes them from the same list."""
    known = switches(foreign.model.network)
    assert len(choose(known, ["heads"])) >= 4
    inputs = foreign.example(TEXT, target_of(foreign)).batch.inputs
    for switch in known:
        with torch.inference_mode():
            assert foreign.model.network(**inputs, trace=Trace([], edit=switch.edit)) is not None
