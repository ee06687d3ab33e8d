"""Compiles boards and rules from `exporter.catalog`. A pure compiler; nothing else of the project is imported."""
