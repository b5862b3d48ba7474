-- What the ledger of use saw in the window of each holder on its card: used_gpu_us over seen_us of the held_us of a grain. Only paths that measure a holder alone count,
-- `exclusive` and `mig`; a pod that holds two units that such a path does not tell apart has none.
WITH
seen AS (
    SELECT cluster, device_uuid, gi, epoch_us(grain_at) AS grain_us_at, pod_uid, path, used_gpu_us, used_observed_us
    FROM ledger.usage
    WHERE grain_at >= make_timestamp(CAST($from_us AS BIGINT)) AND grain_at < make_timestamp(CAST($to_us AS BIGINT))
        AND pod_uid IS NOT NULL AND used_gpu_us IS NOT NULL AND path IN ('exclusive', 'mig')
),

held_unit AS (
    SELECT
        cluster, place_id, pod_uid, unit_id, gi, count(*) OVER (PARTITION BY cluster, place_id, pod_uid) AS units_count,
        count(*) OVER (PARTITION BY cluster, place_id, pod_uid, gi) AS alike_count
    FROM dim.gpu_state_holder
    WHERE place_kind = 'device'
),

named AS (
    SELECT
        seen.cluster, seen.device_uuid, seen.grain_us_at, seen.pod_uid, held_unit.unit_id, min(seen.path) AS path,
        CAST(sum(seen.used_gpu_us) AS BIGINT) AS used_gpu_us, CAST(sum(seen.used_observed_us) AS BIGINT) AS seen_us
    FROM seen
    JOIN held_unit
        ON held_unit.cluster = seen.cluster AND held_unit.place_id = seen.device_uuid AND held_unit.pod_uid = seen.pod_uid
        AND (seen.path = 'exclusive' AND held_unit.units_count = 1 OR seen.path = 'mig' AND held_unit.gi = seen.gi AND held_unit.alike_count = 1)
    GROUP BY seen.cluster, seen.device_uuid, seen.grain_us_at, seen.pod_uid, held_unit.unit_id
    HAVING count(*) = 1
)

SELECT
    site.key_no, named.grain_us_at, named.pod_uid, named.unit_id, named.path, named.used_gpu_us, named.seen_us,
    CAST(
        sum(greatest(0, least(holder.end_us, named.grain_us_at + parameter.grain_us) - greatest(holder.bound_us, named.grain_us_at))) AS BIGINT
    ) AS held_us
FROM named
CROSS JOIN (SELECT grain_us FROM dim.parameter) AS parameter
JOIN dim.money_holder AS holder
    ON holder.cluster = named.cluster AND holder.place_kind = 'device' AND holder.place_id = named.device_uuid AND holder.pod_uid = named.pod_uid
    AND holder.unit_id IS NOT DISTINCT FROM named.unit_id
JOIN dim.cost_site AS site ON site.cluster = named.cluster AND site.place_kind = 'device' AND site.place_id = named.device_uuid
GROUP BY site.key_no, named.grain_us_at, named.pod_uid, named.unit_id, named.path, named.used_gpu_us, named.seen_us
