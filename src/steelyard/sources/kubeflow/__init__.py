"""The training jobs of Kubeflow."""

from __future__ import annotations

from steelyard.sources.kubeflow.jobs import is_training_job, read_training_job

__all__ = ["is_training_job", "read_training_job"]
