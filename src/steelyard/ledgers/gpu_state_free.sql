-- Free share that somebody waits for, by place, grain and cause. In each stretch in which neither changes, what the requests of a cluster ask lies on one
-- line (who asks for longest first, then demand_id), the free shares of its places on another (by place_id): where they overlap, a share is waited for.
-- A holder whose card is not known has taken the first free shares of its node's cards, or of its cluster's: nobody waits for those.
-- reachable: a place comes into it only where those before it in line cannot hold all that is asked within a grain, by what each has free throughout that
-- grain. Without it every change of what is asked would meet every free card.
WITH
parameter AS (
    SELECT grain_us FROM dim.parameter
),

asked AS (
    SELECT
        cluster, demand_id, asked_us, cause, share_ppm, greatest(from_us, CAST($from_us AS BIGINT)) AS lo, least(to_us, CAST($to_us AS BIGINT)) AS hi
    FROM dim.gpu_state_asked
    WHERE from_us < CAST($to_us AS BIGINT) AND to_us > CAST($from_us AS BIGINT)
),

free AS (
    SELECT
        load.site_no, site.cluster, site.place_kind, site.place_id, site.node, load.cards * 1000000 - load.share_ppm AS free_ppm,
        greatest(load.from_us, CAST($from_us AS BIGINT)) AS lo, least(load.to_us, CAST($to_us AS BIGINT)) AS hi
    FROM dim.supply_load AS load
    JOIN dim.supply_site AS site ON site.site_no = load.site_no AND site.stay_no = 1
    WHERE load.from_us < CAST($to_us AS BIGINT) AND load.to_us > CAST($from_us AS BIGINT) AND load.rest_account = 0 AND load.rest_service = 1
        AND load.cards * 1000000 <> load.share_ppm AND site.cluster IN (SELECT cluster FROM asked)
),

turn AS (
    SELECT cluster, lo AS turned_at FROM asked
    UNION
    SELECT cluster, hi FROM asked
    UNION
    SELECT cluster, lo FROM free
    UNION
    SELECT cluster, hi FROM free
    UNION
    SELECT asking.cluster, unnest(range(CAST($from_us AS BIGINT), CAST($to_us AS BIGINT), parameter.grain_us))
    FROM (SELECT DISTINCT cluster FROM free) AS asking
    CROSS JOIN parameter
),

stretch AS (
    SELECT cluster, lo, hi
    FROM (SELECT cluster, turned_at AS lo, lead(turned_at) OVER (PARTITION BY cluster ORDER BY turned_at) AS hi FROM turn) AS swept
    WHERE hi IS NOT NULL
),

-- The line of requests, those of one cause that lie side by side as one.
asking AS (
    SELECT
        stretch.cluster, stretch.lo, stretch.hi, asked.cause, asked.share_ppm,
        CAST(sum(asked.share_ppm) OVER line AS BIGINT) AS reach_ppm
    FROM stretch
    JOIN asked ON asked.cluster = stretch.cluster AND asked.lo <= stretch.lo AND asked.hi >= stretch.hi
    WINDOW line AS (PARTITION BY stretch.cluster, stretch.lo ORDER BY asked.asked_us, asked.demand_id ROWS UNBOUNDED PRECEDING)
),

demand AS (
    SELECT cluster, lo, cause, min(reach_ppm - share_ppm) AS from_ppm, max(reach_ppm) AS to_ppm
    FROM (
        SELECT *, sum(CASE WHEN cause IS DISTINCT FROM cause_before THEN 1 ELSE 0 END) OVER (PARTITION BY cluster, lo ORDER BY reach_ppm) AS run_no
        FROM (SELECT *, lag(cause) OVER (PARTITION BY cluster, lo ORDER BY reach_ppm) AS cause_before FROM asking) AS marked
    ) AS numbered
    GROUP BY cluster, lo, cause, run_no
),

asked_most AS (
    SELECT asking.cluster, (asking.lo - CAST($from_us AS BIGINT)) // parameter.grain_us AS part_no, max(asking.reach_ppm) AS asked_ppm
    FROM asking
    CROSS JOIN parameter
    GROUP BY asking.cluster, part_no
),

free_part AS (
    SELECT
        free.*, parameter.grain_us,
        unnest(range((free.lo - CAST($from_us AS BIGINT)) // parameter.grain_us, (free.hi - CAST($from_us AS BIGINT) - 1) // parameter.grain_us + 1)) AS part_no
    FROM free
    CROSS JOIN parameter
),

free_least AS (
    SELECT
        cluster, part_no, place_id, place_kind, site_no,
        CASE WHEN sum(least(hi, end_us) - greatest(lo, start_us)) = any_value(end_us - start_us) THEN greatest(min(free_ppm), 0) ELSE 0 END AS least_ppm
    FROM (
        SELECT
            *, CAST($from_us AS BIGINT) + part_no * grain_us AS start_us,
            least(CAST($from_us AS BIGINT) + (part_no + 1) * grain_us, CAST($to_us AS BIGINT)) AS end_us
        FROM free_part
    ) AS cut
    GROUP BY cluster, part_no, place_id, place_kind, site_no
),

taken_most AS (
    SELECT cluster, part_no, -sum(free_ppm) AS taken_ppm FROM free_part WHERE free_ppm < 0 GROUP BY cluster, part_no
),

reachable AS (
    SELECT line.cluster, line.part_no, line.site_no
    FROM (
        SELECT
            *, sum(least_ppm) OVER (PARTITION BY cluster, part_no ORDER BY place_id, place_kind, site_no ROWS UNBOUNDED PRECEDING) - least_ppm AS before_ppm
        FROM free_least
    ) AS line
    JOIN asked_most AS asked ON asked.cluster = line.cluster AND asked.part_no = line.part_no
    LEFT JOIN taken_most AS taken ON taken.cluster = line.cluster AND taken.part_no = line.part_no
    WHERE line.before_ppm < asked.asked_ppm + coalesce(taken.taken_ppm, 0)
),

near AS MATERIALIZED (
    SELECT free.*
    FROM free_part AS free
    LEFT JOIN reachable ON reachable.cluster = free.cluster AND reachable.part_no = free.part_no AND reachable.site_no = free.site_no
    WHERE free.free_ppm < 0 OR reachable.site_no IS NOT NULL
),

offered AS (
    SELECT stretch.cluster, stretch.lo, stretch.hi, near.site_no, near.place_kind, near.place_id, near.node, near.free_ppm
    FROM (SELECT cluster, lo, min(hi) AS hi FROM asking GROUP BY cluster, lo) AS stretch
    CROSS JOIN parameter
    JOIN near
        ON near.cluster = stretch.cluster AND near.part_no = (stretch.lo - CAST($from_us AS BIGINT)) // parameter.grain_us AND near.lo <= stretch.lo
        AND near.hi >= stretch.hi
),

-- What holders on unknown cards took of each node and cluster.
taken AS (
    SELECT
        cluster, lo, place_kind, CASE WHEN place_kind = 'node' THEN place_id END AS node, CAST(-sum(free_ppm) AS BIGINT) AS taken_ppm
    FROM offered
    WHERE free_ppm < 0
    GROUP BY cluster, lo, place_kind, CASE WHEN place_kind = 'node' THEN place_id END
),

of_node AS (
    SELECT
        offered.cluster, offered.lo, offered.hi, offered.site_no, offered.place_kind, offered.place_id, offered.free_ppm, coalesce(taken.taken_ppm, 0) AS taken_ppm,
        CAST(
            sum(offered.free_ppm) OVER (
                PARTITION BY offered.cluster, offered.lo, offered.node ORDER BY offered.place_id, offered.place_kind, offered.site_no
                ROWS UNBOUNDED PRECEDING
            ) AS BIGINT
        ) AS reach_ppm
    FROM offered
    LEFT JOIN taken
        ON taken.place_kind = 'node' AND taken.cluster = offered.cluster AND taken.lo = offered.lo AND taken.node = offered.node
    WHERE offered.free_ppm > 0
),

usable AS (
    SELECT
        cluster, lo, hi, site_no, usable_ppm,
        CAST(
            sum(usable_ppm) OVER (PARTITION BY cluster, lo ORDER BY place_id, place_kind, site_no ROWS UNBOUNDED PRECEDING) AS BIGINT
        ) AS reach_ppm
    FROM (
        SELECT
            cluster, lo, hi, site_no, place_id, place_kind,
            greatest(0, reach_ppm - greatest(reach_ppm - free_ppm, taken_ppm)) AS usable_ppm
        FROM of_node
    ) AS left_over
    WHERE usable_ppm > 0
),

offer AS (
    SELECT
        usable.cluster, usable.lo, usable.hi, usable.site_no,
        greatest(0, usable.reach_ppm - usable.usable_ppm - coalesce(taken.taken_ppm, 0)) AS from_ppm,
        usable.reach_ppm - coalesce(taken.taken_ppm, 0) AS to_ppm
    FROM usable
    LEFT JOIN taken ON taken.place_kind = 'cluster' AND taken.cluster = usable.cluster AND taken.lo = usable.lo
),

matched AS (
    SELECT
        offer.site_no, grain_start_us(offer.lo, parameter.grain_us) AS grain_us_at, demand.cause, offer.hi - offer.lo AS length_us,
        least(offer.to_ppm, demand.to_ppm) - greatest(offer.from_ppm, demand.from_ppm) AS share_ppm
    FROM offer
    CROSS JOIN parameter
    JOIN demand
        ON demand.cluster = offer.cluster AND demand.lo = offer.lo AND demand.from_ppm < offer.to_ppm AND demand.to_ppm > offer.from_ppm
    WHERE offer.to_ppm > 0
)

SELECT site_no, grain_us_at, cause, sum_of_gpu_time_us(length_us, share_ppm) AS gpu_us
FROM matched
GROUP BY site_no, grain_us_at, cause
