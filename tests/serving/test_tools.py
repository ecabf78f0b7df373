"""The server with unmodified third-party clients: lm-eval, guidellm, locust and schemathesis.

Install these programs in a separate environment and put them in PATH:
PATH="ENVIRONMENT/bin:$PATH" python -m pytest -m slow tests/serving/test_tools.py
"""

import csv
import json
import math
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.in_process import run
from tests.serving.running import running, served, shipped, usual

EXAMPLES = Path(__file__).parents[2] / "examples/serve"
MODEL = "demo:generate"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with running([served(MODEL, shipped("generate"))]) as server:
        yield server.address


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model as a folder of Hugging Face, from which the programs read the tokenizer."""
    folder = tmp_path_factory.mktemp("hf") / "model"
    ended = run("export", MODEL, "--to", "huggingface", "--out", str(folder))
    assert ended.returncode == 0, ended.stderr
    return folder


def call(program: str, package: str, *words: object, home: Path) -> str:
    """Run a program in the folder of the examples; returns what it prints."""
    path = shutil.which(program)
    if path is None:
        pytest.skip(f"there is no program {program} in PATH: pip install '{package}'")
    ended = subprocess.run(
        [path, *map(str, words)], cwd=EXAMPLES, capture_output=True, text=True, timeout=600,
        env=os.environ | {"HF_HUB_OFFLINE": "1", "HF_HOME": str(home),
                          "HYPOTHESIS_STORAGE_DIRECTORY": str(home)},
    )  # fmt: skip
    printed = ended.stdout + ended.stderr
    assert ended.returncode == 0, printed
    return printed


def records(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]


def evaluated(address: str, backend: str, out: Path) -> tuple[dict[str, Any], dict[str, Any], str]:
    """Results and samples of each task, and what lm-eval printed."""
    model = f"model={MODEL},base_url={address}/v1/completions,tokenizer_backend={backend}"
    printed = call(
        "lm-eval", "lm-eval[api]", "run", "--model", "local-completions", "--model_args", model,
        "--include_path", ".", "--output_path", out, "--log_samples",
        "--tasks", "toyland_agreement,toyland_perplexity,toyland_particles", home=out / "cache",
    )  # fmt: skip
    (file,) = out.glob("*/results_*.json")
    samples = {
        path.name.removeprefix("samples_").rpartition("_")[0]: records(path)
        for path in out.glob("*/samples_*.jsonl")
    }
    return json.loads(file.read_text("utf-8"))["results"], samples, printed


def log_probs(text: str) -> list[float]:
    """The library's log-probability of each token, without the end."""
    return [float(one) for one in shipped("generate").score(text).token_log_probs[:-1]]


def greedy(text: str, length: int) -> str:
    return shipped("generate").generate(text, max_length=length, temperature=0.0)[len(text) :]


def close(value: float) -> Any:
    return pytest.approx(value, abs=5e-5)


@pytest.mark.parametrize("backend", ["remote", "huggingface"])
def test_scores_of_lm_eval_equal_the_library(
    backend: str, address: str, exported: Path, tmp_path: Path
) -> None:
    if backend == "huggingface":
        backend = f"huggingface,tokenizer={exported},num_concurrent=4"
    results, samples, printed = evaluated(address, backend, tmp_path)
    assert "WARNING" not in printed
    assert "ERROR" not in printed

    choices = samples["toyland_agreement"]
    assert len(choices) == len(records(EXAMPLES / "agreement.jsonl")) == 24
    right = right_by_length = 0
    for one in choices:
        subject, verbs, answer = (one["doc"][key] for key in ("subject", "verbs", "right"))
        expected = [log_probs(f"{subject} {verb}")[-1] for verb in verbs]
        best = greedy(subject, 1).strip()
        for verb, (got, is_greedy), value in zip(
            verbs, one["filtered_resps"], expected, strict=True
        ):
            assert float(got) == close(value)
            assert (is_greedy == "True") == (best == verb)
        right += expected.index(max(expected)) == answer
        per_letter = [v / len(f" {verb}") for v, verb in zip(expected, verbs, strict=True)]
        right_by_length += per_letter.index(max(per_letter)) == answer
    assert results["toyland_agreement"]["acc,none"] == close(right / len(choices))
    assert results["toyland_agreement"]["acc_norm,none"] == close(right_by_length / len(choices))

    texts = [one["text"] for one in records(EXAMPLES / "sentences.jsonl")]
    totals = [sum(log_probs(text)) for text in texts]
    assert [float(one["filtered_resps"][0]) for one in samples["toyland_perplexity"]] == [
        close(total) for total in totals
    ]
    words, size = (
        sum(len(text.split()) for text in texts),
        sum(len(text.encode()) for text in texts),
    )
    got = results["toyland_perplexity"]
    assert got["word_perplexity,none"] == close(math.exp(-sum(totals) / words))
    assert got["byte_perplexity,none"] == close(math.exp(-sum(totals) / size))
    assert got["bits_per_byte,none"] == close(-sum(totals) / size / math.log(2))

    continued = samples["toyland_particles"]
    expected = [greedy(one["doc"]["beginning"], 20).partition(".")[0] for one in continued]
    assert [one["resps"][0][0] for one in continued] == expected
    first = [re.findall(r"\w+", text)[0] for text in expected]
    count = sum(word == one["doc"]["next"] for word, one in zip(first, continued, strict=True))
    assert results["toyland_particles"]["exact_match,first_word"] == close(count / len(first))


def test_guidellm_counts_the_tokens_that_it_asked_for(
    address: str, exported: Path, tmp_path: Path
) -> None:
    call(
        "guidellm", "guidellm", "run", "--disable-console",
        "--backend", f"kind=openai_http,target={address},request_format=/v1/completions",
        "--tokenizer", f"kind=huggingface_auto,model={exported}",
        "--data", "kind=synthetic_text,prompt_tokens=24,output_tokens=16",
        "--profile", "kind=concurrent,streams=4", "--constraint", "kind=max_requests,count=24",
        "--output", f"kind=json,path={tmp_path / 'out.json'}", home=tmp_path,
    )  # fmt: skip
    (benchmark,) = json.loads((tmp_path / "out.json").read_text("utf-8"))["benchmarks"]
    requests = benchmark["requests"]
    assert not requests["errored"]
    assert len(requests["successful"]) == 24
    tokenizer = shipped("generate").output_tokenizer
    for one in requests["successful"]:
        asked = json.loads(one["request_args"])["body"]
        assert one["output_tokens"] == 16
        assert one["prompt_tokens"] == len(tokenizer.encode(asked["prompt"])) + 1  # the start


def test_locust_sees_no_failure(address: str, tmp_path: Path) -> None:
    call(
        "locust", "locust", "--headless", "--users", "8", "--spawn-rate", "8", "--run-time", "5s",
        "--host", address, "--csv", tmp_path / "out", "--only-summary", home=tmp_path,
    )  # fmt: skip
    rows = list(csv.DictReader((tmp_path / "out_stats.csv").read_text("utf-8").splitlines()))
    assert [row["Name"] for row in rows] == ["/v1/completions", "Aggregated"]
    assert int(rows[0]["Request Count"]) > 0
    assert int(rows[0]["Failure Count"]) == 0


def test_answers_to_requests_drawn_from_the_document_agree_with_it(tmp_path: Path) -> None:
    """Schemathesis draws requests that fit the OpenAPI document, and requests that do not."""
    with running(usual(), allow_trace=True) as server:
        printed = call(
            "schemathesis", "schemathesis", "run", f"{server.address}/openapi.json",
            "--max-examples", 5, "--seed", 1, "--no-shrink", home=tmp_path,
        )  # fmt: skip
    cases = re.search(r"(\d+) generated, (\d+) passed", printed)
    assert cases is not None, printed
    assert cases[1] == cases[2]
    assert int(cases[1]) > 1000
