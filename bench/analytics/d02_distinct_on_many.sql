-- The latest row of each of a million groups.
SELECT sum(v) AS v, sum(price) AS price, max(product) AS product
FROM (SELECT DISTINCT ON (g1m) v, price, product FROM events ORDER BY g1m, day DESC, id) AS latest;
