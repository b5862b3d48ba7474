-- Of what a holder has in a grain of the window, the part that is the platform's: how long its start took beyond what the policy allows, of how long it held.
SELECT
    site.key_no, grain.grain_us_at, holder.pod_uid, holder.unit_id,
    CAST(sum(greatest(0, least(holder.starting_to_us, grain.grain_us_at + grain.grain_us) - greatest(holder.starting_from_us, grain.grain_us_at))) AS BIGINT)
        AS starting_us,
    CAST(sum(greatest(0, least(holder.end_us, grain.grain_us_at + grain.grain_us) - greatest(holder.bound_us, grain.grain_us_at))) AS BIGINT) AS held_us
FROM dim.money_holder AS holder
JOIN (
    SELECT DISTINCT cluster, place_kind, place_id, pod_uid, unit_id FROM dim.money_holder WHERE starting_from_us IS NOT NULL
) AS late
    ON late.cluster = holder.cluster AND late.place_kind = holder.place_kind AND late.place_id = holder.place_id AND late.pod_uid = holder.pod_uid
    AND late.unit_id IS NOT DISTINCT FROM holder.unit_id
JOIN dim.cost_site AS site ON site.cluster = holder.cluster AND site.place_kind = holder.place_kind AND site.place_id = holder.place_id
CROSS JOIN (
    SELECT grain_us, unnest(range(CAST($from_us AS BIGINT), CAST($to_us AS BIGINT), grain_us)) AS grain_us_at FROM dim.parameter
) AS grain
WHERE holder.bound_us < grain.grain_us_at + grain.grain_us AND holder.end_us > grain.grain_us_at
GROUP BY site.key_no, grain.grain_us_at, holder.pod_uid, holder.unit_id
HAVING sum(greatest(0, least(holder.starting_to_us, grain.grain_us_at + grain.grain_us) - greatest(holder.starting_from_us, grain.grain_us_at))) > 0
