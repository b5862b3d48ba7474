"""Where a Prometheus API is and how it is spoken to: address, who we are to it, and the bounds of each answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from steelyard.primitives.errors import UsageError
from steelyard.primitives.i18n import _


@dataclass(frozen=True, slots=True)
class PrometheusEndpoint:
    """``url``: the base that ``/api/v1/query`` is put behind, with its prefix (Mimir: ``https://mimir/prometheus``; VictoriaMetrics as a cluster:
    ``http://vmselect:8481/select/0/prometheus``). ``org_id``: sent as ``X-Scope-OrgID`` (Mimir). ``bearer_token``, or ``username`` and
    ``password``. ``ca_file``: a PEM bundle that the server's certificate is checked against instead of the system's.
    ``series_points_max``: the server's limit for a range query. ``response_bytes_max``: after decompression; a larger answer is asked for in parts.
    """

    url: str
    bearer_token: str | None = field(default=None, repr=False)
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    org_id: str | None = None
    ca_file: Path | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout_seconds: float = 30.0
    series_points_max: int = 11_000
    response_bytes_max: int = 64 << 20
    names_per_query_max: int = 64

    def __post_init__(self) -> None:
        if not self.url.startswith(("http://", "https://")):
            raise UsageError(
                _("{url}: expected an address such as http://prometheus:9090").format(url=repr(self.url[:200]))
            )
        if self.bearer_token is not None and self.username is not None:
            raise UsageError(_("{url}: expected a bearer token or a user name, not both").format(url=self.url[:200]))
