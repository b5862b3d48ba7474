-- Places whose capacity nothing tells while something is held there: supply is booked equal to what is held, so that the books close and say so.
WITH
bare AS (
    SELECT
        site.cluster, site.place_kind, site.place_id, site.basis,
        count(DISTINCT piece.pod_uid) AS holders,
        make_timestamp(max(piece.to_us)) AS last_at
    FROM dim.supply_piece AS piece
    JOIN dim.supply_site AS site ON site.site_no = piece.site_no AND site.stay_no = 1
    WHERE piece.rest_account = 2
    GROUP BY site.cluster, site.place_kind, site.place_id, site.basis
)

SELECT
    cluster,
    'ledger.supply' AS source,
    'supply_unknown/' || place_kind || ' ' || place_id AS natural_key,
    last_at AS occurred_at,
    last_at AS observed_at,
    'supply_unknown' AS code,
    'warning' AS severity,
    place_kind || ' ' || place_id AS subject,
    CASE basis
        WHEN 'count' THEN 'it is held at times for which nobody declares how many cards it has: supply is booked equal to what is held then'
        ELSE 'no inventory, register, label or declaration tells the cards here: supply is booked equal to what is held'
    END AS message,
    '{"holders":' || CAST(holders AS VARCHAR) || ',"supply_basis":"unknown"}' AS evidence,
    CAST(NULL AS VARCHAR) AS file,
    CAST(NULL AS BIGINT) AS line,
    CAST(NULL AS VARCHAR) AS excerpt
FROM bare
