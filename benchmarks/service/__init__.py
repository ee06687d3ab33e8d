"""The exporter measured as a service: each module measures one thing, `benchmarks.figures` runs them all."""
