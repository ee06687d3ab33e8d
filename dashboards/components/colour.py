"""The colours of series and states."""

from grafana_foundation_sdk.builders import dashboard
from grafana_foundation_sdk.models import dashboard as models

from dashboards.components.builder import BuilderType
from dashboards.components.options import PanelOptions
from dashboards.states import States


def coded(states: States) -> list[models.ValueMapping]:
    """From the codes of `promql.code` to words and colours."""
    none = models.ValueMappingResult(text=states.none, color=states.none_colour, index=0)
    results = {"0": none} | {
        str(code): models.ValueMappingResult(text=value, color=states.colours[value], index=code)
        for code, value in enumerate(states.values, 1)
    }
    return [models.ValueMap(options=results)]


def _colour(mode: str, colour: str) -> models.DynamicConfigValue:
    return models.DynamicConfigValue(id_val="color", value={"mode": mode, "fixedColor": colour})


def coloured(builder: BuilderType, options: PanelOptions) -> BuilderType:
    """Series in the colours of the states that their names end in, and in shades of those of the panel's own."""
    states = options.named_states()
    for state, colour in (states.colours if states else {}).items():
        builder.override_by_regexp(named(state), [_colour("fixed", colour)])
    for end, colour in options.colours.items():
        builder.override_by_regexp(named(end), [_colour("shades", colour)])
    return builder


def named(end: str) -> str:
    """Matches series by the last words of their names."""
    return f"/(^|.* ){end}$/"


def palette() -> dashboard.FieldColor:
    """The colours that are easiest to tell apart, in the order of the series."""
    return dashboard.FieldColor().mode(models.FieldColorModeId.PALETTE_CLASSIC)
