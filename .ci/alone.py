"""Runs once more, alone, what failed beside other tests: `alone.py CODE`, with pytest's exit code.

On a machine whose cores are taken away a test may fail that has no fault. At most 5 such tests are
tried again, and all must pass; each is named, so that it is mended. Whatever else failed, fails.
"""

import json
import subprocess
import sys
from pathlib import Path

FAILED = Path(".pytest_cache/v/cache/lastfailed")
MOST = 5
SOME_FAILED = 1  # pytest's code for this and nothing else


def failed() -> list[str]:
    return list(json.loads(FAILED.read_text())) if FAILED.exists() else []


def main(code: int) -> int:
    names = failed()
    if code != SOME_FAILED or not names or any("::" not in name for name in names):
        return code  # what is no test's name could not be collected
    if len(names) > MOST:
        print(f"{len(names)} tests failed; at most {MOST} are run once more", flush=True)
        return code
    print(f"once more, alone: {len(names)} of the tests", flush=True)
    command = [sys.executable, "-m", "pytest", "--last-failed", "-n", "0", "-m", "not thorough"]
    again = subprocess.run(command, check=False).returncode
    still = failed()
    for name in names:
        if name not in still:
            print(f"failed beside others, passed alone: {name}", flush=True)
    return again or (code if still else 0)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
