-- What DBeaver asks: on connecting, and as its tree of a database, a schema and a table is opened.
SELECT version();
SELECT current_schema(), session_user;
SHOW search_path;
SET application_name = 'DBeaver 24.1.0 - Main <postgres>';
SET extra_float_digits = 3;
SELECT typcategory FROM pg_type WHERE 1 = 1 LIMIT 1;
SELECT db.oid, db.* FROM pg_catalog.pg_database db WHERE datallowconn AND NOT datistemplate OR db.datname = 'nearside'
ORDER BY db.datname;
SELECT db.oid, db.*, pg_catalog.pg_encoding_to_char(db.encoding) AS encoding_name FROM pg_catalog.pg_database db
WHERE db.datname = 'nearside';
SELECT pg_database_size('nearside');
SELECT n.oid, n.*, d.description FROM pg_catalog.pg_namespace n
LEFT OUTER JOIN pg_catalog.pg_description d
    ON d.objoid = n.oid AND d.objsubid = 0 AND d.classoid = 'pg_namespace'::regclass
ORDER BY nspname;
SELECT t.oid, t.*, c.relkind, format_type(nullif(t.typbasetype, 0), t.typtypmod) AS base_type_name, d.description
FROM pg_catalog.pg_type t
LEFT OUTER JOIN pg_catalog.pg_type et ON et.oid = t.typelem
LEFT OUTER JOIN pg_catalog.pg_class c ON c.oid = t.typrelid
LEFT OUTER JOIN pg_catalog.pg_description d ON t.oid = d.objoid
WHERE t.typname IS NOT NULL AND (c.relkind IS NULL OR c.relkind = 'c')
    AND (et.typcategory IS NULL OR et.typcategory <> 'C');
SELECT * FROM pg_catalog.pg_enum e ORDER BY e.enumsortorder;
SELECT c.oid, c.*, d.description, pg_catalog.pg_get_expr(c.relpartbound, c.oid) AS partition_expr,
    pg_catalog.pg_get_partkeydef(c.oid) AS partition_key
FROM pg_catalog.pg_class c
LEFT OUTER JOIN pg_catalog.pg_description d
    ON d.objoid = c.oid AND d.objsubid = 0 AND d.classoid = 'pg_class'::regclass
WHERE c.relnamespace = 'shop'::regnamespace AND c.relkind NOT IN ('i', 'I', 'c');
SELECT c.oid, pg_catalog.pg_total_relation_size(c.oid) AS total_rel_size, pg_catalog.pg_relation_size(c.oid) AS rel_size
FROM pg_class c WHERE c.relnamespace = 'shop'::regnamespace;
SELECT reltuples::bigint FROM pg_catalog.pg_class WHERE oid = 'shop.sale'::regclass;
SELECT pg_catalog.pg_stat_get_numscans('shop.sale'::regclass);
SELECT c.relname, a.*, pg_catalog.pg_get_expr(ad.adbin, ad.adrelid, true) AS def_value, dsc.description, dep.objid
FROM pg_catalog.pg_attribute a
INNER JOIN pg_catalog.pg_class c ON (a.attrelid = c.oid)
LEFT OUTER JOIN pg_catalog.pg_attrdef ad ON (a.attrelid = ad.adrelid AND a.attnum = ad.adnum)
LEFT OUTER JOIN pg_catalog.pg_description dsc ON (c.oid = dsc.objoid AND a.attnum = dsc.objsubid)
LEFT OUTER JOIN pg_depend dep
    ON dep.refobjid = a.attrelid AND dep.deptype = 'i' AND dep.refobjsubid = a.attnum AND dep.classid = dep.refclassid
WHERE NOT a.attisdropped AND c.oid = 'shop.customer'::regclass ORDER BY a.attnum;
SELECT c.oid, c.*, t.relname AS tabrelname, rt.relnamespace AS refnamespace, d.description,
    CASE WHEN c.contype = 'c' THEN "substring"(pg_get_constraintdef(c.oid), 7) ELSE NULL END consrc_copy
FROM pg_catalog.pg_constraint c
INNER JOIN pg_catalog.pg_class t ON t.oid = c.conrelid
LEFT OUTER JOIN pg_catalog.pg_class rt ON rt.oid = c.confrelid
LEFT OUTER JOIN pg_catalog.pg_description d
    ON d.objoid = c.oid AND d.objsubid = 0 AND d.classoid = 'pg_constraint'::regclass
WHERE c.conrelid = 'shop.customer'::regclass ORDER BY c.oid;
SELECT i.*, i.indkey AS keys, c.relname, c.relnamespace, c.relam, c.reltablespace, tc.relname AS tabrelname,
    dsc.description, pg_catalog.pg_get_expr(i.indpred, i.indrelid) AS pred_expr,
    pg_catalog.pg_get_expr(i.indexprs, i.indrelid, true) AS expr,
    pg_catalog.pg_relation_size(i.indexrelid) AS index_rel_size,
    pg_catalog.pg_stat_get_numscans(i.indexrelid) AS index_num_scans
FROM pg_catalog.pg_index i
INNER JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid
INNER JOIN pg_catalog.pg_class tc ON tc.oid = i.indrelid
LEFT OUTER JOIN pg_catalog.pg_description dsc ON i.indexrelid = dsc.objoid
WHERE i.indrelid = 'shop.sale'::regclass ORDER BY tabrelname, c.relname;
SELECT x.oid, x.*, p.pronamespace AS func_schema_id, d.description FROM pg_catalog.pg_trigger x
LEFT OUTER JOIN pg_catalog.pg_proc p ON p.oid = x.tgfoid
LEFT OUTER JOIN pg_catalog.pg_description d
    ON d.objoid = x.oid AND d.objsubid = 0 AND d.classoid = 'pg_trigger'::regclass
WHERE x.tgrelid = 'shop.sale'::regclass AND NOT x.tgisinternal;
SELECT * FROM pg_catalog.pg_rewrite r WHERE r.ev_class = 'shop.sale'::regclass;
SELECT * FROM pg_catalog.pg_policies WHERE schemaname = 'shop' AND tablename = 'sale';
SELECT DISTINCT dep.deptype, dep.classid, dep.objid, cl.relkind, attr.attname,
    pg_get_expr(ad.adbin, ad.adrelid) adefval,
    CASE WHEN cl.relkind IS NOT NULL THEN cl.relkind::text || COALESCE(dep.objsubid::text, '')
        WHEN tg.oid IS NOT NULL THEN 'T'::text WHEN ty.oid IS NOT NULL THEN 'y'::text
        WHEN ns.oid IS NOT NULL THEN 'n'::text WHEN pr.oid IS NOT NULL THEN 'p'::text
        WHEN la.oid IS NOT NULL THEN 'l'::text WHEN rw.oid IS NOT NULL THEN 'R'::text
        WHEN co.oid IS NOT NULL THEN 'C'::text || contype::text WHEN ad.oid IS NOT NULL THEN 'A'::text
        ELSE '' END AS type,
    COALESCE(coc.relname, clrw.relname) AS ownertable,
    CASE WHEN cl.relname IS NOT NULL AND att.attname IS NOT NULL THEN cl.relname || '.' || att.attname
        ELSE COALESCE(cl.relname, co.conname, pr.proname, tg.tgname, ty.typname, la.lanname, rw.rulename, ns.nspname)
        END AS refname,
    COALESCE(nsc.nspname, nso.nspname, nsp.nspname, nst.nspname, nsrw.nspname) AS nspname
FROM pg_depend dep
LEFT JOIN pg_class cl ON dep.objid = cl.oid
LEFT JOIN pg_attribute att ON dep.objid = att.attrelid AND dep.objsubid = att.attnum
LEFT JOIN pg_namespace nsc ON cl.relnamespace = nsc.oid
LEFT JOIN pg_proc pr ON dep.objid = pr.oid
LEFT JOIN pg_namespace nsp ON pr.pronamespace = nsp.oid
LEFT JOIN pg_trigger tg ON dep.objid = tg.oid
LEFT JOIN pg_type ty ON dep.objid = ty.oid
LEFT JOIN pg_namespace nst ON ty.typnamespace = nst.oid
LEFT JOIN pg_constraint co ON dep.objid = co.oid
LEFT JOIN pg_class coc ON co.conrelid = coc.oid
LEFT JOIN pg_namespace nso ON co.connamespace = nso.oid
LEFT JOIN pg_rewrite rw ON dep.objid = rw.oid
LEFT JOIN pg_class clrw ON clrw.oid = rw.ev_class
LEFT JOIN pg_namespace nsrw ON clrw.relnamespace = nsrw.oid
LEFT JOIN pg_language la ON dep.objid = la.oid
LEFT JOIN pg_namespace ns ON dep.objid = ns.oid
LEFT JOIN pg_attrdef ad ON ad.oid = dep.objid
LEFT JOIN pg_attribute attr ON attr.attrelid = ad.adrelid AND attr.attnum = ad.adnum
WHERE dep.refobjid = 'shop.customer'::regclass ORDER BY type;
SELECT i.*, c.relnamespace FROM pg_catalog.pg_inherits i, pg_catalog.pg_class c
WHERE i.inhrelid = 'shop.sale'::regclass AND c.oid = i.inhparent ORDER BY i.inhseqno;
SELECT p.oid AS poid, p.*, pg_catalog.pg_get_expr(p.proargdefaults, 0) AS arg_defaults, d.description
FROM pg_catalog.pg_proc p
LEFT OUTER JOIN pg_catalog.pg_description d ON d.objoid = p.oid AND d.objsubid = 0
WHERE p.pronamespace = 'shop'::regnamespace ORDER BY p.proname;
SELECT pg_get_functiondef('shop.doubled'::regproc);
SELECT pg_catalog.pg_get_viewdef('shop.buyers'::regclass, true);
SELECT pg_catalog.pg_get_constraintdef(oid) FROM pg_catalog.pg_constraint WHERE conrelid = 'shop.sale'::regclass;
SELECT pg_catalog.pg_get_indexdef('shop.sale_sold'::regclass);
SELECT * FROM pg_catalog.pg_sequences WHERE schemaname = 'shop' AND sequencename = 'customer_id_seq';
SELECT * FROM pg_catalog.pg_sequence WHERE seqrelid = 'shop.customer_id_seq'::regclass;
SELECT last_value, is_called FROM shop.customer_id_seq;
SELECT * FROM information_schema.table_privileges WHERE table_schema = 'shop' AND table_name = 'sale';
SELECT relacl FROM pg_catalog.pg_class WHERE oid = 'shop.sale'::regclass;
SELECT nspacl FROM pg_catalog.pg_namespace WHERE oid = 'shop'::regnamespace;
SELECT a.oid, a.*, pd.description FROM pg_catalog.pg_roles a
LEFT JOIN pg_catalog.pg_shdescription pd ON a.oid = pd.objoid ORDER BY a.rolname;
SELECT am.*, r.rolname FROM pg_catalog.pg_auth_members am, pg_catalog.pg_roles r WHERE r.oid = am.roleid;
SELECT t.oid, t.*, pg_tablespace_location(t.oid) loc FROM pg_catalog.pg_tablespace t ORDER BY t.oid;
SELECT a.oid, a.* FROM pg_catalog.pg_am a ORDER BY a.oid;
SELECT l.oid, l.* FROM pg_catalog.pg_language l ORDER BY l.oid;
SELECT c.oid, c.* FROM pg_catalog.pg_collation c ORDER BY c.oid;
SELECT f.oid, f.*, p.proname AS handler_name, pv.proname AS validator_name FROM pg_catalog.pg_foreign_data_wrapper f
LEFT OUTER JOIN pg_catalog.pg_proc p ON p.oid = f.fdwhandler
LEFT OUTER JOIN pg_catalog.pg_proc pv ON pv.oid = f.fdwvalidator ORDER BY f.fdwname;
SELECT f.oid, f.* FROM pg_catalog.pg_foreign_server f ORDER BY f.srvname;
SELECT e.oid, e.*, n.nspname AS schema_name FROM pg_catalog.pg_extension e
LEFT JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace ORDER BY e.oid;
SELECT name, default_version, installed_version, comment FROM pg_catalog.pg_available_extensions ORDER BY name;
SELECT oid, * FROM pg_catalog.pg_event_trigger ORDER BY evtname;
SELECT * FROM pg_catalog.pg_settings;
SELECT sa.* FROM pg_catalog.pg_stat_activity sa;
SELECT sum(numbackends) AS n, sum(xact_commit) AS commits, sum(xact_rollback) AS rollbacks, sum(blks_read) AS reads,
    sum(tup_returned) AS returned FROM pg_stat_database WHERE datname = 'nearside';
SELECT schemaname, relname, n_live_tup, n_dead_tup, last_vacuum, last_analyze FROM pg_stat_user_tables;
SELECT word FROM pg_get_keywords() WHERE catcode = 'R';
SELECT x.* FROM shop.customer x LIMIT 200 OFFSET 0;
SELECT count(*) FROM (SELECT x.* FROM shop.customer x) dbvrcnt;
SELECT has_schema_privilege('shop', 'CREATE'), has_database_privilege('nearside', 'CREATE');
EXPLAIN (FORMAT JSON) SELECT * FROM shop.sale;
