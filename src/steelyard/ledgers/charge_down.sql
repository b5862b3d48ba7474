-- When what a pod holds of a place was down, as the supply ledger has it: stretches that do not overlap.
WITH
down AS (
    SELECT
        site.cluster, site.place_kind, site.place_id, piece.pod_uid, piece.unit_id, piece.from_us, piece.to_us,
        max(piece.to_us) OVER (
            PARTITION BY site.cluster, site.place_kind, site.place_id, piece.pod_uid, piece.unit_id ORDER BY piece.from_us, piece.to_us
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS reach_before_us
    FROM dim.supply_piece AS piece
    JOIN dim.supply_site AS site ON site.site_no = piece.site_no AND site.stay_no = 1
    CROSS JOIN (SELECT profile_no FROM dim.price_profile LIMIT 1) AS priced
    WHERE piece.held_service = 2 AND piece.account IN ('held', 'held_unplaced') AND piece.to_us > piece.from_us
),

numbered AS (
    SELECT
        *,
        sum(CASE WHEN from_us <= reach_before_us THEN 0 ELSE 1 END) OVER (
            PARTITION BY cluster, place_kind, place_id, pod_uid, unit_id ORDER BY from_us, to_us ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
        ) AS island_no
    FROM down
)

SELECT cluster, place_kind, place_id, pod_uid, unit_id, min(from_us) AS from_us, max(to_us) AS to_us
FROM numbered
GROUP BY cluster, place_kind, place_id, pod_uid, unit_id, island_no
