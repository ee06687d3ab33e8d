"""What the YAML of boards may say: options are read here, and those of panels with queries stand here."""

from typing import Any, TypeVar

import msgspec

from dashboards.errors import DashboardError
from dashboards.queries import QUERIES
from dashboards.query import Query
from dashboards.states import STATES, States
from dashboards.units import PLAIN, grafana_unit
from exporter.catalog import FAMILY_BY_NAME, Family

Options = TypeVar("Options", bound=msgspec.Struct)


def read(data: Any, kind: type[Options]) -> Options:
    """The options of one component."""
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        name = data.get("title", data.get("name", "")) if isinstance(data, dict) else data
        raise DashboardError(f"{kind.__name__} of {name!r}: {error}") from error


class PanelOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of all panels with queries. dashboards/README.md explains them."""

    title: str
    about: str
    queries: tuple[str, ...]
    family: str = ""
    width: int = 8
    height: int = 8
    unit: str = ""
    decimals: int | None = None
    min: float | None = None
    max: float | None = None
    no_value: str = ""
    states: str = ""
    colours: dict[str, str] = {}
    per_run: bool = False
    above: str | float = ""
    below: str | float = ""
    details: str = ""

    def chosen_queries(self) -> tuple[Query, ...]:
        missing = [name for name in self.queries if name not in QUERIES]
        if missing or not self.queries:
            raise DashboardError(f"panel {self.title!r}: no query {missing}; queries/ has {sorted(QUERIES)}")
        return tuple(QUERIES[name] for name in self.queries)

    def catalogue_family(self) -> Family | None:
        if not self.family:
            return None
        if self.family not in FAMILY_BY_NAME:
            raise DashboardError(f"panel {self.title!r}: {self.family!r} is no family of exporter/catalog.py")
        return FAMILY_BY_NAME[self.family]

    @property
    def judged(self) -> bool:
        """Whether some values of it are bad by a threshold."""
        return self.above != "" or self.below != ""

    def shown_unit(self) -> str:
        family = self.catalogue_family()
        return self.unit or (grafana_unit(family) if family else PLAIN)

    def named_states(self) -> States | None:
        if not self.states:
            return None
        if self.states not in STATES:
            raise DashboardError(
                f"panel {self.title!r}: no states {self.states!r}; there are {sorted(STATES)}"
            )
        return STATES[self.states]
