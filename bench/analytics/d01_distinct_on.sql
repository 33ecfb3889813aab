-- The latest row of each of 1,000 groups.
SELECT sum(v) AS v, sum(price) AS price, max(day) AS day
FROM (SELECT DISTINCT ON (g1000) v, price, day FROM events ORDER BY g1000, day DESC, id) AS latest;
