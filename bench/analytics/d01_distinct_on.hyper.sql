-- The latest row of each of 1,000 groups, for HyPer (its DISTINCT ON may order by nothing but what it gives out).
SELECT sum(v) AS v, sum(price) AS price, max(day) AS day
FROM (SELECT v, price, day, row_number() OVER (PARTITION BY g1000 ORDER BY day DESC, id) AS k FROM events) AS latest WHERE k = 1;
