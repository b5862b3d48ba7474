-- The share of its card that a GPU instance is, from when to when: its number is given anew when the layout changes. What its counters say is
-- relative to the instance. An instance whose profile tells no share, or of which two profiles are told at once, has a share that is not known.
WITH
named AS (
    SELECT
        unit.cluster, unit.device_uuid, unit.gi, unit.first_seen_at,
        CASE WHEN count(DISTINCT profile.profile) = 1 AND count(profile.profile) = count(*) THEN
            max(
                share_mig_ppm(
                    profile.compute_slices, profile.compute_slices_total, profile.memory_slices, profile.memory_slices_total
                )
            )
        END AS share_ppm
    FROM dim.unit AS unit
    LEFT JOIN dim.mig_profile AS profile
        ON profile.cluster = unit.cluster AND profile.node = coalesce(unit.node, '') AND profile.kind = 'profile'
        AND profile.profile = regexp_replace(unit.profile, '^(mig-)?[0-9]{1,2}c[.]', '\1', 'i')
    WHERE unit.unit_kind = 'mig' AND unit.device_uuid IS NOT NULL AND unit.gi IS NOT NULL
    GROUP BY unit.cluster, unit.device_uuid, unit.gi, unit.first_seen_at
)

SELECT
    cluster, device_uuid, gi, share_ppm,
    CASE WHEN row_number() OVER turns = 1 THEN -4611686018427387904 ELSE epoch_us(first_seen_at) END AS from_us,
    coalesce(epoch_us(lead(first_seen_at) OVER turns), 4611686018427387904) AS to_us
FROM named
WINDOW turns AS (PARTITION BY cluster, device_uuid, gi ORDER BY first_seen_at)
