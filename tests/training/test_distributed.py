"""Several processes compute what one computes: started with torchrun, killed, and resumed."""

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tests.forked import TORCHRUN as LAUNCHER
from tests.forked import TRANSLUCID

from translucid.core import atomic_files
from translucid.runs.checkpoints import Checkpoints
from translucid.runs.recorder import lines

pytestmark = pytest.mark.skipif(os.name == "nt", reason="gloo and torchrun on Linux and macOS")
SMALL = [
    "data.toyland=200", "tokenizer.kind=word", "model.d_model=16", "model.heads=2",
    "model.layers=1", "model.dropout=0.0", "training.batch_tokens=300", "training.log_every=1",
    "training.evaluate_every=4", "training.device=cpu", "training.warmup=1",
]  # fmt: skip
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]


WAYS = [
    pytest.param("ddp", marks=pytest.mark.slow),
    pytest.param("fsdp", marks=pytest.mark.thorough),
]

# Adam would divide rounding by rounding where a gradient is 0, as that of a key's bias always is.
PLAIN = ["training.optimizer=sgd", "training.learning_rate=0.1"]


def words(out: Path, *more: str, task: str = "classify") -> list[str]:
    usual = [*SMALL, "training.steps=6"]
    keys = {word.partition("=")[0]: word for word in (*usual, *more)}  # a key can be set once
    return ["train", task, "--out", str(out), *keys.values()]


def start(
    *command: str, processes: int = 0, typed: bool = False, parent: bool = True
) -> subprocess.Popen[str]:
    """With so many processes of torchrun, which are forks unless it is as `typed`; 0: without.
    parent: of those processes; if not, torchrun is a fork too."""
    program = TRANSLUCID
    if processes:
        program = ["-m", "translucid"] if typed else ["--no-python", *TRANSLUCID]
        torchrun = TORCHRUN if typed or parent else [*TRANSLUCID, LAUNCHER, *TORCHRUN[3:]]
        program = [*torchrun[:-1], str(processes), *program]
    alone = os.environ | {"OMP_NUM_THREADS": "1", "MASTER_PORT": "0"}
    return subprocess.Popen(
        [*program, *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        env=alone,
    )


def run(*command: str, processes: int = 0, typed: bool = False) -> tuple[str, str]:
    running = start(*command, processes=processes, typed=typed, parent=False)
    out, err = running.communicate(timeout=300)
    assert running.returncode == 0, err
    return out, err


def same(one: Path, other: Path, tolerance: float = 1e-6) -> None:
    losses = [
        [
            json.loads(line).get("loss")
            for line in (run / "metrics.jsonl").read_text("utf-8").splitlines()
        ]
        for run in (one, other)
    ]
    known = [[loss for loss in run if loss is not None] for run in losses]
    assert known[0] == pytest.approx(known[1], abs=tolerance, rel=tolerance)
    ours, theirs = (load_file(run / "last/model.safetensors") for run in (one, other))
    for name, weight in ours.items():
        torch.testing.assert_close(theirs[name], weight, rtol=0, atol=tolerance)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("alone") / "run"
    run(*words(out, *PLAIN))
    return out


@pytest.mark.slow
@pytest.mark.parametrize("typed", [False, pytest.param(True, marks=pytest.mark.thorough)])
def test_two_processes_are_one_and_one_of_them_speaks(
    typed: bool, alone: Path, tmp_path: Path
) -> None:
    out, err = run(*words(tmp_path / "two", *PLAIN), processes=2, typed=typed)
    same(alone, tmp_path / "two")
    assert out.count("next: translucid classify") == 1
    assert err.count("step 6  loss") == 1


@pytest.mark.thorough
def test_compiled_layers_of_two_processes_train_as_plain_ones(alone: Path, tmp_path: Path) -> None:
    out, err = run(*words(tmp_path / "two", *PLAIN, "training.compile=true"), processes=2)
    same(alone, tmp_path / "two", tolerance=1e-5)
    assert err.count("torch.compile: the layers are compiled once") == 1
    assert "does not work here" not in out + err


@pytest.mark.thorough
def test_with_adam_only_weights_without_a_gradient_differ(tmp_path: Path) -> None:
    """As docs/guides/processes.md has it: the bias of keys, and rows of the embedding."""
    one, two = tmp_path / "one", tmp_path / "two"
    run(*words(one))
    run(*words(two), processes=2)
    losses = [
        [json.loads(line)["loss"]
         for line in (out / "metrics.jsonl").read_text("utf-8").splitlines()
         if "loss" in json.loads(line)]
        for out in (one, two)
    ]  # fmt: skip
    assert losses[1] == pytest.approx(losses[0], abs=1e-6)
    ours, theirs = (load_file(out / "last/model.safetensors") for out in (one, two))
    for name, weight in ours.items():
        loose = name.endswith(("qkv.bias", "embedding.table.weight"))
        tolerance = 6 * 1e-3 if loose else 1e-6  # steps, and how far one goes
        torch.testing.assert_close(theirs[name], weight, rtol=0, atol=tolerance)


@pytest.mark.thorough
@pytest.mark.parametrize("parallel", WAYS)
def test_a_record_of_two_processes_is_that_of_one(parallel: str, tmp_path: Path) -> None:
    """One of them writes and serves; norms are of the whole gradient; nothing else changes."""
    several = [*PLAIN, f"--parallel={parallel}", "training.ema=0.9"]
    run(*words(tmp_path / "plain", *several), processes=2)
    out, _ = run(*words(tmp_path / "two", *several, "--studio"), processes=2)
    assert out.count("studio: http://") == 1
    assert atomic_files.digests(tmp_path / "plain/last") == atomic_files.digests(
        tmp_path / "two/last"
    )
    run(*words(tmp_path / "one", *several, "--studio"))
    records = [lines(tmp_path / name / "studio/steps.jsonl") for name in ("one", "two")]
    assert [each["step"] for each in records[0]] == [1, 2, 3, 4, 5, 6, 6]
    for one, two in zip(*records, strict=True):
        assert one.keys() == two.keys()
        for key in one.keys() - {"end"}:
            assert two[key] == pytest.approx(one[key], rel=1e-3, abs=1e-6), key
    probes = [lines(tmp_path / name / "studio/probes.jsonl") for name in ("one", "two")]
    assert [each["step"] for each in probes[1]] == [each["step"] for each in probes[0]]
    assert probes[1][-1]["answer"] == pytest.approx(probes[0][-1]["answer"], abs=1e-5)


@pytest.mark.thorough
@pytest.mark.parametrize("parallel", WAYS)
def test_translation_with_an_average_and_three_batches_a_step(
    parallel: str, tmp_path: Path
) -> None:
    """Rows are shared out unevenly, and some batches have fewer rows than there are processes."""
    more = [*PLAIN, "training.accumulate=3", "training.ema=0.9", "training.batch_tokens=70",
            "data.max_length=30"]  # fmt: skip
    run(*words(tmp_path / "one", *more, task="translate"))
    several = [*more, f"--parallel={parallel}"]
    run(*words(tmp_path / "three", *several, task="translate"), processes=3)
    same(tmp_path / "one", tmp_path / "three", 3e-6)


@pytest.mark.thorough
@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
def test_a_group_of_one_is_a_group(alone: Path, tmp_path: Path, parallel: str) -> None:
    """So that what many processes do can be tried with one, as NCCL on a single GPU."""
    run(*words(tmp_path / "one", *PLAIN, f"--parallel={parallel}"), processes=1)
    same(alone, tmp_path / "one")
    shards = list((tmp_path / "one").rglob("shard-*.safetensors"))
    assert bool(shards) == (parallel == "fsdp")


@pytest.mark.thorough
def test_shards_written_by_two_are_read_by_one_and_by_three(alone: Path, tmp_path: Path) -> None:
    """Stopped at step 3 with two shards; one process and three processes go on from there."""
    out = tmp_path / "shards"
    run(*words(out, *PLAIN, "training.steps=3", "--parallel=fsdp"), processes=2)
    place = out / "state" / f"step-{3:08}"
    assert len(list(place.glob("shard-*.safetensors"))) == 2
    assert atomic_files.fault(place) is None
    assert not list(out.rglob("*.metadata")), "a pickle"
    for count in (0, 3):  # one in a group of one: the test before
        twin = tmp_path / f"by {count}"
        subprocess.run(["cp", "-r", str(out), str(twin)], check=True)
        run("resume", str(twin), "training.steps=6", "--allow-changes", processes=count)
        same_end(alone, twin)


def same_end(one: Path, other: Path) -> None:
    """The schedule of a run that was to have three steps differs, but it goes on from them."""
    assert Checkpoints(other).steps()[0] == Checkpoints(one).steps()[0] == 6
    lines = [json.loads(x) for x in (other / "metrics.jsonl").read_text("utf-8").splitlines()]
    assert [line["step"] for line in lines if "loss" in line] == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("parallel", WAYS)
def test_a_killed_process_ends_the_job_which_then_resumes_to_the_bit(
    parallel: str, tmp_path: Path
) -> None:
    more = ["training.steps=40", "training.save_every=2", f"--parallel={parallel}"]
    run(*words(tmp_path / "straight", *more), processes=2)
    out = tmp_path / "killed"
    running = start(*words(out, *more), processes=2)
    while running.poll() is None and len(Checkpoints(out).steps()) < 2:
        time.sleep(0.02)
    victim = _children(running.pid)[-1]
    os.kill(victim, signal.SIGKILL)
    _, err = running.communicate(timeout=300)
    assert running.returncode != 0
    assert "resume" in err or "Signal 9" in err or "SIGKILL" in err
    run("resume", str(out), processes=2)
    assert (out / "metrics.jsonl").read_bytes() == (
        tmp_path / "straight/metrics.jsonl"
    ).read_bytes()
    assert atomic_files.digests(out / "best") == atomic_files.digests(
        tmp_path / "straight" / "best"
    )


@pytest.mark.thorough
def test_a_shard_that_cannot_be_written_ends_the_job_with_the_way_on(tmp_path: Path) -> None:
    """A limit that the model still fits under; the shards, with moments, do not."""
    more = ["training.save_every=2", "--parallel=fsdp"]
    run(*words(tmp_path / "straight", *more), processes=2)
    blocks = (tmp_path / "straight/best/model.safetensors").stat().st_size // 1024 + 2
    shard = next((tmp_path / "straight/state").rglob("shard-*")).stat().st_size
    assert shard > 1024 * blocks
    out = tmp_path / "limited"
    command = shlex.join([*TORCHRUN, "-m", "translucid", *words(out, *more)])
    limited = subprocess.run(
        ["bash", "-c", f"ulimit -f {blocks}; exec {command}"],
        capture_output=True, encoding="utf-8", check=False, timeout=300,
        env=os.environ | {"OMP_NUM_THREADS": "1", "MASTER_PORT": "0"},
    )  # fmt: skip
    assert limited.returncode != 0
    (error,) = [line for line in limited.stderr.splitlines() if line.startswith("error: ")]
    assert f"{out / 'state'}" in error
    assert "could not be written" in error
    assert "File too large" in error
    again = f"torchrun --nproc-per-node 2 -m translucid resume {shlex.quote(str(out))}"
    assert f"start over with: {again}" in error
    assert "CheckpointException" not in limited.stderr
    assert not [*out.rglob(".*")]
    run("resume", str(out), processes=2)
    same(tmp_path / "straight", out, tolerance=0)


def _children(pid: int) -> list[int]:
    found = subprocess.run(
        ["pgrep", "-P", str(pid)], capture_output=True, encoding="utf-8", check=False
    )
    return [int(line) for line in found.stdout.split()]


@pytest.mark.slow
def test_ctrl_c_stops_all_at_the_same_step(tmp_path: Path) -> None:
    out = tmp_path / "run"
    running = start(*words(out, "training.steps=100000"), processes=2)
    log = out / "metrics.jsonl"
    while running.poll() is None and not (log.exists() and log.stat().st_size):
        time.sleep(0.02)
    for child in _children(running.pid):
        os.kill(child, signal.SIGINT)
    stdout, err = running.communicate(timeout=300)
    assert running.returncode != 0  # torchrun's, since a process ended with 130
    assert "exitcode  : 130" in err
    assert stdout.count("stopped and saved after step") == 1
    assert f"torchrun --nproc-per-node 2 -m translucid resume {shlex.quote(str(out))}" in stdout
    assert Checkpoints(out).steps()


@pytest.mark.parametrize(
    ("more", "message"),
    [
        pytest.param(
            ["training.compile=true", "training.parallel=fsdp"],
            "training.compile = true is not available with fsdp; use ddp, or omit training.compile",
            marks=pytest.mark.thorough,
        ),
        pytest.param(
            ["model.norm=batch"],
            "model.norm = 'batch' ",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_unsupported_distributed_settings_are_refused(
    more: list[str], message: str, tmp_path: Path
) -> None:
    running = start(*words(tmp_path / "run", *more), processes=2, parent=False)
    _, err = running.communicate(timeout=300)
    assert running.returncode != 0
    assert err.count(message) == 1
    assert not (tmp_path / "run").exists()


@pytest.mark.thorough
def test_two_machines_are_one(alone: Path, tmp_path: Path) -> None:
    """Two torchrun nodes that find each other over loopback, one process each."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    out = tmp_path / "nodes"
    shared = ["--nnodes", "2", "--nproc-per-node", "1", "--master-addr", "127.0.0.1",
              "--master-port", str(port)]  # fmt: skip
    nodes = [
        subprocess.Popen(
            [sys.executable, "-m", "torch.distributed.run", *shared, "--node-rank", str(rank),
             "--no-python", *TRANSLUCID, *words(out, *PLAIN)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8",
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )
        for rank in (0, 1)
    ]  # fmt: skip
    told = [node.communicate(timeout=300) for node in nodes]
    assert [node.returncode for node in nodes] == [0, 0], told
    same(alone, out)
    assert "step 6  loss" in told[0][1]
    assert "step 6  loss" not in told[1][1], "only the first process speaks"
