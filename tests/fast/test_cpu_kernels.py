"""The compiled kernels = their plain twins in torch; a step by them = the plain step. On every path
that this processor supports, and on the path for AVX-VNNI with the instruction of AVX-512."""

import ctypes
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from translucid.core.errors import InputError
from translucid.fast import cpu_kernels, plain_kernels
from translucid.fast.decode_step import DecodeStep
from translucid.fast.precision import prepare
from translucid.models import GenerationInputs, TransformerConfig, build
from translucid.parts.norms import LayerNorm, RMSNorm

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(not cpu_kernels.available(), reason=cpu_kernels.reason())
PATHS = cpu_kernels.paths()
PARAMS = [pytest.param(path, id=name) for name, path in PATHS.items()]
once = pytest.mark.parametrize("path", PARAMS[:1], indirect=True)
AVX_VNNI = pytest.param(None, id="avx-vnni-of-avx512", marks=pytest.mark.slow)  # `avx_vnni` below


@pytest.fixture(autouse=True, params=[*PARAMS, AVX_VNNI])
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> cpu_kernels.Path:
    path = request.param or request.getfixturevalue("avx_vnni")
    monkeypatch.setattr(cpu_kernels, "paths", lambda: PATHS | {path.name: path})
    monkeypatch.setattr(cpu_kernels, "path", lambda: path)
    return path


@pytest.fixture(scope="module")
def avx_vnni(tmp_path_factory: pytest.TempPathFactory) -> cpu_kernels.Path:
    """The path for AVX-VNNI, compiled with the form of its instruction that AVX-512 has."""
    if "avx512-vnni" not in PATHS:
        pytest.skip("needs a processor with AVX-512 VNNI")
    compiler = shutil.which(os.environ.get("CC") or "cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    file = tmp_path_factory.mktemp("avx-vnni") / "kernels.so"
    options = ["-DVNNI_OF_AVX512", "-O3", "-fPIC", "-shared", "-o", file]
    subprocess.run(
        [compiler, *options, cpu_kernels.SOURCE, "-lm"],
        check=True, capture_output=True, timeout=300,
    )  # fmt: skip
    if b"avx-vnni" not in file.read_bytes():
        pytest.skip("needs a C compiler that knows AVX-VNNI: GCC 11 or Clang 12")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cpu_kernels, "_library", lambda: ctypes.CDLL(str(file)))
        compiled: dict[str, cpu_kernels.Path] = cpu_kernels.paths.__wrapped__()
    return compiled["avx-vnni"]


@pytest.fixture(autouse=True)
def generator() -> Iterator[None]:
    torch.manual_seed(0)
    with torch.inference_mode():
        yield


def whole(low: int, high: int, *shape: int) -> Tensor:
    return torch.randint(low, high + 1, shape).float()


# Matrix multiplication


def int8_weights(outputs: int, inputs: int) -> Tensor:
    """Weights from -119 to 119, in which neighbors of the same sign are at most 128 together. The
    first rows contain the largest values."""
    q = whole(-119, 119, outputs, inputs)
    q[0], q[outputs // 2], q[-1] = 119, -64, 64
    first = q[:, : inputs - 1 : 2]
    low, high = first.clamp(max=0), first.clamp(min=0)
    q[:, 1::2] = torch.maximum(torch.minimum(q[:, 1::2], 128 - high), -128 - low)
    return q


@pytest.mark.parametrize(("inputs", "outputs"), [(64, 64), (33, 7), (80, 130), (1, 1), (512, 65)])
def test_whole_numbers_are_multiplied_exactly(inputs: int, outputs: int) -> None:
    """8 bits: inputs from -128 to 127 and weights from -119 to 119 lose nothing; each row by its
    own scale, a row of zeros too."""
    q, scales, bias = int8_weights(outputs, inputs), torch.rand(outputs), torch.randn(outputs)
    layer = cpu_kernels.int8_rows(q, scales, bias)
    for rows in (*range(1, 14), 96, 97, 200):
        x = whole(-128, 127, rows, inputs)
        if inputs > 1:
            x[:, 0], x[:, 1] = -128, 127
        x *= 2 ** whole(-10, 10, rows, 1)
        x[rows // 2] = 0
        exact = (x.double() @ q.double().T * scales.double() + bias.double()).float()
        torch.testing.assert_close(layer(x), exact, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(layer.with_relu()(x), exact.relu(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("inputs", "outputs"), [(64, 64), (33, 7), (80, 130), (1, 1), (512, 65)])
@pytest.mark.parametrize("bias", [True, False], ids=["bias", ""])
def test_float32(inputs: int, outputs: int, bias: bool) -> None:
    weight, shift = torch.randn(outputs, inputs), torch.randn(outputs) if bias else None
    layer = cpu_kernels.float_rows(weight, shift)
    for rows in (*range(1, 14), 96, 97, 200):
        x = torch.randn(rows, inputs)
        twin = F.linear(x, weight, shift)
        torch.testing.assert_close(layer(x), twin, rtol=1e-5, atol=1e-4)
        torch.testing.assert_close(layer.with_relu()(x), twin.relu(), rtol=1e-5, atol=1e-4)


def layers() -> list[cpu_kernels.CompiledRows]:
    q, weight, bias = int8_weights(200, 96), torch.randn(200, 96), torch.randn(200)
    return [cpu_kernels.int8_rows(q, torch.rand(200), bias), cpu_kernels.float_rows(weight, bias)]


@pytest.mark.parametrize("number", [0, 1], ids=["int8", "float32"])
@pytest.mark.parametrize("wrong", [torch.nan, torch.inf, -torch.inf])
def test_what_is_no_number_stays_none(number: int, wrong: float) -> None:
    """Its row, and no other; ReLU does not make 0 of it."""
    layer, x = layers()[number], torch.randn(5, 96)
    before = layer(x)
    x[2, 17] = wrong
    for after in (layer(x), layer.with_relu()(x)[:, : 0 if number else None]):
        assert not after[2].isfinite().any()
    rest = [0, 1, 3, 4]
    assert torch.equal(layer(x)[rest], before[rest])


def test_threads_change_no_bit() -> None:
    threads = torch.get_num_threads()
    outputs = []
    x = torch.randn(40, 96)
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            torch.manual_seed(1)
            outputs.append([layer(x) for layer in layers()])
    finally:
        torch.set_num_threads(threads)
    for other in outputs[1:]:
        assert all(map(torch.equal, outputs[0], other))


def test_other_inputs_are_refused() -> None:
    """What the C would read as something else."""
    good = torch.zeros(2, 96)
    for x in (good[:, 1:], good.double(), good.to("meta")):
        for layer in layers():
            with pytest.raises(InputError, match="reads rows of 96 float32 on a CPU, not"):
                layer(x)


@once
@pytest.mark.parametrize("pair", [(120, 0), (65, 64), (-64, -65), (10, 119)])
def test_weights_whose_products_could_overflow_are_refused(pair: tuple[int, int]) -> None:
    q = torch.zeros(3, 5)
    q[1, 2:4] = torch.tensor(pair)
    with pytest.raises(ValueError, match="overflow"):
        cpu_kernels.int8_rows(q, torch.ones(3), torch.zeros(3))


def test_int8_inputs_of_a_symmetric_range() -> None:
    """Both ends are rounded away from zero, to 256 steps; there are 255."""
    q = int8_weights(64, 64)
    x = 1.03125 * torch.linspace(-1, 1, 64)[None]  # with 1, the quotient is below 127.5
    found = cpu_kernels.int8_rows(q, torch.ones(64), torch.zeros(64))(x)
    step = 2 * 1.03125 / 255
    assert ((found - x @ q.T).abs() < q.abs().sum(dim=1) * step).all()


def test_int8_is_bitwise_equal_on_all_paths(
    path: cpu_kernels.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The largest inputs and weights too: no sum of two or four products may overflow."""
    q, scales, bias = int8_weights(130, 80), torch.rand(130), torch.randn(130)
    fastest = next(iter(cpu_kernels.paths().values()))
    found = cpu_kernels.int8_rows(q, scales, bias)
    monkeypatch.setattr(cpu_kernels, "path", lambda: fastest)
    twin = cpu_kernels.int8_rows(q, scales, bias)
    for rows in (1, 2, 6, 11, 40):
        x = torch.randn(rows, 80)
        x[0] = x[0].abs().max()  # 255 in 8 bits
        assert torch.equal(found(x), twin(x))
        assert torch.equal(found(-x), twin(-x))


# The other kernels of a step


@pytest.mark.parametrize("width", [1, 16, 40, 512])
@pytest.mark.parametrize("make", [LayerNorm, lambda d: LayerNorm(d, bias=False), RMSNorm])
@pytest.mark.parametrize("keep_sum", [True, False])
def test_add_norm(width: int, make: Callable[[int], Any], keep_sum: bool) -> None:
    norm = make(width)
    for value in norm.parameters():
        value.copy_(torch.randn(width))
    for rows in (1, 3, 150):
        x, branch = 3 + torch.randn(rows, width), torch.randn(rows, width)
        for added in (branch, None):
            mine, its = x.clone(), x.clone()
            found = cpu_kernels.add_norm(mine, added, norm, keep_sum=keep_sum)
            twin = plain_kernels.add_norm(its, added, norm, keep_sum=keep_sum)
            torch.testing.assert_close(found, twin, rtol=1e-4, atol=1e-4)
            assert torch.equal(mine, its)


@pytest.mark.parametrize("d", [3, 16, 40, 64, 80])
@pytest.mark.parametrize(("heads", "kv_heads"), [(4, 4), (6, 2)])
@pytest.mark.parametrize("beams", [1, 3])
def test_attention(d: int, heads: int, kv_heads: int, beams: int) -> None:
    sources, slots, start = 5, 40, 20
    keys, values = torch.randn(2, sources, kv_heads, slots, d)
    twins = keys.clone(), values.clone()
    seen = torch.rand(sources, beams, slots) < 0.5
    seen[:, :, start] = True
    fresh = torch.randn(sources * beams, (heads + 2 * kv_heads) * d)
    q, k, v = fresh.split([heads * d, kv_heads * d, kv_heads * d], 1)
    hidden = torch.zeros(seen.shape).masked_fill(~seen, -torch.inf)[:, None]
    for new, extent in (((k, v, start), start + beams), (None, slots)):
        options: dict[str, Any] = {"beams": beams, "scale": 0.3, "new": new}
        for mask, plain in ((seen, hidden[..., :extent]), (None, None)):
            mine = cpu_kernels.attend_newest(q, keys, values, seen=mask, **options)
            its = plain_kernels.attend_newest(q, *twins, seen=plain, **options)
            torch.testing.assert_close(mine, its, rtol=1e-4, atol=1e-5)
    assert torch.equal(keys, twins[0])
    assert torch.equal(values, twins[1])


def test_attention_over_non_contiguous_tensors() -> None:
    """Keys and values as a projection gives them, and the mask of a source for all its beams."""
    keys, values = torch.randn(2, 9, 4, 32).transpose(1, 2), torch.randn(2, 4, 9, 32)
    q, mask = torch.randn(6, 128), torch.rand(2, 9) < 0.6
    mask[:, 0] = True
    options: dict[str, Any] = {"beams": 3, "scale": 0.3}
    mine = cpu_kernels.attend_newest(
        q, keys, values, seen=cpu_kernels.visible_source(mask, q), **options
    )
    plain = plain_kernels.visible_source(mask, q)
    its = plain_kernels.attend_newest(q, keys, values, seen=plain, **options)
    torch.testing.assert_close(mine, its, rtol=1e-4, atol=1e-5)


# The whole step

OPTIONS: dict[str, dict[str, Any]] = {
    "post": {"placement": "post"},
    "pre, RMS, grouped heads, no biases": {
        "placement": "pre", "norm": "rms", "kv_heads": 2, "bias": False
    },
    "no encoder": {"shape": "decoder", "placement": "pre", "positions": "learned"},
}  # fmt: skip

TOLERANCE = {"float32": 1e-5, "int8": 0.02}  # where what is rounded to 8 bits falls the other way


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_all_layers_at_once(name: str, precision: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """= the plain kernels one by one, while beams follow one another and sources leave."""
    options = {"shape": "encoder-decoder"} | OPTIONS[name]
    config = TransformerConfig(
        head="language", vocab=23, d_model=32, heads=4, layers=2, activation="relu", **options
    )
    model = prepare(build(config).eval(), precision)
    mine = DecodeStep(model)
    assert mine.at_once is not None
    with monkeypatch.context() as patch:
        patch.setattr(cpu_kernels, "available", lambda: False)
        its = DecodeStep(model)
    assert its.at_once is None
    assert its.kernels is plain_kernels
    sources = GenerationInputs(3)
    if options["shape"] == "encoder-decoder":
        ids = torch.randint(2, 23, (3, 6))
        sources = GenerationInputs.of(ids, torch.arange(6) < torch.tensor([[6], [4], [5]]))
    states = [model.start(sources, 9) for _ in range(2)]
    rows = 3
    for number in range(8):
        if number == 1:
            rows *= 2
            for state in states:
                state.expand(2)
        elif number in (3, 6):
            parents = torch.randint(2, (rows // 2, 2))
            for state in states:
                state.follow(parents)
        elif number == 5:
            rows = 4
            for state in states:
                state.select(torch.tensor([2, 0]))
        elif number == 7:  # as many rows as before, in other caches
            for state in states:
                state.select(torch.tensor([1, 0]))
        tokens = torch.randint(2, 23, (rows, 1))
        found, twin = mine.step(tokens, states[0]), its.step(tokens, states[1])
        torch.testing.assert_close(found, twin, rtol=1e-4, atol=TOLERANCE[precision])


@pytest.mark.parametrize(
    "options", [{"activation": "gelu"}, {"activation": "swiglu"}, {"positions": "rotary"}]
)
def test_other_layers_are_called_one_by_one(options: dict[str, Any]) -> None:
    config = TransformerConfig(
        shape="decoder", head="language", vocab=23, d_model=32, heads=4, layers=2, **options
    )
    step = DecodeStep(prepare(build(config).eval(), "int8"))
    assert step.at_once is None
    assert step.kernels is cpu_kernels


# The choice of a path

PATH, REASON = (function.__wrapped__ for function in (cpu_kernels.path, cpu_kernels.reason))


def test_a_variable_selects_the_path(
    path: cpu_kernels.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRANSLUCID_CPU_KERNELS", path.name)
    assert PATH() is path
    assert REASON() == ""


@once
def test_without_the_variable_the_fastest_path_is_selected(
    path: cpu_kernels.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TRANSLUCID_CPU_KERNELS", raising=False)
    assert PATH() is path
    monkeypatch.setenv("TRANSLUCID_CPU_KERNELS", "torch")
    assert REASON() == "switched off by TRANSLUCID_CPU_KERNELS=torch"
    monkeypatch.setenv("TRANSLUCID_CPU_KERNELS", "sse2")
    with pytest.raises(InputError, match=rf"=sse2: this machine supports {path.name}.* torch"):
        REASON()


# The paths of ARM processors, in an emulator

MAIN = r"""
#include <stdio.h>

static void *get(long bytes) {
    void *room = calloc(bytes + 4096, 1);
    if (fread(room, 1, bytes, stdin) != (size_t)bytes) exit(2);
    return room;
}

static void put(const float *from, long count) { fwrite(from, sizeof(float), count, stdout); }

int main(int count, char **arguments) {
    const Path *path = 0;
    for (int i = 0; paths[i]; i++)
        if (!strcmp(paths[i]->name, arguments[count - 1])) path = paths[i];
    if (!path || !path->supported()) return 3;
    long *n = get(5 * sizeof(long)), rows = n[0], inputs = n[1], outputs = n[2];
    float *x = get(4 * rows * inputs);
    float *y = calloc(rows * outputs, 4), *z = calloc(rows * inputs, 4);
    void *q = get(n[3]), *bias = get(4 * n[4]), *scales = get(4 * n[4]), *sums = get(4 * n[4]);
    Linear int8 = {path, q, bias, scales, sums, inputs, outputs, 1};
    Linear float32 = {path, get(4 * inputs * n[4]), int8.bias, 0, 0, inputs, outputs, 1};
    Norm norm = {path, x, z, x, int8.scales, int8.bias, inputs, 0, 0, 1e-5};
    Attention attention = {
        path, x, 0, 0, x, x, z, 0, 0,
        inputs, 0, 0, 0, inputs, 0, 0, 1, rows, 1, 1, inputs, rows, 0, 0.3,
    };
    linear(&int8, x, rows, y, 1), put(y, rows * outputs);
    linear(&float32, x, rows, y, 1), put(y, rows * outputs);
    add_norm(&norm, rows, 1), put(z, rows * inputs);
    attend_newest(&attention, 1), put(z, rows * inputs);
}
"""


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command that runs the kernels of ARM processors. It needs the name of a path."""
    compiler, machine = "aarch64-linux-gnu-gcc", "qemu-aarch64"
    if not shutil.which(compiler) or not shutil.which(machine):
        pytest.skip(f"needs {compiler} and {machine}: apt install gcc-{compiler[:-4]} qemu-user")
    folder = tmp_path_factory.mktemp("arm")
    source, program = folder / "main.c", folder / "main"
    source.write_text(f'#include "{cpu_kernels.SOURCE}"\n{MAIN}', "utf-8")
    subprocess.run(
        [compiler, "-O2", "-static", "-o", program, source, "-lm"],
        check=True, capture_output=True, timeout=300,
    )  # fmt: skip
    return [machine, "-cpu", "max", str(program)]


@once
@pytest.mark.slow
@pytest.mark.parametrize("name", ["neon", "neon-dot"])
def test_arm(emulator: list[str], name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """8-bit results are bitwise equal to those of this processor."""
    inputs, outputs = 83, 130
    q, scales, bias = int8_weights(outputs, inputs), torch.rand(outputs), torch.randn(outputs)
    weight = torch.randn(outputs, inputs)
    mine = cpu_kernels.int8_rows(q, scales, bias).with_relu()
    monkeypatch.setattr(cpu_kernels, "path", lambda: cpu_kernels.Path(name.encode(), 16, 4))
    int8, float32 = cpu_kernels.int8_rows(q, scales, bias), cpu_kernels.float_rows(weight, bias)
    weights, *others = (part for part in int8.parts if part is not None)
    for rows in (1, 2, 7, 40):
        x = torch.randn(rows, inputs)
        x[0, :40] = 9  # 255 in 8 bits
        if rows > 2:
            x[1], x[2] = -x[0], 0
        sizes = torch.tensor([rows, inputs, outputs, weights.numel(), others[0].numel()])
        given = [sizes, x, weights, *others, float32.parts[0]]
        done = subprocess.run(
            [*emulator, name],
            input=b"".join(part.numpy().tobytes() for part in given if part is not None),
            check=True, capture_output=True, timeout=300,
        )  # fmt: skip
        found = torch.frombuffer(bytearray(done.stdout), dtype=torch.float32)
        widths = [outputs, outputs, inputs, inputs]
        parts = [part.view(rows, -1) for part in found.split([rows * n for n in widths])]
        assert torch.equal(parts[0], mine(x))
        normed = F.layer_norm(2 * x, (inputs,), scales[:inputs], bias[:inputs])
        mixed = (0.3 * x @ x.T).softmax(dim=1) @ x
        twins = [F.linear(x, weight, bias).relu(), normed, mixed]
        for part, twin in zip(parts[1:], twins, strict=True):
            torch.testing.assert_close(part, twin, rtol=1e-4, atol=1e-4)


@once
@pytest.mark.slow
def test_arm_without_dot_product(emulator: list[str]) -> None:
    older = [*emulator[:2], "cortex-a72", *emulator[3:]]
    codes = [
        subprocess.run([*older, name], input=b"", timeout=300).returncode
        for name in ("neon", "neon-dot")
    ]
    assert codes == [2, 3]  # no input; not supported


# Compiling


def hook() -> Any:
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def checkout(tmp_path: Path) -> Path:
    source = tmp_path / cpu_kernels.SOURCE.relative_to(ROOT)
    source.parent.mkdir(parents=True)
    source.write_bytes(cpu_kernels.SOURCE.read_bytes())
    return source


@once
def test_installing_without_a_compiler_builds_no_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("hatchling")
    source = checkout(tmp_path)
    monkeypatch.setenv("PATH", "")
    assert hook().compiled(tmp_path) is None
    assert list(source.parent.iterdir()) == [source]


@once
def test_a_library_of_another_source_is_not_loaded(tmp_path: Path) -> None:
    source = checkout(tmp_path)
    old = cpu_kernels.library_path(source)
    source.write_text(source.read_text("utf-8") + "/* changed */\n", "utf-8")
    assert cpu_kernels.library_path(source) != old


@once
@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no C compiler is looked for")
def test_it_is_compiled_where_it_is_loaded_from(tmp_path: Path) -> None:
    pytest.importorskip("hatchling")
    source = checkout(tmp_path)
    old = source.with_name("cpu_kernels-0.so")
    old.touch()
    assert hook().compiled(tmp_path) == cpu_kernels.library_path(source)
    assert not old.exists()
