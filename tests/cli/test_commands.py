"""The command line as a person meets it: real processes, real exit codes."""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest
from tests import in_process
from tests.forked import TRANSLUCID

from translucid import __version__
from translucid.cli import WAITING, Program, app, doctor, others_run, parser
from translucid.cli.shared.parsing import OTHER_COMMANDS
from translucid.cli.shared.plugins import SHIPPED
from translucid.cli.shared.plugins import load as load_plugin

ROOT = Path(__file__).parents[2]
PYTHON = [sys.executable, "-m", "translucid"]


def run(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, capture_output=True, text=True, encoding="utf-8", env=os.environ | environment
    )


def translucid(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return run(*PYTHON, *arguments, **environment)


def with_command(body: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `translucid boom` where the body of the command `boom` is the given code."""
    code = (
        "import os, signal, sys, translucid.cli as cli\n"
        "from translucid.core.errors import ConfigError\n"
        "@cli.app.command()\n"
        f"def boom(text: str = ''):\n    {body}\n"
        f"cli.main({list(arguments)})"
    )
    return run(sys.executable, "-c", code)


# --- help, version, usage errors


def test_help() -> None:
    answer = translucid("--help")
    assert in_process.run("-h").stdout == answer.stdout
    assert answer.returncode == 0
    assert answer.stdout.startswith("Usage: translucid ")
    assert "doctor" in answer.stdout
    assert answer.stderr == ""


def test_help_lists_each_command_by_the_first_line_of_its_own_help() -> None:
    listed = {one.name: one.help for panel in Program.panels.values() for one in panel}
    group = parser(app)
    assert {*group.commands} == {*listed}
    for name, line in listed.items():
        command = load_plugin(name) if name in SHIPPED else group.commands[name]
        assert command.get_short_help_str(200) == line
        assert f"  {name} " in in_process.run("--help").stdout


@pytest.mark.parametrize(
    ("typed", "files"),
    [
        ("--help", set()),
        ("--version", set()),
        ("translat", set()),
        ("doctor --help", {"doctor"}),
        ("tag --help", {"predict"}),
        ("tokenizer --help", {"tokenizer"}),
    ],
)
def test_only_the_file_of_the_typed_command_is_imported(typed: str, files: set[str]) -> None:
    code = (
        "import sys\nfrom translucid.cli import main\n"
        f"try: main({typed.split()})\nexcept SystemExit: pass\n"
        "print('imported', *(n for n in sys.modules if n.count('.') == 2 and '.cli.' in n))\n"
    )
    last = run(sys.executable, "-c", code).stdout.splitlines()[-1]
    assert {*last.split()[1:]} - {"translucid.cli.shared"} == {f"translucid.cli.{f}" for f in files}


def test_version() -> None:
    answer = translucid("--version")
    assert (answer.returncode, answer.stdout) == (0, f"translucid {__version__}\n")


def test_the_installed_script_is_the_module() -> None:
    script = shutil.which("translucid", path=str(Path(sys.executable).parent))
    assert script, "not installed: run `make test`, or pip install -e ."
    assert run(script, "--version").stdout == translucid("--version").stdout


@pytest.mark.parametrize(("word", "code"), [("--version", 0), ("docter", 2)])
def test_program_ends_after_threads_and_exit_handlers(word: str, code: int) -> None:
    told = (
        "import atexit, sys, threading, time\n"
        "from translucid.cli import program\n"
        "class Last:\n"
        "    def __del__(self): print('taken apart')\n"
        "threading.last = Last()\n"
        "def slow(): time.sleep(0.2); atexit.register(print, 'called at the end')\n"
        "threading.Thread(target=slow).start()\n"
        f"sys.argv = ['translucid', '{word}']\n"
        "program()"
    )
    answer = run(sys.executable, "-c", told)
    assert answer.returncode == code
    assert answer.stdout.splitlines()[-1:] == ["called at the end"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["docter"], "No such command 'docter'. Did you mean 'doctor'?"),
        (["doctor", "--jsn"], "--json"),
        (["doctor", "more"], "unexpected extra argument"),
        ([], "Usage: translucid"),
        (["scores"], "No such command 'scores'. Did you mean 'score'"),
        (["xyzzy"], "No such command 'xyzzy'.\n"),
        (["recipe", "lst"], "No such command 'lst'. Did you mean 'list'?"),
        (["work", "atention"], "No such command 'atention'. Did you mean 'attention'"),
        (["recipe", "fit"], "No such command 'fit'.\n"),  # a command of the whole program only
        (["fit"], "No such command 'fit'. The equivalent here: translucid train translate --tr"),
        (["build-vocab", "a"], "The equivalent here: translucid tokenizer train train.en train.de"),
    ],
)
def test_usage_errors(arguments: list[str], message: str) -> None:
    answer = in_process.run(*arguments)
    assert answer.returncode == 2
    assert message in answer.stderr
    assert answer.stdout == ""


@pytest.mark.parametrize("name", OTHER_COMMANDS)
def test_commands_of_other_tools_suggest_the_equivalent(name: str) -> None:
    assert name not in parser(app).commands
    answer = in_process.run(name, "more")
    words = shlex.split(answer.stderr.partition("The equivalent here: translucid ")[2])
    group = parser(app)
    while words and words[0] in getattr(group, "commands", {}):
        group = group.commands[words.pop(0)]
    options = {word for word in words if word.startswith("-")}
    assert words
    assert options <= {"--help", *(option for param in group.params for option in param.opts)}


FURTHER = [
    ("translate m --ensemble a b in.txt", "--ensemble a --ensemble b in.txt"),
    ("translate m --ensemble a b c", "--ensemble a --ensemble b --ensemble c"),
    ("translate m in.txt --json --forbid=der die --seed 3",
     "in.txt --json --forbid=der --forbid die --seed 3"),
    ("score m --ensemble a b in.txt in.txt", "--ensemble a --ensemble b in.txt in.txt"),
    ("embed m --text this that", "--text this --text that"),
    ("train translate --code a.py b.py training.steps=1", "--code a.py --code b.py training.ste"),
    ("new tag --code a.py b.py", "--code a.py --code b.py"),
    ("evaluate m --code a.py b.py in.txt", "--code a.py --code b.py in.txt"),
]  # fmt: skip


@pytest.mark.parametrize(("typed", "right"), FURTHER)
def test_second_value_of_an_option_shows_how_to_repeat_it(
    typed: str, right: str, tmp_path: Path
) -> None:
    for name in ("in.txt", "a.py", "b.py"):
        (tmp_path / name).write_text("")
    answer = in_process.run(*shlex.split(typed), cwd=tmp_path)
    command = " ".join(typed.split()[:2])
    assert (answer.returncode, answer.stdout) == (2, "")
    assert " takes one value" in answer.stderr
    assert f"; for several, repeat it: translucid {command} {right}" in answer.stderr


@pytest.mark.parametrize(
    "typed",
    [
        "translate --forbid der m in.txt",  # the model and its file
        "translate m --forbid der in.txt",
        "translate m --forbid der -- die",
        "translate m --forbid der 'The dog sleeps.'",
        "generate m --stop . Once",  # a text, which may be anything
        "train translate --code a.py training.steps=1",
        "evaluate m --code a.py in.txt",
        "translate m --ensemble a in.txt more",
        "train translate --code a.py in.txt",
        "check translate --train in.txt in.txt --code a.py",
    ],
)
def test_argument_after_an_option_is_not_its_second_value(typed: str, tmp_path: Path) -> None:
    for name in ("in.txt", "a.py"):
        (tmp_path / name).write_text("")
    assert "takes one value" not in in_process.run(*shlex.split(typed), cwd=tmp_path).stderr


def test_help_and_version_do_not_import_torch() -> None:
    asked = ["--help"], ["--version"], ["docter"], ["doctor", "--help"], ["doctor", "--jsn"]
    code = (
        "import sys\nfrom translucid.cli import main\n"
        f"for arguments in {asked}:\n"
        "    try: main(arguments)\n"
        "    except SystemExit: print()\n"
        "    print('imported', arguments, 'torch' in sys.modules, 'numpy' in sys.modules)\n"
    )
    lines = run(sys.executable, "-c", code).stdout.splitlines()
    told = [line for line in lines if line.startswith("imported ")]
    assert told == [f"imported {arguments} False False" for arguments in asked]


# --- completion


@pytest.mark.slow
def test_completion_answers_bash(tmp_path: Path) -> None:
    # The script that --show-completion prints is run by a real bash, as after `translucid do<TAB>`.
    stub = tmp_path / "translucid"
    stub.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m translucid "$@"\n', "utf-8")
    stub.chmod(0o755)
    script = (
        'eval "$(translucid --show-completion)"\n'
        "COMP_WORDS=(translucid do); COMP_CWORD=1\n"
        '"$(complete -p translucid | sed "s/.*-F \\([^ ]*\\).*/\\1/")" translucid\n'
        'echo "${COMPREPLY[@]}"'
    )
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    assert run("bash", "-c", script, PATH=path).stdout == "doctor\n"


@pytest.mark.slow
def test_completion_does_not_import_torch() -> None:
    code = (
        "import sys\nfrom translucid.cli import main\n"
        "try: main()\nfinally: print('torch' in sys.modules)"
    )
    answer = run(
        *(sys.executable, "-c", code),
        _TRANSLUCID_COMPLETE="complete_bash",
        COMP_WORDS="translucid doctor --j",
        COMP_CWORD="2",
    )
    assert answer.stdout.split() == ["--json", "False"]


# --- errors


def test_an_expected_error_is_one_line() -> None:
    answer = with_command("raise ConfigError('heads = 5: try 4 or 8')", "boom")
    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr == "error: heads = 5: try 4 or 8\n"


def test_an_unexpected_error_is_one_line_with_a_hint() -> None:
    answer = with_command("1 / 0", "boom")
    assert (answer.returncode, answer.stdout) == (1, "")
    assert answer.stderr == (
        "error: unexpected ZeroDivisionError: division by zero "
        "(run again with --debug for the traceback)\n"
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "body", "code"),
    [
        (("--debug", "boom"), "raise ConfigError('heads')", 2),
        (("boom", "--debug"), "1 / 0", 1),
    ],
)
def test_debug_shows_the_traceback(arguments: tuple[str, str], body: str, code: int) -> None:
    answer = with_command(body, *arguments)
    assert answer.returncode == code
    assert answer.stderr.startswith("Traceback (most recent call last):")


@pytest.mark.slow
def test_debug_after_two_dashes_is_text() -> None:
    answer = with_command("print(sys.argv)", "boom", "--", "--debug")
    assert "(--debug)" in answer.stderr


def test_ctrl_c() -> None:
    heeded = "signal.signal(signal.SIGINT, signal.default_int_handler)"  # also in the background
    answer = with_command(f"{heeded}; os.kill(os.getpid(), signal.SIGINT)", "boom")
    assert (answer.returncode, answer.stderr) == (128 + signal.SIGINT, "")


@pytest.mark.slow
@pytest.mark.parametrize("lines", [1, 100_000])  # met by the last flush, or while printing
def test_closed_output_pipe_is_not_an_error(lines: int) -> None:
    code = (
        "import translucid.cli as cli\n"
        "@cli.app.command()\n"
        f"def many():\n    input(); print('line\\n' * {lines})\n"
        "cli.main(['many'])"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONUNBUFFERED": ""},
    ) as process:
        assert process.stdin
        assert process.stdout
        process.stdout.close()  # the reader leaves first, then the command prints
        process.stdin.write(b"go\n")
        process.stdin.close()
        assert process.stderr
        assert process.stderr.read() == b""
        assert process.wait() == 1


@pytest.mark.parametrize(
    ("busy", "given", "found"),
    [
        (True, {}, "passive None"),
        (False, {}, "None None"),
        (True, {"OMP_WAIT_POLICY": "active"}, "active None"),
        (True, {"GOMP_SPINCOUNT": "5"}, "None 5"),
    ],
)
def test_threads_sleep_while_they_wait_on_a_busy_machine_unless_the_user_chose(
    busy: bool, given: dict[str, str], found: str
) -> None:
    code = (
        "import os, sys, translucid.cli as cli\n"
        f"cli.others_run = lambda: {busy}\n"
        "@cli.app.command()\n"
        "def show():\n"
        "    print(*map(os.environ.get, ['OMP_WAIT_POLICY', 'GOMP_SPINCOUNT']))\n"
        "    print('torch' in sys.modules)\n"
        "sys.argv = ['translucid', 'show']\n"
        "cli.program()"
    )
    empty = {name: os.environ[name] for name in os.environ if name not in WAITING}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=empty | given, check=True
    )
    assert done.stdout == f"{found}\nFalse\n"


@pytest.mark.skipif(not Path("/proc/loadavg").exists(), reason="only Linux reports it")
def test_other_running_programs_are_noticed() -> None:
    spinning = [sys.executable, "-c", "while True: pass"]
    others = [subprocess.Popen(spinning) for _ in range(os.cpu_count() or 1)]
    try:
        end = time.monotonic() + 120
        while not others_run() and time.monotonic() < end:
            time.sleep(0.01)
        assert others_run()
    finally:
        for other in others:
            other.kill()
            other.wait()


def test_the_library_does_not_change_how_threads_wait() -> None:
    code = "import os, translucid; translucid.Model; print('OMP_WAIT_POLICY' in os.environ)"
    empty = {name: os.environ[name] for name in os.environ if name not in WAITING}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=empty, check=True
    )
    assert done.stdout == "False\n"


# --- doctor


def test_doctor_as_text() -> None:
    answer = run(*TRANSLUCID, "doctor")
    assert (answer.returncode, answer.stderr) == (0, "")
    for name in ["python", "cores", "memory", "torch", "accelerator", "bf16", "torch.compile"]:
        assert f" {name} " in answer.stdout
    assert answer.stdout.splitlines()[-1].startswith("next: translucid ")


@pytest.mark.parametrize("has", [True, False])
def test_doctor_reports_bf16_as_decoding_uses_it(
    has: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    import translucid as tl
    from translucid.core.errors import InputError
    from translucid.fast import precision

    monkeypatch.setattr(precision, "has_bf16", lambda device: has)
    answer = in_process.run("doctor", "--json")
    (check,) = [c for c in json.loads(answer.stdout)["checks"] if c["name"] == "bf16"]
    assert check["works"] is has
    try:
        tl.load("demo:translate").optimized("bfloat16")
    except InputError:
        assert not has
    else:
        assert has


def test_doctor_finds_the_browser_that_the_tests_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "my browser"
    own.write_text("#!/bin/sh\n")
    own.chmod(0o755)
    for named, works in ((str(own), True), (str(tmp_path / "none"), False)):
        monkeypatch.setenv("CHROMIUM", named)
        answer = in_process.run("doctor", "--json")
        (check,) = [c for c in json.loads(answer.stdout)["checks"] if c["name"] == "chromium"]
        assert check["works"] is works
        assert named in check["found"]


def test_doctor_as_json() -> None:
    import torch

    answer = in_process.run("doctor", "--json")
    assert (answer.returncode, answer.stderr) == (0, "")
    report = json.loads(answer.stdout)
    checks = {check["name"]: check for check in report["checks"]}
    assert report["translucid"] == __version__
    assert report["next"].startswith("translucid ")
    assert checks["torch"]["found"].startswith(torch.__version__)
    assert checks["accelerator"]["works"] == (
        torch.cuda.is_available() or torch.backends.mps.is_available()
    )


def test_doctor_lists_every_extra_and_how_to_install_a_missing_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(doctor, "_installed", lambda package: package != "uvicorn")
    checks = {check.name: check for check in doctor._extras()}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert checks.keys() == {f"[{name}]" for name in project["optional-dependencies"]}
    assert checks["[onnx]"].works
    assert (checks["[web]"].works, checks["[web]"].found) == (False, "not installed: uvicorn")
    assert checks["[web]"].remedy == f'pip install -e "{ROOT}[web]"'


def test_doctor_reports_the_cpu_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    from translucid.fast import cpu_kernels

    check = doctor._cpu_kernels()
    assert check.works == cpu_kernels.available()
    if check.works:
        assert f"Translucid's for {cpu_kernels.path().name}," in check.found
        cpu_kernels.reason.cache_clear()
        monkeypatch.setenv("TRANSLUCID_CPU_KERNELS", "sse2")
        check = doctor._cpu_kernels()
        assert not check.works
        assert "sse2" in check.found
        monkeypatch.delenv("TRANSLUCID_CPU_KERNELS")
    cpu_kernels.reason.cache_clear()
    monkeypatch.setattr(cpu_kernels, "library_path", lambda: Path("no-such-file.so"))
    check = doctor._cpu_kernels()
    cpu_kernels.reason.cache_clear()
    assert not check.works
    assert check.found.startswith("torch's, because Translucid's were not compiled")
    assert check.remedy == "install gcc or clang, then Translucid again"


def test_doctor_sees_a_missing_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    check = doctor._compile("cpu")
    assert not check.works
    assert check.remedy == "install one of: no-such-compiler"


@pytest.mark.slow
def test_doctor_survives_a_broken_torch(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('libgomp.so.1 is missing')")
    path = f"{tmp_path}{os.pathsep}{os.environ['PYTHONPATH']}"
    answer = translucid("doctor", PYTHONPATH=path)
    assert answer.returncode == 0
    assert "- torch" in answer.stdout
    assert "libgomp.so.1 is missing" in answer.stdout


# --- colour


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
@pytest.mark.parametrize(
    "command", [[*PYTHON, "--help"], [*PYTHON, "docter"], [*TRANSLUCID, "doctor"]]
)
def test_no_color_is_honoured_on_a_terminal(command: list[str]) -> None:
    import pty

    ours, theirs = pty.openpty()
    environment = os.environ | {"NO_COLOR": "1", "TERM": "xterm-256color"}
    with subprocess.Popen(command, stdout=theirs, stderr=theirs, env=environment) as process:
        process.wait()
    os.close(theirs)
    shown = os.read(ours, 100_000).decode()
    os.close(ours)
    assert "translucid" in shown
    assert "\x1b" not in shown


def test_the_next_command_quotes_a_path_with_spaces(tmp_path: Path) -> None:
    """The line can be pasted into a shell."""
    (tmp_path / "my texts.txt").write_text("the dog sleeps\nthe cat runs\n")
    for command, paths in (
        (["data", "toyland", "--out", "my data", "--pairs", "9"],
         ["my data/train.en", "my data/train.de"]),
        (["new", "translate", "--out", "my recipe.toml"], ["my recipe.toml"]),
        (["tokenizer", "train", "my texts.txt", "--kind", "word", "--out", "my words.json"],
         ["my words.json"]),
    ):  # fmt: skip
        done = in_process.run(*command, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        said = done.stdout.splitlines()[-1]
        assert said.startswith("next: translucid ")
        assert set(paths) <= set(shlex.split(said)), said
