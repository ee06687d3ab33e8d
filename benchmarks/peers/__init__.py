"""Scripts that measure other systems, each run by the Python of a virtual environment of its own under .cache/."""
