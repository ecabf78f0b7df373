"""Ray: connect to a cluster, and answer the lines of a file with its processes.

`answer_shards` divides the input into shards. Ray Data runs the same command for each of them, and
repeats those whose process ended early. A shard is written like the output of a single process, so
it is resumed where it was stopped. At the end, the shards are joined in order.
"""

import hashlib
import io
import json
import logging
import os
import shutil
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing, redirect_stderr, redirect_stdout, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import typer

from translucid.cli.shared.arguments import with_code
from translucid.cli.shared.inputs import Inputs
from translucid.cli.shared.options import check_unused
from translucid.cli.shared.parsing import CALL, Call
from translucid.core.errors import (
    ConfigError,
    InputError,
    TranslucidError,
    check_same_settings,
    install_command,
)
from translucid.core.progress import Progress

STARTS = 2  # attempts to start Ray
PER_PROCESS = 8  # shards for each process, so that slow machines get fewer


@dataclass
class Shard:
    """The part of the input that this process answers, into a file of its own."""

    out: Path
    start: int  # of the records
    stop: int
    failed: int = 0


SHARD: ContextVar[Shard | None] = ContextVar("SHARD", default=None)


def connect() -> bool:
    """Connect to the Ray cluster of this machine; without one, start Ray on this machine alone.
    Returns whether there was a cluster."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
        import ray.data
        import ray.serve
    except ImportError as error:
        raise ConfigError(
            f"--ray needs the package {error.name}; install it with: {install_command('ray')}"
        ) from error
    # Replicas and processes write to Ray's log files, not to the terminal of this command.
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    address = os.environ.get("RAY_ADDRESS")
    try:
        ray.init(address=address or "auto", **quiet)
    except (ConnectionError, ValueError) as error:
        if address:
            raise ConfigError(
                f"RAY_ADDRESS={address}: cannot connect to this cluster ({error}); check the "
                "address, and RAY_AUTH_TOKEN if the cluster has tokens"
            ) from error
        start(quiet)
        return False
    return True


def start(options: dict[str, Any]) -> None:
    """Start Ray on this machine. On a busy machine, a start may exceed Ray's own time limit (30
    seconds), so it is tried again."""
    import ray

    for left in reversed(range(STARTS)):
        try:
            ray.init(address="local", include_dashboard=False, **options)
        except Exception as error:  # Ray raises Exception itself
            ray.shutdown()
            if not left:
                raise ConfigError(
                    f"--ray: Ray could not be started on this machine, tried {STARTS} times: "
                    f"{error}; start it with `ray start --head`, and run this command again"
                ) from error
        else:
            return


def resources(device: str, cpus: float = 1) -> dict[str, float]:
    """What Ray reserves for a process: one GPU, if the cluster has any and the device allows it."""
    import ray

    if device.startswith("cuda:"):
        raise ConfigError(f"--device {device}: Ray chooses the GPU; use --device cuda")
    gpus = ray.cluster_resources().get("GPU", 0)
    if device == "cuda" and not gpus:
        raise ConfigError("--device cuda: the Ray cluster has no GPU; add one, or omit --device")
    return {"num_cpus": cpus} | ({"num_gpus": 1} if gpus and device != "cpu" else {})


@dataclass(frozen=True)
class Job:
    """What the processes run."""

    call: Call
    folder: Path  # of the shards
    working_directory: str
    size: int  # records of a shard

    def shard(self, number: int) -> Path:
        return self.folder / f"{number:05}"

    def note(self, number: int) -> Path:
        """Exists if the shard is complete."""
        return self.folder / f"{number:05}.json"


def answer_shards(
    inputs: Inputs,
    read: Callable[[], Iterator[Any]],
    *,
    out: Path | None,
    settings: dict[str, Any],
    chunk: int,
    report: Callable[[Path, int, int, float], None],
) -> None:
    """Answer all lines with the processes of a Ray cluster, into one file. At the end, `report`
    gets the file, its lines, those left empty, and the seconds."""
    if out is None or inputs.texts or not Path(inputs.file).is_file():
        raise InputError("--ray answers the lines of a file into another one; give FILE and --out")
    check_unused(out)
    for part in (out.with_name(out.name + ".part"), out.with_name(out.name + ".part.json")):
        if part.exists():
            raise InputError(
                f"{part} was started without --ray; omit --ray to resume, or remove it"
            )
    digest, total = hashlib.sha256(), 0
    for record in read():
        digest.update(record.text.encode() + b"\n")
        total += 1
    connect()
    import ray
    import ray.data

    call = CALL.get()
    needs = resources(call.options["device"])
    unit = "GPU" if "num_gpus" in needs else "CPU"
    processes = max(1, int(ray.cluster_resources().get(unit, 1)))
    size = -(-total // (processes * PER_PROCESS * chunk)) * chunk  # a multiple of the chunks
    folder = out.with_name(out.name + ".shards").absolute()
    facts = settings | {"lines": total, "digest": digest.hexdigest()}
    size = _resumed(folder, json.loads(json.dumps(facts)), max(size, chunk))
    job = Job(call, folder, os.getcwd(), size)
    numbers = range(-(-total // size))
    done = [number for number in numbers if job.note(number).exists()]
    left = [{"shard": number} for number in numbers if number not in done]
    lines = partial(_lines, size=size, total=total)
    with Progress("lines", total, start=sum(map(lines, done)), stays=True) as progress:
        at = sum(map(lines, done))
        if at:
            progress.say(f"resuming after {at:,} lines in {folder}")
        try:
            for answered in _answers(left, job, needs):
                number, error = answered["shard"], answered["error"]
                if error:
                    raise InputError(error)
                for message in answered["messages"]:
                    progress.say(f"lines {number * size + 1:,}-{number * size + lines(number):,}: "
                                 f"{message}")  # fmt: skip
                at += lines(number)
                progress.move(at)
        except KeyboardInterrupt:
            progress.say(f"stopped after {at:,} lines; run the same command again to resume")
            raise typer.Exit(130) from None
        except ray.exceptions.RayError as error:
            what = str(error).strip().partition("\n")[0]
            raise InputError(
                f"Ray stopped: {what}; run the same command again to resume"
            ) from error
        finally:
            ray.shutdown()
        took = progress.seconds
    failed = sum(json.loads(job.note(number).read_text("utf-8"))["failed"] for number in numbers)
    _join([job.shard(number) for number in numbers], out)
    shutil.rmtree(folder)
    report(out, total, failed, took)


def _answers(left: list[Any], job: Job, needs: dict[str, float]) -> Iterator[dict[str, Any]]:
    import ray.data

    if not left:
        return
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    rows = ray.data.from_items(left, override_num_blocks=len(left))
    answered = rows.map(answer_shard, fn_args=(job,), **needs)
    yield from answered.iter_rows()


def answer_shard(row: dict[str, Any], job: Job) -> dict[str, Any]:
    """Run the command for one shard, in a process of the cluster."""
    import fcntl  # not on Windows, where all commands import this file

    number = int(row["shard"])
    result: dict[str, Any] = {"shard": number, "messages": [], "error": ""}
    try:
        os.chdir(job.working_directory)
        lock = (job.folder / f"{number:05}.lock").open("w")
    except OSError as error:
        where = f"{os.uname().nodename}: {error.filename}: {error.strerror}"
        result["error"] = f"{where}; all machines must see the same files in the same places"
        return result
    with closing(lock):
        # A process that Ray believes lost may still write to this shard.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if job.note(number).exists():
            return result
        job.shard(number).unlink(missing_ok=True)  # ended before its note was written
        shard = Shard(job.shard(number), number * job.size, (number + 1) * job.size)
        before, printed = SHARD.set(shard), io.StringIO()
        try:
            with (
                redirect_stderr(printed),
                redirect_stdout(printed),
                warnings.catch_warnings(record=True) as warned,
            ):
                warnings.simplefilter("always")
                with suppress(typer.Exit):  # with lines left empty
                    command = getattr(import_module(job.call.module), job.call.function)
                    with_code(command)(**job.call.options)
        except TranslucidError as error:
            result["error"] = str(error)
            return result
        finally:
            SHARD.reset(before)
        result["messages"] = [
            *printed.getvalue().splitlines(), *(f"warning: {one.message}" for one in warned)
        ]  # fmt: skip
        from translucid.core.atomic_files import write_text

        write_text(job.note(number), json.dumps({"failed": shard.failed}))
    return result


def _resumed(folder: Path, facts: dict[str, Any], size: int) -> int:
    """The size of the shards in this folder, which is made if it does not exist."""
    from translucid.core.atomic_files import write_text

    file = folder / "settings.json"
    if not file.exists():
        folder.mkdir(exist_ok=True)
        write_text(file, json.dumps(facts | {"size": size}, indent=2) + "\n")
        return size
    before = json.loads(file.read_text("utf-8"))
    size = before.pop("size")
    check_same_settings(
        folder, before, facts, "use the same input and settings to resume, or remove the folder"
    )
    return int(size)


def _lines(number: int, size: int, total: int) -> int:
    return min(size, total - number * size)


def _join(shards: list[Path], out: Path) -> None:
    from translucid.core.atomic_files import saving

    part = out.with_name(out.name + ".joined")
    with saving(out):
        with part.open("wb") as whole:
            for shard in shards:
                with shard.open("rb") as one:
                    shutil.copyfileobj(one, whole)
            whole.flush()
            os.fsync(whole.fileno())
        part.replace(out)
