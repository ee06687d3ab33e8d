"""The exporter of the other room's tests, started for those of the boards."""

from tests.exporter.conftest import start_exporter, start_module_exporter

__all__ = ["start_exporter", "start_module_exporter"]
