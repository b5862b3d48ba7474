"""What makes a header one of nvidia-smi's, and whether its rows tell which card they are of."""

from __future__ import annotations

import pytest

from steelyard.sources.nvidia_smi import needs_directory, sniff


@pytest.mark.parametrize(
    "header",
    [
        "serial,uuid,node,status",
        "uuid,name,node",
        "gpu_uuid,gpu_name,server,status",
        "serial,name,price",
        "index,uuid,holder",
    ],
)
def test_a_list_of_cards_that_a_site_keeps_is_no_query_of_nvidia_smi(header: str) -> None:
    assert sniff(f"{header}\n1,GPU-1,n1,ok\n".encode()) is None


@pytest.mark.parametrize(
    "header",
    [
        "index, uuid",
        "index, name, uuid, serial",
        "uuid, memory.total [MiB], something_new",
        "uuid, utilization.gpu",
        "timestamp, gpu_name, gpu_bus_id, vbios_version",
        "index, uuid, pstate, compute_mode",
    ],
)
def test_the_names_of_nvidia_smi_make_a_query(header: str) -> None:
    assert sniff(f"{header}\n0, GPU-1, 1, 2\n".encode()) == "smi_query_gpu"


def test_a_query_without_uuids_waits_for_the_files_that_have_them() -> None:
    assert needs_directory("smi_query_gpu", "index, memory.used [MiB]\n0, 5 MiB\n")
    assert not needs_directory("smi_query_gpu", "index, uuid, memory.used [MiB]\n0, GPU-1, 5 MiB\n")
    assert not needs_directory("smi_query_gpu", "index, gpu_uuid\n0, GPU-1\n")
    assert needs_directory("smi_pmon", "# gpu pid\n")
