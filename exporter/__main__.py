"""`python -m exporter`: the same as `asyncrl exporter`."""

import sys

from exporter.cli import main

sys.exit(main(sys.argv[1:]))
