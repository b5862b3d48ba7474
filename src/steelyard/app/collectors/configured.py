"""From the settings to the collectors: which there are, and how each is made."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from steelyard.app.collectors.contract import Collector

if TYPE_CHECKING:
    from collections.abc import Callable

    from steelyard.app.settings import Settings


def configured(settings: Settings) -> list[Callable[[], Collector]]:
    """A maker for each source of the settings, in their order: clusters first, since they name the pods that samples speak of."""
    from steelyard.app.collectors.audit_log import AuditLogCollector
    from steelyard.app.collectors.kubernetes import KubernetesCollector
    from steelyard.app.collectors.prometheus import PrometheusCollector
    from steelyard.app.collectors.scrape import ScrapeCollector

    reading = settings.to_read_settings()
    kinds: list[tuple[Any, Any]] = [
        *((KubernetesCollector, each) for each in settings.kubernetes),
        *((ScrapeCollector, each) for each in settings.scrape),
        *((PrometheusCollector, each) for each in settings.prometheus),
        *((AuditLogCollector, each) for each in settings.audit_log),
    ]
    return [partial(kind, setting, settings.cluster, reading) for kind, setting in kinds]
