"""How a cluster is reached: from within it, through a kubeconfig and context, or by address and token."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ClusterTarget:
    """Where a cluster's API server is and who we are to it.

    cluster: our name for it, written into every fact. Exactly one of: ``address`` (an URL; with ``token``, or ``token_file`` which is read
    again when it is rotated, and ``ca_file`` or ``insecure``), ``kubeconfig`` (with ``context``, None: the current one), or neither: the
    service account of the pod that we run in.
    """

    cluster: str = "default"
    kubeconfig: Path | None = None
    context: str | None = None
    address: str | None = None
    token: str | None = None
    token_file: Path | None = None
    ca_file: Path | None = None
    insecure: bool = False
