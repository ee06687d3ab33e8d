"""Writes dashboards/generated/ and the index of the runbooks from the catalogue, the boards and the rules; --check
says whether they are current."""

import argparse
import sys
from pathlib import Path
from typing import Final

from dashboards.compiler import board_files
from dashboards.errors import DashboardError
from dashboards.inhibition import inhibition_yaml
from dashboards.rules import rules_yaml
from dashboards.runbooks import INDEX, runbooks_index

GENERATED: Final = Path(__file__).parent / "generated"


def files() -> dict[Path, str]:
    """Every generated file and its text."""
    texts = {**board_files(), "rules.yaml": rules_yaml(), "inhibition.yaml": inhibition_yaml()}
    return {**{GENERATED / name: text for name, text in texts.items()}, INDEX: runbooks_index()}


def stale(wanted: dict[Path, str]) -> list[Path]:
    """Files that are missing, differ, or belong to no source."""
    return sorted(
        {path for path in GENERATED.iterdir() if path not in wanted}
        | {path for path, text in wanted.items() if not path.is_file() or path.read_text("utf-8") != text}
    )


def main() -> int:
    """Exit code 1 if something is not current, 2 if a source is wrong."""
    parser = argparse.ArgumentParser(prog="python -m dashboards", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a file is not current")
    check = parser.parse_args().check
    try:
        wanted = files()
    except DashboardError as error:
        print(error, file=sys.stderr)
        return 2
    GENERATED.mkdir(exist_ok=True)
    different = stale(wanted)
    if check and different:
        names = ", ".join(path.name for path in different)
        print(f"{GENERATED}: {names} not as the sources say: run `make generate`", file=sys.stderr)
        return 1
    for path in different:
        if path in wanted:
            path.write_text(wanted[path], encoding="utf-8")
        else:
            path.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
