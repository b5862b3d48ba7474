-- How long in each grain of the window a card was saturated or memory-bound, by the ledger of states: of the time that its busiest holder held it, the part that this state is of
-- what it held. What is free beside it cannot be placed then.
WITH
stated AS (
    SELECT
        cluster, place_id, node, epoch_us(grain_at) AS grain_us_at, pod_uid, unit_id, CAST(sum(amount_gpu_us) AS BIGINT) AS held_gpu_us,
        CAST(sum(amount_gpu_us) FILTER (WHERE spent_as(state, cause) IS NOT NULL) AS BIGINT) AS full_gpu_us
    FROM ledger.gpu_state
    WHERE place_kind = 'device' AND pod_uid IS NOT NULL AND NOT starts_with(basis, 'instance') AND grain_at >= make_timestamp(CAST($from_us AS BIGINT))
        AND grain_at < make_timestamp(CAST($to_us AS BIGINT))
    GROUP BY ALL
    HAVING count(*) FILTER (WHERE spent_as(state, cause) IS NOT NULL) > 0
),

timed AS (
    SELECT
        stated.cluster, stated.place_id, stated.node, stated.grain_us_at, stated.full_gpu_us, stated.held_gpu_us,
        least(
            parameter.grain_us,
            CAST(
                sum(greatest(0, least(holder.end_us, stated.grain_us_at + parameter.grain_us) - greatest(holder.bound_us, stated.grain_us_at))) AS BIGINT
            )
        ) AS held_us
    FROM stated
    CROSS JOIN (SELECT grain_us FROM dim.parameter) AS parameter
    JOIN dim.money_holder AS holder
        ON holder.cluster = stated.cluster AND holder.place_kind = 'device' AND holder.place_id = stated.place_id AND holder.pod_uid = stated.pod_uid
        AND holder.unit_id IS NOT DISTINCT FROM stated.unit_id
    WHERE stated.held_gpu_us > 0
    GROUP BY
        stated.cluster, stated.place_id, stated.node, stated.grain_us_at, stated.pod_uid, stated.unit_id, stated.full_gpu_us, stated.held_gpu_us,
        parameter.grain_us
)

SELECT
    site.key_no, timed.grain_us_at,
    CAST(max(CAST(timed.held_us AS HUGEINT) * least(timed.full_gpu_us, timed.held_gpu_us) // timed.held_gpu_us) AS BIGINT) AS blocked_us
FROM timed
JOIN dim.cost_site AS site
    ON site.cluster = timed.cluster AND site.place_kind = 'device' AND site.place_id = timed.place_id AND site.node IS NOT DISTINCT FROM timed.node
GROUP BY site.key_no, timed.grain_us_at
