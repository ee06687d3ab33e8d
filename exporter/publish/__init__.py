"""What the world sees: /metrics and the history, each rendered from one immutable snapshot or from the journal."""
