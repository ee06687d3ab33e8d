"""The commands beside the exporter: history, end, doctor."""
