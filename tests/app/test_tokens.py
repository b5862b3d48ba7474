"""A token is random, known by its hash alone, and refused from the moment in which it is revoked."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from steelyard.app.tokens import StoreTokens
from steelyard.primitives.clock import FixedClock
from steelyard.primitives.errors import UsageError
from steelyard.store import Store
from steelyard.store.store import FILE_NAME
from steelyard.surfaces.shared.service_ports import ROLES, Principal, Role


@contextmanager
def tokens_of(directory: Path) -> Iterator[StoreTokens]:
    with Store.open(directory) as store:

        @contextmanager
        def opened() -> Iterator[Store]:
            yield store

        found = StoreTokens(opened, FixedClock(7))
        found.load()
        yield found


def test_a_secret_is_256_random_bits_and_only_its_hash_is_kept(tmp_path: Path) -> None:
    with tokens_of(tmp_path) as tokens:
        made = [tokens.create("grafana", "operator", None) for _ in range(20)]
    for new in made:
        match = re.fullmatch(r"sty_([0-9a-f]{12})_([A-Za-z0-9_-]{43})", new.secret)
        assert match, "43 characters of 6 bits hold 32 bytes"
        assert match[1] == new.token.token_id
    assert len({new.secret for new in made}) == len({new.token.token_id for new in made}) == 20
    with Store.open(tmp_path) as store:
        rows = store.records("SELECT * FROM store.token ORDER BY token_id")
    hashes = {row["sha256"] for row in rows}
    assert hashes == {hashlib.sha256(new.secret.encode()).hexdigest() for new in made}
    kept = b"".join(path.read_bytes() for path in tmp_path.iterdir() if path.name.startswith(FILE_NAME))
    assert not any(new.secret.encode() in kept or new.secret[-43:].encode() in kept for new in made)


@pytest.mark.parametrize("role", ROLES)
def test_a_secret_tells_its_holder_also_after_the_store_was_closed(tmp_path: Path, role: Role) -> None:
    tenant = "team-a" if role == "viewer" else None
    with tokens_of(tmp_path) as tokens:
        new = tokens.create("x", role, tenant)
        assert tokens.principal(new.secret) == Principal(role, tenant, new.token.token_id)
    with tokens_of(tmp_path) as tokens:
        assert tokens.principal(new.secret) == Principal(role, tenant, new.token.token_id)
        assert list(tokens.listed()) == [new.token]


@pytest.mark.parametrize(
    "spoilt",
    [
        lambda secret: secret + "x",
        lambda secret: secret[:-1],
        lambda secret: secret.replace("sty_", "STY_"),
        lambda secret: secret.replace("sty_", "xxx_"),
        lambda secret: secret.split("_")[1],
        lambda secret: "_".join(secret.split("_")[:2]),
        lambda secret: "sty_000000000000_" + secret.split("_", 2)[2],
        lambda secret: hashlib.sha256(secret.encode()).hexdigest(),
        lambda secret: f"sty_{secret.split('_')[1]}_" + hashlib.sha256(secret.encode()).hexdigest(),
        lambda _secret: "",
        lambda _secret: "__",
        lambda _secret: "\ud800_\ud800_\ud800",
        lambda _secret: "0" * 64,
    ],
)
def test_anything_but_the_secret_itself_is_nobody(tmp_path: Path, spoilt: Callable[[str], str]) -> None:
    with tokens_of(tmp_path) as tokens:
        assert tokens.principal(spoilt(tokens.create("x", "admin", None).secret)) is None


def test_a_hash_is_compared_whether_the_id_is_known_or_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import hmac

    compared: list[tuple[int, int]] = []
    real = hmac.compare_digest
    monkeypatch.setattr(hmac, "compare_digest", lambda a, b: compared.append((len(a), len(b))) or real(a, b))
    with tokens_of(tmp_path) as tokens:
        good = tokens.create("x", "admin", None).secret
        for secret in (good, good[:-1], "sty_nobody_x", "nonsense"):
            tokens.principal(secret)
    assert compared == [(64, 64)] * 4


def test_a_revoked_token_is_refused_for_ever_and_revoking_twice_is_harmless(tmp_path: Path) -> None:
    with tokens_of(tmp_path) as tokens:
        new, other = tokens.create("x", "admin", None), tokens.create("y", "admin", None)
        assert tokens.revoke(new.token.token_id).revoked_at == 7
        assert tokens.revoke(new.token.token_id).revoked_at == 7
        assert tokens.principal(new.secret) is None
        assert tokens.principal(other.secret) is not None
        with pytest.raises(UsageError, match="no token has the id"):
            tokens.revoke("0123456789ab")
    with tokens_of(tmp_path) as tokens:
        assert tokens.principal(new.secret) is None
        assert [token.revoked_at for token in tokens.listed() if token.name == "x"] == [7]


def test_a_token_is_refused_at_once_even_while_a_writer_holds_the_store(tmp_path: Path) -> None:
    import threading

    with tokens_of(tmp_path) as tokens:
        new = tokens.create("x", "admin", None)
        store = Store.open_memory()
        tokens._opened = lambda: _entered(store)  # type: ignore[method-assign]
        store.execute("CREATE OR REPLACE TABLE store.token AS SELECT 'x' AS token_id, NULL::TIMESTAMP AS revoked_at")
        started = threading.Event()
        with store.transaction():
            thread = threading.Thread(target=lambda: (started.set(), tokens.revoke(new.token.token_id)))
            thread.start()
            assert started.wait(60)
            while tokens.principal(new.secret) is not None:
                pass
            assert thread.is_alive(), "the row itself waits for the writer"
        thread.join(60)


@contextmanager
def _entered(store: Store) -> Iterator[Store]:
    yield store


@pytest.mark.parametrize(
    ("name", "role", "tenant", "message"),
    [
        ("", "admin", None, "needs a name"),
        (" ", "admin", None, "needs a name"),
        ("x" * 201, "admin", None, "needs a name"),
        ("x", "root", None, "role: expected one of"),
        ("x", "viewer", None, "a viewer sees one tenant"),
        ("x", "viewer", "  ", "a viewer sees one tenant"),
        ("x", "finance", "a", "only a viewer is bound"),
    ],
)
def test_a_token_that_cannot_be_is_refused(
    tmp_path: Path, name: str, role: Any, tenant: str | None, message: str
) -> None:
    with tokens_of(tmp_path) as tokens:
        with pytest.raises(UsageError, match=message):
            tokens.create(name, role, tenant)
        assert list(tokens.listed()) == []
