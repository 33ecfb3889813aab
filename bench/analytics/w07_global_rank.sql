-- Ranks over all rows at once: no key to part the work by.
SELECT sum(k * (id % 7)) AS checked
FROM (SELECT id, rank() OVER (ORDER BY v) AS k FROM events) AS ranked;
