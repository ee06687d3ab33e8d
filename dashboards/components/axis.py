"""Scales of axes."""

from typing import Final

from grafana_foundation_sdk.builders import common
from grafana_foundation_sdk.models import common as models

LINEAR: Final = models.ScaleDistributionConfig(type_val=models.ScaleDistribution.LINEAR)


def decades() -> common.ScaleDistributionConfig:
    """Logarithmic, for what spans several powers of ten."""
    return common.ScaleDistributionConfig().type(models.ScaleDistribution.LOG).log(10)
