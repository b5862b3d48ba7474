-- What each holder is asked for: its declared share, from the charge start to the end of its holding, whatever stands beside it. priced_tenant: its tenant where a price or a
-- discount names it. share_ppm is the declared share of one card, times the cards; NULL where it is not known. By the policy `running` a pod that was never seen
-- beyond Pending has no start, and one of which nobody tells when it ran starts with its holding; by `bind` what is the platform's of a start is left out.
WITH
named AS (
    SELECT tenant FROM dim.price_line WHERE tenant IS NOT NULL
    UNION
    SELECT tenant FROM dim.discount_line
),

asked AS (
    SELECT
        holder.*,
        CASE
            WHEN policy.charge_start = 'bind' THEN holder.bound_us
            WHEN holder.running_us IS NOT NULL THEN greatest(holder.running_us, holder.bound_us)
            WHEN NOT holder.is_pending THEN holder.bound_us
            ELSE holder.end_us
        END AS from_us,
        CASE WHEN policy.charge_start = 'bind' AND holder.starting_from_us IS NOT NULL THEN holder.starting_from_us ELSE holder.end_us END AS to_us
    FROM dim.money_holder AS holder
    CROSS JOIN dim.money_policy AS policy
    WHERE holder.occupancy = 'held'
    UNION ALL
    SELECT holder.*, holder.starting_to_us, holder.end_us
    FROM dim.money_holder AS holder
    CROSS JOIN dim.money_policy AS policy
    WHERE holder.occupancy = 'held' AND policy.charge_start = 'bind' AND holder.starting_from_us IS NOT NULL
)

SELECT
    row_number() OVER (
        ORDER BY asked.cluster, asked.place_kind, asked.place_id, asked.pod_uid, asked.unit_id, asked.from_us, asked.to_us, asked.share_ppm,
        asked.share_at_least_ppm, asked.unit_kind
    ) AS holder_no,
    asked.cluster, asked.place_kind, asked.place_id, asked.node, place.device_uuid, asked.pod_uid, asked.unit_id, asked.unit_kind, asked.tenant,
    named.tenant AS priced_tenant, asked.share_ppm, asked.share_at_least_ppm, place.model, place.commitment, asked.from_us, asked.to_us
FROM asked
JOIN dim.cost_place AS place
    ON place.cluster = asked.cluster AND place.place_kind = asked.place_kind AND place.place_id = asked.place_id AND place.node IS NOT DISTINCT FROM asked.node
LEFT JOIN named ON named.tenant = asked.tenant
WHERE asked.to_us > asked.from_us
