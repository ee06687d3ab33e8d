"""Loading a run's settings: the order of sources, and one line for every mistake."""

from itertools import pairwise
from pathlib import Path

import pytest

from runtime.config import RunConfig
from runtime.config_sources import dump_config, load_config
from runtime.errors import RuntimeConfigError


def test_defaults_are_the_measured_settings() -> None:
    config = load_config()
    assert (config.versions, config.steps_per_version, config.required_samples, config.group_size) == (
        80,
        4,
        32,
        8,
    )
    assert config.ticket_budget == 192
    assert config.partial_rollout
    assert config.optimizer.total_steps == 320


def test_file_then_set_then_flags(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text("versions: 3\nseed: 3\nrollouters: 3\nengine: {temperature: 0.5}\n")
    config = load_config(
        file=file,
        assignments=["seed=4", "rollouters=4", "engine.max_new_tokens=9"],
        flags={"rollouters": "5"},
    )
    assert (config.versions, config.seed, config.rollouters) == (3, 4, 5)
    assert (config.engine.temperature, config.engine.max_new_tokens) == (0.5, 9)


def test_decay_of_the_learning_rate_ends_with_the_run_unless_told_otherwise() -> None:
    assert load_config(flags={"versions": "5"}).optimizer.total_steps == 20
    assert load_config(assignments=["optimizer.total_steps=7"]).optimizer.total_steps == 7


def test_numbers_of_any_spelling_are_read_by_their_field() -> None:
    config = load_config(assignments=["optimizer.learning_rate=1e-4", "run_id=007", "partial_rollout=false"])
    assert config.optimizer.learning_rate == 1e-4
    assert config.run_id == "007"
    assert config.partial_rollout is False


def test_resolved_settings_read_back_equal(tmp_path: Path) -> None:
    config = load_config(
        assignments=["telemetry.endpoints=[http://127.0.0.1:1]", "optimizer.betas=[0.8, 0.9]"]
    )
    file = tmp_path / "config.yaml"
    file.write_text(dump_config(config))
    assert load_config(file=file) == config


@pytest.mark.parametrize(
    ("assignment", "parts"),
    [
        ("versions=0", ("versions", "at least 1", "0")),
        ("versions=many", ("versions", "an integer", "many")),
        ("versions=1.5", ("versions", "an integer", "1.5")),
        ("staleness_threshold=nan", ("staleness_threshold", "at least 0", "nan")),
        ("partial_rollout=perhaps", ("partial_rollout", "true or false", "perhaps")),
        ("engine.temperature=-1", ("engine.temperature", "-1")),
        ("engine.capacity_responses=4", ("engine.capacity_responses", "group_size (8)", "4")),
        ("engine=3", ("engine", "a section", "3")),
        ("grpo.clip_low=2", ("grpo.clip_low", "0..1", "2")),
        ("telemetry.endpoints=[localhost]", ("telemetry.endpoints", "URLs", "localhost")),
        ("telemetry.endpoints=x", ("telemetry.endpoints", "a list", "x")),
        ("exporter.listen=9810", ("exporter.listen", "HOST:PORT", "9810")),
        ("exporter.otlp=127.0.0.1:9810", ("exporter.otlp", "another address")),
        ("environment=nowhere", ("environment", "module:Class", "nowhere")),
        ("resources.trainer_node=GPU", ("resources.trainer_node", "custom resource", "GPU")),
        ("start_timeout_seconds=0", ("start_timeout_seconds", "at least 1", "0")),
        ("resources.trainer_gpus=2", ("resources.trainer_gpus", "in 0..1", "2")),
        ("engine.temperature=0", ("engine.temperature", "above 0 for training", "0.0")),
        ("optimizer.betas=[0.9]", ("optimizer.betas", "two numbers", "[0.9]")),
        ("optimizer.betas=[0.9, 1]", ("optimizer.betas", "below 1", "1.0")),
        ("queue_capacity=8", ("queue_capacity", "required_samples (32)", "8")),
        ("run_id=../x", ("run_id", "letters", "../x")),
        ("versoins=3", ("versoins", "not a setting; did you mean versions? Known here are run_id")),
        ("engine.temprature=3", ("engine.temprature", "did you mean temperature?")),
        ("engine.heat=3", ("engine.heat is not a setting; known here are", "temperature")),
        ("versions.x=3", ("versions", "3")),
        ("versions", ("--set", "key=value", "versions")),
        ("versions=[", ("versions", "YAML", "[")),
    ],
)
def test_mistake_is_one_line_with_key_value_and_what_is_accepted(
    assignment: str, parts: tuple[str, ...]
) -> None:
    with pytest.raises(RuntimeConfigError) as caught:
        load_config(assignments=[assignment])
    message = str(caught.value)
    assert "\n" not in message
    for part in parts:
        assert part in message


@pytest.mark.parametrize("content", ["- a\n", "a: [", "\0"])
def test_file_that_is_no_mapping_is_refused(tmp_path: Path, content: str) -> None:
    file = tmp_path / "run.yaml"
    file.write_text(content)
    with pytest.raises(RuntimeConfigError, match="--config"):
        load_config(file=file)


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(RuntimeConfigError, match=r"absent\.yaml"):
        load_config(file=tmp_path / "absent.yaml")


def test_every_setting_has_a_default_but_the_name_of_the_run() -> None:
    assert RunConfig(run_id="a").folder == Path("runs/a")


def test_every_setting_is_explained_above_its_value() -> None:
    lines = dump_config(load_config()).splitlines()
    assert lines[lines.index("versions: 80") - 1].startswith("# Parameter versions to publish, at least 1.")
    assert lines[lines.index("  temperature: 1.0") - 1].startswith("  # Divides the logits before sampling")
    for above, line in pairwise(lines):
        if ":" in line and "#" not in line:
            assert above.strip().startswith("# "), line


@pytest.mark.parametrize(
    ("files", "missing"),
    [
        ({}, "no config.json"),
        ({"config.json": "{"}, "no JSON in its config.json"),
        ({"config.json": "{}"}, "no model_type in its config.json"),
        ({"config.json": '{"model_type": "llama"}'}, "no tokenizer"),
    ],
)
def test_model_directory_that_cannot_be_loaded_says_what_it_lacks(
    tmp_path: Path, files: dict[str, str], missing: str
) -> None:
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    with pytest.raises(RuntimeConfigError, match=missing):
        load_config(flags={"model.path": str(tmp_path)})
