-- What contradictions of samples are looked for in: the hours of `usage`, by the same ground.
SELECT hour_at, is_open, ground_no
FROM dim.usage_hour
