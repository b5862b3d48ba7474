-- Units and hours whose samples are not one a minute, on the minute, each for its minute, and the next hour with samples of each such unit: into that a
-- sample of the odd hour may reach. A sample of any other hour stands for its own minute, whatever comes after it.
SELECT cluster, device_uuid, gi, hour_us
FROM (
    SELECT
        cluster, device_uuid, gi, hour_us, is_even,
        lag(is_even) OVER (PARTITION BY cluster, device_uuid, gi ORDER BY hour_us) AS is_even_before
    FROM (
        SELECT
            cluster, device_uuid, gi, hour_us, bool_and(is_aligned) AND sum(samples_count) = bit_count(bit_or(minutes_mask)) AS is_even
        FROM dim.sample_hour
        GROUP BY cluster, device_uuid, gi, hour_us
    ) AS hour
) AS followed
WHERE NOT is_even OR NOT is_even_before
