"""The fixtures of whole runs: those of the exporter's tests."""

from tests.exporter.conftest import start_exporter, start_module_exporter

__all__ = ["start_exporter", "start_module_exporter"]
