"""`asyncrl` and `asyncrl run` before anything starts: help, settings, mistakes. No Ray here."""

import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

import asyncrl
from runtime.run import main
from runtime.telemetry.config import TelemetryConfig
from runtime.telemetry.credentials import check_credentials
from tests.web_config import Authority


def test_help_names_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert asyncrl.main([]) == 0
    assert asyncrl.main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert "asyncrl run" not in shown.splitlines()[0]
    for command in ("run", "exporter"):
        assert f"\n  {command} " in shown


def test_version_is_that_of_the_distribution(capsys: pytest.CaptureFixture[str]) -> None:
    assert asyncrl.main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("asyncrl 0.")


def test_unknown_command_is_one_line_and_exit_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert asyncrl.main(["rum"]) == 2
    assert capsys.readouterr().err == (
        f"asyncrl: no command 'rum'; there are {', '.join(asyncrl.COMMANDS)}\n"
    )


@pytest.mark.parametrize("command", ["run", "exporter"])
def test_help_of_a_command_loads_neither_torch_nor_ray(command: str) -> None:
    script = (
        "import sys, asyncrl\n"
        f"try: asyncrl.main([{command!r}, '--help'])\n"
        "except SystemExit as end: assert end.code == 0\n"
        "assert not {'torch', 'ray'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-P", "-c", script], check=True, capture_output=True)


def test_missing_extra_is_one_clear_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(asyncrl.COMMANDS, "run", asyncrl.Command("torch_is_not_here", "runtime", ""))
    assert asyncrl.main(["run"]) == 2
    expected = "asyncrl run: torch_is_not_here is not installed; pip install 'asyncrl-exporter[runtime]'\n"
    assert capsys.readouterr().err == expected


def test_dry_run_prints_the_resolved_settings(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--dry-run", "--versions", "5", "--seed", "7", "--set", "engine.temperature=0.5"]) == 0
    shown = yaml.safe_load(capsys.readouterr().out)
    assert (shown["versions"], shown["seed"], shown["engine"]["temperature"]) == (5, 7, 0.5)
    assert shown["staleness_threshold"] == 0.5


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["--versions", "0"], ("versions", "0", "at least 1")),
        (["--rollouters", "two"], ("rollouters", "two", "an integer")),
        (["--model", "/nonexistent"], ("model", "/nonexistent", "config.json")),
        (["--set", "grpo.clip_low=7"], ("grpo.clip_low", "7", "0..1")),
        (["--set", "environment=nowhere:Task"], ("environment", "nowhere:Task")),
        (["--set", "environment=runtime.sort_task:Absent"], ("environment", "Absent")),
        (["--set", "environment=tests.environments:NoDraw"], ("could not draw", "prompts.jsonl is empty")),
        (["--set", "environment=tests.environments:Letters"], ("the characters", "'Wahit'", "--model")),
        (["--config", "absent.yaml"], ("--config", "absent.yaml")),
    ],
)
def test_mistake_is_one_line_and_exit_2(
    arguments: list[str], parts: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    for part in parts:
        assert part in error


def _as_text(files: Mapping[str, Path]) -> dict[str, Any]:
    return {key: str(path) for key, path in files.items()}


@pytest.mark.parametrize("key", ["token_file", "ca_file", "client_cert_file", "client_key_file"])
def test_a_file_of_telemetry_that_is_not_there_is_one_line_and_exit_2(
    key: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    authority = Authority.found(tmp_path)
    certificate, private_key = authority.issue("client", "client")
    token_file = tmp_path / "token"
    token_file.write_text("a-token\n", encoding="utf-8")
    files = {
        "token_file": token_file,
        "ca_file": authority.ca_file,
        "client_cert_file": certificate,
        "client_key_file": private_key,
    }
    check_credentials(TelemetryConfig(**_as_text(files)))
    files[key] = tmp_path / "absent"
    settings = [
        f"runs_dir={tmp_path / 'runs'}",
        *(f"telemetry.{name}={path}" for name, path in files.items()),
    ]
    assert main([part for setting in settings for part in ("--set", setting)]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"asyncrl run: telemetry.{key} must be a")
    assert f"{str(files[key])!r}: No such file or directory\n" in error
    assert error.count("\n") == 1
    assert not (tmp_path / "runs").exists(), "a refused run leaves no folder behind"


def test_files_of_telemetry_that_are_no_use_are_named(tmp_path: Path) -> None:
    authority = Authority.found(tmp_path)
    certificate, private_key = authority.issue("client", "client")
    another_key = authority.issue("another")[1]
    (tmp_path / "empty").touch()
    for settings in (
        {"token_file": tmp_path / "empty"},
        {"ca_file": private_key},
        {"client_cert_file": certificate, "client_key_file": another_key},
    ):
        config = TelemetryConfig(**_as_text(settings))
        with pytest.raises(ValueError, match="_file must be a") as caught:
            check_credentials(config)
        assert str(next(iter(settings.values()))) in str(caught.value)


def test_unknown_flag_is_one_line_and_exit_2(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["--versoins", "3"])
    assert end.value.code == 2
    assert capsys.readouterr().err == "asyncrl run: unrecognized arguments: --versoins 3\n"


def test_folder_of_an_earlier_run_is_not_written_to(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "again").mkdir()
    assert main(["--set", f"runs_dir={tmp_path}", "--set", "run_id=again"]) == 2
    assert "run_id must be a new one, got 'again'" in capsys.readouterr().err


def test_folder_that_cannot_be_made_is_a_mistake_of_runs_dir(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    assert main(["--set", f"runs_dir={tmp_path / 'file'}"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("asyncrl run: runs_dir must be a folder to write to")
    assert error.count("\n") == 1


def test_held_port_is_named_before_anything_else_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
        flags = [f"runs_dir={tmp_path}", f"exporter.listen=127.0.0.1:{port}", "exporter.otlp=127.0.0.1:0"]
        assert main([part for flag in flags for part in ("--set", flag)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert str(port) in error
    assert "--set exporter.listen=" in error
    assert list(tmp_path.iterdir()) == [], "a refused run leaves no folder behind"


def test_interrupt_while_a_command_is_being_loaded_is_one_line_and_exit_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(module: str) -> ModuleType:
        raise KeyboardInterrupt

    monkeypatch.setattr("importlib.import_module", interrupted)
    assert asyncrl.main(["run"]) == 130
    assert capsys.readouterr().err == "asyncrl run: interrupted\n"
