"""Ray on Kubernetes, by the objects of KubeRay."""

from __future__ import annotations

from steelyard.sources.ray.jobs import is_ray, read_ray

__all__ = ["is_ray", "read_ray"]
