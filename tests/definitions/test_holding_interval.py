from steelyard.definitions.holding_interval import HoldingEnd, HoldingStart, holding_end, holding_start


def test_the_strongest_stamp_starts_a_holding() -> None:
    assert holding_start(0, 4, 3, 2, 1) == HoldingStart(4, "pod_scheduled")
    assert holding_start(0, None, 3, 2, 1) == HoldingStart(3, "scheduler_bind")
    assert holding_start(0, None, None, 2, 1) == HoldingStart(2, "start_time")
    assert holding_start(0, None, None, None, 1) == HoldingStart(1, "first_container")
    assert holding_start(0, None, None, None, None) == HoldingStart(None, None)


def test_a_stamp_before_creation_is_refused_and_the_next_one_counts() -> None:
    assert holding_start(10, None, 9, 12, None) == HoldingStart(12, "start_time", ("scheduler_bind",))
    assert holding_start(10, 9, None, None, None) == HoldingStart(None, None, ("pod_scheduled",))


def test_a_finished_pod_ends_with_its_last_container() -> None:
    assert holding_end(True, 7, 5, 9, 9, None) == HoldingEnd(7, None, "container_finished")


def test_a_pod_seen_terminal_without_stamps_ended_between_two_sightings() -> None:
    assert holding_end(True, None, 5, 9, 9, None) == HoldingEnd(5, 9, "phase_seen")
    assert holding_end(True, None, None, 9, 9, None).unknown


def test_a_vanished_pod_ends_at_its_last_sighting_and_was_gone_by_the_next() -> None:
    assert holding_end(False, None, 5, None, 5, 8) == HoldingEnd(5, 8, "vanished")
    assert holding_end(False, None, 5, None, 5, None) == HoldingEnd(None, None, None)
