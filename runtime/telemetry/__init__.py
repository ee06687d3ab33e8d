"""The runtime's only instrumentation API: opentelemetry-sdk, and nothing of ray or torch."""
