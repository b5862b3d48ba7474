"""Return codes of NVML as the kinds of trouble that a round knows, and the one place where a call is made.

The trick to know: a code is about the call (no right, not offered), about the card (lost) or about the library (driver not loaded, another
version), and only the first leaves anything else worth asking.
"""

from __future__ import annotations

from typing import Any, Final

from steelyard.primitives.errors import InvariantError
from steelyard.primitives.unknown import Unknown
from steelyard.sources.shared import device_driver as kinds
from steelyard.sources.shared.device_driver import DriverError, Note, Problem

NOT_FOUND: Final = 6
FUNCTION_NOT_FOUND: Final = 13
NOT_SUPPORTED: Final = 3
NO_VERSION: Final = 25
_UNKNOWN: Final = 999

_KINDS: Final = {
    1: kinds.UNINITIALISED,
    NOT_SUPPORTED: kinds.UNSUPPORTED,
    4: kinds.NO_PERMISSION,
    9: kinds.NOT_LOADED,
    12: kinds.NO_LIBRARY,
    FUNCTION_NOT_FOUND: kinds.UNSUPPORTED,
    15: kinds.LOST,
    16: kinds.NEEDS_RESET,
    18: kinds.MISMATCH,
    NO_VERSION: kinds.UNSUPPORTED,
    26: kinds.UNSUPPORTED,
    28: kinds.LOST,
}
"""nvmlReturn_t to kind; every other code is ``driver_call_failed``."""

LIBRARY_KINDS: Final = frozenset({kinds.UNINITIALISED, kinds.NOT_LOADED, kinds.NO_LIBRARY, kinds.MISMATCH})
_WHOLE_CARD: Final = LIBRARY_KINDS | {kinds.LOST}


def kind_of(code: int) -> str:
    """The kind of a return code."""
    return _KINDS.get(code, kinds.FAILED)


class _CallFailed(Exception):
    """A call that did not succeed: its return code (or the nearest one) and the words for it."""

    def __init__(self, code: int, words: str) -> None:
        super().__init__(words)
        self.code = code
        self.words = words


class Asking:
    """Calls about one card: notes each before it is made, turns its failure into Unknown and remembers what deserves a finding."""

    def __init__(self, nvml: Any, note: Note) -> None:
        self.nvml = nvml
        self._note = note
        self.problems: dict[Problem, None] = {}

    def must(self, call: str, *arguments: object) -> Any:
        """The result of a call without which nothing else makes sense. Raises DriverError for any failure."""
        try:
            return self._call(call, arguments)
        except _CallFailed as failed:
            raise DriverError(kind_of(failed.code), call, failed.words) from None

    def ask(self, call: str, *arguments: object, gi: int | None = None, quiet: tuple[int, ...] = ()) -> Any:
        """The result of a call, or Unknown with the driver's words. Raises DriverError where the card or the library is gone.

        quiet: codes that are no trouble here and leave no problem behind.
        """
        return self.first((call,), *arguments, gi=gi, quiet=quiet)

    def first(
        self, calls: tuple[str, ...], *arguments: object, gi: int | None = None, quiet: tuple[int, ...] = ()
    ) -> Any:
        """As ``ask``, of the first of several spellings of one call that this library has: newer ones first."""
        for call in calls:
            try:
                return self._call(call, arguments)
            except _CallFailed as failed:
                if failed.code == FUNCTION_NOT_FOUND and call != calls[-1]:
                    continue
                kind = kind_of(failed.code)
                if kind in _WHOLE_CARD:
                    raise DriverError(kind, call, failed.words) from None
                if failed.code not in quiet:
                    self.problems[Problem(kind, call, failed.words, gi)] = None
                return Unknown(failed.words)
        raise InvariantError("a call has at least one spelling")

    def problem(self, kind: str, call: str, reason: str, gi: int | None = None) -> Unknown:
        """Notes a problem that no return code told, and the Unknown for it."""
        self.problems[Problem(kind, call, reason, gi)] = None
        return Unknown(reason)

    def words(self, code: int) -> str:
        """The library's words for a return code."""
        return str(self.nvml.NVMLError(code))

    def _call(self, call: str, arguments: tuple[object, ...]) -> Any:
        self._note(call)
        function = getattr(self.nvml, call, None)
        if function is None:
            raise _CallFailed(FUNCTION_NOT_FOUND, f"this nvidia-ml-py has no {call}")
        try:
            return function(*arguments)
        except self.nvml.NVMLError as error:
            raise _CallFailed(int(error.value), str(error)) from None
        except self.nvml.NVMLLibraryMismatchError:
            raise _CallFailed(FUNCTION_NOT_FOUND, self.words(FUNCTION_NOT_FOUND)) from None
        except UnicodeDecodeError as error:
            raise _CallFailed(_UNKNOWN, f"the driver's words cannot be read: {error.reason}") from None
