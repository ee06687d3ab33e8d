"""What docs/operations.md tells an operator to type works as it stands there."""

import ast
import dataclasses
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from exporter.config import ExporterConfig
from exporter.ingest import CHECKPOINT_BYTES
from tests.exporter.conftest import ROOT, StartExporter
from tests.prometheus import require_binary
from tests.web_config import bcrypt_hash, token_digest
from tests.wire import WATCHDOG_SECONDS

PAGE = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")


def code_blocks(language: str) -> Iterator[str]:
    for block in re.finditer(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE):
        yield block[1]


def named_file(name: str) -> str:
    """The first block whose first line is the name of the file."""
    return next(block for block in code_blocks("yaml") if block.startswith(f"# {name}\n"))


def shell(folder: Path, command: str) -> str:
    """What a reader sees who types this, in a folder of his own, and whose command is found."""
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["sh", "-euc", command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=WATCHDOG_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done
    return done.stdout


def test_every_setting_is_in_the_table() -> None:
    table = PAGE.partition("| key | when to change it |\n")[2].partition("\n\n")[0]
    keys = [key for row in table.splitlines() for key in re.findall(r"`(\w+)`", row.split("|")[1])]
    assert sorted(keys) == sorted(field.name for field in dataclasses.fields(ExporterConfig))


def said_events() -> Iterator[str]:
    """The events of the log, as literals of the code."""
    for path in (ROOT / "exporter").rglob("*.py"):
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(call, ast.Call) and ast.unparse(call.func).split(".")[-1] in (
                "say",
                "_say",
                "_complain",
            ):
                for said in call.args[:2]:
                    parts = (said.body, said.orelse) if isinstance(said, ast.IfExp) else (said,)
                    yield from (str(part.value) for part in parts if isinstance(part, ast.Constant))


def test_every_event_of_the_log_is_in_the_table() -> None:
    table = PAGE.partition("| event | what it means, what to do |\n")[2].partition("\n\n")[0]
    events = [event for row in table.splitlines() for event in re.findall(r"`(.*?)`", row.split("|")[1])]
    assert sorted(events) == sorted(set(said_events()))


def test_the_size_of_what_a_start_replays_is_that_of_the_code() -> None:
    size = f"{CHECKPOINT_BYTES // 2**20} MiB"
    assert re.findall(r"up to (\d+ MiB) of requests|replays at most those (\d+ MiB)", PAGE) == [
        (size, ""),
        ("", size),
    ]


def test_the_settings_of_the_service_can_be_used(tmp_path: Path) -> None:
    (tmp_path / "exporter.yml").write_text(named_file("/etc/asyncrl/exporter.yml"), encoding="utf-8")
    assert 'data_dir: "/var/lib/asyncrl"' in shell(
        tmp_path, "asyncrl exporter --check-config --config exporter.yml"
    )
    (unit,) = code_blocks("ini")
    assert "asyncrl exporter --config /etc/asyncrl/exporter.yml\n" in unit


def test_certificates_web_config_files_and_doctor_fit_together(
    start_exporter: StartExporter, tmp_path: Path
) -> None:
    require_binary("openssl", "openssl")
    (make_certificates,) = code_blocks("sh")
    shell(tmp_path, make_certificates)
    assert (
        shell(tmp_path, "openssl verify -x509_strict -CAfile ca.crt server.crt client.crt").count(": OK") == 2
    )
    (tmp_path / "password").write_text("a password\n", encoding="utf-8")
    (tmp_path / "token").write_text("a-token\n", encoding="utf-8")
    for name, shown, secret in (
        ("scrape.yml", "$2y$10$...", bcrypt_hash("a password")),
        ("senders.yml", "9f86d081884c7d65...", token_digest("a-token")),
    ):
        assert shown in named_file(name)
        (tmp_path / name).write_text(named_file(name).replace(shown, secret), encoding="utf-8")
    exporter = start_exporter(
        *("--web-config", str(tmp_path / "scrape.yml"), "--otlp-web-config", str(tmp_path / "senders.yml")),
        ca_file=tmp_path / "ca.crt",
    )
    command = re.search(r"^    (asyncrl doctor --url https.*?[^\\])$", PAGE, re.MULTILINE | re.DOTALL)
    assert command is not None
    here = command[1].replace("https://exporter.example:9810", exporter.metrics)
    said = shell(tmp_path, here.replace("https://exporter.example:4318", exporter.otlp))
    assert "WRONG" not in said
