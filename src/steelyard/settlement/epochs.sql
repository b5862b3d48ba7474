-- Instants within a span at which the tenancy tree, a price, a discount or a model's weight changes: a statement's lines are split there.
WITH stamps AS (
  SELECT unnest([from_us, to_us]) AS at_us FROM dim.tenancy_pod
  UNION ALL
  SELECT unnest([from_us, to_us]) FROM dim.price_line
  UNION ALL
  SELECT unnest([from_us, to_us]) FROM dim.discount_line
  UNION ALL
  SELECT unnest([epoch_us(valid_from_at), epoch_us(valid_to_at)]) FROM dim.model_weight
)
SELECT DISTINCT at_us FROM stamps WHERE at_us > $from_us AND at_us < $to_us ORDER BY at_us
