"""Write the results of decode.py as tables into a page, and list missed targets."""

from pathlib import Path
from typing import Any

START, END = "<!-- on a {where}, by bench/decode.py -->", "<!-- end of what was measured -->"
NAMES = ("ours", "transformers", "ctranslate2", "onnxruntime", "torch.nn")


def write_table(page: Path, results: list[dict[str, Any]]) -> None:
    """Replace the text between the marks of each machine, or add the marks at the end of the
    page."""
    text = page.read_text("utf-8") if page.exists() else "# Speed\n"
    for result in results:
        start = START.format(where=place(result))
        if start not in text:
            text = f"{text.rstrip()}\n\n{start}\n{END}\n"
        head, rest = text.split(start)
        tail = rest.partition(END)[2]
        parts = [heading(result), table(result)]
        parts += [memory_line(result["memory"])] if "memory" in result else []
        text = head + "\n\n".join([start, *parts, END]) + tail
    page.write_text(text)


def place(result: dict[str, Any]) -> str:
    """The name of a machine's table on the page. There is one table each for x86 and ARM
    processors, for every instruction set of the kernels, and for one thread and several."""
    if result["where"] == "gpu":
        return "gpu"
    cpu = "cpu" if result["device"] == "aarch64" else "cpu of x86"
    cpu = f"other models, {cpu}" if result["where"] == "cpu-others" else cpu
    threads = f" and {result['threads']} threads" if result["threads"] > 1 else ""
    return f"{cpu} with {result['kernels']} kernels{threads}"


def heading(result: dict[str, Any]) -> str:
    packages = ", ".join(f"{name} {v}" for name, v in result["packages"].items() if v != "none")
    threads = ""
    if result["where"] != "gpu":
        one = result["threads"] == 1
        threads = ", 1 thread, processor time" if one else f", {result['threads']} threads"
        variables = result.get("variables", {})  # older results do not contain them
        limits = "".join(f", {name}={value}" for name, value in variables.items())
        threads += f", {result['kernels']} kernels{limits}"
    loads = [race["load"] for race in result["races"]]
    load = f", load {min(loads)} to {max(loads)}" if loads and result["where"] != "gpu" else ""
    return (
        f"**{result['device']}**{threads}, {packages}; best of {result['rounds']} rounds, "
        f"{result['when']}{load}. Tokens per second:"
    )


def table(result: dict[str, Any]) -> str:
    names = [n for n in NAMES if any(n in race["tokens_per_s"] for race in result["races"])]
    rows = [["workload", *names, "ours is", "wanted"], ["---", *["--:"] * len(names), "---", "---"]]
    for race in result["races"]:
        rates = [race["tokens_per_s"].get(name) for name in names]
        shown = ["—" if rate is None else f"{rate:,.0f}" for rate in rates]
        rows.append([race["name"], *shown, achieved(race), wanted(race)])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def achieved(race: dict[str, Any]) -> str:
    rates = dict(race["tokens_per_s"])
    mine = rates.pop("ours", None)
    if mine is None:
        return "—"
    return ", ".join(f"{mine / rate:.2f} × {name}" for name, rate in rates.items()) or "—"


def wanted(race: dict[str, Any]) -> str:
    parts = [f"{times:g} × {name}" for name, times in race["times"].items()]
    return ", ".join(parts + ([f"{race['rate']:,.0f}"] if race["rate"] else []))


def memory_line(memory: dict[str, Any]) -> str:
    return (
        f"Memory for {memory['name']}, without the weights: {memory['held'] / 1e9:.2f} GB. This is "
        f"{memory['held'] / memory['caches']:.2f} times the size of the key/value caches, "
        f"{memory['caches'] / 1e9:.2f} GB (target: at most {memory['most']:g} times)."
    )


def missed(results: list[dict[str, Any]]) -> list[str]:
    """One line for each workload that missed its target."""
    found = []
    for race in (race for result in results for race in result["races"]):
        rates = race["tokens_per_s"]
        mine = rates.get("ours", 0.0)
        goals = [times * rates[name] for name, times in race["times"].items() if name in rates]
        goals += [race["rate"]] if race["rate"] else []
        if any(mine < goal for goal in goals):
            found.append(f"{race['name']}: {mine:,.0f}, wanted {max(goals):,.0f} tokens/s")
    memories = [result["memory"] for result in results if "memory" in result]
    return found + [memory_line(m) for m in memories if m["held"] > m["most"] * m["caches"]]
