"""Settings: defaults, file, environment and flags in that order; every mistake is one line that names the setting."""

from pathlib import Path
from typing import Any

import pytest

from exporter.config import ExporterConfig, split_address
from exporter.errors import ConfigError
from exporter.settings import load_settings


def test_flags_win_over_variables_over_the_file_over_the_defaults(tmp_path: Path) -> None:
    file = tmp_path / "exporter.yaml"
    file.write_text(
        "grace_seconds: 3\nwindow_versions: 7\nseries_budget: 900\ndata_dir: /var/lib/asyncrl\n",
        encoding="utf-8",
    )
    environment = {"ASYNCRL_GRACE_SECONDS": "3.5", "ASYNCRL_WINDOW_VERSIONS": "8"}
    settings = load_settings(file, environment, {"grace_seconds": 4.0})
    assert settings.config == ExporterConfig(
        grace_seconds=4.0, window_versions=8, series_budget=900, data_dir=Path("/var/lib/asyncrl")
    )
    assert settings.origins == {
        "grace_seconds": "flag",
        "window_versions": "ASYNCRL_WINDOW_VERSIONS",
        "series_budget": str(file),
        "data_dir": str(file),
    }


def test_the_description_is_a_configuration_file_that_gives_the_same_settings(tmp_path: Path) -> None:
    variables = {"ASYNCRL_RETENTION_DAYS": "1e3", "ASYNCRL_LISTEN": "[::1]:9810", "ASYNCRL_DATA_DIR": "a # b"}
    settings = load_settings(None, variables, {})
    (tmp_path / "exporter.yaml").write_text(settings.describe(), encoding="utf-8")
    assert load_settings(tmp_path / "exporter.yaml", {}, {}).config == settings.config
    assert "# ASYNCRL_RETENTION_DAYS\n" in settings.describe()
    assert "# default\n" in settings.describe()


def test_a_variable_names_the_file_and_a_flag_wins_over_it(tmp_path: Path) -> None:
    file, other = tmp_path / "exporter.yaml", tmp_path / "other.yaml"
    file.write_text("grace_seconds: 3\n", encoding="utf-8")
    other.write_text("grace_seconds: 5\n", encoding="utf-8")
    assert load_settings(None, {"ASYNCRL_CONFIG": str(file)}, {}).config.grace_seconds == 3
    assert load_settings(other, {"ASYNCRL_CONFIG": str(file)}, {}).config.grace_seconds == 5


def test_variables_of_other_names_are_left_alone() -> None:
    """Kubernetes sets such beside a service named asyncrl."""
    others = {"ASYNCRL_PORT": "tcp://10.0.0.1:9810", "ASYNCRL_SERVICE_HOST": "10.0.0.1", "LISTEN": "x"}
    assert load_settings(None, others, {}).config == ExporterConfig()


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("GRACE_SECONDS", "soon", "grace_seconds must be a finite number of 0 or more, got 'soon'"),
        ("WINDOW_VERSIONS", "2.5", "window_versions must be an integer of 1 or more, got '2.5'"),
        ("DATA_DIR", "", "data_dir must be a path, got ''"),
        ("JOURNAL_MODE", "WAL", "journal_mode must be wal or rollback, got 'WAL'"),
        ("CONFIG", "", "ASYNCRL_CONFIG must be a path, got ''"),
    ],
)
def test_a_variable_that_cannot_be_is_refused_by_name(name: str, text: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=f"^{complaint}( .from ASYNCRL_{name}.)?$"):
        load_settings(None, {f"ASYNCRL_{name}": text}, {})


def test_a_value_that_cannot_be_is_refused_with_where_it_was_said(tmp_path: Path) -> None:
    file = tmp_path / "exporter.yaml"
    file.write_text("grace_seconds: -1", encoding="utf-8")
    for environment, flags, origin in (
        ({}, {}, str(file)),
        ({"ASYNCRL_GRACE_SECONDS": "-2"}, {}, "ASYNCRL_GRACE_SECONDS"),
        ({"ASYNCRL_GRACE_SECONDS": "-2"}, {"grace_seconds": -3.0}, "flag"),
    ):
        with pytest.raises(ConfigError) as caught:
            load_settings(file, environment, flags)
        assert str(caught.value).endswith(f" (from {origin})")


def test_an_empty_file_is_the_defaults(tmp_path: Path) -> None:
    file = tmp_path / "exporter.yaml"
    file.write_text("# nothing yet\n", encoding="utf-8")
    assert load_settings(file, {}, {}).config == ExporterConfig() == load_settings(None, {}, {}).config


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"listen": "9810"}, "listen must be HOST:PORT with a port in 0..65535, got '9810'"),
        ({"otlp": "localhost:70000"}, "otlp must be HOST:PORT"),
        ({"otlp": ":4318"}, "otlp must be HOST:PORT"),
        ({"listen": "*:9810"}, "listen must name a host, got '.:9810'; all addresses are 0.0.0.0 or "),
        ({"listen": "[::1]:9810", "otlp": "::1:9810"}, "listen and otlp must differ"),
        ({"grace_seconds": -1.0}, "grace_seconds must be a finite number of 0 or more, got -1.0"),
        ({"grace_seconds": float("nan")}, "grace_seconds must be a finite number"),
        ({"grace_seconds": "15"}, "grace_seconds must be a finite number of 0 or more, got '15'"),
        ({"grace_seconds": True}, "grace_seconds must be a finite number"),
        ({"abandon_after_seconds": 0}, "abandon_after_seconds must be above 0"),
        ({"max_body_bytes": 10}, "max_body_bytes must be an integer of 1024 or more, got 10"),
        ({"max_body_bytes": 1e6}, "max_body_bytes must be an integer"),
        ({"journal_mode": "memory"}, "journal_mode must be wal or rollback, got 'memory'"),
        ({"log_format": None}, "log_format must be text or json, got None"),
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
        ("grace_second: 3", "unknown setting 'grace_second'; is grace_seconds meant. known are listen"),
        ("push: a\npush: b", "'push' stands there twice"),
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
        load_settings(file, {}, {})
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read the configuration file .*none\.yaml"):
        load_settings(tmp_path / "none.yaml", {}, {})
