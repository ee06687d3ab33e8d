"""The rules of docs/architecture.md about files and imports, read from the sources themselves."""

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ROOMS = ("runtime", "exporter", "dashboards")
PRODUCT = sorted([ROOT / "asyncrl.py", *(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))])
SOURCES = sorted(
    [*PRODUCT, *(path for room in ("tests", "benchmarks", "docs") for path in (ROOT / room).rglob("*.py"))]
)

MODULES = [
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for path in PRODUCT
]
TELEMETRY_MODULES = [name for name in MODULES if name.startswith("runtime.telemetry")]

BANNED_NAMES = {"utils", "util", "helpers", "helper", "common", "misc", "manager", "base", "constants"}
LONGEST_FILE_LINES = 400
LONGEST_FUNCTION_LINES = 60
LONG_FUNCTION_LINES = 40
FEW_LINES = 6

# Family names stand in the catalogue; the exporter's own health is instrumented directly.
NAMES_FAMILIES = {ROOT / "exporter/catalog.py", ROOT / "exporter/self_metrics.py"}

# Runs in a child: imports the modules named in argv and prints what they did besides defining things. An
# event counts if the project's own code asked for it, directly or through the standard library; what torch
# or ray do while they are imported is theirs.
WATCH_IMPORTS = """
import importlib, logging, sys, threading
root, *modules = sys.argv[1:]
watched = {"open", "os.mkdir", "socket.__new__", "socket.bind", "subprocess.Popen"}

def note(what):
    frame = sys._getframe(2)
    if frame.f_code.co_filename.startswith("<frozen importlib"):
        return
    while frame and "site-packages" not in frame.f_code.co_filename:
        if frame.f_code.co_filename.startswith(root):
            print(f"{frame.f_code.co_filename}:{frame.f_lineno}: {what}")
            return
        frame = frame.f_back

def noting(what, original):
    def noted(self, *arguments):
        note(what)
        return original(self, *arguments)
    return noted

logging.Logger.addHandler = noting("logging handler", logging.Logger.addHandler)
threading.Thread.start = noting("thread", threading.Thread.start)
sys.addaudithook(lambda event, arguments: note(f"{event} {arguments}") if event in watched else None)
for name in modules:
    importlib.import_module(name)
"""


def run_python(*arguments: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-B", *arguments],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def definitions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def code_lines(definition: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> int:
    """Lines from `def` or `class` to the end, its docstring left out."""
    lines = (definition.end_lineno or definition.lineno) - definition.lineno + 1
    first = definition.body[0]
    if ast.get_docstring(definition) is not None:
        lines -= (first.end_lineno or first.lineno) - first.lineno + 1
    return lines


def string_literals(tree: ast.Module) -> Iterator[ast.Constant]:
    """Every string of a module but its docstrings and the text under a field."""
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return (
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose
    )


def test_imports_follow_the_arrows() -> None:
    lint = subprocess.run(
        [Path(sys.executable).parent / "lint-imports", "--no-cache"],
        cwd=ROOT,
        env=os.environ | {"COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert lint.returncode == 0, lint.stdout + lint.stderr


@pytest.mark.parametrize(
    ("modules", "unwanted"),
    [
        (["asyncrl"], ["torch", "ray", "transformers", "opentelemetry.sdk", "starlette"]),
        (["exporter.server"], ["torch", "ray", "transformers"]),
        (TELEMETRY_MODULES, ["torch", "ray", "transformers", "prometheus_client"]),
        (["runtime.run", "runtime.controller", "runtime.sample_queue"], ["torch", "transformers"]),
    ],
    ids=["asyncrl", "exporter.server", "runtime.telemetry", "driver and queue"],
)
def test_importing_leaves_the_heavy_packages_out(modules: list[str], unwanted: list[str]) -> None:
    code = f"import sys, {', '.join(modules)}; print(sorted(sys.modules.keys() & set({unwanted})))"
    child = run_python("-c", code)
    assert (child.returncode, child.stdout.strip()) == (0, "[]"), child.stderr


def test_importing_any_module_does_nothing_but_define() -> None:
    """In an empty environment: no socket, thread, process, file or logging handler."""
    importable = [name for name in MODULES if not name.endswith("__main__")]
    child = run_python("-c", WATCH_IMPORTS, str(ROOT), *importable, env={})
    assert (child.returncode, child.stdout) == (0, ""), child.stderr


def test_files_are_named_after_what_they_hold() -> None:
    assert [path for path in SOURCES if path.stem in BANNED_NAMES] == []


def test_files_stay_short_or_say_why() -> None:
    long = [
        path for path in SOURCES if len(path.read_text(encoding="utf-8").splitlines()) > LONGEST_FILE_LINES
    ]
    reasons = [ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "" for path in long]
    assert [path for path, reason in zip(long, reasons, strict=True) if "Long because" not in reason] == []


def test_functions_fit_a_screen() -> None:
    lengths = {
        f"{path.relative_to(ROOT)}:{function.lineno} {function.name}": code_lines(function)
        for path in PRODUCT
        for function in definitions(ast.parse(path.read_text(encoding="utf-8")))
    }
    assert {name: lines for name, lines in lengths.items() if lines > LONGEST_FUNCTION_LINES} == {}
    long = [name for name, lines in lengths.items() if lines > LONG_FUNCTION_LINES]
    assert len(long) <= len(lengths) / 10, long


def test_every_module_and_public_name_says_what_it_is() -> None:
    """A name of a few lines may say it by itself."""
    silent = []
    for path in PRODUCT:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        if ast.get_docstring(tree) is None:
            silent.append(str(path.relative_to(ROOT)))
        silent += [
            f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"
            for node in tree.body
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
            and not node.name.startswith("_")
            and ast.get_docstring(node) is None
            and code_lines(node) > FEW_LINES
        ]
    assert silent == []


def test_family_names_stand_in_the_catalogue_alone() -> None:
    elsewhere = [
        f"{path.relative_to(ROOT)}:{literal.lineno} {literal.value!r}"
        for path in PRODUCT
        if path not in NAMES_FAMILIES
        for literal in string_literals(ast.parse(path.read_text(encoding="utf-8")))
        if re.search(r"\basyncrl_[a-z]", str(literal.value))
    ]
    assert elsewhere == []


def test_no_check_is_switched_off_in_place() -> None:
    switched_off = re.compile(r"#\s*(noqa|type:\s*ignore|pragma:\s*no cover|TODO|FIXME)\b")
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in SOURCES
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if switched_off.search(line)
    ]
    assert found == []
