"""Receives telemetry, keeps the version ledger, publishes it. Imports neither torch nor ray."""
