-- Every version of every price book, and who declared it when and why.
SELECT book, version, sha256, lines_count, declared_by, reason, epoch_us(occurred_at) AS declared_at
FROM fact.price_book
ORDER BY book, version
