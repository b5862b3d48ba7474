"""Two tenants that share a card, imported through the real readers, behind the app in this process."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from fastapi import FastAPI

from steelyard.app.served import NoCollectors, Served
from steelyard.app.settings import Settings
from steelyard.primitives.clock import FixedClock
from steelyard.primitives.instant import parse_instant
from steelyard.store import Store
from steelyard.surfaces.http_api import Endpoint, create
from steelyard.surfaces.http_api.admission import LOCAL
from steelyard.surfaces.http_api.bounds import Patience
from steelyard.surfaces.shared.server_ports import ReceivedFile
from steelyard.surfaces.shared.service_ports import Role
from tests.app.import_samples import CARD, listing, node, pod

NOW = parse_instant("2026-03-01T14:00:00Z")
OURS, THEIRS = "canary-ours", "canary-theirs"


def shared_card_pod(tenant: str, name: str, memory_mib: int) -> dict[str, Any]:
    """A pod of the tenant's namespace with a fifth of the one card, everything about it named after the tenant."""
    annotations = {
        "hami.io/vgpu-devices-allocated": f"{CARD},NVIDIA,{memory_mib},20:;",
        "hami.io/vgpu-node": "n1",
        "hami.io/bind-phase": "success",
        f"{tenant}-note": f"{tenant}-value",
    }
    found = pod(name, uid=f"uid-{name}", annotations=annotations)
    found["metadata"]["namespace"] = tenant
    found["metadata"]["labels"] = {f"{tenant}-key": f"{tenant}-label"}
    found["metadata"]["ownerReferences"] = [
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "name": f"{tenant}-job",
            "uid": f"{tenant}-job-uid",
            "controller": True,
        }
    ]
    return found


def waiting_pod(tenant: str) -> dict[str, Any]:
    """A pod of the tenant that asks for two cards and was not scheduled."""
    found = pod(f"{tenant}-waits", uid=f"uid-{tenant}-waits", gpus=2)
    found["metadata"]["namespace"] = tenant
    found["spec"].pop("nodeName")
    found["status"] = {"phase": "Pending"}
    return found


def larger_than_asked(tenant: str) -> dict[str, Any]:
    """A pod of the tenant about which there is a finding: its allocation is larger than its request."""
    found = shared_card_pod(tenant, f"{tenant}-greedy", 4_096)
    found["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpumem"] = "64"
    return found


def estate() -> dict[str, Any]:
    """One dump with pods of both tenants on the same card."""
    pods = [
        builder
        for tenant in (OURS, THEIRS)
        for builder in (
            shared_card_pod(tenant, f"{tenant}-a", 8_192),
            waiting_pod(tenant),
            larger_than_asked(tenant),
        )
    ]
    return listing(node(), *pods)


@dataclass
class World:
    """The app over a store in memory, its tokens, and a way to ask it."""

    store: Store
    served: Served
    app: FastAPI
    secrets: dict[str, str] = field(default_factory=dict)

    def secret(self, role: Role, tenant: str | None = None) -> str:
        """A token of the role; the same one each time."""
        key = f"{role}/{tenant}"
        if key not in self.secrets:
            self.secrets[key] = self.served.tokens.create(key, role, tenant).secret
        return self.secrets[key]

    def ask(
        self,
        method: str,
        path: str,
        *,
        token: str | None = None,
        local: bool = False,
        headers: Mapping[str, str] | None = None,
        **sent: Any,
    ) -> httpx.Response:
        """One request. ``local``: as if it came over the local socket."""
        given = {**(headers or {}), **({"Authorization": f"Bearer {token}"} if token else {})}
        transport = httpx.ASGITransport(over_socket(self.app) if local else self.app, raise_app_exceptions=False)

        async def asked() -> httpx.Response:
            async with httpx.AsyncClient(transport=transport, base_url="http://test", timeout=60) as client:
                return await client.request(method, path, headers=given, **sent)

        return asyncio.run(asked())

    def get(self, path: str, **more: Any) -> httpx.Response:
        """A GET as the owner, unless a token says otherwise."""
        return self.ask("GET", f"/api/v1{path}", local="token" not in more, **more)


def over_socket(app: FastAPI) -> Callable[..., Any]:
    """The app as the local socket's connections meet it."""

    async def marked(scope: Any, receive: Any, send: Any) -> None:
        await app({**scope, "state": {LOCAL: True}}, receive, send)

    return marked


@contextmanager
def world(
    folder: Path,
    content: Any = None,
    settings: Settings | None = None,
    further: tuple[Endpoint, ...] = (),
    patience: Patience | None = None,
) -> Iterator[World]:
    """A world; with ``content``, that dump is imported into it."""
    spool = folder / "spool"
    spool.mkdir()
    clock = FixedClock(NOW)
    with Store.open_memory() as store:
        served = Served(store, folder, settings or Settings(), clock)
        app = create(served.ports(NoCollectors(), spool), clock, further, patience)
        if content is not None:
            path = folder / "dump.json"
            path.write_text(json.dumps(content), encoding="utf-8")
            from steelyard.surfaces.shared.ports import ImportRequest

            served.import_received(ImportRequest((), as_of=NOW), [ReceivedFile("dump.json", "dump.json", None, path)])
        yield World(store, served, app)


def problem(response: httpx.Response, status: int, kind: str) -> dict[str, Any]:
    """The problem document of a refused request, checked."""
    assert response.headers["content-type"] == "application/problem+json", response.text
    found: dict[str, Any] = response.json()
    assert (response.status_code, found["status"]) == (status, status), found
    assert found["type"] == f"urn:steelyard:problem:{kind}"
    assert found["title"]
    assert found["detail"]
    return found
