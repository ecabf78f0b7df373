"""bench/scale.py: what processes send is what theory says; the files for clusters are commands."""

import itertools
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch.distributed as dist
from bench import scale
from tests.forked import TRANSLUCID
from torch.distributed.run import get_args_parser
from typer.main import get_command

from translucid.cli import app
from translucid.training.distributed import Processes

ROOT = Path(__file__).parents[2]
CLUSTER = ROOT / "examples/cluster"
pytestmark = pytest.mark.skipif(os.name == "nt", reason="gloo and bash")


def passed_around(size: int, processes: int) -> int:
    """Bytes that a process sends in a ring all-reduce, part by part."""
    bounds = [size * place // processes for place in range(processes + 1)]
    parts = [after - before for before, after in itertools.pairwise(bounds)]
    reduced = [parts[-turn % processes] for turn in range(processes - 1)]
    gathered = [parts[(1 - turn) % processes] for turn in range(processes - 1)]
    return sum(reduced) + sum(gathered)


@pytest.mark.parametrize("processes", [1, 2, 4, 7])
def test_a_ring_all_reduce_sends_the_sum_of_its_turns(processes: int) -> None:
    size = 4 * 1000 * processes
    traffic = scale.Traffic(all_reduce=size)
    assert traffic.sent(processes) == passed_around(size, processes)
    halves = scale.Traffic(all_gather=size, reduce_scatter=size)
    assert halves.sent(processes) == traffic.sent(processes)
    assert halves.sent(processes, gloo=True) == 1.5 * traffic.sent(processes)


@pytest.fixture
def group() -> Iterator[None]:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.slow
def test_collectives_carry_what_theory_says(group: None) -> None:
    """Shards of one process are gathered from nobody: fsdp is tried below."""
    run = scale.trained("ddp", Processes(0, 1, "ddp"))
    for kind, size in vars(run.expected).items():
        assert run.per_step.get(kind, 0) == size, kind
    assert run.per_step["flags"] == 8 + 8 + 4, "the loss, two flags at once, and that of the count"


@pytest.mark.thorough
@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
def test_processes_send_over_tcp_what_theory_says(parallel: str, tmp_path: Path) -> None:
    scale.measure("ddp", 1, tmp_path)
    for processes in (2, 4):
        run = scale.measure(parallel, processes, tmp_path)
        assert run["loss_difference"] < 1e-6
        assert run["weight_difference"] < 1e-6
        for kind, size in run["theory"].items():
            assert run["per_step"].get(kind, 0) == size, kind
        assert 1 <= run["per_step"]["sent"] / run["by_gloo"] < 1.03


def test_the_forecast_for_one_gpu_is_the_measured_rate() -> None:
    for model in scale.MODELS:
        for captured in (False, True):
            alone = scale.rate(model, 1, captured=captured, wires=scale.Interconnect())
            assert alone == pytest.approx(model.rate)
    page = (ROOT / "docs/explanation/scale.md").read_text("utf-8")
    assert scale.forecast_table() in page, "python bench/scale.py --forecast prints the table"


# Files for clusters


def stand_ins(folder: Path) -> dict[str, str]:
    """A Slurm of this machine alone."""
    for name, text in (("srun", 'exec "$@"'), ("scontrol", "echo 127.0.0.1")):
        (folder / name).write_text(f"#!/bin/bash\n{text}\n", "utf-8")
        (folder / name).chmod(0o755)
    slurm = {
        "SLURM_JOB_ID": "7", "SLURM_NNODES": "1", "SLURM_CPUS_PER_TASK": "2", "GPUS": "2",
        "SLURM_JOB_NODELIST": "here",
    }  # fmt: skip
    return os.environ | slurm | {"PATH": f"{folder}:{os.environ['PATH']}"}


def words_of_torchrun(script: str, folder: Path, environment: dict[str, str]) -> list[str]:
    (folder / "torchrun").write_text('#!/bin/bash\nprintf "%s\\n" "$@"\n')
    (folder / "torchrun").chmod(0o755)
    ran = subprocess.run(
        ["bash", "-c", script], env=environment, capture_output=True, encoding="utf-8", check=True
    )
    return ran.stdout.splitlines()


def script_of_kubernetes() -> str:
    yaml = pytest.importorskip("yaml")
    service, job = yaml.safe_load_all((CLUSTER / "kubernetes.yaml").read_text("utf-8"))
    pod = job["spec"]["template"]["spec"]
    assert (
        service["metadata"]["name"] == pod["subdomain"] == service["spec"]["selector"]["job-name"]
    )
    (container,) = pod["containers"]
    assert {m["name"] for m in container["volumeMounts"]} == {v["name"] for v in pod["volumes"]}
    assert container["command"] == ["bash", "-c"]
    (script,) = container["args"]
    machines, gpus = job["spec"]["completions"], container["resources"]["limits"]["nvidia.com/gpu"]
    assert f"--nnodes {machines} --nproc-per-node {gpus}" in script
    assert f"--master-addr {job['metadata']['name']}-0.{pod['subdomain']}" in script
    return str(script)


@pytest.mark.parametrize("cluster", ["slurm", "kubernetes"])
@pytest.mark.parametrize("begun", [False, True])
def test_torchrun_and_translucid_accept_the_commands(
    cluster: str, begun: bool, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    environment = stand_ins(tmp_path) | {"RUN": str(run), "JOB_COMPLETION_INDEX": "1"}
    script = (
        (CLUSTER / "slurm.sh").read_text("utf-8") if cluster == "slurm" else script_of_kubernetes()
    )
    script = script.replace("/shared/runs/x", str(run))
    if begun:
        (run / "state").mkdir(parents=True)
    words = words_of_torchrun(script, tmp_path, environment)
    options = get_args_parser().parse_args(words)
    assert (options.module, options.training_script) == (True, "translucid")
    assert options.nproc_per_node == ("2" if cluster == "slurm" else "8")
    name, *rest = options.training_script_args
    assert name == ("resume" if begun else "train")
    command = get_command(app).commands[name]  # type: ignore[attr-defined]
    with command.make_context(name, list(rest)) as context:
        given = context.params
    assert str(run) in map(str, given.values())


@pytest.mark.thorough
def test_the_script_for_slurm_trains_and_is_resumed(tmp_path: Path) -> None:
    recipe, run = tmp_path / "recipe.toml", tmp_path / "run"
    recipe.write_text(
        '[task]\nkind = "classify"\n[data]\ntoyland = 200\n[tokenizer]\nkind = "word"\n'
        '[model]\nkind = "transformer"\nd_model = 16\nheads = 2\nlayers = 1\n'
        '[training]\nsteps = 4\nbatch_tokens = 300\ndevice = "cpu"\nwarmup = 1\n'
    )
    environment = stand_ins(tmp_path) | {"RECIPE": str(recipe), "RUN": str(run)}
    program = f'#!/bin/bash\nexec {TRANSLUCID[0]} -m torch.distributed.run "$@"\n'
    (tmp_path / "torchrun").write_text(program, "utf-8")
    (tmp_path / "torchrun").chmod(0o755)
    command = ["bash", str(CLUSTER / "slurm.sh")]
    for line in ("training ended after step 4 of 4", "4"):
        ran = subprocess.run(
            command, env=environment, capture_output=True, encoding="utf-8", timeout=300
        )
        assert ran.returncode == 0, ran.stderr
        assert line in ran.stdout + ran.stderr
    assert (run / "best/model.safetensors").exists()
