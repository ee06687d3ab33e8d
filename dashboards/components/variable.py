"""What the reader of a board chooses: `data-source-variable`, `label-variable`, `textbox-variable`."""

import msgspec
from grafana_dashboards.components.templates import TemplatesItemBase
from grafana_foundation_sdk.builders import dashboard
from grafana_foundation_sdk.models import dashboard as models

from dashboards.components.encoding import PROMETHEUS, Json, plain
from dashboards.components.options import read
from dashboards.errors import DashboardError
from dashboards.promql import shown
from exporter.catalog import FAMILY_BY_NAME

REF_ID = "PrometheusVariableQueryEditor-VariableQuery"
LABEL_VALUES = 1
"""The query type of `label_values` in Grafana's editor."""


class DataSourceOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`type` is the kind of data source, such as prometheus."""

    name: str
    label: str
    type: str
    about: str


class DataSourceVariable(TemplatesItemBase):
    """One of the data sources of a kind."""

    def gen_json_from_data(self, data: Json, context: object) -> Json:
        options = read(data, DataSourceOptions)
        made = dashboard.DatasourceVariable(options.name).label(options.label).type(options.type)
        return plain(made.description(options.about))


class LabelOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The values that label `name` had, within the time range, on a `family` of the chosen runs."""

    name: str
    label: str
    family: str
    about: str
    all_value: str


class LabelVariable(TemplatesItemBase):
    """Several may be chosen, all are by default. Asked for again with every time range: finished runs are there."""

    def gen_json_from_data(self, data: Json, context: object) -> Json:
        options = read(data, LabelOptions)
        family = FAMILY_BY_NAME.get(options.family)
        if family is None:
            raise DashboardError(
                f"variable {options.name!r}: {options.family!r} is no family of exporter/catalog.py"
            )
        chosen = (
            family.name if options.name == "run" else shown(msgspec.structs.replace(family, labels=("run",)))
        )
        query = {
            "qryType": LABEL_VALUES,
            "query": f"label_values({chosen}, {options.name})",
            "refId": REF_ID,
        }
        made = dashboard.QueryVariable(options.name).label(options.label).description(options.about)
        made.datasource(PROMETHEUS).query(query).refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED)
        made.sort(
            models.VariableSort.NATURAL_DESC if options.name == "run" else models.VariableSort.NATURAL_ASC
        )
        made.multi(True).include_all(True).all_value(options.all_value)
        return plain(made.current(models.VariableOption(selected=True, text=["All"], value=["$__all"])))


class TextboxOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`value` is what it holds at first."""

    name: str
    label: str
    value: str
    about: str


class TextboxVariable(TemplatesItemBase):
    """What the reader types."""

    def gen_json_from_data(self, data: Json, context: object) -> Json:
        options = read(data, TextboxOptions)
        made = dashboard.TextBoxVariable(options.name).label(options.label).default_value(options.value)
        return plain(made.description(options.about))
