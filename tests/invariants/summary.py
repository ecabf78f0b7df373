"""The table at the end of a run: invariant, cases, passed. Prints nothing if no invariant was
tested.

Loaded by `tests/conftest.py`, because with pytest-xdist the process that prints collects no tests.
"""

from pathlib import Path

import pytest

import translucid


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "invariant(name): which equality a test is a case of")


def pytest_report_header() -> str:
    return f"translucid: {Path(translucid.__file__).parent.parent}"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    seen: dict[str, list[bool]] = {}
    for outcome in ("passed", "failed", "error", "xfailed", "xpassed"):
        for report in terminalreporter.getreports(outcome):
            name = dict(getattr(report, "user_properties", ())).get("invariant")
            if name is not None:
                seen.setdefault(str(name), []).append(outcome == "passed")
    if not seen:
        return
    width = max(map(len, seen))
    terminalreporter.section("invariants")
    terminalreporter.write_line(f"{'invariant':{width}} | cases | passed")
    terminalreporter.write_line(f"{'-' * width} | ----: | -----:")
    for name, results in sorted(seen.items()):
        good = sum(results) == len(results)
        line = f"{name:{width}} | {len(results):5} | {sum(results):6}"
        terminalreporter.write_line(line, green=good, red=not good)
    total = [result for results in seen.values() for result in results]
    terminalreporter.write_line(f"{'all':{width}} | {len(total):5} | {sum(total):6}", bold=True)
