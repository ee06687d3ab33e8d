"""Settings: defaults, file and flags in that order; every mistake is one line that names the setting."""

from pathlib import Path
from typing import Any

import pytest

from exporter.config import ExporterConfig, load_config, split_address
from exporter.errors import ConfigError


def test_flags_win_over_the_file_and_the_file_over_the_defaults(tmp_path: Path) -> None:
    file = tmp_path / "exporter.yaml"
    file.write_text("grace_seconds: 3\nwindow_versions: 7\ndata_dir: /var/lib/asyncrl\n", encoding="utf-8")
    config = load_config(file, {"grace_seconds": 4.0})
    assert config == ExporterConfig(
        grace_seconds=4.0, window_versions=7, data_dir=Path("/var/lib/asyncrl"), listen="127.0.0.1:9810"
    )


def test_an_empty_file_is_the_defaults(tmp_path: Path) -> None:
    file = tmp_path / "exporter.yaml"
    file.write_text("# nothing yet\n", encoding="utf-8")
    assert load_config(file, {}) == ExporterConfig() == load_config(None, {})


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"listen": "9810"}, "listen must be HOST:PORT with a port in 0..65535, got '9810'"),
        ({"otlp": "localhost:70000"}, "otlp must be HOST:PORT"),
        ({"otlp": ":4318"}, "otlp must be HOST:PORT"),
        ({"listen": "[::1]:9810", "otlp": "::1:9810"}, "listen and otlp must differ"),
        ({"grace_seconds": -1.0}, "grace_seconds must be a finite number of 0 or more, got -1.0"),
        ({"grace_seconds": float("nan")}, "grace_seconds must be a finite number"),
        ({"grace_seconds": "15"}, "grace_seconds must be a finite number of 0 or more, got '15'"),
        ({"grace_seconds": True}, "grace_seconds must be a finite number"),
        ({"abandon_after_seconds": 0}, "abandon_after_seconds must be above 0"),
        ({"max_body_bytes": 10}, "max_body_bytes must be an integer of 1024 or more, got 10"),
        ({"max_body_bytes": 1e6}, "max_body_bytes must be an integer"),
        ({"window_versions": 0}, "window_versions must be an integer of 1 or more"),
    ],
)
def test_a_value_that_cannot_be_is_refused_by_name(settings: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigError, match="^" + complaint.replace("[", r"\[")):
        ExporterConfig(**settings)


def test_two_free_ports_of_one_host_do_not_collide() -> None:
    assert ExporterConfig(listen="127.0.0.1:0", otlp="127.0.0.1:0").otlp == "127.0.0.1:0"


def test_an_address_may_be_ipv6() -> None:
    assert split_address("listen", "[::1]:9810") == ("::1", 9810)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("grace: 3", "unknown setting 'grace'; known are listen, otlp, data_dir"),
        ("- 1", "must be a mapping of setting to value, got list"),
        ("a: [", "cannot read the configuration file"),
        ("data_dir: 7", "data_dir must be a path, got 7"),
    ],
)
def test_a_file_that_cannot_be_read_as_settings_is_refused(
    tmp_path: Path, content: str, complaint: str
) -> None:
    file = tmp_path / "exporter.yaml"
    file.write_text(content, encoding="utf-8")
    with pytest.raises(ConfigError, match=complaint) as caught:
        load_config(file, {})
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read the configuration file .*none\.yaml"):
        load_config(tmp_path / "none.yaml", {})
