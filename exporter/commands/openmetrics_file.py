"""One OpenMetrics file out of the texts of many pages: each family once, each series in the order of time."""

from array import array
from typing import IO, Final

from exporter.errors import UnfaithfulExport

_END: Final = "# EOF\n"


class _Series:
    """16 bytes a sample: a run of months is held in memory."""

    def __init__(self) -> None:
        self.times = array("q")
        """Nanoseconds."""
        self.values = array("d")

    def ascending(self) -> list[tuple[int, float]]:
        return sorted(zip(self.times, self.values, strict=True))


class OpenMetricsFile:
    """Takes what `backfill.versions_openmetrics` wrote, page by page."""

    def __init__(self) -> None:
        self._heads: dict[str, str] = {}
        """Family -> its HELP and TYPE lines."""
        self._families: dict[str, dict[str, _Series]] = {}
        """Family -> name and labels of a series, as written -> samples."""
        self.samples = 0

    def add(self, text: str) -> None:
        """Take the samples of one text."""
        head = ""
        family: dict[str, _Series] = {}
        for line in text.removesuffix(_END).split("\n")[:-1]:  # a label may hold what splitlines() splits at
            if line.startswith("# HELP "):
                head = line
            elif line.startswith("# TYPE "):
                name = line.split(" ")[2]
                self._heads[name] = f"{head}\n{line}\n"
                family = self._families.setdefault(name, {})
            else:
                series, value, time = line.rsplit(" ", 2)
                seconds, _, nanoseconds = time.partition(".")
                samples = family.setdefault(series, _Series())
                samples.times.append(int(seconds) * 1_000_000_000 + int(nanoseconds))
                samples.values.append(float(value))
                self.samples += 1

    def write(self, file: IO[bytes]) -> None:
        """Raises UnfaithfulExport where two samples of a series share a millisecond: Prometheus keeps one of them."""
        for name, family in self._families.items():
            file.write(self._heads[name].encode())
            for series, samples in family.items():
                before = None
                for time, value in samples.ascending():
                    if before == time // 1_000_000:
                        raise UnfaithfulExport(
                            f"two samples of {series} at {time / 1e9:.3f}: its versions overlap in time; "
                            "export them apart with --from and --to"
                        )
                    before = time // 1_000_000
                    file.write(
                        f"{series} {value!r} {time // 1_000_000_000}.{time % 1_000_000_000:09}\n".encode()
                    )
        file.write(_END.encode())
