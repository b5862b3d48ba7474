-- The time from an old card's last supply to the first of the card that followed it in its slot: it belongs to the slot and was seen by nobody.
WITH
card AS (
    SELECT cluster, place_id AS device_uuid, min(from_us) AS from_us, max(to_us) AS to_us
    FROM dim.supply_site
    WHERE place_kind = 'device'
    GROUP BY cluster, place_id
)

SELECT cluster, node, slot, from_us, to_us
FROM (
    SELECT
        slot.cluster, slot.node, slot.slot, slot.device_uuid,
        lag(slot.device_uuid) OVER succession AS device_before,
        lag(card.to_us) OVER succession AS from_us,
        card.from_us AS to_us
    FROM dim.slot AS slot
    JOIN card ON card.cluster = slot.cluster AND card.device_uuid = slot.device_uuid
    WINDOW succession AS (
        PARTITION BY slot.cluster, slot.node, slot.slot ORDER BY slot.valid_from_at, slot.last_seen_at, slot.device_uuid
    )
) AS succeeding
WHERE device_before <> device_uuid AND to_us > from_us
