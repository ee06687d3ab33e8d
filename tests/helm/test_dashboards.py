"""A ConfigMap for each board, as Grafana's sidecar looks for it."""

import json
from typing import Any

from tests.helm.chart import CHART, FULLNAME, NAMESPACE, ROOT, Object, render

BOARDS = {path.stem: path.read_text(encoding="utf-8") for path in (CHART / "files/dashboards").iterdir()}
LARGEST_APPLIED_BYTES = 256 * 1024
"""What `kubectl apply` and Argo CD can keep of an object in its annotation `last-applied-configuration`."""


def boards(**options: Any) -> list[Object]:
    rendered = render({"dashboards": {"enabled": True, **options}})
    return [each for each in rendered.all("ConfigMap") if each["metadata"]["name"] != FULLNAME]


def test_the_chart_ships_what_was_generated() -> None:
    generated = (ROOT / "dashboards/generated").glob("*.json")
    assert {path.stem: path.read_text(encoding="utf-8") for path in generated} == BOARDS


def test_there_are_no_boards_until_they_are_asked_for() -> None:
    assert [each["metadata"]["name"] for each in render().all("ConfigMap")] == [FULLNAME]


def test_each_board_is_a_config_map_of_its_own_to_the_byte() -> None:
    found = {each["metadata"]["name"]: each for each in boards()}
    assert set(found) == {f"{FULLNAME}-board-{name}" for name in BOARDS}
    for name, text in BOARDS.items():
        config_map = found[f"{FULLNAME}-board-{name}"]
        assert config_map["data"] == {f"asyncrl-{name}.json": text}
        assert len(json.dumps(config_map, separators=(",", ":"), ensure_ascii=False)) < LARGEST_APPLIED_BYTES
        json.loads(text)
        assert config_map["metadata"]["labels"]["grafana_dashboard"] == "1"
        assert config_map["metadata"]["annotations"] == {"grafana_folder": "asyncrl"}
        assert config_map["metadata"]["namespace"] == NAMESPACE


def test_label_folder_and_namespace_are_those_of_your_sidecar() -> None:
    (board, *_) = boards(
        label="dash",
        labelValue="true",
        folderAnnotation="k8s-folder",
        folder="RL: post-training",
        namespace="g",
    )
    assert board["metadata"]["labels"]["dash"] == "true"
    assert "grafana_dashboard" not in board["metadata"]["labels"]
    assert board["metadata"]["annotations"] == {"k8s-folder": "RL: post-training"}
    assert board["metadata"]["namespace"] == "g"
    (board, *_) = boards(folderAnnotation="true")
    assert board["metadata"]["annotations"] == {"true": "asyncrl"}
    (board, *_) = boards(folder="")
    assert "annotations" not in board["metadata"]
