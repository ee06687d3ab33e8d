"""The command of a page that is generated: writes it, or with --check says whether it is current."""

import argparse
import sys
from pathlib import Path


def run(page: Path, text: str, *, description: str | None, source: str) -> int:
    """The exit code. `source` is what the page is made from, for the reader of an error."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit 1 if the page is not current"
    )
    if not parser.parse_args().check:
        page.write_text(text, encoding="utf-8")
    elif not page.is_file() or page.read_text(encoding="utf-8") != text:
        print(f"{page} is not what {source} says: run `make generate`", file=sys.stderr)
        return 1
    return 0
