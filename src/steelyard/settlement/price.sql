-- The lines of the price books that count.
SELECT book, version, price_id, side, component, for_cluster, model, unit_kind, commitment, tenant, currency, price_micro, per,
  CASE WHEN from_us > -62135596800000000 THEN make_timestamp(from_us) END AS valid_from_at,
  CASE WHEN to_us < 253402300799000000 THEN make_timestamp(to_us) END AS valid_to_at, provisional
FROM dim.price_line
