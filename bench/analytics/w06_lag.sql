-- What changed since the row before.
SELECT sum(abs(v - before)) AS checked, count(before) AS known
FROM (SELECT v, lag(v) OVER (PARTITION BY g1m ORDER BY id) AS before FROM events) AS moved;
