"""What every reader is told: which cluster, which file, which settings, and as of when."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from steelyard.facts.finding import Finding
from steelyard.primitives.instant import AT_OBSERVATION, DurationUs, Instant


@dataclass(frozen=True, slots=True)
class SharedScheme:
    """How an extended resource of another sharing scheme becomes a share: ``unit`` is what one count of ``resource`` means:
    ``memory_mib``, ``memory_gib``, ``percent`` (of one card) or ``cards``."""

    resource: str
    unit: str


@dataclass(frozen=True, slots=True)
class ReadSettings:
    """The settings that readers obey. Defaults are right for a stock installation."""

    shared_schemes: tuple[SharedScheme, ...] = (
        SharedScheme("aliyun.com/gpu-mem", "memory_gib"),
        SharedScheme("tke.cloud.tencent.com/qgpu-core", "percent"),
        SharedScheme("tke.cloud.tencent.com/qgpu-memory", "memory_gib"),
        SharedScheme("koordinator.sh/gpu-core", "percent"),
        SharedScheme("koordinator.sh/gpu-memory-ratio", "percent"),
    )
    hami_memory_scaling_by_node: Mapping[str, float] = field(default_factory=dict)
    hami_timezone: str = "UTC"
    trace_epoch: Instant = 0
    smi_timezone: str = "UTC"
    line_bytes_max: int = 8 * 1024 * 1024
    json_depth_max: int = 200
    decompressed_bytes_max: int = 1024**3
    annotations_max: int = 10_000
    prof_suspect_util_percent: float = 50


@dataclass(frozen=True, slots=True)
class ReadContext:
    """Handed to every reader. ``observed_at`` is AT_OBSERVATION while the as-of instant of a dump is not known yet.
    ``expected_interval_us``: the import declares that rounds or listings come this often; None = it does not."""

    cluster: str = "default"
    file: str = "-"
    node: str | None = None
    observed_at: Instant = AT_OBSERVATION
    settings: ReadSettings = field(default_factory=ReadSettings)
    expected_interval_us: DurationUs | None = None

    def finding(
        self,
        source: str,
        code: str,
        subject: str,
        message: str,
        *,
        severity: str = "warning",
        evidence: Mapping[str, object] | None = None,
        line: int | None = None,
        excerpt: str | None = None,
    ) -> Finding:
        """A finding at the place this context stands for; the excerpt is cut to 200 characters."""
        where = f"/{self.file}:{line}" if line is not None else ""
        return Finding(
            cluster=self.cluster,
            source=source,
            natural_key=f"{code}/{subject}{where}",
            occurred_at=self.observed_at,
            observed_at=self.observed_at,
            code=code,
            severity=severity,
            subject=subject,
            message=message,
            evidence=msgspec.json.encode(dict(evidence or {}), order="sorted").decode(),
            file=self.file,
            line=line,
            excerpt=excerpt[:200] if excerpt is not None else None,
        )
