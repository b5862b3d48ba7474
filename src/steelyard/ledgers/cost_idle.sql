-- What becomes of the share that is free and not down: on a dedicated node its owner's reserved_unused; of others first what lies beside a saturated card and what typical requests
-- cannot use (stranded); what is left is laid beside the owners of unused quota, place by place on one line, owner by owner on the other: where the lines overlap it
-- is that owner's reserved_unused; the rest is idle.
WITH
free AS (
    SELECT
        booked.key_no, booked.grain_us_at, site.cluster, site.owner, site.place_kind, site.place_id, booked.amount_gpu_us AS free_gpu_us,
        CASE
            WHEN booked.amount_gpu_us > 0 AND blocked.key_no IS NOT NULL
                THEN CAST(CAST(booked.amount_gpu_us AS HUGEINT) * least(blocked.blocked_us, supply.supply_gpu_us) // supply.supply_gpu_us AS BIGINT)
            ELSE 0
        END AS blocked_gpu_us,
        stranded.lost, stranded.whole
    FROM dim.cost_booked AS booked
    JOIN dim.cost_site AS site ON site.key_no = booked.key_no
    LEFT JOIN dim.cost_blocked AS blocked ON blocked.key_no = booked.key_no AND blocked.grain_us_at = booked.grain_us_at
    LEFT JOIN (
        SELECT booked.key_no, booked.grain_us_at, CAST(sum(booked.amount_gpu_us) AS BIGINT) AS supply_gpu_us
        FROM dim.cost_booked AS booked
        SEMI JOIN dim.cost_blocked AS blocked ON blocked.key_no = booked.key_no AND blocked.grain_us_at = booked.grain_us_at
        GROUP BY booked.key_no, booked.grain_us_at
    ) AS supply ON supply.key_no = booked.key_no AND supply.grain_us_at = booked.grain_us_at
    LEFT JOIN dim.cost_stranded AS stranded ON stranded.key_no = booked.key_no AND stranded.grain_us_at = booked.grain_us_at
    WHERE booked.account = 'idle'
),

parted AS (
    SELECT
        key_no, grain_us_at, cluster, owner, place_kind, place_id, free_gpu_us,
        CASE
            WHEN owner IS NOT NULL THEN 0
            ELSE blocked_gpu_us + coalesce(CAST(CAST(free_gpu_us - blocked_gpu_us AS HUGEINT) * lost // whole AS BIGINT), 0)
        END AS stranded_gpu_us
    FROM free
),

-- The two lines of each cluster and grain: what is idle, by place; what owners left unused, by name.
idle AS (
    SELECT
        key_no, grain_us_at, cluster, free_gpu_us - stranded_gpu_us AS idle_gpu_us,
        CAST(
            sum(free_gpu_us - stranded_gpu_us) OVER (PARTITION BY cluster, grain_us_at ORDER BY place_id, place_kind, key_no ROWS UNBOUNDED PRECEDING) AS BIGINT
        ) AS reach_gpu_us
    FROM parted
    WHERE owner IS NULL AND free_gpu_us > stranded_gpu_us AND (cluster, grain_us_at) IN (SELECT (cluster, grain_us_at) FROM dim.cost_unused)
),

-- What holders on unknown cards took is idle nowhere: no more is unused than the cluster has idle in all.
unused AS (
    SELECT
        line.cluster, line.grain_us_at, line.owner, least(line.reach_gpu_us - line.unused_gpu_us, whole.idle_gpu_us) AS from_gpu_us,
        least(line.reach_gpu_us, whole.idle_gpu_us) AS reach_gpu_us
    FROM (
        SELECT
            cluster, grain_us_at, owner, unused_gpu_us,
            CAST(sum(unused_gpu_us) OVER (PARTITION BY cluster, grain_us_at ORDER BY owner ROWS UNBOUNDED PRECEDING) AS BIGINT) AS reach_gpu_us
        FROM dim.cost_unused
    ) AS line
    JOIN (
        SELECT cluster, grain_us_at, CAST(greatest(0, sum(free_gpu_us - stranded_gpu_us)) AS BIGINT) AS idle_gpu_us
        FROM parted
        WHERE owner IS NULL
        GROUP BY cluster, grain_us_at
    ) AS whole ON whole.cluster = line.cluster AND whole.grain_us_at = line.grain_us_at
),

laid AS (
    SELECT
        idle.key_no, idle.grain_us_at, unused.owner,
        least(idle.reach_gpu_us, unused.reach_gpu_us) - greatest(idle.reach_gpu_us - idle.idle_gpu_us, unused.from_gpu_us) AS amount_gpu_us
    FROM idle
    JOIN unused
        ON unused.cluster = idle.cluster AND unused.grain_us_at = idle.grain_us_at AND unused.reach_gpu_us > idle.reach_gpu_us - idle.idle_gpu_us
        AND unused.from_gpu_us < idle.reach_gpu_us AND unused.reach_gpu_us > unused.from_gpu_us
)

SELECT key_no, grain_us_at, 'stranded' AS account, CAST(NULL AS VARCHAR) AS owner, stranded_gpu_us AS amount_gpu_us
FROM parted
WHERE stranded_gpu_us <> 0
UNION ALL
SELECT key_no, grain_us_at, 'reserved_unused', owner, amount_gpu_us
FROM laid
UNION ALL
SELECT key_no, grain_us_at, 'reserved_unused', owner, free_gpu_us
FROM parted
WHERE owner IS NOT NULL AND free_gpu_us > 0
UNION ALL
SELECT
    parted.key_no, parted.grain_us_at, 'idle', NULL, parted.free_gpu_us - parted.stranded_gpu_us - coalesce(taken.amount_gpu_us, 0)
FROM parted
LEFT JOIN (
    SELECT key_no, grain_us_at, CAST(sum(amount_gpu_us) AS BIGINT) AS amount_gpu_us FROM laid GROUP BY key_no, grain_us_at
) AS taken ON taken.key_no = parted.key_no AND taken.grain_us_at = parted.grain_us_at
WHERE (parted.owner IS NULL OR parted.free_gpu_us < 0) AND parted.free_gpu_us - parted.stranded_gpu_us - coalesce(taken.amount_gpu_us, 0) <> 0
