-- What Superset asks beside SQLAlchemy's own inspection: menus of SQL Lab, estimates of cost, charts, cancelling.
SELECT datname FROM pg_database WHERE datistemplate = false;
SELECT nspname FROM pg_namespace WHERE nspname NOT LIKE 'pg_%' ORDER BY nspname;
SELECT pg_catalog.pg_class.relname FROM pg_catalog.pg_class
JOIN pg_catalog.pg_namespace ON pg_catalog.pg_namespace.oid = pg_catalog.pg_class.relnamespace
WHERE pg_catalog.pg_class.relkind = ANY (ARRAY['r', 'p', 'f']) AND pg_catalog.pg_class.relpersistence != 't'
    AND pg_catalog.pg_namespace.nspname = 'shop';
SELECT pg_catalog.pg_get_viewdef(pg_catalog.pg_class.oid) AS pg_get_viewdef_1 FROM pg_catalog.pg_class
JOIN pg_catalog.pg_namespace ON pg_catalog.pg_namespace.oid = pg_catalog.pg_class.relnamespace
WHERE pg_catalog.pg_namespace.nspname = 'shop' AND pg_catalog.pg_class.relname = 'buyers'
    AND pg_catalog.pg_class.relkind = ANY (ARRAY['v', 'm']);
SELECT pg_catalog.pg_attribute.attname AS name,
    pg_catalog.format_type(pg_catalog.pg_attribute.atttypid, pg_catalog.pg_attribute.atttypmod) AS format_type,
    (SELECT pg_catalog.pg_get_expr(pg_catalog.pg_attrdef.adbin, pg_catalog.pg_attrdef.adrelid) AS pg_get_expr_1
        FROM pg_catalog.pg_attrdef WHERE pg_catalog.pg_attrdef.adrelid = pg_catalog.pg_attribute.attrelid
        AND pg_catalog.pg_attrdef.adnum = pg_catalog.pg_attribute.attnum
        AND pg_catalog.pg_attribute.atthasdef) AS "default",
    pg_catalog.pg_attribute.attnotnull AS not_null, pg_catalog.pg_class.relname AS table_name,
    pg_catalog.pg_description.description AS comment, pg_catalog.pg_attribute.attgenerated AS generated,
    (SELECT json_build_object('always', pg_catalog.pg_attribute.attidentity = 'a', 'start',
        pg_catalog.pg_sequence.seqstart, 'increment', pg_catalog.pg_sequence.seqincrement, 'minvalue',
        pg_catalog.pg_sequence.seqmin, 'maxvalue', pg_catalog.pg_sequence.seqmax, 'cache',
        pg_catalog.pg_sequence.seqcache, 'cycle', pg_catalog.pg_sequence.seqcycle) AS json_build_object_1
        FROM pg_catalog.pg_sequence WHERE pg_catalog.pg_attribute.attidentity != ''
        AND pg_catalog.pg_sequence.seqrelid = CAST(CAST(pg_catalog.pg_get_serial_sequence(
            CAST(CAST(pg_catalog.pg_attribute.attrelid AS REGCLASS) AS TEXT), pg_catalog.pg_attribute.attname)
            AS REGCLASS) AS OID)) AS identity_options
FROM pg_catalog.pg_class
LEFT OUTER JOIN pg_catalog.pg_attribute ON pg_catalog.pg_class.oid = pg_catalog.pg_attribute.attrelid
    AND pg_catalog.pg_attribute.attnum > 0 AND NOT pg_catalog.pg_attribute.attisdropped
LEFT OUTER JOIN pg_catalog.pg_description
    ON pg_catalog.pg_description.objoid = pg_catalog.pg_attribute.attrelid
    AND pg_catalog.pg_description.objsubid = pg_catalog.pg_attribute.attnum
JOIN pg_catalog.pg_namespace ON pg_catalog.pg_namespace.oid = pg_catalog.pg_class.relnamespace
WHERE pg_catalog.pg_class.relkind = ANY (ARRAY['r', 'p', 'f', 'v', 'm']) AND pg_catalog.pg_namespace.nspname = 'shop'
    AND pg_catalog.pg_class.relname IN ('sale')
ORDER BY pg_catalog.pg_class.relname, pg_catalog.pg_attribute.attnum;
SET search_path = "shop";
EXPLAIN SELECT name FROM customer WHERE id = 1;
SELECT pg_backend_pid();
SELECT * FROM (SELECT name, credit FROM customer) AS virtual_table LIMIT 1001 OFFSET 0;
SELECT DATE_TRUNC('day', sold) AS __timestamp, COUNT(*) AS count, SUM(amount) AS "SUM(amount)" FROM shop.sale
WHERE sold >= TO_TIMESTAMP('2020-01-01 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US')
    AND sold < TO_TIMESTAMP('2030-01-01 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US')
GROUP BY DATE_TRUNC('day', sold) ORDER BY "SUM(amount)" DESC LIMIT 10000;
SELECT DATE_TRUNC('week', DATE_TRUNC('day', sold) + INTERVAL '1 day') + INTERVAL '5 days' AS w,
    CASE WHEN grouping(customer) = 1 THEN 'all' ELSE customer::text END AS c, count(*)
FROM shop.sale GROUP BY ROLLUP (customer), 1 ORDER BY 1, 2;
SELECT CAST(name AS TEXT), name ILIKE '%a%' FROM customer WHERE name IN ('Ann', 'Bob') ORDER BY name ASC LIMIT 1000;
RESET search_path;
