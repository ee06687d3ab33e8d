"""W3C trace contexts as the text that travels inside a message (https://www.w3.org/TR/trace-context/)."""

import re

from opentelemetry.context import Context
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

_PATTERN = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")


def format_traceparent(context: SpanContext) -> str:
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


def parse_traceparent(text: str) -> SpanContext | None:
    """The span that `text` names; None if it names none."""
    match = _PATTERN.fullmatch(text)
    if match is None:
        return None
    trace_id, span_id, flags = (int(group, 16) for group in match.groups())
    context = SpanContext(trace_id, span_id, is_remote=True, trace_flags=TraceFlags(flags))
    return context if context.is_valid else None


def parent_context(text: str | None) -> Context:
    """An SDK context whose only content is that parent: the ambient span plays no part."""
    parent = parse_traceparent(text) if text else None
    return set_span_in_context(NonRecordingSpan(parent), Context()) if parent else Context()
