-- Everything a price is asked for, once: a side, and what a line looks at of a card (and of a tenant, where a line or a discount names it).
SELECT
    row_number() OVER (ORDER BY side, cluster, model, unit_kind, commitment, tenant) AS profile_no, side, cluster, model, unit_kind, commitment, tenant,
    CASE WHEN model IS NULL THEN [] ELSE model_words(model) END AS words
FROM (
    SELECT 'cost' AS side, cluster, model, unit_kind, commitment, CAST(NULL AS VARCHAR) AS tenant FROM dim.cost_place
    UNION
    SELECT 'charge', cluster, model, unit_kind, commitment, priced_tenant FROM dim.charge_holder
    UNION
    SELECT 'charge', place.cluster, place.model, 'gpu', place.commitment, named.tenant
    FROM (SELECT DISTINCT cluster, model, commitment FROM dim.cost_place) AS place
    JOIN dim.money_policy AS policy ON policy.reserved_unused = 'charged'
    CROSS JOIN (
        SELECT tenant FROM dim.price_line WHERE tenant IS NOT NULL
        UNION
        SELECT tenant FROM dim.discount_line
        UNION
        SELECT CAST(NULL AS VARCHAR)
    ) AS named
) AS asked
