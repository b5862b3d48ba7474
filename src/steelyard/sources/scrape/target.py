"""Where to scrape and within which bounds: addresses, who we are to them, and how much and how long is too much."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from steelyard.primitives.errors import SourceUnavailable, UsageError
from steelyard.primitives.i18n import _

SECRET_BYTES_MAX: Final = 64 << 10
_URL: Final = re.compile(r"https?://[^\s/?#@\\]+(?:[/?][^\s#]*)?\Z")


@dataclass(frozen=True, slots=True)
class Target:
    """One metrics endpoint. ``instance``: host and port, as Prometheus would call it."""

    url: str
    instance: str

    @classmethod
    def of(cls, url: str) -> Target:
        """The target at an address. Raises UsageError where it is none of the form ``http://host:9400/metrics``; secrets do not belong in it."""
        if not _URL.match(url):
            raise UsageError(
                _("expected an address such as http://host:9400/metrics, without user or password: found {url}").format(
                    url=repr(re.sub(r"//[^/@]*@", "//...@", url[:200]))
                )
            )
        parts = urlsplit(url)
        try:
            port = parts.port
        except ValueError:
            port = None
        if not parts.hostname or (port is None and ":" in parts.netloc.rpartition("]")[2]):
            raise UsageError(_("expected a port from 1 to 65535: found {url}").format(url=repr(url[:200])))
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        plain = (
            url if parts.path else f"{parts.scheme}://{parts.netloc}/metrics{'?' + parts.query if parts.query else ''}"
        )
        return cls(plain, f"{host}:{port or (443 if parts.scheme == 'https' else 80)}")


@dataclass(frozen=True, slots=True)
class ScrapeLimits:
    """Bounds of one target (seconds from the first look-up to the last byte, bytes as sent and as expanded), of all of a round together,
    and how many are asked at once."""

    seconds: float = 10.0
    connect_seconds: float = 5.0
    sent_bytes_max: int = 32 << 20
    text_bytes_max: int = 128 << 20
    round_bytes_max: int = 1 << 30
    at_once: int = 64


@dataclass(frozen=True, slots=True)
class TargetAccess:
    """``token_file``: read anew for each round, since it is rotated. ``ca_file``: a PEM bundle that is trusted instead of the system's.
    ``cert_file`` and ``key_file``: who we are, where the target asks for a certificate. ``insecure``: any certificate is taken."""

    token_file: Path | None = None
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    insecure: bool = False

    def token(self) -> str | None:
        """The bearer token; None = none is sent. Raises SourceUnavailable where its file cannot be read; the message never holds it."""
        if self.token_file is None:
            return None
        try:
            with self.token_file.open("rb") as stream:
                found = stream.read(SECRET_BYTES_MAX + 1)
        except OSError as error:
            raise SourceUnavailable(f"token file {self.token_file}: {error.strerror or 'cannot be read'}") from error
        text = found.decode("latin-1").strip()
        if not text or len(found) > SECRET_BYTES_MAX or not text.isascii() or not text.isprintable():
            raise SourceUnavailable(f"token file {self.token_file}: expected one line with a token")
        return text
