"""One line of docs/benchmarks.md: what was measured, beside what, and how far that is from the target."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """`ours` and `peers` are written out with their units; `ratio` and `target` only where there is a target."""

    what: str
    ours: str
    peer: str = ""
    ratio: float | None = None
    target: float | None = None
    at_most: bool = True
    """Whether the target is met from below (a cost) or from above (a speed)."""
    held_by: str = ""
    """What keeps a target from being met, for when it is missed."""

    @property
    def met(self) -> bool | None:
        if self.ratio is None or self.target is None:
            return None
        return self.ratio <= self.target if self.at_most else self.ratio >= self.target

    def shortfall(self) -> str:
        """One line on a missed target; empty for any other."""
        if self.ratio is None or self.target is None or self.met:
            return ""
        times = self.ratio / self.target if self.at_most else self.target / self.ratio
        return f"* {self.what}, beside {self.peer}: missed by a factor of {times:.1f}. {self.held_by}"

    def row(self) -> str:
        """The line, as a row of a Markdown table."""
        wanted = "" if self.target is None else f"{'<=' if self.at_most else '>='} {_plain(self.target)}"
        verdict = {None: "", True: "met", False: "missed"}[self.met]
        ratio = "" if self.ratio is None else _plain(self.ratio)
        return f"| {self.what} | {self.ours} | {self.peer} | {ratio} | {wanted} | {verdict} |"


def _plain(ratio: float) -> str:
    return f"1/{1 / ratio:.3g}" if 0 < ratio < 0.5 else f"{ratio:.3g}"
