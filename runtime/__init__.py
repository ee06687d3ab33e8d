"""The asynchronous GRPO trainer and rollouter, on Ray and torch. Knows no Prometheus; imports nothing at import."""
