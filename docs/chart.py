"""Writes helm/README.md from helm/values.yaml and helm/values.schema.json; --check says whether it is current.

A value's meaning is the comment above it that begins with `# --`. A map without values of its own, or one whose
comment speaks for all that is in it, is one value.
"""

import json
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import generated_page
import yaml

HELM = Path(__file__).parents[1] / "helm"
PAGE = HELM / "README.md"

HEAD = """\
<!-- Generated from values.yaml and values.schema.json by `make generate`. Not edited by hand. -->
# Chart

The exporter as a StatefulSet with a journal on a volume, what scrapes and guards it, the boards and alert rules, and
on request a training run on KubeRay.

    helm install asyncrl-exporter helm/ --namespace rl --create-namespace
    helm test asyncrl-exporter --namespace rl     # sends a run of three versions, scrapes it back, compares

[docs/kubernetes.md](../docs/kubernetes.md) leads from an empty cluster to a board, and says what the pods of a trainer
of your own have to set.

* What needs a custom resource definition (ServiceMonitor, PodMonitor, PrometheusRule, Certificate, RayJob) is off by
  default; what is on is rendered, without a look at what the cluster has.
* Alert groups are files, [files/rules.yaml](files/rules.yaml), which no template touches; thresholds are values.
* There is no HorizontalPodAutoscaler, and none should be put on top: an exporter holds the journal and the open
  versions of its runs. A second replica is a second copy, which every sender must feed (`replicas: 2`), not half of
  the load; [docs/benchmarks.md](../docs/benchmarks.md) has one take 1,000 rollouters of 50 runs.
* `null` takes a default away, as Helm has it; a misspelt value is refused by the schema.
* `--set` makes numbers of digits: texts such as `image.tag`, `run.id` and `dashboards.labelValue` need `--set-string`.

## Values

"""


class Value(NamedTuple):
    """One row of the table."""

    path: str
    type: str
    default: str
    meaning: str


def values() -> Iterator[Value]:
    """Every value of the chart, in the order of values.yaml."""
    text = (HELM / "values.yaml").read_text(encoding="utf-8")
    schema = json.loads((HELM / "values.schema.json").read_text(encoding="utf-8"))
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    assert isinstance(root, yaml.MappingNode)
    return _values(root, Reader(text.splitlines(), schema), ())


class Reader(NamedTuple):
    """The two files that a row is read from."""

    lines: Sequence[str]
    schema: dict[str, Any]

    def meaning(self, key: yaml.Node) -> str:
        """The comment right above the key, from its `--` on; empty if there is none."""
        comment: list[str] = []
        for line in reversed(self.lines[: key.start_mark.line]):
            if not (match := re.match(r"\s*# ?(-- )?(.*)", line)):
                break
            comment.insert(0, match[2])
            if match[1]:
                return " ".join(comment).replace("|", r"\|")
        return ""

    def type(self, path: Sequence[str]) -> str:
        """As the schema has it, or `any`."""
        said = self._resolve(self.schema)
        for key in path:
            said = self._resolve(said.get("properties", {}).get(key, {}))
        if "enum" in said:
            return ", ".join(f"`{choice}`" for choice in said["enum"] if choice)
        kinds = said.get("type", "any")
        return kinds if isinstance(kinds, str) else " or ".join(kind for kind in kinds if kind != "null")

    def _resolve(self, said: Any) -> dict[str, Any]:
        if not isinstance(said, dict):
            return {}
        while "$ref" in said:
            found: Any = self.schema
            for part in said["$ref"].removeprefix("#/").split("/"):
                found = found[part]
            said = found
        return dict(said)


def _values(mapping: yaml.MappingNode, reader: Reader, above: tuple[str, ...]) -> Iterator[Value]:
    for key, node in mapping.value:
        path = (*above, key.value)
        if isinstance(node, yaml.MappingNode) and node.value and not reader.meaning(key):
            yield from _values(node, reader, path)
        else:
            default = json.dumps(yaml.safe_load(yaml.serialize(node)), ensure_ascii=False)
            yield Value(".".join(path), reader.type(path), default, reader.meaning(key))


def render() -> str:
    """The whole page."""
    rows = [f"| `{row.path}` | {row.type} | `{row.default}` | {row.meaning} |\n" for row in values()]
    return "".join([HEAD, "| value | type | default | meaning |\n|---|---|---|---|\n", *rows])


if __name__ == "__main__":
    sys.exit(generated_page.run(PAGE, render(), description=__doc__, source="values.yaml with its schema"))
