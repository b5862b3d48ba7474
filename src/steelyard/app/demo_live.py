"""``steelyard demo --live``: a simulated estate that lives now, watched and scraped as a real one would be, and served.

The trick to know: nothing but the addresses is special; the collectors, the loop and the server are those of ``steelyard serve``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from steelyard.app.declaring import Declaring
from steelyard.app.demo_cluster import DemoCluster
from steelyard.app.demo_mark import DECLARED_BY, FOLDER, MARK
from steelyard.app.holding import is_claimed, served_by
from steelyard.app.serving import DirectoryServer
from steelyard.app.settings import Settings
from steelyard.app.source_settings import CollectionSetting, KubernetesSetting, ScrapeSetting
from steelyard.primitives.clock import Clock, WallClock
from steelyard.primitives.errors import UsageError
from steelyard.primitives.i18n import _
from steelyard.primitives.instant import DAY_US, HOUR_US
from steelyard.settlement.declared.rows import current_books
from steelyard.simulation.live import LiveEstate, LiveSpec
from steelyard.simulation.money import money_files
from steelyard.store import Store
from steelyard.store.store import FILE_NAME
from steelyard.surfaces.shared.money_ports import DeclaredKind, DeclareRequest
from steelyard.surfaces.shared.ports import DemoSpec
from steelyard.surfaces.shared.service_ports import Started

BEGAN_BEFORE_US: Final = DAY_US
"""The estate is a day old when it is first looked at."""

KUBECONFIG: Final = "kubeconfig"
CLUSTER_INTERVAL: Final = "2s"
SCRAPE_INTERVAL: Final = "5s"
POST_INTERVAL: Final = "2s"


class LiveDemo:
    """Implements ``ports.LiveDemo`` for one data directory. The same directory again goes on with the same estate."""

    def __init__(self, directory: Path, settings: Settings, clock: Clock | None = None) -> None:
        self._directory = directory
        self._settings = settings
        self._clock = clock or WallClock()

    def run(self, spec: DemoSpec, listen: str, started: Started) -> None:
        """Simulate, collect and serve until a signal. Raises UsageError where the directory holds anything else, StoreLocked where it is served."""
        if is_claimed(self._directory):
            raise served_by(self._directory)
        claimed = self._claim(spec)
        self._declare_money(claimed)
        estate = LiveEstate(claimed)
        cluster = DemoCluster(estate, self._clock)
        cluster.start()
        _write_kubeconfig(self._directory / FOLDER / KUBECONFIG, cluster.url)
        try:
            settings = _settings_for(cluster, self._settings)
            DirectoryServer(self._directory, settings, self._clock, simulated=True).run(listen, started)
        finally:
            cluster.stop()

    def _declare_money(self, spec: LiveSpec) -> None:
        """The simulated finance office's lists, once: what somebody declared instead stays."""
        files = money_files(spec.begins_at - spec.begins_at % HOUR_US)
        kinds: tuple[tuple[DeclaredKind, str], ...] = (
            ("price_book", "prices.csv"), ("tenancy", "tenancy.csv"), ("exchange_rates", "rates.csv"),
        )  # fmt: skip
        with Store.open(self._directory) as store:
            if current_books(store):
                return
            declaring = Declaring(store, self._settings, lambda _store: 0, self._clock)
            for kind, name in kinds:
                declaring.declare(DeclareRequest(kind, files[name].encode(), name, declared_by=DECLARED_BY))

    def _claim(self, wanted: DemoSpec) -> LiveSpec:
        """The estate of this directory: the one it was begun with. Raises UsageError where it holds other data, or that estate has ended."""
        now = self._clock.now()
        mark = self._directory / FOLDER / MARK
        spec = LiveSpec(wanted.gpus, wanted.days, wanted.seed, begins_at=now - BEGAN_BEFORE_US)
        if mark.is_file():
            try:
                spec = msgspec.json.decode(mark.read_bytes(), type=LiveSpec)
            except msgspec.MsgspecError:
                spec = LiveSpec(1, 1, begins_at=0)
            if (spec.gpus, spec.days, spec.seed) == (wanted.gpus, wanted.days, wanted.seed) and now < spec.end_at:
                return spec
        if (self._directory / FILE_NAME).exists():
            raise UsageError(
                _("{directory} already holds other data: name an empty directory with --data").format(
                    directory=self._directory
                )
            )
        mark.parent.mkdir(parents=True, exist_ok=True)
        mark.write_bytes(msgspec.json.encode(spec))
        return spec


def _write_kubeconfig(path: Path, url: str) -> None:
    """So that anybody can look at the simulated cluster with kubectl, and start a pod in it."""
    named = {"name": "demo", "cluster": {"server": url}}
    context = {"name": "demo", "context": {"cluster": "demo", "user": "demo"}}
    users = [{"name": "demo", "user": {}}]
    content = {
        "apiVersion": "v1", "kind": "Config", "clusters": [named], "contexts": [context], "users": users, "current-context": "demo",
    }  # fmt: skip
    path.write_bytes(msgspec.json.format(msgspec.json.encode(content)) + b"\n")


def _settings_for(cluster: DemoCluster, settings: Settings) -> Settings:
    """The settings, with the simulated cluster and its exporters in the place of all sources that they name."""
    watched = {"name": settings.cluster, "address": cluster.url, "interval": CLUSTER_INTERVAL}
    scraped = {"name": "dcgm", "url": cluster.exporters, "interval": SCRAPE_INTERVAL}
    return settings.model_copy(
        update={
            "collection": CollectionSetting.model_validate({"post_interval": POST_INTERVAL}),
            "kubernetes": (KubernetesSetting.model_validate(watched),),
            "scrape": (ScrapeSetting.model_validate(scraped),),
            "prometheus": (),
            "audit_log": (),
        }
    )
