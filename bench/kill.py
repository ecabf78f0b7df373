"""Kill training runs a thousand times, damage their checkpoints ten thousand times, and check the
results.

    python bench/kill.py --kills 1000 --damages 10000 --seed 0 [--minutes 8]

A run is killed (SIGKILL) and resumed until it is complete, again and again. After every kill, its
newest checkpoint must be whole and no older than the last completed save, and its model, if it had
one, must load. At the end, all results must be bit for bit those of an undisturbed run. Then single
bits are flipped in the files of its newest checkpoint and of its best model, and files are
truncated: Translucid must notice all of it. The first violation ends the program.
"""

import argparse
import gc
import json
import os
import random
import resource
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

SOURCE = Path(__file__).parent.parent / "src"
Moment = Literal["time", "operation", "renames", "save", "aside", "line", "checkpoint"]
CHANGES = ("open", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.truncate")


@dataclass(frozen=True)
class Aim:
    """When to kill.

    time: after this many seconds. operation: before the n-th change to a file of the run. renames:
    between the two renames that replace a folder, the n-th time. save: before the checkpoint of
    step n is renamed to its final name. The others, as soon as it is seen: aside, the n-th
    half-written folder; line, the n-th line of metrics.jsonl; checkpoint, that of step n.
    """

    moment: Moment
    number: float


@dataclass
class Life:
    """How a process ended, and which files were seen on disk before, also in earlier processes of
    the run."""

    code: int  # negative: the signal that ended it
    said: str
    saved: int | None = None  # step of the newest complete checkpoint that was seen
    models: frozenset[str] = frozenset()  # which of best/ and last/ were seen
    resumed: bool = False  # False: the run was started

    @property
    def trained(self) -> bool:
        """Whether the process got as far as training."""
        begun = not self.resumed or "starting over" in self.said
        return ("parameters on" if begun else "resumed at step") in self.said

    def look(self, run: Path) -> None:
        self.saved = max([self.saved or 0, *steps(run)]) or None
        self.models |= {name for name in ("best", "last") if (run / name).exists()}


def steps(run: Path) -> list[int]:
    with suppress(FileNotFoundError):
        names = os.listdir(run / "state")
        return [int(name.removeprefix("step-")) for name in names if name.startswith("step-")]
    return []


class Server:
    """A process that imports everything once and then forks the processes that train, so that these
    spend their time on training and not on imports."""

    def __init__(self, folder: Path) -> None:
        self.said = folder / "said"  # the output of the newest process
        self._pid = 0
        path = os.pathsep.join([str(SOURCE), os.environ.get("PYTHONPATH", "")])
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--serve"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": path},
        )

    def live(
        self, words: Sequence[str], run: Path, aim: Aim | None = None, *,
        largest_file: int = 0, before: Life | None = None,
    ) -> Life:  # fmt: skip
        """Run a command line in a new process, and kill it as `aim` says."""
        self._start(words, run, aim, largest_file)
        watch = Watch(run, aim)
        life = replace(before or Life(0, ""), resumed=words[0] == "resume")
        while not self._ended(wait=watch.pause):
            life.look(run)
            if watch.now():
                os.kill(self._pid, signal.SIGKILL)
        life.code = int(self._line())
        life.said = self.said.read_text("utf-8")
        return life

    def finish(self, words: Sequence[str], run: Path) -> Life:
        life = self.live(words, run)
        if life.code != 0:
            raise AssertionError(f"{' '.join(words)} ended with {life.code}:\n{life.said}")
        return life

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def _start(self, words: Sequence[str], run: Path, aim: Aim | None, largest_file: int) -> None:
        order = {"words": words, "run": str(run), "said": str(self.said), "file": largest_file}
        if aim is not None and aim.moment in ("operation", "renames", "save"):
            order |= {"moment": aim.moment, "number": aim.number}
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        self._pid = int(self._line())

    def _ended(self, wait: float) -> bool:
        assert self._process.stdout is not None
        return bool(select.select([self._process.stdout], [], [], wait)[0])

    def _line(self) -> bytes:
        assert self._process.stdout is not None
        return self._process.stdout.readline()


class Watch:
    """Watches the files of a run for the moment to kill."""

    def __init__(self, run: Path, aim: Aim | None) -> None:
        self._run, self._began = run, time.monotonic()
        self._moment = aim.moment if aim is not None else None
        self._number = aim.number if aim is not None else 0
        self._halves: set[Path] = set()
        # These files exist only briefly, so do not sleep.
        self.pause = 0.0 if self._moment in ("aside", "line", "checkpoint") else 0.001

    def now(self) -> bool:
        match self._moment:
            case "time":
                return time.monotonic() - self._began >= self._number
            case "aside":
                self._halves |= set(hidden(self._run, ".*.writing"))
                return len(self._halves) >= self._number
            case "line":
                metrics = self._run / "metrics.jsonl"
                return metrics.exists() and metrics.read_bytes().count(b"\n") >= self._number
            case "checkpoint":
                return self._number in steps(self._run)
        return False


def hidden(run: Path, pattern: str = ".*") -> list[Path]:
    """Files and folders that a save has not finished writing."""
    places = (run, run / "state", run / "checkpoints")
    return [path for place in places for path in place.glob(pattern)]


def serve() -> None:
    """Run the server: for every order on a line, fork a process, print its number, then how it
    ended."""
    from importlib import import_module

    from translucid.cli import main as command_line

    for name in ("translucid.runs.run", "translucid.cli.train", "torch._dynamo"):
        import_module(name)  # otherwise each process would import it
    gc.freeze()  # so that garbage collection in the forks does not copy shared memory
    pid = 0
    for line in sys.stdin:
        order = json.loads(line)
        if pid:
            os.waitpid(pid, 0)
        pid = os.fork()
        if not pid:
            _become(order)
            try:
                command_line(order["words"])
            except SystemExit as end:  # shutting down the interpreter takes longer than the run
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(int(end.code or 0))
        print(pid, flush=True)
        # Do not reap the process yet: its number stays in use, so no other process can be killed.
        ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        assert ended is not None
        print(ended.si_status * (1 if ended.si_code == os.CLD_EXITED else -1), flush=True)


def _become(order: dict[str, Any]) -> None:
    """Prepare the new process: redirect its output, limit its files, and install the hook that
    kills it."""
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    said = os.open(order["said"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(said, 1)
    os.dup2(said, 2)
    if order["file"]:
        resource.setrlimit(resource.RLIMIT_FSIZE, (order["file"], order["file"]))
    if "moment" in order:
        sys.addaudithook(_ending(order["moment"], order["number"], order["run"]))


def _ending(moment: str, number: int, run: str) -> Callable[[str, tuple[Any, ...]], None]:
    """An audit hook, which Python calls before a file is touched, that kills the process at this
    moment."""
    left = number

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal left
        if event not in CHANGES:
            return
        path = str(arguments[0])
        if path.startswith("/") and not path.startswith(run):
            return
        if moment == "renames":
            folder = path.removesuffix(".writing")
            if event != "os.rename" or path == folder or not os.path.exists(f"{folder}.old"):
                return
        if moment == "save" and not (
            event == "os.rename" and path.endswith(f".step-{number:08}.writing")
        ):
            return
        left -= 1
        if left <= 0 or moment == "save":
            os.kill(os.getpid(), signal.SIGKILL)

    return hook


# The runs


LINES = 120
COMMON = [
    "tokenizer.kind=word", "training.steps=9", "training.batch_tokens=90", "training.log_every=1",
    "training.evaluate_every=3", "training.save_every=1", "training.warmup=1",
    "training.device=cpu",
]  # fmt: skip
RUNS = {
    "gru": ["model.kind=recurrent", "model.cell=gru", "model.d_model=16", "model.hidden=16"],
    "transformer, average, best three and their mean": [
        "model.d_model=16", "model.heads=2", "model.layers=1", "training.ema=0.9",
        "training.keep_best=3", "training.average_best=true", "training.save_every=2",
        "training.evaluate_every=2"],
    "lstm, written aside": ["model.kind=recurrent", "model.cell=lstm", "model.d_model=16",
                            "model.hidden=16", "training.save_in_background=true"],
}  # fmt: skip


def write_files(folder: Path) -> None:
    """Write generated sentences with a label that can be learned from them."""
    rng = random.Random(7)
    words = ["day", "night", "dog", "house", "tree", "road", "good", "bad", "long", "old"]
    for part in ("train", "valid", "test"):
        lines = []
        for _ in range(LINES):
            text = rng.choices(words, k=rng.randint(4, 12))
            lines.append(f"{'even' if text.count('good') % 2 == 0 else 'odd'}\t{' '.join(text)}\n")
        (folder / f"{part}.tsv").write_text("".join(lines))


def train_words(data: Path, run: Path, more: Sequence[str]) -> list[str]:
    files = [f"--{part}={data / f'{part}.tsv'}" for part in ("train", "valid", "test")]
    keys = {word.partition("=")[0]: word for word in (*COMMON, *more)}  # a key can be set once
    return ["train", "classify", *files, "--out", str(run), *keys.values()]


def again(words: Sequence[str], run: Path) -> list[str]:
    """The command to run after a kill: `resume`, or the original one if the run has not written its
    recipe."""
    return ["resume", str(run)] if (run / "recipe.toml").exists() else list(words)


# What must hold


def check_after_kill(run: Path, life: Life) -> None:
    """Check that nothing is lost after the last completed save, and that a model that was there
    still loads."""
    from translucid.runs.checkpoints import Checkpoints
    from translucid.tasks import model_folder

    said: list[str] = []
    if life.saved is not None:
        found = Checkpoints(run).newest(said.append)
        assert not said, said
        assert found.step >= life.saved, f"step {life.saved} was saved, {found.step} is left"
    for name in life.models:
        model_folder.load(run / name)


def where(run: Path, life: Life, evaluate_every: int) -> set[str]:
    """What the run was doing when it was killed, as far as its files show."""
    from translucid.runs.checkpoints import Checkpoints

    found = set() if steps(run) else {"before the first save"}
    if not life.trained:  # other files are from earlier processes
        return found | {"while starting"}
    if hidden(run):
        found.add("inside a save")
    old = hidden(run, ".*.old")
    if any(not path.with_name(path.stem[1:]).exists() for path in old):
        found.add("between the two renames")
    with suppress(FileNotFoundError, IndexError):
        last = json.loads((run / "metrics.jsonl").read_text("utf-8").splitlines()[-1])
        if "valid" not in last and last["step"] % evaluate_every == 0:
            found.add("during an evaluation")
    if steps(run) and not (run / "test.json").exists():
        newest = Checkpoints(run).newest(lambda _: None)
        if newest.numbers["state"]["finished"]:
            found.add("during the test")
    return found


def same_bits(one: Path, other: Path) -> int:
    """Check that two runs have equal results, and return the number of bits of tensors that were
    compared."""
    from safetensors.torch import load_file

    from translucid.core.atomic_files import digests

    for name in ("metrics.jsonl", "test.json"):
        assert (one / name).read_bytes() == (other / name).read_bytes(), name
    for name in ("best", "last", "checkpoints"):
        assert digests(one / name) == digests(other / name), name
    newest = Path("state", f"step-{max(steps(one)):08}")
    numbers = [json.loads((run / newest / "state.json").read_text("utf-8")) for run in (one, other)]
    for each in numbers:
        del each["state"]["seconds"]
    assert numbers[0] == numbers[1]
    assert not [*other.rglob(".*")], "something half-written stayed"
    bits = 0
    files = [path.relative_to(one) for place in ("best", "last", newest)
             for path in (one / place).rglob("*.safetensors")]  # fmt: skip
    for file in files:
        ours, theirs = load_file(one / file), load_file(other / file)
        assert ours.keys() == theirs.keys()
        for name, tensor in ours.items():
            assert tensor.numpy().tobytes() == theirs[name].numpy().tobytes(), name
            bits += 8 * tensor.numel() * tensor.element_size()
    return bits


# Damage


@dataclass(frozen=True)
class Damage:
    """One bit flipped, or the rest of a file cut off."""

    kind: Literal["flip", "truncation"]
    file: Path
    place: int  # number of the bit, or the new length in bytes

    def do(self) -> bytes:
        """Apply the damage, and return the former contents of the file."""
        before = self.file.read_bytes()
        if self.kind == "flip":
            after = bytearray(before)
            after[self.place // 8] ^= 1 << self.place % 8
            self.file.write_bytes(after)
        else:
            self.file.write_bytes(before[: self.place])
        return before


def some_damage(folder: Path, rng: random.Random) -> Damage:
    """Random damage to a file of the folder, except the model card, which Translucid does not
    read."""
    files = sorted(p for p in folder.rglob("*") if p.is_file() and p.name != "README.md")
    file = rng.choice(files)
    size = file.stat().st_size
    if rng.random() < 0.5:
        return Damage("flip", file, rng.randrange(8 * size))
    return Damage("truncation", file, rng.randrange(size))


def noticed(run: Path, damage: Damage) -> bool:
    """Whether the run returns to the previous checkpoint and says why, or the model is rejected."""
    from translucid.core.errors import InputError
    from translucid.runs.checkpoints import Checkpoints
    from translucid.tasks import model_folder

    if damage.file.is_relative_to(run / "best"):
        try:
            model_folder.load(run)
        except InputError as error:
            return "best" in str(error)
        return False
    newest, before = Checkpoints(run).steps()
    said: list[str] = []
    found = Checkpoints(run).newest(said.append)
    return found.step == before and len(said) == 1 and f"step-{newest:08}" in said[0]


# Counting


def kill_often(
    server: Server, folder: Path, kills: int, rng: random.Random, until: float
) -> Counter[str]:
    write_files(folder)
    twins, lives = {}, {}
    for name, more in RUNS.items():
        twins[name] = folder / f"undisturbed {name}"
        server.finish(train_words(folder, twins[name], more), twins[name])
        began = time.monotonic()  # again, because the first run had cold caches
        server.finish(train_words(folder, folder / "again", more), folder / "again")
        lives[name] = time.monotonic() - began
        same_bits(twins[name], folder / "again")
        subprocess.run(["rm", "-r", str(folder / "again")], check=True)
        print(f"{name}: {lives[name]:.2f} s undisturbed", flush=True)
    counts: Counter[str] = Counter()
    began = told = time.monotonic()
    while counts["kills"] < kills and time.monotonic() < until:
        name = list(RUNS)[counts["runs finished"] % len(RUNS)]
        run = folder / "run"
        words = train_words(folder, run, RUNS[name])
        evaluate_every = 2 if "training.evaluate_every=2" in RUNS[name] else 3
        command, life = words, None
        while True:
            aim = some_aim(rng, lives[name]) if counts["kills"] < kills else None
            life = server.live(command, run, aim, before=life)
            if life.code == 0:
                break
            assert life.code == -signal.SIGKILL, f"ended with {life.code}:\n{life.said}"
            counts["kills"] += 1
            check_after_kill(run, life)
            counts.update(where(run, life, evaluate_every))
            command = again(words, run)
            counts["resumes"] += command[0] == "resume"
            if time.monotonic() - told > 20:
                told = time.monotonic()
                rate = counts["kills"] / (told - began)
                print(f"  {counts['kills']:,} kills, {rate:.1f} a second", flush=True)
        counts["bits of tensors compared"] += same_bits(twins[name], run)
        counts["runs finished"] += 1
        subprocess.run(["rm", "-r", str(run)], check=True)
    counts["saves lost"] = 0  # or check_after_kill would have ended this
    return counts


def some_aim(rng: random.Random, seconds: float) -> Aim:
    kind = rng.choices(["time", "operation", "renames", "aside"], [45, 25, 15, 15])[0]
    match kind:
        case "time":
            return Aim("time", rng.uniform(0, seconds))
        case "operation":
            return Aim("operation", rng.randint(1, 150))
        case "renames":
            return Aim("renames", rng.randint(1, 4))
    return Aim("aside", rng.randint(1, 6))


def damage_often(
    server: Server, folder: Path, damages: int, rng: random.Random, until: float
) -> Counter[str]:
    name, more = next(iter(RUNS.items()))
    twin, run = folder / f"undisturbed {name}", folder / "damaged"
    words = train_words(folder, run, more)
    server.finish(words, run)
    counts: Counter[str] = Counter(damages=0)
    while counts["damages"] < damages and time.monotonic() < until:
        newest = run / "state" / f"step-{max(steps(run)):08}"
        damage = some_damage(rng.choice([newest, newest, newest, run / "best"]), rng)
        before = damage.do()
        counts["damages"] += 1
        counts[f"{damage.kind}s"] += 1
        counts["noticed" if noticed(run, damage) else "not noticed"] += 1
        assert not counts["not noticed"], damage
        if counts["damages"] % 1000 == 0 and damage.file.is_relative_to(newest):
            server.finish(["resume", str(run)], run)  # from the checkpoint before
            counts["bits of tensors compared after damage"] += same_bits(twin, run)
            print(f"  {counts['damages']:,} damages", flush=True)
        else:
            damage.file.write_bytes(before)
    counts["not noticed"] += 0
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--damages", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=60.0, help="for each of the two, at most")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve()
        return
    sys.path.insert(0, str(SOURCE))
    rng = random.Random(options.seed)
    with tempfile.TemporaryDirectory(prefix="kill-") as name:
        folder = Path(name)
        server = Server(folder)
        began = time.monotonic()
        killed = kill_often(server, folder, options.kills, rng, began + 60 * options.minutes)
        between = time.monotonic()
        print(json.dumps(killed), flush=True)
        damaged = damage_often(server, folder, options.damages, rng, between + 60 * options.minutes)
        ended = time.monotonic()
        server.close()
    seconds = {"seconds of killing": round(between - began), "of damaging": round(ended - between)}
    result = {"seed": options.seed, **killed, **damaged, **seconds}
    print(json.dumps(result, indent=2))
    for key, value in result.items():
        print(f"{key:40} {value:>20,}")


if __name__ == "__main__":
    main()
