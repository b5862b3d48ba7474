-- Findings of the severity error that speak of the span, each once.
SELECT code, subject, min(message) AS message
FROM (
  SELECT code, subject, message FROM fact.finding
  WHERE severity = 'error' AND occurred_at >= make_timestamp($from_us) AND occurred_at < make_timestamp($to_us)
  UNION ALL
  SELECT code, subject, message FROM ledger.finding
  WHERE severity = 'error' AND occurred_at >= make_timestamp($from_us) AND occurred_at < make_timestamp($to_us)
) AS found
GROUP BY code, subject
ORDER BY code, subject
