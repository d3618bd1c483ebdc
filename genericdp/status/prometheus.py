"""What is used of Prometheus' client, without the servers that are in it.

``prometheus_client`` imports all that it could serve and push with, whether it does or not:
OpenSSL, ``http.server``, ``urllib.request`` and what these import, seven of its ten megabytes.
"""

# ruff: noqa: E402  what keeps the client small comes before it

from __future__ import annotations

from types import ModuleType

from genericdp.lean import standing_in

_UNUSED = ("http.server", "ssl", "urllib.request", "wsgiref.simple_server")


class _Unused(ModuleType):
    """Whatever is imported of it is a class without anything, which is enough to define things."""

    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


def _import_client() -> None:
    try:
        with standing_in({name: _Unused(name) for name in _UNUSED}):
            import prometheus_client  # noqa: F401
    except (AttributeError, ImportError, TypeError):
        pass  # a version that does more with them: below it is imported with all of it


_import_client()

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector, CollectorRegistry

__all__ = [
    "CONTENT_TYPE_PLAIN_0_0_4",
    "Collector",
    "CollectorRegistry",
    "CounterMetricFamily",
    "GaugeMetricFamily",
    "HistogramMetricFamily",
    "Metric",
    "ProcessCollector",
    "generate_latest",
    "generate_openmetrics",
]
