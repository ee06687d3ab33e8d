"""Lines for whoever started the run, on stderr; stdout is the live view's."""

import os
import sys
from typing import TextIO


def notice(line: str) -> None:
    try:
        print(f"asyncrl run: {line}", file=sys.stderr, flush=True)
    except BrokenPipeError:
        leave(sys.stderr)


def leave(stream: TextIO) -> None:
    """Nobody reads it any more, as behind `| head`: what is still written to it is lost, and no error."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
