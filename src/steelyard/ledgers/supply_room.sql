-- What is left, class by class, at places that only take a transfer: of the cards of a node where pods hold cards that no source names, and of all
-- nodes of a cluster with pods of which not even the node is known. Each row is a stretch in which neither what is left nor what is asked of it changes,
-- and a class. class_no is the order in which a transfer takes: 0 free, 1 unobserved, 2 unobserved and down, 3 free and down (out of service); before_*
-- is what the classes before it have. A cluster takes of what its nodes leave. cards: 0 where no card is known to be there then: supply is what is held.
-- Where the memory of a card is not known, nothing bounds what is held of it (10^12 MiB).
WITH
transfer AS (
    SELECT site_no, cluster, place_kind, node FROM dim.supply_site WHERE basis = 'transfer' AND stay_no = 1
),

edge AS (
    SELECT site_no, from_us AS turned_at, rest_account, rest_service, cards, 0 AS share_ppm, 0 AS memory_mib, 0 AS cores_percent
    FROM dim.supply_stretch
    WHERE rest_account <> 2
    UNION ALL
    SELECT site_no, to_us, rest_account, rest_service, -cards, 0, 0, 0
    FROM dim.supply_stretch
    WHERE rest_account <> 2
    UNION ALL
    SELECT site_no, from_us, rest_account, rest_service, 0, share_ppm, coalesce(memory_mib, 0), cores_percent
    FROM dim.supply_claim
    WHERE rest_account <> 2 AND account <> 'overcommitted'
    UNION ALL
    SELECT site_no, to_us, rest_account, rest_service, 0, -share_ppm, -coalesce(memory_mib, 0), -cores_percent
    FROM dim.supply_claim
    WHERE rest_account <> 2 AND account <> 'overcommitted'
),

-- What comes and goes at the places that have cards, the gaps of their slots among them.
change AS (
    SELECT
        site.cluster, site.node, edge.turned_at,
        CASE WHEN edge.rest_account = 1 THEN edge.rest_service WHEN edge.rest_service = 1 THEN 0 ELSE 3 END AS class_no,
        edge.cards, edge.cards * 1000000 - edge.share_ppm AS room_ppm,
        edge.cards * coalesce(site.memory_mib, 1000000000000) - edge.memory_mib AS room_mib, edge.cards * 100 - edge.cores_percent AS room_percent
    FROM edge
    JOIN dim.supply_site AS site ON site.site_no = edge.site_no AND site.stay_no = 1 AND site.basis <> 'transfer'
    WHERE site.cluster IN (SELECT cluster FROM transfer)
    UNION ALL
    SELECT slot.cluster, slot.node, slot.from_us, 1, 1, 1000000, 1000000000000, 100
    FROM dim.supply_slot AS slot
    WHERE slot.cluster IN (SELECT cluster FROM transfer)
    UNION ALL
    SELECT slot.cluster, slot.node, slot.to_us, 1, -1, -1000000, -1000000000000, -100
    FROM dim.supply_slot AS slot
    WHERE slot.cluster IN (SELECT cluster FROM transfer)
),

-- What is asked stands beside the classes as number -1.
asked AS (
    SELECT
        transfer.site_no, edge.turned_at, -1 AS class_no, 0 AS cards, edge.share_ppm AS room_ppm, edge.memory_mib AS room_mib,
        edge.cores_percent AS room_percent
    FROM transfer
    JOIN (
        SELECT site_no, from_us AS turned_at, share_ppm, coalesce(memory_mib, 0) AS memory_mib, cores_percent FROM dim.supply_claim
        UNION ALL
        SELECT site_no, to_us, -share_ppm, -coalesce(memory_mib, 0), -cores_percent FROM dim.supply_claim
    ) AS edge ON edge.site_no = transfer.site_no
),

class AS (
    SELECT unnest(range(-1, 4)) AS class_no
),

node_change AS (
    SELECT transfer.site_no, change.turned_at, change.class_no, change.cards, change.room_ppm, change.room_mib, change.room_percent
    FROM transfer
    JOIN change ON transfer.place_kind = 'node' AND change.cluster = transfer.cluster AND change.node = transfer.node
    UNION ALL
    SELECT asked.site_no, asked.turned_at, asked.class_no, asked.cards, asked.room_ppm, asked.room_mib, asked.room_percent
    FROM asked
    JOIN transfer ON transfer.site_no = asked.site_no AND transfer.place_kind = 'node'
),

node_swept AS (
    SELECT
        site_no, class_no, turned_at AS from_us, lead(turned_at) OVER sweep AS to_us, CAST(sum(cards) OVER sweep AS BIGINT) AS cards,
        CAST(sum(room_ppm) OVER sweep AS BIGINT) AS room_ppm, CAST(sum(room_mib) OVER sweep AS BIGINT) AS room_mib,
        CAST(sum(room_percent) OVER sweep AS BIGINT) AS room_percent
    FROM (
        SELECT
            site_no, class_no, turned_at, sum(cards) AS cards, sum(room_ppm) AS room_ppm, sum(room_mib) AS room_mib, sum(room_percent) AS room_percent
        FROM (
            SELECT site_no, class_no, turned_at, cards, room_ppm, room_mib, room_percent FROM node_change
            UNION ALL
            SELECT turn.site_no, class.class_no, turn.turned_at, 0, 0, 0, 0
            FROM (SELECT DISTINCT site_no, turned_at FROM node_change) AS turn
            CROSS JOIN class
        ) AS changing
        GROUP BY site_no, class_no, turned_at
    ) AS changed
    WINDOW sweep AS (PARTITION BY site_no, class_no ORDER BY turned_at)
),

node_room AS (
    SELECT
        room.site_no, room.from_us, room.to_us, room.class_no, room.room_ppm, room.room_mib, room.room_percent,
        asked.room_ppm AS asked_ppm, asked.room_mib AS asked_mib, asked.room_percent AS asked_percent,
        CAST(sum(room.cards) OVER stretch AS BIGINT) AS cards,
        CAST(sum(room.room_ppm) OVER stretch AS BIGINT) AS all_ppm, CAST(sum(room.room_mib) OVER stretch AS BIGINT) AS all_mib,
        CAST(sum(room.room_percent) OVER stretch AS BIGINT) AS all_percent,
        CAST(sum(room.room_ppm) OVER line AS BIGINT) - room.room_ppm AS before_ppm, CAST(sum(room.room_mib) OVER line AS BIGINT) - room.room_mib AS before_mib,
        CAST(sum(room.room_percent) OVER line AS BIGINT) - room.room_percent AS before_percent
    FROM node_swept AS room
    JOIN node_swept AS asked ON asked.class_no = -1 AND asked.site_no = room.site_no AND asked.from_us = room.from_us
    WHERE room.class_no >= 0 AND room.to_us IS NOT NULL AND (asked.room_ppm > 0 OR asked.room_mib > 0 OR asked.room_percent > 0)
    WINDOW
        stretch AS (PARTITION BY room.site_no, room.from_us),
        line AS (PARTITION BY room.site_no, room.from_us ORDER BY room.class_no ROWS UNBOUNDED PRECEDING)
),

-- What the transfers of nodes take of each class is gone for those of their cluster.
taken AS (
    SELECT
        transfer.cluster, room.from_us, room.to_us, room.class_no,
        greatest(0, least(room.before_ppm + room.room_ppm, room.asked_ppm) - room.before_ppm) AS taken_ppm,
        greatest(0, least(room.before_mib + room.room_mib, room.asked_mib) - room.before_mib) AS taken_mib,
        greatest(0, least(room.before_percent + room.room_percent, room.asked_percent) - room.before_percent) AS taken_percent
    FROM node_room AS room
    JOIN transfer ON transfer.site_no = room.site_no
),

cluster_change AS (
    SELECT transfer.site_no, change.turned_at, change.class_no, change.cards, change.room_ppm, change.room_mib, change.room_percent
    FROM transfer
    JOIN (
        SELECT cluster, turned_at, class_no, cards, room_ppm, room_mib, room_percent FROM change
        UNION ALL
        SELECT cluster, from_us, class_no, 0, -taken_ppm, -taken_mib, -taken_percent FROM taken
        UNION ALL
        SELECT cluster, to_us, class_no, 0, taken_ppm, taken_mib, taken_percent FROM taken
    ) AS change ON transfer.place_kind = 'cluster' AND change.cluster = transfer.cluster
    UNION ALL
    SELECT asked.site_no, asked.turned_at, asked.class_no, asked.cards, asked.room_ppm, asked.room_mib, asked.room_percent
    FROM asked
    JOIN transfer ON transfer.site_no = asked.site_no AND transfer.place_kind = 'cluster'
),

cluster_swept AS (
    SELECT
        site_no, class_no, turned_at AS from_us, lead(turned_at) OVER sweep AS to_us, CAST(sum(cards) OVER sweep AS BIGINT) AS cards,
        CAST(sum(room_ppm) OVER sweep AS BIGINT) AS room_ppm, CAST(sum(room_mib) OVER sweep AS BIGINT) AS room_mib,
        CAST(sum(room_percent) OVER sweep AS BIGINT) AS room_percent
    FROM (
        SELECT
            site_no, class_no, turned_at, sum(cards) AS cards, sum(room_ppm) AS room_ppm, sum(room_mib) AS room_mib, sum(room_percent) AS room_percent
        FROM (
            SELECT site_no, class_no, turned_at, cards, room_ppm, room_mib, room_percent FROM cluster_change
            UNION ALL
            SELECT turn.site_no, class.class_no, turn.turned_at, 0, 0, 0, 0
            FROM (SELECT DISTINCT site_no, turned_at FROM cluster_change) AS turn
            CROSS JOIN class
        ) AS changing
        GROUP BY site_no, class_no, turned_at
    ) AS changed
    WINDOW sweep AS (PARTITION BY site_no, class_no ORDER BY turned_at)
),

cluster_room AS (
    SELECT
        room.site_no, room.from_us, room.to_us, room.class_no, room.room_ppm, room.room_mib, room.room_percent,
        asked.room_ppm AS asked_ppm, asked.room_mib AS asked_mib, asked.room_percent AS asked_percent,
        CAST(sum(room.cards) OVER stretch AS BIGINT) AS cards,
        CAST(sum(room.room_ppm) OVER stretch AS BIGINT) AS all_ppm, CAST(sum(room.room_mib) OVER stretch AS BIGINT) AS all_mib,
        CAST(sum(room.room_percent) OVER stretch AS BIGINT) AS all_percent,
        CAST(sum(room.room_ppm) OVER line AS BIGINT) - room.room_ppm AS before_ppm, CAST(sum(room.room_mib) OVER line AS BIGINT) - room.room_mib AS before_mib,
        CAST(sum(room.room_percent) OVER line AS BIGINT) - room.room_percent AS before_percent
    FROM cluster_swept AS room
    JOIN cluster_swept AS asked ON asked.class_no = -1 AND asked.site_no = room.site_no AND asked.from_us = room.from_us
    WHERE room.class_no >= 0 AND room.to_us IS NOT NULL AND (asked.room_ppm > 0 OR asked.room_mib > 0 OR asked.room_percent > 0)
    WINDOW
        stretch AS (PARTITION BY room.site_no, room.from_us),
        line AS (PARTITION BY room.site_no, room.from_us ORDER BY room.class_no ROWS UNBOUNDED PRECEDING)
)

SELECT
    site_no, from_us, to_us, class_no, cards, room_ppm, room_mib, room_percent, asked_ppm, asked_mib, asked_percent, all_ppm, all_mib, all_percent, before_ppm,
    before_mib, before_percent
FROM node_room
UNION ALL
SELECT
    site_no, from_us, to_us, class_no, cards, room_ppm, room_mib, room_percent, asked_ppm, asked_mib, asked_percent, all_ppm, all_mib, all_percent, before_ppm,
    before_mib, before_percent
FROM cluster_room
