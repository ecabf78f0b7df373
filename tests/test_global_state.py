"""No public call leaves a trace in the process: random generators, torch's switches, and the rest.

`state` takes down all that we know of; the calls are compared before and after. That `state` sees
what it should is tested by changing each thing on purpose.
"""

import locale
import logging
import os
import random
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.studio.serving import model as untrained
from tests.tiny.dealt import chosen

import translucid as tl
from translucid.runs.checks.startup import self_test
from translucid.runs.recipe import recipe
from translucid.runs.run import resume_run
from translucid.see.part_switches import switches

PAIRS = ("the dog sees a cat .\nthe old bird sings .\n", "der hund sieht .\nder vogel singt .\n")
FAMILY = {
    "translate": "translate-transformer", "language": "language-transformer",
    "classify": "classify-gru", "tag": "tag-lstm", "regress": "regress-mlp",
}  # fmt: skip
TEXTS = ["the dog sees a cat .", "the old bird sings ."]
TINY = [
    "data.toyland=60", "training.steps=2", "training.evaluate_every=1", "training.device=cpu",
    "training.deterministic=true",
]  # fmt: skip
SMALL = ["model.d_model=8", "model.heads=2", "model.layers=1", "tokenizer.kind=word"]


def state() -> dict[str, Any]:
    """All of the process that a library could change and should not."""
    found: dict[str, Any] = {
        "python's random": random.getstate(),
        "numpy's random": repr(np.random.get_state()),
        "torch's random": torch.get_rng_state().tolist(),
        # Seeds that wait until a GPU is used for the first time.
        "seeds for CUDA": [id(call) for call in torch.cuda._lazy_seed_tracker.get_calls()],
        "environment": dict(os.environ), "folder": os.getcwd(), "umask": _umask(),
        "locale": locale.setlocale(locale.LC_ALL), "import path": list(sys.path),
        "warnings": list(warnings.filters), "signals": _signals(),
        "hooks": (sys.excepthook, sys.displayhook, threading.excepthook),
        "numpy's errors": np.geterr(), "recursion": sys.getrecursionlimit(),
        "threads": torch.get_num_threads(), "interop threads": torch.get_num_interop_threads(),
        "dtype": torch.get_default_dtype(), "device": str(torch.get_default_device()),
        "grad": torch.is_grad_enabled(), "inference": torch.is_inference_mode_enabled(),
        "autocast": [torch.is_autocast_enabled(kind) for kind in ("cpu", "cuda")],
        "anomalies": torch.is_anomaly_enabled(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "only warns": torch.is_deterministic_algorithms_warn_only_enabled(),
        "matmul": torch.get_float32_matmul_precision(),
        "tf32": (torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32),
        "cudnn": (torch.backends.cudnn.enabled, torch.backends.cudnn.benchmark,
                  torch.backends.cudnn.deterministic),
        "attention": (
            torch.backends.cuda.flash_sdp_enabled(), torch.backends.cuda.math_sdp_enabled(),
            torch.backends.cuda.mem_efficient_sdp_enabled(),
            torch.backends.cuda.cudnn_sdp_enabled(),
        ),
    }  # fmt: skip
    if torch.cuda.is_initialized():
        found["CUDA's random"] = [state.tolist() for state in torch.cuda.get_rng_state_all()]
    return found


def _umask() -> int:
    now = os.umask(0o022)
    os.umask(now)
    return now


def _signals() -> dict[str, Any]:
    return {each.name: signal.getsignal(each) for each in signal.Signals}


def _loggers() -> dict[str, Any]:
    held = logging.root.manager.loggerDict
    known = {name: each for name, each in held.items() if isinstance(each, logging.Logger)}
    return {
        name: (each.level, each.propagate, each.disabled, list(each.handlers))
        for name, each in {"root": logging.root, **known}.items()
    }


def changes(call: Callable[[], Any]) -> list[str]:
    """What of the process is different after the call."""
    before, loggers = state(), _loggers()
    call()
    after, now = state(), _loggers()
    others = [f"logger {name}" for name, each in loggers.items() if now[name] != each]
    return [name for name in before if before[name] != after[name]] + others


@pytest.fixture(autouse=True)
def unlike_the_defaults() -> Iterator[None]:
    """A user whose process is not as it begins: putting a default back is a change as well."""
    deterministic = torch.are_deterministic_algorithms_enabled()
    before = torch.backends.cuda.cudnn_sdp_enabled()
    random.seed(5)
    np.random.seed(5)
    torch.manual_seed(5)
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.backends.cuda.enable_cudnn_sdp(True)
    yield
    torch.use_deterministic_algorithms(deterministic)
    torch.backends.cuda.enable_cudnn_sdp(before)


@cache
def model(task: str) -> tl.Model:
    return untrained(FAMILY[task])


def _text(task: str) -> str:
    return "0.5 1 -2" if task == "regress" else TEXTS[0]


def _files(task: str, folder: Path) -> list[str]:
    """Examples of a task as files."""
    held = {
        "translate": {"a.en": PAIRS[0], "a.de": PAIRS[1]},
        "language": {"a.txt": PAIRS[0]},
        "classify": {"a.tsv": "".join(f"good\t{text}\n" for text in TEXTS)},
        "tag": {"a.conll": "the O\ndog B-PER\nsees O\n\nthe O\nbird B-PER\n\n"},
        "regress": {"a.csv": "x1,x2,x3,y\n0.5,1,-2,1\n1,2,3,0\n"},
    }[task]
    for name, text in held.items():
        (folder / name).write_text(text, "utf-8")
    return [str(folder / name) for name in held]


def _part(asked: tl.Model) -> str:
    """The kind of part that there is the least of: each one is translated without."""
    kinds = [switch.kind for switch in switches(asked.network)]
    return min(kinds, key=kinds.count)


TARGET = {"classify": "good", "tag": "O B-PER O O B-PER O", "regress": "1"}
SEEN: dict[str, Callable[[tl.Model, str, Path], Any]] = {
    "trace": lambda m, task, _: m.trace(_text(task)),
    "gradients": lambda m, task, _: m.gradients(_text(task), TARGET.get(task)),
    "evaluate": lambda m, task, folder: m.evaluate(*_files(task, folder)),
    "ablate": lambda m, task, folder: m.ablate(*_files(task, folder), of=[_part(m)], metric=True),
    "save, load": lambda m, task, folder: (m.save(folder / "m"), tl.load(folder / "m")),
    "summary": lambda m, task, _: (m.summary(), m._repr_html_(), repr(m)),
}
READ = {  # by models that read tokens
    "saliency": lambda m, task, _: m.saliency(_text(task)),
    "saliency_map": lambda m, task, _: m.saliency_map(_text(task), method="integrated", steps=2),
    "nearest_words": lambda m, task, _: m.nearest_words("dog"),
    "walk": lambda m, task, _: str(m.trace(_text(task)).walk()),
    "studio": lambda m, task, _: m.studio(_text(task)),
}
OWN: dict[str, dict[str, Callable[[tl.Model], Any]]] = {
    "translate": {
        "translate": lambda m: m.translate(TEXTS),
        "decode": lambda m: m.decode(TEXTS, beam_size=2, n_best=2, tree=True),
        "decode, sampling": lambda m: m.decode(TEXTS, sampling=_sampling(), seed=3),
        "decode, trace": lambda m: m.decode(TEXTS[:1], trace=tl.Trace()),
        "score": lambda m: m.score(TEXTS[0], "der hund sieht ."),
        "ensemble": lambda m: m.decode(TEXTS, ensemble=[model("translate")]),
        "optimized": lambda m: m.optimized().translate(TEXTS),
        "position_encodings": lambda m: m.position_encodings(),
    },
    "language": {
        "generate": lambda m: m.generate(TEXTS, seed=3, samples=2, max_length=5),
        "stream": lambda m: list(m.stream(TEXTS[0], seed=3, max_length=5)),
        "stream, half of it": lambda m: next(m.stream(TEXTS[0], seed=3, max_length=5)),
        "score": lambda m: m.score(TEXTS[0]),
    },
    "classify": {"classify": lambda m: m.classify(TEXTS)},
    "tag": {"tag": lambda m: m.tag(TEXTS)},
    "regress": {"predict": lambda m: m.predict([[0.5, 1.0, -2.0]])},
}


def _sampling() -> Any:
    from translucid.generate.sampling import SamplingConfig

    return SamplingConfig(temperature=0.8)


@pytest.mark.parametrize("task", chosen(FAMILY, "tag", "regress", rest=pytest.mark.slow))
def test_model_calls_leave_the_process_alone(task: str, tmp_path: Path) -> None:
    asked, read = model(task), {} if task == "regress" else READ
    calls = {name: lambda f=call: f(asked, task, tmp_path) for name, call in (SEEN | read).items()}
    calls |= {name: lambda f=call: f(asked) for name, call in OWN[task].items()}
    assert {name: found for name, call in calls.items() if (found := changes(call))} == {}
    assert not any(module.training for module in asked.network.modules())
    assert all(weight.requires_grad for weight in asked.network.parameters())


def test_a_stream_leaves_the_process_alone_between_pieces() -> None:
    pieces = model("language").stream(TEXTS[0], seed=3, max_length=5)
    assert [found for _ in range(4) if (found := changes(lambda: next(pieces, None)))] == []


@pytest.mark.parametrize(("task", "more"), [("regress", []), ("translate", SMALL)])
def test_training_leaves_the_process_alone(task: str, more: list[str], tmp_path: Path) -> None:
    chosen = [*TINY, *more]
    file = tmp_path / "recipe.toml"
    file.write_text(f'[task]\nkind = "{task}"\n', "utf-8")
    assert changes(lambda: tl.train(file, tmp_path / "run", chosen, quiet=True)) == []
    assert changes(lambda: resume_run(tmp_path / "run", quiet=True)) == []
    assert changes(lambda: tl.load(tmp_path / "run")) == []


def test_the_checks_leave_the_process_alone() -> None:
    values = recipe.parse({"task": {"kind": "regress"}}, TINY)
    assert changes(lambda: self_test(values, lambda line: None)) == []


def test_a_failure_leaves_the_process_and_the_network_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the middle of an evaluation, of a network of which one part is trained."""
    asked = untrained("classify-gru")
    asked.network.encoder.train()
    modes = [module.training for module in asked.network.modules()]

    def fails() -> None:
        with pytest.raises(ZeroDivisionError):
            asked.evaluate(*_files("classify", tmp_path))

    monkeypatch.setattr(type(asked.task), "collate", lambda self, items: 1 / 0)
    assert changes(fails) == []
    assert [module.training for module in asked.network.modules()] == modes


@pytest.mark.slow
def test_loading_and_writing_need_no_trainer(tmp_path: Path) -> None:
    model("language").save(tmp_path / "m")
    code = (
        "import sys, translucid as tl\n"
        f"tl.load({str(tmp_path / 'm')!r}).generate('the dog', max_length=3)\n"
        "print([m for m in sys.modules if m in ('translucid.training.loop', "
        "'translucid.runs.run') or m.startswith('translucid.studio')])"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True
    )
    assert run.stdout == "[]\n", run.stderr


def _log() -> None:
    logging.getLogger("other").setLevel(logging.ERROR)


CHANGES: dict[str, Callable[[], Any]] = {
    "python's random": random.random,
    "numpy's random": lambda: np.random.rand(),
    "torch's random": lambda: torch.rand(1),
    "seeds for CUDA": lambda: torch.cuda.manual_seed_all(1),
    "environment": lambda: os.environ.update(A_NAME="x"),
    "folder": lambda: os.chdir("/"),
    "warnings": lambda: warnings.simplefilter("ignore", BytesWarning),
    "signals": lambda: signal.signal(signal.SIGTERM, lambda *_: None),
    "threads": lambda: torch.set_num_threads(torch.get_num_threads() + 1),
    "dtype": lambda: torch.set_default_dtype(torch.float64),
    "grad": lambda: torch.set_grad_enabled(False),
    "only warns": lambda: torch.use_deterministic_algorithms(True),
    "matmul": lambda: torch.set_float32_matmul_precision("high"),
    "attention": lambda: torch.backends.cuda.enable_cudnn_sdp(False),
    "logger other": _log,
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    logging.getLogger("other").setLevel(logging.INFO)
    monkeypatch.chdir(os.getcwd())
    monkeypatch.setenv("A_NAME", "y")
    before, handler = torch.get_num_threads(), signal.getsignal(signal.SIGTERM)
    try:
        with warnings.catch_warnings():
            assert name in changes(CHANGES[name])
    finally:
        torch.set_num_threads(before)
        torch.set_default_dtype(torch.float32)
        torch.set_grad_enabled(True)
        torch.set_float32_matmul_precision("highest")
        signal.signal(signal.SIGTERM, handler)
