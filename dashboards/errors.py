"""What can be wrong in the source of a board or a rule."""


class DashboardError(ValueError):
    """A mistake in dashboards/: what was expected, what came, where."""
