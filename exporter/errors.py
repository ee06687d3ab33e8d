"""The exporter's errors.

ExporterError (ValueError)      a mistake of the user; the command prints it as one line and exits 2
|-- ConfigError                 a flag or key with a value that cannot be
|-- DataDirectoryError          a data directory that is in use, unreadable or of a newer schema
|-- Unreachable                 an exporter that does not answer a command, or refuses it
+-- UnfaithfulExport            an export that would not hold, or not give back, every sample
RequestError                    an answer other than 200 to one request; the server maps `status`
|-- MalformedRequest  400
|-- Unauthenticated   401
|-- UnknownRun        404
|-- UnsupportedMedia  415
|-- SlowRequest       408
|-- BodyTooLarge      413
|-- Overloaded        429
|-- JournalUnavailable 503
+-- PageUnavailable   500
Rejected                        one record or value that is refused; counted by its `reason`
Late                            a record whose window is sealed, or whose attempt is over; counted like it
"""


class ExporterError(ValueError):
    """A mistake of the user: what was expected, what came, what to do."""


class ConfigError(ExporterError):
    """A flag or key with a value that cannot be."""


class DataDirectoryError(ExporterError):
    """The data directory is in use by another exporter, unreadable, or written by a newer version."""


class Unreachable(ExporterError):
    """An exporter that does not answer a command, or answers it with an error."""


class UnfaithfulExport(ExporterError):
    """An export in which a sample is missing, or stands twice."""


class RequestError(Exception):
    """A request that is answered with `status`, the message in the body."""

    status = 500
    retry_after_seconds: int | None = None


class MalformedRequest(RequestError):
    status = 400


class Unauthenticated(RequestError):
    """No credentials, or wrong ones: the answer does not say which."""

    status = 401


class UnknownRun(RequestError):
    """A run that is neither on the page nor in history."""

    status = 404


class UnsupportedMedia(RequestError):
    status = 415


class SlowRequest(RequestError):
    """The body was not in within the deadline."""

    status = 408


class BodyTooLarge(RequestError):
    status = 413


class Overloaded(RequestError):
    status = 429
    retry_after_seconds = 1


class JournalUnavailable(RequestError):
    status = 503
    retry_after_seconds = 5


class Rejected(Exception):
    """A record, or a value in it, that is refused. `reason` is one of `catalog.REJECT_REASONS`."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason


class PageUnavailable(RequestError):
    """No family of the runs could be read: better no page than a blank one."""

    status = 500


class Late(Exception):
    """A record of something that is closed. `reason` is one of `catalog.LATE_REASONS`."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"late ({reason}): {detail}")
        self.reason = reason
