"""``nvidia-smi`` in every form it prints: lists, csv, XML, text, the human table, pmon, dmon, and files that hold several of them.

``sniff`` names the form, ``read_smi`` yields facts. Forms that show no UUID ask a ``DeviceDirectory`` which card an index meant.
"""

from steelyard.sources.nvidia_smi.read import FORMS, needs_directory, read_smi
from steelyard.sources.nvidia_smi.sniff import sniff
from steelyard.sources.shared.device_directory import DeviceDirectory, directory_of

__all__ = ["FORMS", "DeviceDirectory", "directory_of", "needs_directory", "read_smi", "sniff"]
