"""The server takes each batch once, says so only when it is durable, and its agents may do nothing else."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from fastapi import FastAPI

from steelyard.app import ingest_agent
from steelyard.app.agent.batch import BODY_BYTES_MAX, PATH
from steelyard.app.ingest_agent import AgentIntake
from steelyard.app.served import NoCollectors, Served
from steelyard.app.settings import Settings
from steelyard.facts.grant import Grant
from steelyard.primitives.clock import FixedClock
from steelyard.primitives.errors import StoreFailed
from steelyard.primitives.instant import DAY_US, HOUR_US, MINUTE_US, parse_instant
from steelyard.sources.shared.context import ReadContext
from steelyard.store import Store
from steelyard.surfaces.http_api import create
from steelyard.surfaces.shared.service_ports import ROLES, Role
from tests.app.agent.batches import AT, NODE, body, event, sample, status


@dataclass
class Site:
    """The app with the endpoint over a store in memory."""

    store: Store
    served: Served
    intake: AgentIntake
    app: FastAPI
    clock: FixedClock
    token: str

    def post(self, *bodies: bytes, token: str | None = None, **more: Any) -> list[httpx.Response]:
        """All at once."""

        async def asked() -> list[httpx.Response]:
            transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
            headers = {"Authorization": f"Bearer {token or self.token}"}
            async with httpx.AsyncClient(transport=transport, base_url="http://t", headers=headers) as client:
                return await asyncio.gather(*(client.post(PATH, content=body, **more) for body in bodies))

        return asyncio.run(asked())

    def events(self) -> list[Any]:
        return [row[0] for row in self.store.rows("SELECT message FROM fact.event ORDER BY occurred_at")]

    def findings(self) -> list[Any]:
        return [row[0] for row in self.store.rows("SELECT code FROM fact.finding ORDER BY code")]


@contextmanager
def site(folder: Path, store: Store | None = None, patience_seconds: float = 60.0) -> Iterator[Site]:
    clock = FixedClock(AT + MINUTE_US)
    with store or Store.open_memory() as found:
        served = Served(found, folder, Settings(), clock)
        intake = AgentIntake(found, clock, "east", patience_seconds=patience_seconds)
        app = create(served.ports(NoCollectors(), folder), clock, (intake.endpoint(),))
        yield Site(found, served, intake, app, clock, served.tokens.create("agents", "agent", None).secret)


def test_what_is_acknowledged_is_in_the_store_under_the_servers_cluster_and_waits_to_be_posted(tmp_path: Path) -> None:
    with site(tmp_path) as found:
        (answer,) = found.post(body(1, event(1), sample(1), status(1)))
        assert (answer.status_code, answer.json()) == (
            200, {"sequence": 1, "new_count": 3, "known": False, "refused_count": 0},
        )  # fmt: skip
        assert found.store.rows("SELECT cluster, device_uuid, power_watts FROM fact.device_sample") == [
            ("east", sample(1).device_uuid, 101.0)
        ]
        assert found.store.has_collected()


def test_an_agent_may_name_its_cluster(tmp_path: Path) -> None:
    with site(tmp_path) as found:
        found.post(body(1, event(1), cluster="west"))
        assert found.store.rows("SELECT cluster FROM fact.event") == [("west",)]


def test_a_batch_that_comes_again_is_acknowledged_and_changes_nothing(tmp_path: Path) -> None:
    with site(tmp_path) as found:
        found.post(body(1, event(1)))
        (again,) = found.post(body(1, event(1), event(2)))
        assert (again.status_code, again.json()["known"], found.events()) == (200, True, ["line 1"])
        (other,) = found.post(body(1, event(1), event(2), boot="boot-b"))
        assert (other.json()["new_count"], found.events()) == (1, ["line 1", "line 2"])


def test_the_mark_is_as_durable_as_the_facts(tmp_path: Path) -> None:
    with site(tmp_path, Store.open(tmp_path)) as found:
        found.post(body(1, event(1)), body(2, event(2)))
    with site(tmp_path, Store.open(tmp_path)) as again:
        assert [each.json()["known"] for each in again.post(body(1, event(9)), body(2, event(9)))] == [True, True]
        assert again.post(body(3, event(3)))[0].json()["known"] is False


def test_two_agents_and_two_clusters_are_numbered_apart(tmp_path: Path) -> None:
    with site(tmp_path) as found:
        answers = found.post(body(1, event(1)), body(1, event(2), agent="gpu-2"), body(1, event(3), cluster="west"))
        assert [each.json()["known"] for each in answers] == [False] * 3
        assert len(found.events()) == 3


def test_a_gap_in_the_numbers_is_a_finding_and_what_came_is_taken(tmp_path: Path) -> None:
    with site(tmp_path) as found:
        found.post(body(1, event(1)))
        found.post(body(4, event(4)))
        found.post(body(1, event(5), boot="boot-b"))
        assert found.findings() == ["agent_batches_missing"]
        evidence = found.store.rows("SELECT evidence FROM fact.finding")[0][0]
        assert json.loads(evidence) == {"boot": "boot-a", "expected": 2, "found": 4}
        assert len(found.events()) == 3


def test_rows_that_are_no_agents_are_left_out_and_said(tmp_path: Path) -> None:
    forged = Grant(
        source="hami",
        natural_key="x",
        occurred_at=AT,
        observed_at=AT,
        pod_uid="x",
        container="c",
        scheme="hami",
        unit_kind="gpu",
    )
    with site(tmp_path) as found:
        (answer,) = found.post(body(1, forged, event(1)))
        assert answer.status_code == 200
        assert found.store.rows("SELECT count(*) FROM fact.grant") == [(0,)]
        assert (found.findings(), found.events()) == (["agent_facts_refused"], ["line 1"])


def test_a_clock_that_is_ahead_is_a_finding_and_one_that_was_away_is_none(tmp_path: Path) -> None:
    with site(tmp_path) as found:
        found.post(body(1, event(1), made_at=AT - HOUR_US))
        assert found.findings() == []
        found.post(body(2, event(2), made_at=AT + HOUR_US))
        assert found.findings() == ["agent_clock_ahead"]


@pytest.mark.parametrize("far", ["2026-12-01T12:02:00Z", "2038-01-19T00:00:00Z", "9999-01-01T00:00:00Z"])
@pytest.mark.parametrize(
    "fields", [("occurred_at",), ("observed_at",), ("occurred_at", "observed_at"), ("observed_to_at",)]
)
def test_what_an_agent_dates_more_than_a_day_ahead_is_left_out_said_and_acknowledged(
    far: str, fields: tuple[str, ...], tmp_path: Path
) -> None:
    ahead = msgspec.structs.replace(status(2), **dict.fromkeys(fields, parse_instant(far)))
    with site(tmp_path) as found:
        (answer,) = found.post(body(1, event(1), status(1), ahead))
        assert (answer.status_code, answer.json()) == (
            200, {"sequence": 1, "new_count": 3, "known": False, "refused_count": 1},
        )  # fmt: skip
        assert found.store.rows("SELECT count(*) FROM fact.source_status WHERE source = 'agent'") == [(1,)]
        said = found.store.rows("SELECT code, severity, subject, evidence FROM fact.finding")
        assert [row[:3] for row in said] == [("agent_clock_ahead", "error", f"node {NODE}")]
        assert json.loads(said[0][3])["refused_count"] == 1
        assert found.post(body(2, event(2)))[0].json()["known"] is False


def test_an_agent_that_is_a_day_ahead_at_most_is_taken(tmp_path: Path) -> None:
    with site(tmp_path) as found:
        late = msgspec.structs.replace(
            event(1), occurred_at=AT + MINUTE_US + DAY_US, observed_at=AT + MINUTE_US + DAY_US
        )
        assert found.post(body(1, late))[0].json()["refused_count"] == 0
        assert (found.events(), found.findings()) == (["line 1"], [])


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("memory_used_mib", -5),
        ("memory_used_mib", 10**12),
        ("power_watts", 1e308),
        ("util_gpu_ratio", 50.0),
        ("dram_active_ratio", 1e308),
        ("sm_active_ratio", -0.1),
    ],
)
def test_a_figure_that_no_card_can_show_is_not_known_and_said_and_the_rest_of_the_sample_stands(
    column: str, value: float, tmp_path: Path
) -> None:
    odd = msgspec.structs.replace(sample(1), temperature_celsius=40.0, unknown='{"gi": "why"}', **{column: value})
    with site(tmp_path) as found:
        assert found.post(body(1, odd))[0].status_code == 200
        ((stored, kept, unknown),) = found.store.rows(
            f"SELECT {column}, temperature_celsius, unknown FROM fact.device_sample"
        )
        assert (stored, kept, found.findings()) == (None, 40.0, ["sample_above_physical_limit"])
        assert set(json.loads(unknown)) == {"gi", column}
        assert json.loads(unknown)[column].startswith("outside its physical range")


@pytest.mark.parametrize(("value", "stored", "codes"), [(1.04, 1.0, ["ratio_above_one"]), (1.0, 1.0, [])])
def test_a_ratio_a_little_above_one_counts_as_one_and_is_said(
    value: float, stored: float, codes: list[str], tmp_path: Path
) -> None:
    with site(tmp_path) as found:
        found.post(body(1, msgspec.structs.replace(sample(1), sm_active_ratio=value)))
        assert found.store.rows("SELECT sm_active_ratio FROM fact.device_sample") == [(stored,)]
        assert found.findings() == codes


def test_values_that_no_column_holds_are_findings(tmp_path: Path) -> None:
    odd = msgspec.structs.replace(event(2), code=2**70)
    with site(tmp_path) as found:
        assert found.post(body(1, event(1), odd))[0].status_code == 200
        assert (found.events(), found.findings()) == (["line 1"], ["value_out_of_range"])


@pytest.mark.parametrize(
    ("wrong", "status_code", "kind"),
    [(b"", 422, "malformed"), (b"no", 422, "malformed"), (body(1, protocol=9), 415, "unsupported")],
)
def test_what_is_no_batch_is_refused_for_good_and_another_protocol_is_not(
    tmp_path: Path, wrong: bytes, status_code: int, kind: str
) -> None:
    with site(tmp_path) as found:
        (answer,) = found.post(wrong)
        assert (answer.status_code, answer.json()["type"]) == (status_code, f"urn:steelyard:problem:{kind}")


def test_a_body_beyond_the_bound_is_refused(tmp_path: Path) -> None:
    with site(tmp_path) as found:
        assert found.post(b"x" * (BODY_BYTES_MAX + 1))[0].status_code == 413


def test_the_role_agent_delivers_and_does_nothing_else(tmp_path: Path) -> None:
    with site(tmp_path) as found:
        secrets = {
            role: found.served.tokens.create(role, role, "t" if role == "viewer" else None).secret for role in ROLES
        }
        sequence = iter(range(1, 10))
        allowed: set[Role] = {
            role for role in ROLES if found.post(body(next(sequence)), token=secrets[role])[0].status_code == 200
        }
        assert allowed == {"agent", "operator", "admin"}
        assert found.post(body(9), token="sty_x_y")[0].status_code == 401


def test_while_the_store_is_busy_agents_are_asked_to_come_again(tmp_path: Path) -> None:
    with site(tmp_path, patience_seconds=0.05) as found, found.store.transaction():
        import threading

        answers: list[httpx.Response] = []
        asking = threading.Thread(target=lambda: answers.extend(found.post(body(1, event(1)))))
        asking.start()
        while not answers and asking.is_alive():
            asking.join(0.02)
            if found.intake._under_way == 0 and found.intake._waiting == [] and found.intake._writing is not None:
                break
    asking.join(60)
    (answer,) = answers
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")


def test_a_store_that_is_full_keeps_the_agent_waiting_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with site(tmp_path) as found:
        real = found.store.append_tables

        def full(*_arguments: Any, **_more: Any) -> Any:
            raise StoreFailed("the disk is full")

        monkeypatch.setattr(found.store, "append_tables", full)
        assert {each.status_code for each in found.post(body(1, event(1)), body(2, event(2)))} == {503}
        monkeypatch.setattr(found.store, "append_tables", real)
        assert {each.status_code for each in found.post(body(1, event(1)), body(2, event(2)))} == {200}
        assert found.events() == ["line 1", "line 2"]


def test_a_batch_at_which_we_fail_keeps_nobody_else_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = ingest_agent._told

    def told(batch: Any, *more: Any) -> Any:
        if batch.head.agent == "bad":
            raise ZeroDivisionError
        return real(batch, *more)

    monkeypatch.setattr(ingest_agent, "_told", told)
    with site(tmp_path) as found:
        bodies = [body(1, event(number), agent="bad" if number == 3 else f"n{number}") for number in range(6)]
        answers = found.post(*bodies)
        assert [each.status_code for each in answers] == [200, 200, 200, 500, 200, 200]
        assert len(found.events()) == 5


def test_batches_that_wait_go_into_few_transactions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with site(tmp_path) as found:
        marked: list[int] = []
        real = found.store.mark_collected
        monkeypatch.setattr(found.store, "mark_collected", lambda: (marked.append(1), real())[1])
        answers = found.post(*(body(1, event(number), agent=f"n{number}") for number in range(40)))
        assert {each.status_code for each in answers} == {200}
        assert len(found.events()) == 40
        assert len(marked) < 20


def test_each_finding_of_an_agent_is_kept_and_those_about_it_are_said_once_an_hour(tmp_path: Path) -> None:
    ctx = ReadContext(file="spool", node=NODE)
    with site(tmp_path) as found:
        for number in (1, 3, 5):
            at = AT + number * MINUTE_US
            thinned = msgspec.structs.replace(
                ctx.finding("agent", "samples_thinned", f"node {NODE}", "thinned"), occurred_at=at, observed_at=at
            )
            found.clock.instant = at
            assert found.post(body(number, thinned, boot="b"))[0].status_code == 200
        assert found.findings() == ["agent_batches_missing", *["samples_thinned"] * 3]
        foreign = msgspec.structs.replace(event(9), source="elsewhere")
        for number in (6, 7):
            found.post(body(number, foreign, boot="b"))
        assert found.findings().count("agent_facts_refused") == 2  # each names its batch


def test_each_delivery_is_heard_of(tmp_path: Path) -> None:
    from steelyard.answers.listings import agents_heard

    with site(tmp_path) as found:
        found.post(body(1, status(1)))
        assert agents_heard(found.store, AT + MINUTE_US) == (1, 0)
        assert agents_heard(found.store, AT + HOUR_US) == (1, 1)
    assert status(1).scope == f"node/{NODE}"
