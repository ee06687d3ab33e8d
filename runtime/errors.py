"""The runtime's errors.

RuntimeConfigError (ValueError)   a key, flag or argument with a value that cannot be; one line, exit 2
PortHeldError (ValueError)        an exporter port that something else holds; one line, exit 2
RunFailedError                    a run that cannot go on; the cause is printed, exit 1
|-- EnvironmentFailedError        no sample could be scored, or the environment has no prompt
+-- ActorFailedError              a trainer, rollouter or queue that died or does not answer
"""


class RuntimeConfigError(ValueError):
    """A value that cannot be, e.g. `steps_per_version: 0 is not accepted; give an integer of at least 1`."""

    def __init__(self, key: str, value: object, accepted: str) -> None:
        super().__init__(key, value, accepted)
        self.key = key
        self.value = value
        self.accepted = accepted

    def __str__(self) -> str:
        return f"{self.key}: {self.value!r} is not accepted; give {self.accepted}"

    def within(self, section: str) -> "RuntimeConfigError":
        """The same error as seen from the file: the key with its section in front."""
        return RuntimeConfigError(f"{section}.{self.key}", self.value, self.accepted)


def require(ok: bool, key: str, value: object, accepted: str) -> None:
    """Raise RuntimeConfigError unless `ok`; for the `__post_init__` of configuration sections."""
    if not ok:
        raise RuntimeConfigError(key, value, accepted)


class PortHeldError(ValueError):
    """An address of the exporter that another program listens on."""


class RunFailedError(Exception):
    """The run cannot go on. Says what happened, to whom, and the original error."""


class EnvironmentFailedError(RunFailedError):
    """No sample could be scored, or the environment has no prompt."""


class ActorFailedError(RunFailedError):
    """A trainer, rollouter or queue that died or does not answer."""
