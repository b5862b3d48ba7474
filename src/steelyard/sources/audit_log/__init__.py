"""The audit log of a Kubernetes API server: its events (``audit.k8s.io/v1``), and its file as it grows."""

from __future__ import annotations

from steelyard.sources.audit_log.read import AuditReader
from steelyard.sources.audit_log.tail import AuditTail, Lines

__all__ = ["AuditReader", "AuditTail", "Lines"]
