"""Return codes of NVML as the kinds of trouble that a round knows, and the one place where a call is made.

The trick to know: a code is about the call (no right, not offered), about the card (lost) or about the library (driver not loaded, another
version), and only the first leaves anything else worth asking.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from steelyard.primitives.unknown import Unknown
from steelyard.sources.shared import device_driver as kinds
from steelyard.sources.shared.device_driver import DriverError, Note, Problem

NOT_FOUND: Final = 6
_FUNCTION_NOT_FOUND: Final = 13

_KINDS: Final = {
    1: kinds.UNINITIALISED,
    3: kinds.UNSUPPORTED,
    4: kinds.NO_PERMISSION,
    9: kinds.NOT_LOADED,
    12: kinds.NO_LIBRARY,
    _FUNCTION_NOT_FOUND: kinds.UNSUPPORTED,
    15: kinds.LOST,
    16: kinds.NEEDS_RESET,
    18: kinds.MISMATCH,
    25: kinds.UNSUPPORTED,
    26: kinds.UNSUPPORTED,
    28: kinds.LOST,
}
"""nvmlReturn_t to kind; every other code is ``driver_call_failed``."""

LIBRARY_KINDS: Final = frozenset({kinds.UNINITIALISED, kinds.NOT_LOADED, kinds.NO_LIBRARY, kinds.MISMATCH})
_WHOLE_CARD: Final = LIBRARY_KINDS | {kinds.LOST}


def kind_of(code: int) -> str:
    """The kind of a return code."""
    return _KINDS.get(code, kinds.FAILED)


class Asking:
    """Calls about one card: notes each before it is made, turns its failure into Unknown and remembers what deserves a finding."""

    def __init__(self, nvml: Any, note: Note) -> None:
        self.nvml = nvml
        self._note = note
        self.problems: dict[Problem, None] = {}

    def must(self, call: str, *arguments: object) -> Any:
        """The result of a call without which nothing else makes sense. Raises DriverError for any failure."""
        self._note(call)
        try:
            return getattr(self.nvml, call)(*arguments)
        except self.nvml.NVMLError as error:
            raise DriverError(kind_of(error.value), call, str(error)) from None

    def ask(self, call: str, *arguments: object, gi: int | None = None, quiet: tuple[int, ...] = ()) -> Any:
        """The result of a call, or Unknown with the driver's words. Raises DriverError where the card or the library is gone.

        quiet: codes that are no trouble here and leave no problem behind.
        """
        self._note(call)
        try:
            return getattr(self.nvml, call)(*arguments)
        except self.nvml.NVMLError as error:
            kind, reason = kind_of(error.value), str(error)
            if kind in _WHOLE_CARD:
                raise DriverError(kind, call, reason) from None
            if error.value not in quiet:
                self.problems[Problem(kind, call, reason, gi)] = None
            return Unknown(reason)

    def first(self, calls: tuple[str, ...], *arguments: object, gi: int | None = None) -> Any:
        """The result of the first of several spellings of one call that this library has: newer drivers first."""
        for call in calls[:-1]:
            self._note(call)
            try:
                return getattr(self.nvml, call)(*arguments)
            except self.nvml.NVMLError as error:
                if error.value != _FUNCTION_NOT_FOUND:
                    return self._failed(error, call, gi)
        return self.ask(calls[-1], *arguments, gi=gi)

    def problem(self, kind: str, call: str, reason: str, gi: int | None = None) -> Unknown:
        """Notes a problem that no return code told, and the Unknown for it."""
        self.problems[Problem(kind, call, reason, gi)] = None
        return Unknown(reason)

    def quietly(self, call: Callable[..., Any], *arguments: object) -> Any:
        """The result of a call whose failure matters to nobody, or None."""
        self._note(getattr(call, "__name__", "call"))
        try:
            return call(*arguments)
        except self.nvml.NVMLError:
            return None

    def _failed(self, error: Any, call: str, gi: int | None) -> Unknown:
        kind, reason = kind_of(error.value), str(error)
        if kind in _WHOLE_CARD:
            raise DriverError(kind, call, reason) from None
        self.problems[Problem(kind, call, reason, gi)] = None
        return Unknown(reason)
