"""A simulated directory takes nothing real: what is pushed is refused with the sentence that files are refused with."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import pytest

from steelyard.app.agent.batch import PATH
from steelyard.app.backfilling import BackfillJobs
from steelyard.app.collection import CollectionLoop, CollectionSpec
from steelyard.app.demo_mark import FOLDER, MARK
from steelyard.app.served import NoCollectors, Served
from steelyard.app.serving import DirectoryServer
from steelyard.app.settings import Settings
from steelyard.primitives.clock import FixedClock
from steelyard.store import Store
from steelyard.surfaces.http_api import create
from tests.app.agent.batches import AT, body, event

ROUTES = (PATH, "/api/v1/ingest/audit", "/api/v1/ingest/remote-write")


def answers(folder: Path, path: str, content: bytes) -> tuple[httpx.Response, int]:
    """What the route answers over that directory, and how many facts were stored."""
    clock, settings = FixedClock(AT), Settings()
    with Store.open_memory() as store:
        loop = CollectionLoop(store, (), lambda store: 0, clock, CollectionSpec())
        server = DirectoryServer(folder, settings, clock)
        served = Served(store, folder, settings, clock)
        further = server._further(  # what serve mounts, without its sockets
            store, loop, BackfillJobs(store, settings, clock), served.tokens
        )
        app = create(served.ports(NoCollectors(), folder), clock, further)
        token = served.tokens.create("ci", "operator", None).secret

        async def asked() -> httpx.Response:
            headers = {"Authorization": f"Bearer {token}"}
            transport = httpx.ASGITransport(app)
            async with httpx.AsyncClient(transport=transport, base_url="http://t", headers=headers) as client:
                return await client.post(path, content=content)

        answer = asyncio.run(asked())
        return answer, store.rows("SELECT count(*) FROM fact.event")[0][0]


@pytest.mark.parametrize("path", ROUTES)
def test_a_demo_refuses_what_is_pushed(path: str, tmp_path: Path) -> None:
    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER / MARK).write_text("{}")
    answer, stored = answers(tmp_path, path, body(1, event(1)))
    assert (answer.status_code, stored) == (409, 0)
    assert "holds a simulated estate: name another directory for real files" in answer.json()["detail"]


def test_a_real_directory_takes_it(tmp_path: Path) -> None:
    answer, stored = answers(tmp_path, PATH, body(1, event(1)))
    assert (answer.status_code, stored) == (200, 1)
