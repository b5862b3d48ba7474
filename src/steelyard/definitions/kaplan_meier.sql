-- Over rows of (curve, wait_us), each once: how many ended then (waits, of them events), wait_us NULL = before the first end that anybody saw.

-- At risk at a time: all that ended then or later.
CREATE OR REPLACE MACRO at_risk(waits, curve, wait_us) AS
  sum(waits) OVER (PARTITION BY curve) - sum(waits) OVER (PARTITION BY curve ORDER BY wait_us NULLS FIRST ROWS UNBOUNDED PRECEDING) + waits;

-- The part of a curve that still waits after each time. Where the last at risk are served together nobody waits: ln(0) stands as a very small number.
CREATE OR REPLACE MACRO product_limit(events, at_risk, curve, wait_us) AS
  exp(
    sum(CASE WHEN events = 0 THEN 0 WHEN events = at_risk THEN -1e300 ELSE ln((at_risk - events) / at_risk) END)
      OVER (PARTITION BY curve ORDER BY wait_us NULLS FIRST ROWS UNBOUNDED PRECEDING)
  );

-- An aggregate over the rows of a curve: the smallest time after which no more than 1 - p of it still waits; NULL = not reached.
CREATE OR REPLACE MACRO survival_quantile(wait_us, events, survival, p) AS
  min(CASE WHEN events > 0 AND survival <= (1 - p) * (1 + 1e-9) THEN wait_us END);
