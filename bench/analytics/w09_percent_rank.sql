-- Shares of the rows before.
SELECT sum(p) AS p, sum(c) AS c
FROM (SELECT percent_rank() OVER w AS p, cume_dist() OVER w AS c FROM events
      WINDOW w AS (PARTITION BY g1000 ORDER BY n)) AS shares;
