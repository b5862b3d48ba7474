"""What is encoded is decoded; what cannot be is said row by row, within bounds, and never a crash."""

from __future__ import annotations

import gzip
import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.app.agent import batch
from steelyard.app.agent.batch import TABLES, decode, encode
from steelyard.primitives.errors import SourceMalformed, SourceUnsupported
from tests.app.agent.batches import body, event, head, sample, status


def changed(**more: object) -> bytes:
    document = json.loads(gzip.decompress(body(3, sample(1), event(2))))
    return gzip.compress(json.dumps({**document, **more}).encode(), mtime=0)


def test_a_batch_comes_back_as_it_went() -> None:
    facts = [event(1), sample(1), sample(2), status(1)]
    found = decode(encode(head(7, cursors={"kernel_log": "x"}), facts))
    assert (found.head, found.facts, found.refused_count) == (head(7, cursors={"kernel_log": "x"}), facts, 0)


def test_the_bytes_are_the_same_whenever_they_are_made() -> None:
    assert body(1, sample(1)) == body(1, sample(1))


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (b"", "cut off"),
        (b"no gzip at all", "expected gzip"),
        (body(1, sample(1))[:-9], "cut off"),
        (gzip.compress(b"[]", mtime=0), "expected a batch"),
        (gzip.compress(b"{" * 100_000, mtime=0), "expected a batch"),
        (gzip.compress(b'{"protocol": 1, "agent": "\xff"}', mtime=0), "expected a batch"),
        (changed(sequence=0), "a sequence from 1"),
        (changed(sequence=10**30), "a sequence from 1"),
        (changed(made_at=10**30), "an instant"),
        (changed(sequence="1"), "expected a batch"),
        (changed(agent=""), "expected agent"),
        (changed(boot="b" * 65), "expected agent"),
        (changed(facts=[]), "expected a batch"),
    ],
)
def test_what_is_no_batch_is_malformed(wrong: bytes, reason: str) -> None:
    with pytest.raises(SourceMalformed, match=reason):
        decode(wrong)


def test_a_bomb_is_refused_without_being_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch, "EXPANDED_BYTES_MAX", 1_000)
    with pytest.raises(SourceMalformed, match="larger than is taken"):
        decode(gzip.compress(b" " * 100_000, mtime=0))


def test_too_many_facts_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch, "FACTS_MAX", 2)
    assert len(decode(body(1, sample(1), sample(2))).facts) == 2
    with pytest.raises(SourceMalformed, match="at most 2 facts"):
        decode(body(1, sample(1), sample(2), sample(3)))


@pytest.mark.parametrize("more", [{}, {"facts": 5}, {"sequence": "new form"}])
def test_another_protocol_is_told_apart_from_rubbish(more: dict[str, object]) -> None:
    with pytest.raises(SourceUnsupported, match="expected protocol 1 of a batch, found 2"):
        decode(changed(protocol=2, **more))


def test_one_bad_row_costs_itself_and_an_unknown_table_is_said() -> None:
    document = json.loads(gzip.decompress(body(3, sample(1), sample(2), event(2))))
    document["facts"]["device_sample"][0]["power_watts"] = "hot"
    document["facts"]["request"] = [{}]
    document["later"] = True
    document["facts"]["event"][0]["a_new_field"] = 1
    found = decode(gzip.compress(json.dumps(document).encode()))
    assert list(found.facts) == [sample(2), event(2)]
    assert found.refused_count == 2
    assert any("power_watts" in reason for reason in found.refused)
    assert any("'request'" in reason for reason in found.refused)


def test_an_agent_states_nothing_of_pods_quotas_or_imports() -> None:
    assert not {"request", "container", "owner", "audit_event", "import_file", "inventory_basis"} & set(TABLES)


@given(st.binary(max_size=200), st.booleans())
def test_any_bytes_end_as_a_batch_or_a_refusal(text: bytes, packed: bool) -> None:
    with suppress(SourceMalformed, SourceUnsupported):
        decode(gzip.compress(text) if packed else text)
