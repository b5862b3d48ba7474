"""Bearer tokens: made from 256 random bits, kept as their SHA-256, known by a short name that is no secret.

The server asks ``StoreTokens`` at every request, the command ``steelyard token`` makes and revokes. The trick to know: a secret is
``sty_<id>_<random>``, so the row is found by its id and only one hash is compared, in constant time; for an id that is none, a hash that
nothing has is compared instead.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, Final

from steelyard.primitives.clock import Clock
from steelyard.primitives.errors import NotFound, UsageError
from steelyard.primitives.i18n import _
from steelyard.primitives.instant import Instant
from steelyard.store import Store
from steelyard.surfaces.shared.service_ports import ROLES, NewToken, Principal, Role, Token

_PREFIX: Final = "sty"
_SECRET_BYTES: Final = 32
_NOTHING: Final = "0" * 64
_COLUMNS: Final = "token_id, name, role, tenant, epoch_us(created_at), epoch_us(revoked_at), sha256"


class StoreTokens:
    """Implements ``server_ports.Tokens`` and ``Gate`` over the table ``store.token``.

    ``opened`` gives the store to write to, and is entered for each change. ``principal`` looks at what is remembered only, so that it never
    waits for a writer: whoever checks tokens calls ``load`` first, and changes go through this object.
    """

    def __init__(self, opened: Callable[[], AbstractContextManager[Store]], clock: Clock) -> None:
        self._opened = opened
        self._clock = clock
        self._changing = threading.Lock()
        self._known: dict[str, tuple[Token, str]] = {}

    def load(self) -> None:
        """Remember all tokens of the store."""
        with self._changing, self._opened() as store, store.transaction():
            known = _read(store)
        self._known = known

    def create(self, name: str, role: Role, tenant: str | None) -> NewToken:
        """Make one; its secret is in the answer and nowhere else. Raises UsageError for what no token can be."""
        _check(name, role, tenant)
        token_id, text = secrets.token_hex(6), secrets.token_urlsafe(_SECRET_BYTES)
        secret = f"{_PREFIX}_{token_id}_{text}"
        token = Token(token_id, name, role, tenant, self._clock.now())
        with self._changing:
            with self._opened() as store, store.transaction():
                store.execute(
                    "INSERT INTO store.token VALUES (?, ?, ?, ?, ?, make_timestamp(?::BIGINT), NULL)",
                    [token_id, _digest(secret), name, role, tenant, token.created_at],
                )
            self._known = {**self._known, token_id: (token, _digest(secret))}
        return NewToken(token, secret)

    def listed(self) -> Sequence[Token]:
        """All tokens, oldest first."""
        return [token for token, _hash in self._known.values()]

    def revoke(self, token_id: str) -> Token:
        """Refuse it from now on, even while the store is busy. Raises UsageError where there is none of that id."""
        with self._changing:
            if token_id not in self._known:
                raise NotFound(_("no token has the id {token}").format(token=token_id[:40]))
            token, digest = self._known[token_id]
            if token.revoked_at is None:
                token = replace(token, revoked_at=self._clock.now())
                self._known = {**self._known, token_id: (token, digest)}
                with self._opened() as store, store.transaction():
                    store.execute(
                        "UPDATE store.token SET revoked_at = make_timestamp(?::BIGINT) WHERE token_id = ?",
                        [token.revoked_at, token_id],
                    )
        return token

    def principal(self, secret: str) -> Principal | None:
        """Who a secret belongs to; None for one that is not valid (any more)."""
        parts = secret.split("_", 2)
        token, expected = self._known.get(parts[1], (None, _NOTHING)) if len(parts) == 3 else (None, _NOTHING)
        same = hmac.compare_digest(_digest(secret), expected)
        if not same or token is None or token.revoked_at is not None:
            return None
        return Principal(token.role, token.tenant, token.token_id)


def _read(store: Store) -> dict[str, tuple[Token, str]]:
    rows = store.rows(f"SELECT {_COLUMNS} FROM store.token ORDER BY created_at, token_id")
    return {row[0]: (_token(row), row[6]) for row in rows}


def _token(row: Sequence[Any]) -> Token:
    revoked: Instant | None = row[5]
    return Token(row[0], row[1], row[2], row[3], row[4], revoked)


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def _check(name: str, role: str, tenant: str | None) -> None:
    if not name.strip() or len(name) > 200:
        raise UsageError(_("a token needs a name of at most 200 characters, which says what it is for"))
    if role not in ROLES:
        raise UsageError(_("role: expected one of {roles}").format(roles=", ".join(ROLES)))
    if role == "viewer" and not (tenant or "").strip():
        raise UsageError(_("a viewer sees one tenant: name it with --tenant"))
    if role != "viewer" and tenant is not None:
        raise UsageError(_("only a viewer is bound to a tenant; {role} sees all").format(role=role))
