"""The directory answers which card an index or an address meant, and never guesses."""

from __future__ import annotations

from typing import Any

from steelyard.facts.device import Device
from steelyard.facts.process_sample import ProcessSample
from steelyard.facts.unit import Unit
from steelyard.primitives.unknown import Unknown
from steelyard.sources.shared.device_directory import directory_of, merge_devices

COMMON: dict[str, Any] = {"source": "x", "natural_key": "k", "occurred_at": 0, "observed_at": 0}


def card(uuid: str, **attributes: Any) -> Device:
    return Device(**COMMON, device_uuid=uuid, **attributes)


def place(uuid: str, pid: int, gi: int) -> ProcessSample:
    return ProcessSample(**COMMON, device_uuid=uuid, pid=pid, gi=gi, ci=0)


def test_a_card_is_found_by_index_or_address_of_its_node() -> None:
    directory = directory_of(
        [card("A", node="n", device_index=0, pci_address="P"), card("B", node="m", device_index=0)]
    )
    assert (
        directory.uuid_of("n", index=0)
        == directory.uuid_of("n", pci="P")
        == directory.uuid_of("n", index=0, pci="P")
        == "A"
    )
    assert directory.uuid_of("m", index=0) == "B"


def test_what_is_not_known_ambiguous_or_contradicting_is_unknown() -> None:
    directory = directory_of(
        [
            card("A", device_index=0, pci_address="P"),
            card("B", device_index=0, pci_address="Q"),
            card("C", device_index=1, pci_address="R"),
        ]
    )
    for unknown in (
        directory.uuid_of(None, index=0), directory.uuid_of(None, index=5), directory.uuid_of("n", index=1), directory.uuid_of(None),
        directory.uuid_of(None, index=1, pci="P"),
    ):  # fmt: skip
        assert isinstance(unknown, Unknown)
    assert directory.uuid_of(None, index=0, pci="Q") == "B"


def test_sightings_fill_each_others_gaps_and_change_nothing_that_is_said() -> None:
    merged = merge_devices(card("A", model="m", memory_mib=5, state="lost"), card("A", memory_mib=7))
    assert (merged.model, merged.memory_mib, merged.state) == ("m", 7, "present")
    assert directory_of([card("A", memory_mib=5)], directory_of([card("A", model="m")])).devices["A"].model == "m"


def test_a_process_seen_in_two_instances_has_no_place() -> None:
    directory = directory_of([place("A", 1, 2), place("A", 2, 3), place("A", 1, 2), place("A", 2, 9), place("A", 2, 3)])
    assert (directory.places["A", 1], directory.places["A", 2]) == ((2, 0), None)


def test_a_mig_number_names_the_uuid_where_one_text_shows_it() -> None:
    def unit(unit_id: str) -> Unit:
        return Unit(**COMMON, unit_kind="mig", unit_id=unit_id, device_uuid="A", unit_index=0)

    for order in ([unit("MIG-1"), unit("A/gi1")], [unit("A/gi1"), unit("MIG-1")]):
        found = directory_of(order).mig_units["A", 0]
        assert found is not None
        assert found.unit_id == "MIG-1"
    assert directory_of([unit("MIG-1"), unit("MIG-2"), unit("MIG-1")]).mig_units["A", 0] is None
