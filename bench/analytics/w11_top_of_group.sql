-- The three dearest rows of each of a million groups.
SELECT count(*) AS kept, sum(price) AS price
FROM (SELECT price, row_number() OVER (PARTITION BY g1m ORDER BY price DESC, id) AS k FROM events) AS numbered
WHERE k <= 3;
