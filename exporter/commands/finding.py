"""One thing that `asyncrl doctor` found out."""

from typing import NamedTuple


class Finding(NamedTuple):
    """`text` says what was found and, where it is not good, what to do."""

    good: bool
    text: str
