-- Many calls over one window.
SELECT sum(a * (id % 7)) AS a, sum(b * (id % 7)) AS b, sum(c % 1000003) AS c, sum(d) AS d, sum(e) AS e, sum(f) AS f
FROM (SELECT id, row_number() OVER w AS a, rank() OVER w AS b, sum(n) OVER w AS c, min(n) OVER w AS d,
        lead(v) OVER w AS e, first_value(v) OVER w AS f
      FROM events WINDOW w AS (PARTITION BY g1000 ORDER BY day, id)) AS several;
