"""`table`: a row for each run, version, rollouter or alert, its cells from several queries."""

from typing import Any, ClassVar, Final

import msgspec
from grafana_foundation_sdk.builders import table
from grafana_foundation_sdk.models import common as models
from grafana_foundation_sdk.models import dashboard

from dashboards.components.colour import coded
from dashboards.components.encoding import Json
from dashboards.components.options import PanelOptions
from dashboards.components.panel import DataPanel, filled
from dashboards.components.target import ALONE, value_field
from dashboards.errors import DashboardError
from dashboards.links import LINKS
from dashboards.states import STATES

WHOLE: Final = "none"
"""The unit of a number that is written out, as in a link to the version that it is."""


class Column(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The value of a `query`, or a `label` of the row. `links`, of links.py, are where a click leads.
    With `number` a label is sorted as one."""

    title: str
    query: str = ""
    label: str = ""
    unit: str = ""
    decimals: int | None = None
    width: int = 0
    states: str = ""
    bar: bool = False
    number: bool = False
    links: tuple[str, ...] = ()


class TableOptions(PanelOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The columns from left to right; `sort_by` is the title of one, `descending` by default."""

    columns: tuple[Column, ...]
    width: int = 24
    sort_by: str = ""
    descending: bool = True


class Table(DataPanel):
    """Its queries are instant, in table format, with the labels of a row only: they are joined by those."""

    options_type: ClassVar[type[PanelOptions]] = TableOptions

    def draw(self, options: Any) -> table.Panel:
        panel = filled(table.Panel(), options).unit(options.unit or WHOLE)
        titles = {_field(column, options): column.title for column in options.columns}
        places = {field: place for place, field in enumerate(titles)}
        for column in options.columns:
            if column.query == options.queries[0]:
                titles[ALONE] = column.title
        steps: list[tuple[str, Json]] = [
            ("merge", {}),
            ("filterFieldsByName", {"include": {"names": list(titles)}}),
            ("organize", {"indexByName": places, "renameByName": titles}),
        ]
        for name, step in steps:
            panel.with_transformation(dashboard.DataTransformerConfig(id_val=name, options=step))
        if numbers := [column.title for column in options.columns if column.number]:
            panel.with_transformation(_numbers(numbers))
        if options.sort_by:
            panel.with_transformation(_sorted(options))
        for column in options.columns:
            panel.override_by_name(column.title, _looks(column))
        return (
            panel.cell_height(models.TableCellHeight.SM)
            .align(models.FieldTextAlignment.AUTO)
            .filterable(False)
        )


def _field(column: Column, options: TableOptions) -> str:
    """What the joined table calls the column: a label, or `Value` with the letter of its query."""
    if column.label:
        return column.label
    if column.query not in options.queries:
        raise DashboardError(f"panel {options.title!r}: column {column.title!r} is of no query of the panel")
    return ALONE if len(options.queries) == 1 else value_field(options.queries.index(column.query))


def _numbers(titles: list[str]) -> dashboard.DataTransformerConfig:
    to_number = [{"targetField": title, "destinationType": "number"} for title in titles]
    return dashboard.DataTransformerConfig(
        id_val="convertFieldType", options={"conversions": to_number, "fields": {}}
    )


def _sorted(options: TableOptions) -> dashboard.DataTransformerConfig:
    by = {"field": options.sort_by, "desc": options.descending}
    return dashboard.DataTransformerConfig(id_val="sortBy", options={"fields": {}, "sort": [by]})


def _looks(column: Column) -> list[dashboard.DynamicConfigValue]:
    looks: dict[str, object] = {}
    if column.unit:
        looks["unit"] = column.unit
    if column.decimals is not None:
        looks["decimals"] = column.decimals
    if column.width:
        looks["custom.width"] = column.width
    if column.states:
        looks["mappings"] = coded(STATES[column.states])
        looks["custom.cellOptions"] = models.TableColorTextCellOptions()
    if column.bar:
        looks |= {"min": 0, "max": 1}
        looks["custom.cellOptions"] = models.TableBarGaugeCellOptions(mode=models.BarGaugeDisplayMode.BASIC)
    if column.links:
        links = [LINKS[name] for name in column.links]
        looks["links"] = [{"title": link.title, "url": link.url, "targetBlank": True} for link in links]
    return [dashboard.DynamicConfigValue(id_val=name, value=value) for name, value in looks.items()]
