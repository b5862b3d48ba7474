"""``steelyard demo``: a simulated estate, written as its sources would have shown it, read back through the real readers.

The trick to know: the simulation knows nothing of the readers and the readers nothing of the simulation; only the files pass
between them. They stay in ``demo-sources`` in the data directory, so that anybody can look at them or import them by hand.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from steelyard.app.dating import DECLARED
from steelyard.app.demo_mark import DECLARED_BY, FOLDER, MARK
from steelyard.app.importer import FileImporter
from steelyard.app.settings import Settings
from steelyard.primitives.clock import Clock
from steelyard.primitives.errors import UsageError
from steelyard.primitives.i18n import _
from steelyard.primitives.instant import SECOND_US
from steelyard.simulation.emission import EmittedFile
from steelyard.simulation.simulate import read_manifest, simulate
from steelyard.simulation.spec import SimulationSpec
from steelyard.store import Store
from steelyard.store.store import FILE_NAME
from steelyard.surfaces.shared.ports import DemoSpec, FileReport, ImportReport, ImportRequest, Progress

_TAKEN_AS_ONE: Final = ("kube", "pod_resources")
"""Systems whose files show one instant: all files of an instant are one import."""


class SimulatedDemo:
    """Implements ``ports.Demo`` for one data directory. ``post`` is called once at the end, as by the importer."""

    def __init__(
        self, directory: Path, settings: Settings, post: Callable[[Store], int], clock: Clock | None = None
    ) -> None:
        self._directory = directory
        self._settings = settings
        self._post = post
        self._clock = clock

    def run(self, spec: DemoSpec, progress: Progress) -> ImportReport:
        """Write the simulated sources, import them, post. The same spec again adds nothing.

        Raises UsageError where the size cannot be simulated, or the data directory holds anything but this very demo: a
        simulated estate is never mixed with a real one.
        """
        simulated = SimulationSpec(gpus=spec.gpus, days=spec.days, seed=spec.seed, troubles=spec.troubles)
        folder = self._claim(simulated)
        truth = simulate(simulated, folder, lambda what, done, total: progress(_("simulating"), done, total))
        files: list[FileReport] = []
        findings: Counter[str] = Counter()
        requests = list(_requests(folder, simulated))
        with Store.open(self._directory) as store:
            importer = FileImporter(
                self._directory, self._settings, lambda store: 0, self._clock, opened=store, simulated=True
            )
            with store.transaction():  # a demo is there as a whole or not at all
                for number, request in enumerate(requests):
                    progress(_("importing"), number, len(requests))
                    report = importer.import_paths(request, _silent)
                    files.extend(report.files)
                    findings.update(report.findings_by_code)
            progress(_("importing"), len(requests), len(requests))
            progress(_("posting"), 0, 0)
            postings = self._post(store)
        return ImportReport(files, truth.end_at, DECLARED, dict(sorted(findings.items())), postings)

    def _claim(self, spec: SimulationSpec) -> Path:
        """The folder of the sources, marked with the spec they come from. Raises UsageError where the directory holds other data."""
        folder = self._directory / FOLDER
        mark, content = folder / MARK, msgspec.json.encode(spec)
        same = mark.is_file() and mark.read_bytes() == content
        if (self._directory / FILE_NAME).exists() and not same:
            raise UsageError(
                _("{directory} already holds other data: name an empty directory with --data").format(
                    directory=self._directory
                )
            )
        folder.mkdir(parents=True, exist_ok=True)
        mark.write_bytes(content)
        return folder


def _requests(folder: Path, spec: SimulationSpec) -> Iterator[ImportRequest]:
    """One import per instant of the cluster's listings, then the nodes' own words: dated by their stamps, or by the manifest."""
    groups: dict[tuple[int | None, str | None, int | None, str | None], list[EmittedFile]] = {}
    for file in read_manifest(folder):
        together = file.system in _TAKEN_AS_ONE
        interval = spec.snapshot_interval_seconds if together and file.cluster is None else file.every_seconds
        groups.setdefault((file.as_of_at, None if together else file.node, interval, file.cluster), []).append(file)
    for (as_of, node, interval, cluster), files in groups.items():
        yield ImportRequest(
            cluster=cluster or "default",
            paths=[folder / file.path for file in files],
            as_of=as_of,
            node=node,
            expected_interval_us=None if interval is None else interval * SECOND_US,
            declared_by=DECLARED_BY,
        )


def _silent(what: str, done: int, total: int) -> None:
    """The single imports report nothing: the demo counts them."""
