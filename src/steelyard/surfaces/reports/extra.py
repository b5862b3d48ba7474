"""The libraries of the extra ``report``, loaded when a document needs one; a missing one ends in a line that says what to install."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from steelyard.primitives.errors import UsageError
from steelyard.primitives.i18n import _


def report_library(name: str) -> Any:
    """A module of the extra. Raises UsageError where it is not installed."""
    try:
        return import_module(name)
    except ImportError as error:
        raise UsageError(
            _("this document needs {library}, which is not installed: pip install 'steelyard[report]'").format(
                library=name
            )
        ) from error
