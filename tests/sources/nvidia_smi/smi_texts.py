"""Small texts in the forms of nvidia-smi, written for the tests, and helpers that read them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from steelyard.facts.base import Fact
from steelyard.facts.finding import Finding
from steelyard.sources.nvidia_smi import DeviceDirectory, directory_of, read_smi
from steelyard.sources.shared.context import ReadContext

CARD_A = "GPU-aaaaaaaa-1111-2222-3333-444444444444"
CARD_B = "GPU-bbbbbbbb-1111-2222-3333-444444444444"
MIG_A = "MIG-cccccccc-1111-2222-3333-444444444444"
MIG_B = "MIG-dddddddd-1111-2222-3333-444444444444"

LIST = f"""GPU 0: NVIDIA H100 80GB HBM3 (UUID: {CARD_A})
  MIG 1c.3g.40gb  Device  0: (UUID: {MIG_A})
  MIG 2c.3g.40gb  Device  1: (UUID: {MIG_B})
GPU 1: NVIDIA H100 80GB HBM3 (UUID: {CARD_B})
"""

QUERY_GPU = f"""index, uuid, pci.bus_id, name, memory.used [MiB], memory.total [MiB], utilization.gpu [%], power.draw [W], mig.mode.current
0, {CARD_A}, 00000000:3B:00.0, NVIDIA H100 80GB HBM3, 11125 MiB, 81559 MiB, [N/A], 432.21 W, Enabled
1, {CARD_B}, 00000000:5E:00.0, NVIDIA H100 80GB HBM3, 4 MiB, 81559 MiB, 7 %, 70.10 W, Disabled
"""

TABLE = """Tue Jul 14 09:00:43 2026
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 590.48.01              Driver Version: 590.48.01      CUDA Version: 13.1     |
+-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|                                         |                        |               MIG M. |
|=========================================+========================+======================|
|   0  NVIDIA H100 80GB HBM3          On  |   00000000:3B:00.0 Off |                   On |
| N/A   52C    P0            432W /  700W |   11125MiB /  81559MiB |     N/A      Default |
|                                         |                        |              Enabled |
+-----------------------------------------+------------------------+----------------------+
|   1  NVIDIA H100 80GB HBM3          On  |   00000000:5E:00.0 Off |                    2 |
| N/A   31C    P0             70W /  700W |       4MiB /  81559MiB |      7%      Default |
|                                         |                        |             Disabled |
+-----------------------------------------+------------------------+----------------------+

+-----------------------------------------------------------------------------------------+
| MIG devices:                                                                            |
+------------------+----------------------------------+-----------+-----------------------+
| GPU  GI  CI  MIG |              Shared Memory-Usage |        Vol|        Shared         |
|      ID  ID  Dev |                Shared BAR1-Usage | SM     Unc| CE ENC  DEC  OFA  JPG |
|                  |                                  |        ECC|                       |
|==================+==================================+===========+=======================|
|  0    1   0   0  |           10925MiB / 40448MiB    | 16      0 |  3   0    3    0    3 |
|                  |               0MiB / 24739MiB    |           |                       |
+------------------+                                  +-----------+                       +
|  0    1   1   1  |                                  | 32      0 |  3   0    3    0    3 |
+------------------+----------------------------------+-----------+-----------------------+

+-----------------------------------------------------------------------------------------+
| Processes:                                                                              |
|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |
|        ID   ID                                                               Usage      |
|=========================================================================================|
|    0    1    0            21180      C   /opt/my tools/train one                2296MiB |
|    0    1    1            21181      C   ./serve                                7484MiB |
|    1   N/A  N/A             977      G   /usr/lib/xorg/Xorg                          N/A |
+-----------------------------------------------------------------------------------------+
"""

OLD_TABLE = """+-----------------------------------------------------------------------------+
| NVIDIA-SMI 418.87.01    Driver Version: 418.87.01    CUDA Version: 10.1     |
|-------------------------------+----------------------+----------------------+
| GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |
| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | GPU-Util  Compute M. |
|===============================+======================+======================|
|   0  Tesla V100-PCIE...  On   | 00000000:3B:00.0 Off |                    0 |
| N/A   29C    P0   ERR! / 250W |    593MiB / 16160MiB |      0%      Default |
+-------------------------------+----------------------+----------------------+

+-----------------------------------------------------------------------------+
| Processes:                                                       GPU Memory |
|  GPU       PID   Type   Process name                             Usage      |
|=============================================================================|
|    0     31794      C   Unknown Error                               571MiB |
+-----------------------------------------------------------------------------+
"""

XML_CARD = """<gpu id="00000000:3B:00.0"><product_name>NVIDIA A100</product_name>
<mig_mode><current_mig>Enabled</current_mig></mig_mode>
<mig_devices>
 <mig_device><index>0</index><gpu_instance_id>1</gpu_instance_id><compute_instance_id>0</compute_instance_id>
  <device_attributes><shared><multiprocessor_count>14</multiprocessor_count></shared></device_attributes>
  <fb_memory_usage><total>9856 MiB</total><used>3721 MiB</used><free>6135 MiB</free></fb_memory_usage></mig_device>
 <mig_device><index>1</index><gpu_instance_id>1</gpu_instance_id><compute_instance_id>1</compute_instance_id>
  <fb_memory_usage><total>9856 MiB</total><used>3721 MiB</used><free>6135 MiB</free></fb_memory_usage></mig_device>
</mig_devices>
<serial>1320000000001</serial><uuid>{uuid}</uuid>
<clocks_event_reasons><clocks_event_reason_gpu_idle>Not Active</clocks_event_reason_gpu_idle>
 <clocks_event_reason_sw_power_cap>Active</clocks_event_reason_sw_power_cap>
 <clocks_event_reason_hw_thermal_slowdown>Active</clocks_event_reason_hw_thermal_slowdown></clocks_event_reasons>
<fb_memory_usage><total>40960 MiB</total><reserved>571 MiB</reserved><used>3800 MiB</used></fb_memory_usage>
<utilization><gpu_util>N/A</gpu_util><memory_util>N/A</memory_util></utilization>
<ecc_errors><volatile><sram_correctable>0</sram_correctable><sram_uncorrectable>1</sram_uncorrectable>
 <dram_correctable>0</dram_correctable><dram_uncorrectable>2</dram_uncorrectable></volatile></ecc_errors>
<temperature><gpu_temp>41 C</gpu_temp></temperature>
<gpu_power_readings><average_power_draw>N/A</average_power_draw><instant_power_draw>165.93 W</instant_power_draw></gpu_power_readings>
<module_power_readings><average_power_draw>467.17 W</average_power_draw></module_power_readings>
<clocks><sm_clock>1410 MHz</sm_clock><mem_clock>1215 MHz</mem_clock></clocks>
<max_clocks><sm_clock>9999 MHz</sm_clock></max_clocks>
<supported_clocks><supported_mem_clock><value>1215 MHz</value></supported_mem_clock></supported_clocks>
<processes><process_info><gpu_instance_id>1</gpu_instance_id><compute_instance_id>0</compute_instance_id><pid>4321</pid>
 <type>C</type><process_name>python a &lt;b&gt;</process_name><used_memory>3000 MiB</used_memory></process_info></processes>
</gpu>"""


def xml(
    *cards: str, doctype: str = '<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">', attached: int = 1
) -> str:
    """A document of these cards."""
    return (
        f'<?xml version="1.0" ?>\n{doctype}\n<nvidia_smi_log>\n<timestamp>Tue Jul 14 09:00:44 2026</timestamp>\n'
        f"<driver_version>535.54.03</driver_version>\n<attached_gpus>{attached}</attached_gpus>\n{''.join(cards)}\n</nvidia_smi_log>\n"
    )


QUERY = f"""
==============NVSMI LOG==============

Timestamp                                              : Tue Jul 14 09:00:44 2026
Driver Version                                         : 590.48.01
CUDA Version                                           : 13.1

Attached GPUs                                          : 1
GPU 00000000:3B:00.0
    Product Name                                       : NVIDIA H100 80GB HBM3
    MIG Mode
        Current                                        : Enabled
        Pending                                        : Enabled
    MIG Device
        Index                                          : 0
        GPU Instance ID                                : 2
        Compute Instance ID                            : 0
        Device Attributes
            Shared
                Multiprocessor count                   : 60
        Shared FB Memory Usage
            Total                                      : 40448 MiB
            Reserved                                   : 0 MiB
            Used                                       : 11091 MiB
    GPU UUID                                           : {CARD_A}
    GPU Recovery Action                                : GPU Reset Required
    PCI
        Bus Id                                         : 00000000:3B:00.0
    Clocks Event Reasons
        Idle                                           : Active
        HW Slowdown                                    : Active
            HW Thermal Slowdown                        : Active
    FB Memory Usage
        Total                                          : 81559 MiB
        Reserved                                       : 479 MiB
        Used                                           : 11125 MiB
    BAR1 Memory Usage
        Used                                           : 81081 MiB
    Utilization
        GPU                                            : N/A
        Memory                                         : N/A
    ECC Errors
        Volatile
            SRAM Uncorrectable Parity                  : N/A
            SRAM Uncorrectable SEC-DED                 : 0
            DRAM Uncorrectable                         : 0
    GPU Power Readings
        Average Power Draw                             : 432.21 W
    Clocks
        SM                                             : 1980 MHz
        Memory                                         : 2619 MHz
    Processes
        GPU instance ID                   : 2
        Compute instance ID               : 0
        Process ID                        : 21180
            Type                          : C
            Name                          : /root/tools : odd
            Used GPU Memory               : 2296 MiB
        GPU instance ID                   : N/A
        Compute instance ID               : N/A
        Process ID                        : 977
            Type                          : M+C
            Name                          : nvidia-cuda-mps-server
            Used GPU Memory               : N/A
"""

PMON = """# gpu         pid   type     sm    mem    enc    dec    jpg    ofa    command
# Idx           #    C/G      %      %      %      %      %      %    name
    0      21180     C     99      7      -      -      -      -    train one
    1          -     -      -      -      -      -      -      -    -
    0      21181     C      -      -      -      -      -      -    serve
    0      21180     C     79      5      -      -      -      -    train one
"""

DMON_TIMED = """#Date       Time        gpu    pwr  gtemp  mtemp     sm    mem   mclk   pclk     fb   bar1
#YYYYMMDD   HH:MM:SS    Idx      W      C      C      %      %    MHz    MHz     MB     MB
 20260714   09:00:44      0    438     55      -    100      8   2619   1980  11125      4
 20260714   09:00:45      0    440     55      -     98      8   2619   1980  11127      4
"""

Kind = TypeVar("Kind", bound=Fact)


def read(form: str, text: str | bytes, directory: DeviceDirectory | None = None, **context: object) -> list[Fact]:
    """All facts of a text."""
    return list(read_smi(form, text, ReadContext(**context), directory))  # type: ignore[arg-type]


def of(kind: type[Kind], facts: Iterable[Fact]) -> list[Kind]:
    """The facts of one kind."""
    return [fact for fact in facts if isinstance(fact, kind)]


def codes(facts: Iterable[Fact]) -> list[str]:
    """The codes of the findings, in order."""
    return [finding.code for finding in of(Finding, facts)]


def cards(**context: object) -> DeviceDirectory:
    """The directory of the two cards of ``LIST`` and ``QUERY_GPU``."""
    return directory_of([*read("smi_list", LIST, **context), *read("smi_query_gpu", QUERY_GPU, **context)])
