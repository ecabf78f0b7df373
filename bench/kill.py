"""Kill training runs a thousand times, damage their checkpoints ten thousand times, and count.

    python bench/kill.py --kills 1000 --damages 10000 --seed 0 [--minutes 8]

A run is killed (SIGKILL) and resumed until it is done, again and again. After every kill its newest
checkpoint must be whole and no older than the last completed save, and its model, if there was
one, must load. At the end everything it computed must be bit for bit what an undisturbed run
computed. Then single bits are flipped in the files of its newest checkpoint and of its best model,
and files are cut short: all of it must be noticed. The first thing that is not as promised ends
the program.
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

    time: after so many seconds; operation: before the n-th touch of a file of the run; renames:
    between the two that replace a folder, the n-th time; save: before the checkpoint of step n
    takes its place. As soon as it is seen: aside, the n-th half folder; line, the n-th of
    metrics.jsonl; checkpoint, that of step n.
    """

    moment: Moment
    number: float


@dataclass
class Life:
    """How a process ended, and what was seen on disk before it did, also in earlier lives."""

    code: int  # negative: the signal that ended it
    said: str
    saved: int | None = None  # step of the newest checkpoint that was in its place
    models: frozenset[str] = frozenset()  # which of best/ and last/ were in their places
    resumed: bool = False  # or begun

    @property
    def trained(self) -> bool:
        """Whether it was done with starting."""
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
    """A process that imports everything once and then forks those that train: a process that is
    to be killed lives as long as it trains, not as long as imports take."""

    def __init__(self, folder: Path) -> None:
        self.said = folder / "said"  # what the newest process printed
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
        """Run the command line with these words in a new process, and kill it as aimed."""
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
    """Looks from outside for the moment to kill."""

    def __init__(self, run: Path, aim: Aim | None) -> None:
        self._run, self._began = run, time.monotonic()
        self._moment = aim.moment if aim is not None else None
        self._number = aim.number if aim is not None else 0
        self._halves: set[Path] = set()
        # What is seen in passing is gone soon: do not sleep.
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
    """What a save writes before it is done."""
    places = (run, run / "state", run / "checkpoints")
    return [path for place in places for path in place.glob(pattern)]


def serve() -> None:
    """The server's side: for every line a process, its number, and how it ended."""
    from importlib import import_module

    from translucid.cli import main as command_line

    for name in ("translucid.runs.run", "translucid.cli.train", "torch._dynamo"):
        import_module(name)  # or each process does
    gc.freeze()  # what all of them share need not be looked through, and so copied, by each
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
            except SystemExit as end:  # taking the interpreter apart takes longer than the run
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(int(end.code or 0))
        print(pid, flush=True)
        # It keeps its number until the next order: no stranger can be killed in its place.
        ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        assert ended is not None
        print(ended.si_status * (1 if ended.si_code == os.CLD_EXITED else -1), flush=True)


def _become(order: dict[str, Any]) -> None:
    """In the new process: its own output, its limit, and its end, if it is to be exact."""
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    said = os.open(order["said"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(said, 1)
    os.dup2(said, 2)
    if order["file"]:
        resource.setrlimit(resource.RLIMIT_FSIZE, (order["file"], order["file"]))
    if "moment" in order:
        sys.addaudithook(_ending(order["moment"], order["number"], order["run"]))


def _ending(moment: str, number: int, run: str) -> Callable[[str, tuple[Any, ...]], None]:
    """Python tells such a hook before it touches a file."""
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
    """Made-up sentences with a label that can be learnt."""
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
    """What to type after a kill: before it wrote its recipe, a run begins as it began."""
    return ["resume", str(run)] if (run / "recipe.toml").exists() else list(words)


# What must hold


def check_after_kill(run: Path, life: Life) -> None:
    """Nothing is lost beyond the last completed save, and a model that was there still is."""
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
    """In the middle of what the run was killed, as far as its files show."""
    from translucid.runs.checkpoints import Checkpoints

    found = set() if steps(run) else {"before the first save"}
    if not life.trained:  # what else is there was left by an earlier life
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
    """How many bits of tensors were compared; all that the runs computed must be equal."""
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
    place: int  # of the bit, or in bytes

    def do(self) -> bytes:
        """What was in the file before."""
        before = self.file.read_bytes()
        if self.kind == "flip":
            after = bytearray(before)
            after[self.place // 8] ^= 1 << self.place % 8
            self.file.write_bytes(after)
        else:
            self.file.write_bytes(before[: self.place])
        return before


def some_damage(folder: Path, rng: random.Random) -> Damage:
    """To a file of the folder; a model's card is for people, and not looked at."""
    files = sorted(p for p in folder.rglob("*") if p.is_file() and p.name != "README.md")
    file = rng.choice(files)
    size = file.stat().st_size
    if rng.random() < 0.5:
        return Damage("flip", file, rng.randrange(8 * size))
    return Damage("truncation", file, rng.randrange(size))


def noticed(run: Path, damage: Damage) -> bool:
    """Whether the run goes back to the checkpoint before and says why; or the model is refused."""
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
        began = time.monotonic()  # once more: the first one found nothing in the caches
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
