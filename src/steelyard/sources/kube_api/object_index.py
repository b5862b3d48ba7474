"""Which objects of a kind exist and in which version each was seen last: what tells news from repetition, and what vanished from a list.

``kind_watch`` keeps one per kind. The trick to know: versions of an API server are numbers that only grow, so an older one that comes late
is dropped, unless the server's own store went back (a restored backup), which a list's version below the highest one seen gives away. A
list is the last word on what exists: it may name again what was deleted.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from steelyard.primitives.instant import Instant

TOMBSTONES_MAX: Final = 10_000

Version = int | str
"""A resource version: a number where it is one, else its text."""


def version_of(text: str) -> Version:
    """The version as a number where it is a plain decimal of at most 20 digits, else as it stands."""
    return int(text) if 0 < len(text) <= 20 and text.isascii() and text.isdigit() else text


class ObjectIndex:
    """{uid: (version, last seen at)} of at most ``entries_max`` objects, and the last deleted ones, so that a late word does not revive them.

    What does not fit is passed on each time and never reported as vanished; ``is_complete`` is False from then on until a full listing fits.
    """

    def __init__(self, entries_max: int, tombstones_max: int = TOMBSTONES_MAX) -> None:
        self._entries: dict[str, tuple[Version, Instant]] = {}
        self._deleted: OrderedDict[str, Version] = OrderedDict()
        self._entries_max = entries_max
        self._tombstones_max = tombstones_max
        self._listed: set[str] | None = None
        self._highest = 0
        self._went_back = False
        self._spoilt = False
        self.is_complete = True

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, uid: str) -> bool:
        return uid in self._entries

    def note(self, uid: str, version: Version, at: Instant) -> bool:
        """Whether this version of the object is news; if so it is the one that counts now."""
        self.advance(version)
        known = self._entries.get(uid)
        if known is None:
            buried = self._deleted.get(uid) if self._listed is None else None
            if buried is not None and not _is_newer(version, buried):
                return False
            if len(self._entries) >= self._entries_max:
                self.is_complete = False
                return True
        if self._listed is not None:
            self._listed.add(uid)
        if known is not None and (known[0] == version or not (self._went_back or _is_newer(version, known[0]))):
            return False
        self._entries[uid] = (version, at)
        return True

    def advance(self, version: Version) -> None:
        """The server has come as far as this version."""
        if isinstance(version, int) and version > self._highest:
            self._highest = version

    def bury(self, uid: str, version: Version) -> bool:
        """The object was deleted in this version; False where that was known, or where a newer version of it is."""
        self.advance(version)
        known = self._entries.get(uid)
        if known is None and uid in self._deleted:
            return False
        if known is not None and known[0] != version and not _is_newer(version, known[0]):
            return False
        self._entries.pop(uid, None)
        self._deleted[uid] = version
        if len(self._deleted) > self._tombstones_max:
            self._deleted.popitem(last=False)
        return True

    def begin_listing(self, version: Version) -> None:
        """A listing as of this version begins: what it does not name until ``end_listing`` has vanished."""
        self._listed = set()
        self._went_back = isinstance(version, int) and version < self._highest
        if self._went_back and isinstance(version, int):
            self._highest = version
            self._deleted.clear()
        self.advance(version)
        self._spoilt, self.is_complete = False, True

    def spoil(self) -> None:
        """An object could not be read, not even whose it is: absence from this listing proves nothing."""
        self._spoilt, self.is_complete = True, False

    def end_listing(self) -> list[tuple[str, Instant]]:
        """(uid, last seen at) of every object that the listing did not name; each is forgotten. Nothing where the listing was spoilt."""
        listed = self._entries.keys() if self._spoilt or self._listed is None else self._listed
        vanished = [(uid, entry[1]) for uid, entry in self._entries.items() if uid not in listed]
        for uid, _ in vanished:
            del self._entries[uid]
        self._listed, self._went_back = None, False
        return vanished

    def clear(self) -> None:
        """Forget everything: nothing was ever listed to its end."""
        self._entries.clear()
        self._listed = None
        self.is_complete = True


def _is_newer(version: Version, than: Version) -> bool:
    """Versions that are no numbers cannot be compared: another one is a newer one."""
    return version > than if isinstance(version, int) and isinstance(than, int) else version != than
