-- Where GPU-time went by state, to be laid beside its money; see cost_waste.py.

-- name: stated
SELECT
    cluster, place_kind, place_id, node, device_uuid, pod_uid, state, cause, basis, sum(amount_gpu_us) AS amount_gpu_us
FROM ledger.gpu_state
WHERE grain_at >= make_timestamp($from_us)
    AND grain_at < make_timestamp($to_us)
    AND state IN ('held_idle', 'suspected_hang', 'busy_not_working')
GROUP BY cluster, place_kind, place_id, node, device_uuid, pod_uid, state, cause, basis;
