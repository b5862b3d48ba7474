"""Cards as the driver itself tells of them: NVIDIA's management library (NVML) asked in bounded time, round by round."""
