"""HAMi: node registers, pod allocations and scheduling events of the soft-partition layer, for NVIDIA and other vendors' cards."""
