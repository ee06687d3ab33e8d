"""The runtime's errors.

RuntimeConfigError (ValueError)   a key, flag or argument with a value that cannot be; one line, exit 2
ExporterStartError (ValueError)   an exporter that cannot start, e.g. its port is held; one line, exit 2
RunFailedError                    a run that cannot go on; the cause is printed, exit 1
|-- EnvironmentFailedError        no sample could be scored, or the environment has no prompt
+-- ActorFailedError              a trainer, rollouter or queue that died or does not answer
"""


class RuntimeConfigError(ValueError):
    """A value that cannot be. The message starts with the key: `versions must be at least 1, got 0`."""


class ExporterStartError(ValueError):
    """The exporter cannot start where it was asked to: says which address, and what is in the way."""


class RunFailedError(Exception):
    """The run cannot go on. Says what happened, to whom, and the original error."""


class EnvironmentFailedError(RunFailedError):
    """No sample could be scored, or the environment has no prompt."""


class ActorFailedError(RunFailedError):
    """A trainer, rollouter or queue that died or does not answer."""
