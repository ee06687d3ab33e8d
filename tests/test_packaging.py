"""What the wheel brings: installed alone, the command and the exporter run, and neither torch nor ray came along."""

import json
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import requests

ROOT = Path(__file__).parent.parent
WATCHDOG_SECONDS = 240


def run(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, timeout=WATCHDOG_SECONDS, check=False
    )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = run(
        sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT, cwd=folder
    )
    assert build.returncode == 0, build.stdout + build.stderr
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def bin_folder(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of a new virtual environment with the wheel in it, no extra."""
    environment = tmp_path_factory.mktemp("installed") / "venv"
    folder = environment / "bin"
    made = run(sys.executable, "-m", "venv", environment, cwd=environment.parent)
    assert made.returncode == 0, made.stderr
    pins = ROOT / "constraints.txt"
    installed = run(folder / "pip", "install", "--constraint", pins, wheel, cwd=environment.parent)
    assert installed.returncode == 0, installed.stdout + installed.stderr
    return folder


@contextmanager
def started_exporter(command: Path, folder: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The process and the URL of its metrics listener."""
    endpoints = folder / "endpoints.json"
    addresses = ["--listen", "127.0.0.1:0", "--otlp", "127.0.0.1:0"]
    with subprocess.Popen(
        [command, "exporter", *addresses, "--endpoints-file", endpoints, "--data-dir", folder / "data"],
        cwd=folder,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            deadline = time.monotonic() + WATCHDOG_SECONDS
            while not endpoints.exists() and process.poll() is None and time.monotonic() < deadline:
                time.sleep(0.05)
            assert endpoints.exists(), process.communicate(timeout=WATCHDOG_SECONDS)[1]
            yield process, json.loads(endpoints.read_text())["metrics"]
        finally:
            process.kill()


def test_the_wheel_holds_the_rooms_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        top = {name.split("/")[0] for name in archive.namelist()}
    assert {name for name in top if not name.endswith(".dist-info")} == {
        "asyncrl.py",
        "runtime",
        "exporter",
        "dashboards",
    }


def test_the_wheel_brings_the_boards_and_the_rules(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if name.startswith("dashboards/generated/")}
    generated = ROOT / "dashboards" / "generated"
    assert packed == {str(path.relative_to(ROOT)) for path in generated.iterdir()} != set()


def test_an_installation_without_extras_has_neither_torch_nor_ray(bin_folder: Path, tmp_path: Path) -> None:
    find = "from importlib.util import find_spec; print([find_spec(name) for name in ('torch', 'ray')])"
    assert run(bin_folder / "python", "-P", "-c", find, cwd=tmp_path).stdout.strip() == "[None, None]"


def test_the_command_explains_itself(bin_folder: Path, tmp_path: Path) -> None:
    help_text = run(bin_folder / "asyncrl", "--help", cwd=tmp_path)
    assert help_text.returncode == 0, help_text.stderr
    assert "exporter" in help_text.stdout


def test_a_run_without_its_extra_says_what_to_install(bin_folder: Path, tmp_path: Path) -> None:
    refused = run(bin_folder / "asyncrl", "run", "--versions", "1", cwd=tmp_path)
    assert refused.returncode == 2
    (line,) = refused.stderr.splitlines()
    assert "asyncrl-exporter[runtime]" in line


def test_the_commands_beside_the_exporter_need_no_extra_but_for_parquet(
    bin_folder: Path, tmp_path: Path
) -> None:
    with started_exporter(bin_folder / "asyncrl", tmp_path) as (_, url):
        listed = run(bin_folder / "asyncrl", "history", "--url", url, cwd=tmp_path)
        assert (listed.returncode, listed.stdout) == (0, "no runs yet\n"), listed.stderr
        arguments = ("--format", "parquet", "--output", "runs.parquet", "--url", url)
        refused = run(bin_folder / "asyncrl", "history", "export", *arguments, cwd=tmp_path)
    assert refused.returncode == 2
    assert "pyarrow is not installed; pip install 'asyncrl-exporter[parquet]'" in refused.stderr
    assert [file.name for file in tmp_path.glob("runs.*")] == []


def test_the_installed_exporter_serves_its_page_and_ends_on_sigterm(bin_folder: Path, tmp_path: Path) -> None:
    with started_exporter(bin_folder / "asyncrl", tmp_path) as (process, url):
        page = requests.get(f"{url}/metrics", timeout=WATCHDOG_SECONDS)
        assert page.status_code == 200
        assert "asyncrl_exporter_build_info" in page.text
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=WATCHDOG_SECONDS) == 0
