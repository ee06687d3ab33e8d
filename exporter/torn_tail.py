"""How many frames SQLite's write-ahead log was left with, to be compared with those that SQLite takes back.

The format is that of https://www.sqlite.org/fileformat2.html#walformat. A crash of the process tears at most a
transaction that nobody acknowledged; a disk that lost what it had confirmed tears more.
"""

import struct
from pathlib import Path
from typing import Final

_HEADER: Final = struct.Struct(">8I")
"""Magic, format, page size, checkpoint number, salts, checksums."""
_FRAME_HEADER: Final = struct.Struct(">6I")
"""Page, size of the database after a commit, salts, checksums; the page follows."""
_MAGIC: Final = 0x377F0682
"""The lowest bit says in which byte order the checksums were computed."""


def written_frames(log: Path) -> int:
    """Frames of the log's newest generation, a broken one at its end included; 0 where there is no log.
    A log whose head is broken says nothing of its frames: 1."""
    if not log.exists() or not log.stat().st_size:
        return 0
    with log.open("rb") as file:
        head = file.read(_HEADER.size)
        if len(head) < _HEADER.size or not _is_sound(head):
            return 1
        _, _, page_bytes, _, *salts, _, _ = _HEADER.unpack(head)
        frames = 0
        while frame := file.read(_FRAME_HEADER.size):
            whole = len(frame) == _FRAME_HEADER.size
            if whole and list(_FRAME_HEADER.unpack(frame)[2:4]) != salts:
                break  # of the generation before
            frames += 1
            file.seek(page_bytes, 1)
        return frames


def _is_sound(head: bytes) -> bool:
    magic, *_, first, second = _HEADER.unpack(head)
    words = struct.unpack(f"{'>' if magic & 1 else '<'}6I", head[:24])
    a = b = 0
    for even, odd in zip(words[::2], words[1::2], strict=True):
        a = (a + even + b) & 0xFFFFFFFF
        b = (b + odd + a) & 0xFFFFFFFF
    return magic & ~1 == _MAGIC and (a, b) == (first, second)
