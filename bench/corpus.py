"""Train from a corpus that is larger than the memory: build its token store, and read it.

    python bench/corpus.py --gigabytes 2 [--folder SOMEWHERE] [--processes 2]

Generates the text, builds the store, opens it again, reads shuffled batches as training does, and
reports rates and resident memory. Removes its files at the end. Needs disk space of 2.2 times the
size of the text.
"""

import argparse
import json
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

# Heavy imports are inside functions, because the processes that encode import this file, too.


def generate(path: Path, size: int) -> None:
    """Write lines of 5 to 60 Toyland words, drawn by frequency. A hundred thousand lines are
    generated, then repeated in random order: for a tokenizer, that is as good as new text."""
    import numpy as np

    from translucid.data.toyland import Toyland

    sentences = Toyland().sentences("train", 3000)
    words = sorted({word for made in sentences for word in made.source.split()})
    rng = np.random.default_rng(0)
    rng.shuffle(words)
    frequency = 1 / np.arange(1, len(words) + 1)
    lengths = rng.integers(5, 61, 100_000)
    chosen = rng.choice(len(words), int(lengths.sum()), p=frequency / frequency.sum()).tolist()
    lines, place = [], 0
    for length in lengths.tolist():
        line = " ".join(words[i] for i in chosen[place : place + length])
        lines.append(line.encode() + b"\n")
        place += length
    with path.open("wb") as file:
        while file.tell() < size:
            file.write(b"".join(lines[i] for i in rng.integers(0, len(lines), 20_000).tolist()))
        file.truncate(size)


class Memory:
    """The largest observed memory of this process and its children."""

    def __init__(self) -> None:
        self.parent = self.largest_child = self.together = 0.0

    def look(self) -> None:
        me = os.getpid()
        own = resident(me)
        children = [resident(child) for child in children_of(me)]
        self.parent = max(self.parent, own)
        self.largest_child = max([self.largest_child, *children])
        self.together = max(self.together, own + sum(children))

    def megabytes(self) -> dict[str, float]:
        return {name: round(value / 1e6, 1) for name, value in vars(self).items()}


def resident(process: int) -> float:
    try:
        return int(Path(f"/proc/{process}/statm").read_text("utf-8").split()[1]) * os.sysconf(
            "SC_PAGE_SIZE"
        )
    except (OSError, IndexError):  # the process has ended in the meantime
        return 0.0


def children_of(process: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{process}/task").iterdir():
        try:
            found += map(int, (task / "children").read_text("utf-8").split())
        except OSError:
            continue
    return found


@contextmanager
def watched() -> Iterator[Memory]:
    memory, stop = Memory(), threading.Event()

    def watch() -> None:
        while not stop.wait(0.05):
            memory.look()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield memory
    finally:
        memory.look()
        stop.set()
        thread.join()


def shown(every: float = 20.0) -> Callable[[int, int], None]:
    began = last = time.monotonic()

    def progress(done: int, total: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= every and done:
            last = now
            rate = done / (now - began)
            left = (total - done) / rate
            print(f"  {done / total:.1%}  {rate / 1e6:.2f} MB/s  {left:,.0f} s left", flush=True)

    return progress


def measure(
    folder: Path, size: int, processes: int | None, batches: int, steps: int
) -> dict[str, Any]:
    text, store_folder = folder / "corpus.txt", folder / "store"
    result: dict[str, Any] = {"text_bytes": size, "load_before": os.getloadavg()}
    began = time.monotonic()
    generate(text, size)
    result["generate_s"] = round(time.monotonic() - began, 1)
    print(f"generated {size:,} bytes in {result['generate_s']} s", flush=True)

    from translucid.data.corpus.build_store import StorePlan, ensure_store
    from translucid.data.corpus.sample import sample_texts
    from translucid.data.tokenizers.tokenizer import Tokenizer

    began = time.monotonic()
    with watched() as memory:
        texts = sample_texts([text], min(size // 20, 20_000_000), say=print)
        tokenizer = Tokenizer.train("bpe", texts, 8000)
    result["tokenizer_s"] = round(time.monotonic() - began, 1)
    result["tokenizer_memory_mb"] = memory.megabytes()
    print(f"{tokenizer} in {result['tokenizer_s']} s", flush=True)

    said: list[str] = []
    began = time.monotonic()
    with watched() as memory:
        plan = StorePlan([text], tokenizer, store_folder, processes=processes, progress=shown())
        store = ensure_store(plan, said.append)
    seconds = time.monotonic() - began
    result |= {
        "tokens": len(store),
        "documents": store.documents,
        "build_s": round(seconds, 1),
        "build_mb_per_s": round(size / seconds / 1e6, 2),
        "build_tokens_per_s": round(len(store) / seconds),
        "build_memory_mb": memory.megabytes(),
        "store_bytes": sum(f.stat().st_size for f in store_folder.rglob("*") if f.is_file()),
        "load_after_build": os.getloadavg(),
    }
    began = time.monotonic()
    ensure_store(StorePlan([text], tokenizer, store_folder), said.append)
    result["reuse_s"] = round(time.monotonic() - began, 4)
    os.utime(text)
    began = time.monotonic()
    ensure_store(StorePlan([text], tokenizer, store_folder), said.append)
    result["reuse_after_touch_s"] = round(time.monotonic() - began, 2)
    print("\n".join(said), flush=True)
    result["said"] = said
    return result | read(store_folder, batches, steps)


def read(store_folder: Path, batches: int, steps: int) -> dict[str, Any]:
    """Read rows, plan and shuffled batches as training does; then train a small Transformer for
    some steps."""
    import torch

    from translucid.data.batching import plan_batches
    from translucid.data.corpus.token_store import open_store
    from translucid.models import build
    from translucid.models.transformer import TransformerConfig
    from translucid.tasks.in_batches import sizes_of
    from translucid.tasks.language import Language

    with watched() as memory:
        began = time.monotonic()
        store = open_store(store_folder)
        opened = time.monotonic()
        task = Language(store.tokenizer())
        rows = task.rows_of(store, 256)
        plan = plan_batches(sizes_of(task, rows), 8192)
        task.collate([rows[i] for i in plan.batches[0]])
        first = time.monotonic()
        tokens = 0
        for batch in plan.batches[:batches]:
            tokens += task.collate([rows[i] for i in batch]).count
        seconds = time.monotonic() - first
    with watched() as training:
        model = build(
            TransformerConfig(
                shape="decoder", head="language", vocab=len(task.tokenizer), d_model=128, heads=4,
                layers=2, max_length=256,
            )
        )  # fmt: skip
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        losses = []
        for chosen in plan.batches[:steps]:
            batch = task.collate([rows[i] for i in chosen])
            loss = task.loss(model, batch) / batch.count
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(round(loss.item(), 3))
    return {
        "open_s": round(opened - began, 4),
        "first_batch_s": round(first - began, 2),
        "rows": len(rows),
        "epoch": plan.lines(),
        "batches_read": min(batches, len(plan.batches)),
        "read_tokens_per_s": round(tokens / max(seconds, 1e-9)),
        "read_memory_mb": memory.megabytes(),
        "train_losses": losses[:: max(1, steps // 5)],
        "train_memory_mb": training.megabytes(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gigabytes", type=float, default=2.0)
    parser.add_argument("--folder", type=Path, help="where to work; not given: a temporary one")
    parser.add_argument("--processes", type=int)
    parser.add_argument("--batches", type=int, default=500, help="to read")
    parser.add_argument("--steps", type=int, default=20, help="to train")
    options = parser.parse_args()
    size = int(options.gigabytes * 1e9)
    if options.folder is not None:
        options.folder.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="corpus-", dir=options.folder))
    try:
        free = shutil.disk_usage(folder).free
        if free < 2.2 * size:
            parser.error(f"{folder} has {free:,} bytes free, but {2.2 * size:,.0f} are needed")
        result = measure(folder, size, options.processes, options.batches, options.steps)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(json.dumps(result, indent=2))
    for name, value in result.items():
        print(f"{name:22} {value:,}" if isinstance(value, int) else f"{name:22} {value}")


if __name__ == "__main__":
    main()
