-- The latest row of each of a million groups, for HyPer (its DISTINCT ON may order by nothing but what it gives out).
SELECT sum(v) AS v, sum(price) AS price, max(product) AS product
FROM (SELECT v, price, product, row_number() OVER (PARTITION BY g1m ORDER BY day DESC, id) AS k FROM events) AS latest WHERE k = 1;
