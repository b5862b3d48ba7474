-- Sources that spoke within the span and fell silent before its end: source, cluster, last heard.
SELECT source, cluster, epoch_us(max(occurred_at)) AS heard_us
FROM fact.source_status
WHERE status <> 'failed' AND occurred_at >= make_timestamp($from_us)
GROUP BY source, cluster
HAVING min(occurred_at) < make_timestamp($to_us) AND max(occurred_at) < make_timestamp($late_us)
ORDER BY source, cluster
