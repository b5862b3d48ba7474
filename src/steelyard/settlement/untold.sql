-- Services of which a gateway does not tell all tokens: name, and how many rows.
SELECT cluster || ': ' || service, CAST(sum(untold_count) AS BIGINT)
FROM settling_service
GROUP BY cluster, service
HAVING sum(untold_count) > 0
ORDER BY ALL
