"""From a decoded span to a control record: attributes checked, typed, in integer nanoseconds.

A span that cannot be a record is `Rejected` with one of the catalogue's reasons; a bad value inside a good
span is left out, named in `problems`, and costs nothing else.
"""

from collections.abc import Callable
from typing import Any, Final

import msgspec

from exporter.attributes import LARGEST_INTEGER, NS, ROUNDING, Attributes, label
from exporter.errors import Rejected
from exporter.records import Source, Span
from exporter.values import Scalar, Value, read_values
from runtime.telemetry import schema

_LATEST_NS: Final = 2**63 - 1
"""The year 2262; what is later is no time, and its successors would not fit into the journal."""
_PATH_STEPS: Final = (".", "..")
"""Clients leave these out of a path, percent-encoded or not."""
_PUBLISHERS: Final = (schema.TRAINER, schema.CONTROLLER)
_STATES: Final = {
    schema.TRAINER: frozenset(schema.TRAINER_STATES),
    schema.ROLLOUTER_ROLE: frozenset(schema.ROLLOUTER_STATES),
}


class Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One control span. `values` and `user_values` are keyed by the name of the wire."""

    kind: str
    source_id: str
    role: str
    run: str
    attempt: int | None = None
    seq: int | None = None
    identity: bytes = b""
    trace: bytes = b""
    """Trace id (16 bytes) and span id (8 bytes); empty where the span has no such ids. For exemplars."""
    version: int
    start_ns: int
    end_ns: int
    step: int = 0
    sample_count: int | None = None
    trained_sample_count: int | None = None
    token_count: int | None = None
    steps_in_window: int = 0
    rollouters: tuple[str, ...] | None = None
    phase_ns: dict[str, int] = {}
    rollouter: str = ""
    version_from: int | None = None
    state_ns: dict[str, int] = {}
    capacity_ns: int | None = None
    busy_capacity_ns: int = 0
    size_bytes: int | None = None
    status: str = ""
    values: dict[str, Value] = {}
    user_values: dict[str, Scalar] = {}
    reported: dict[str, float] = {}
    service_name: str = ""
    nonfinite: dict[str, int] = {}
    out_of_range: dict[str, int] = {}
    problems: tuple[str, ...] = ()

    @property
    def weight(self) -> int:
        """How much memory it takes, in values."""
        return 8 + len(self.values) + len(self.user_values) + len(self.reported)


def check_source(source: Source) -> None:
    """Refuse a source that does not say who it is, or speaks another major version of the schema."""
    if source.schema_version.split(".")[0] != schema.SCHEMA_VERSION:
        raise Rejected(
            "unknown_schema",
            f"{schema.SCHEMA} is {source.schema_version!r}, expected {schema.SCHEMA_VERSION!r}",
        )
    if not source.source_id:
        raise Rejected(
            "missing_attribute",
            f"the resource has neither {schema.SOURCE_ID} nor {schema.SERVICE_INSTANCE_ID}",
        )
    if source.role not in schema.ROLES:
        raise Rejected(
            "missing_attribute",
            f"{schema.ROLE} is {source.role!r}, expected one of {', '.join(schema.ROLES)}",
        )
    if source.attempt is not None and not 1 <= source.attempt <= LARGEST_INTEGER:
        raise Rejected("bad_value", f"{schema.ATTEMPT} of the resource is no integer of at least 1")


def run_name(text: str) -> str:
    """The label of a run. Raises Rejected, also for a name that no URL of the history could hold."""
    if not text:
        raise Rejected("missing_attribute", f"neither the record nor its resource has {schema.RUN_ID}")
    if text in _PATH_STEPS:
        raise Rejected("bad_value", f"{schema.RUN_ID} is {text!r}, which a URL cannot name; choose another")
    return label(text)


def read_record(span: Span) -> Record:
    """The control record of a span, whose source is checked. Raises Rejected."""
    source = span.source
    attributes = Attributes(span.name, span.attributes)
    run = run_name(attributes.text(schema.RUN_ID) or source.run)
    seq = _at_least(attributes, schema.SEQ, 1)
    attempt = _at_least(attributes, schema.ATTEMPT, 1)
    if seq is None and not (any(span.trace_id) and any(span.span_id)):  # all zeros are no id, says OTLP
        raise Rejected("missing_attribute", f"{span.name} has neither {schema.SEQ} nor trace and span ids")
    if span.end_ns > _LATEST_NS:
        raise Rejected("bad_value", f"{span.name} ends at {span.end_ns} ns, after the year 2262")
    if span.end_ns < span.start_ns:
        attributes.problems.append("clock")
    if span.dropped_attributes:
        attributes.problems.append("truncated")
    version = _version(attributes)
    sample_count = attributes.count(schema.SAMPLE_COUNT)
    trained_sample_count = attributes.count(schema.TRAINED_SAMPLE_COUNT)
    token_count = attributes.count(schema.TOKEN_COUNT)
    fields = _FIELDS[span.name](attributes, source.role)
    values = read_values(attributes)
    return Record(
        kind=span.name,
        source_id=source.source_id,
        role=source.role,
        run=run,
        attempt=attempt if attempt is not None else source.attempt,
        seq=seq,
        identity=b"" if seq is not None else span.trace_id + span.span_id,
        trace=_trace(span),
        version=version,
        start_ns=min(span.start_ns, span.end_ns),
        end_ns=span.end_ns,
        sample_count=sample_count,
        trained_sample_count=trained_sample_count,
        token_count=token_count,
        service_name=label(source.service_name),
        values=values.known,
        user_values=values.user,
        reported=values.reported,
        nonfinite=values.nonfinite,
        out_of_range=values.out_of_range,
        problems=tuple(attributes.problems),
        **fields,
    )


def read_seq(span: Span) -> int | None:
    """The seq of a span that was refused, if that at least is right."""
    try:
        return _at_least(Attributes(span.name, span.attributes), schema.SEQ, 1)
    except Rejected:
        return None


def _trace(span: Span) -> bytes:
    """Ids of other lengths are no W3C ids, and could outgrow the 128 characters of an exemplar's labels."""
    right = len(span.trace_id) == 16 and len(span.span_id) == 8 and any(span.trace_id) and any(span.span_id)
    return span.trace_id + span.span_id if right else b""


def _version(attributes: Attributes) -> int:
    version = attributes.required_integer(schema.PARAM_VERSION)
    lowest = 1 if attributes.span_name in (schema.TRAIN_STEP, schema.ROLLOUTER_WINDOW) else 0
    if version < lowest:
        raise Rejected("bad_value", f"{schema.PARAM_VERSION} is {version}, expected at least {lowest}")
    return version


def _at_least(attributes: Attributes, name: str, lowest: int) -> int | None:
    value = attributes.integer(name)
    if value is not None and value < lowest:
        raise Rejected("bad_value", f"{name} is {value}, expected at least {lowest}")
    return value


def _step_fields(attributes: Attributes, _role: str) -> dict[str, Any]:
    attributes.required_integer(schema.STEP)
    return {"step": _at_least(attributes, schema.STEP, 1)}


def _sync_fields(attributes: Attributes, role: str) -> dict[str, Any]:
    if role not in _PUBLISHERS:  # one that has only loaded the weights would stand in for who made them
        raise Rejected("bad_value", f"{schema.WEIGHT_SYNC} of a {role}: a trainer or controller publishes")
    attributes.required_integer(schema.STEPS_IN_WINDOW)
    return {
        "steps_in_window": _at_least(attributes, schema.STEPS_IN_WINDOW, 0),
        "rollouters": _owing_slots(attributes),
        "state_ns": _state_times(attributes, schema.TRAINER) or {},
        "phase_ns": attributes.durations(schema.PHASE_SECONDS_PREFIX, frozenset(schema.SYNC_PHASES)),
        "size_bytes": attributes.count(schema.SYNC_BYTES),
    }


def _owing_slots(attributes: Attributes) -> tuple[str, ...] | None:
    """None where the sync does not say it, or says what is no list of slots: then those that were heard owe."""
    raw = attributes.all.get(schema.ROLLOUTERS)
    if raw is None:
        return None
    slots = tuple(label(str(slot)) for slot in raw) if isinstance(raw, tuple) else ("",)
    if "" in slots:
        attributes.problems.append("bad_value")
        return None
    return slots


def _state_times(attributes: Attributes, role: str) -> dict[str, int] | None:
    """None where one of them is no duration: what the others add up to would be no version time."""
    well = len(attributes.problems)
    found = attributes.durations(schema.STATE_SECONDS_PREFIX, _STATES.get(role, _STATES[schema.TRAINER]))
    return found if len(attributes.problems) == well else None


def _capacity_fields(attributes: Attributes) -> dict[str, int]:
    """Both of the capacities, or none: without either there is no utilization. More busy than there is, is wrong."""
    capacity_ns = attributes.seconds(schema.CAPACITY_SECONDS)
    busy_ns = attributes.seconds(schema.BUSY_CAPACITY_SECONDS)
    if capacity_ns is None or busy_ns is None:
        return {}
    if busy_ns > capacity_ns + _tolerance_ns(capacity_ns):
        attributes.problems.append("bad_value")
        return {}
    return {"capacity_ns": capacity_ns, "busy_capacity_ns": min(busy_ns, capacity_ns)}


def _tolerance_ns(duration_ns: int) -> int:
    """How far two ways to add up a duration may differ: 1 ms + 0.1 %."""
    return 1_000_000 + round(duration_ns * ROUNDING)


def _rollouter_fields(attributes: Attributes, _role: str) -> dict[str, Any]:
    slot = label(str(attributes.all.get(schema.ROLLOUTER, "")))
    if not slot:
        raise Rejected("missing_attribute", f"{schema.ROLLOUTER_WINDOW} has no {schema.ROLLOUTER}")
    state_ns = _state_times(attributes, schema.ROLLOUTER_ROLE)
    if state_ns is None:  # the times are what it is for
        raise Rejected("bad_value", f"a state time of {schema.ROLLOUTER_WINDOW} is no duration")
    total_ns = sum(state_ns.values())
    stated_ns = attributes.seconds(schema.VERSION_TIME_SECONDS)
    if stated_ns is not None and abs(stated_ns - total_ns) > _tolerance_ns(total_ns):
        stated = f"{schema.VERSION_TIME_SECONDS} is {stated_ns / NS}"
        raise Rejected("state_sum", f"{stated}, the states add up to {total_ns / NS}")
    skipped = _at_least(attributes, schema.PARAM_VERSION_FROM, 1)
    if skipped is not None and skipped > attributes.required_integer(schema.PARAM_VERSION):
        raise Rejected("bad_value", f"{schema.PARAM_VERSION_FROM} is {skipped}, above the version itself")
    return {
        "rollouter": slot,
        "version_from": skipped,
        "state_ns": state_ns,
        **_capacity_fields(attributes),
    }


def _annex_fields(attributes: Attributes, _role: str) -> dict[str, Any]:
    return {"size_bytes": attributes.count(schema.CHECKPOINT_BYTES)}


def _end_fields(attributes: Attributes, role: str) -> dict[str, Any]:
    status = attributes.text(schema.STATUS)
    if not status:
        raise Rejected("missing_attribute", f"{schema.RUN_END} has no {schema.STATUS}")
    if status not in schema.END_STATUSES:
        raise Rejected(
            "bad_value", f"{schema.STATUS} is {status!r}, expected one of {', '.join(schema.END_STATUSES)}"
        )
    return {"status": status, "state_ns": _state_times(attributes, role) or {}}


_FIELDS: Final[dict[str, Callable[[Attributes, str], dict[str, Any]]]] = {
    schema.TRAIN_STEP: _step_fields,
    schema.WEIGHT_SYNC: _sync_fields,
    schema.ROLLOUTER_WINDOW: _rollouter_fields,
    schema.VALIDATION: _annex_fields,
    schema.CHECKPOINT: _annex_fields,
    schema.GENERATED_COHORT: _annex_fields,
    schema.RUN_END: _end_fields,
}
