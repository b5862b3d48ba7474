-- The postings of the supply ledger that the states split, summed over the services that are not down; site_no: where its pieces stand.
-- posting_no: a number of the posting within the window, so that its parts are put together by one number instead of names.
SELECT
    row_number() OVER () AS posting_no, key.key_no, site.site_no, supply.grain_at, supply.account, supply.is_down, supply.pod_uid, supply.unit_id, supply.amount_gpu_us
FROM (
    SELECT
        cluster, place_kind, place_id, node, grain_at, account, coalesce(service = 'down', FALSE) AS is_down, pod_uid, unit_id,
        CAST(sum(amount_gpu_us) AS BIGINT) AS amount_gpu_us
    FROM ledger.supply
    WHERE grain_at >= make_timestamp(CAST($from_us AS BIGINT)) AND grain_at < make_timestamp(CAST($to_us AS BIGINT))
        AND account NOT IN ('supply', 'overcommitted')
    GROUP BY cluster, place_kind, place_id, node, grain_at, account, coalesce(service = 'down', FALSE), pod_uid, unit_id
) AS supply
JOIN dim.gpu_state_key AS key
    ON key.cluster = supply.cluster AND key.place_kind = supply.place_kind AND key.place_id = supply.place_id
    AND key.node IS NOT DISTINCT FROM supply.node
LEFT JOIN dim.supply_site AS site
    ON site.stay_no = 1 AND site.cluster = supply.cluster AND site.place_kind = supply.place_kind AND site.place_id = supply.place_id
    AND site.node IS NOT DISTINCT FROM supply.node
WHERE supply.amount_gpu_us <> 0
