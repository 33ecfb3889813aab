//! Databases in folders: what is kept beside tables, going back in time, what does not fit, how fast the background
//! writes.

use std::path::Path;
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use nearside::{Database, Session, check_folder, restore_folder};

use crate::read::{database, number, rows};

fn opened(folder: &Path) -> Session {
    open_with(folder, 1 << 30).unwrap()
}

fn open_with(folder: &Path, memory_bytes: u64) -> nearside::Result<Session> {
    let database = Database::builder().threads(2).memory_bytes(memory_bytes).folder(folder).build()?;
    Ok(database.session())
}

fn fails(session: &Session, sql: &str) -> String {
    session.execute(sql).map(drop).unwrap_err().to_string()
}

#[test]
fn settings_of_the_database_are_there_again() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("db");
    let session = opened(&folder);
    session
        .execute(
            "ALTER SYSTEM SET nearside.merge_idle_ms = 1234; ALTER SYSTEM SET nearside.balancer = ma(2);
             ALTER SYSTEM SET nearside.restore_window_s = '1min'; CHECKPOINT;
             ALTER SYSTEM SET nearside.background_write_mb_per_s = 7; ALTER SYSTEM RESET nearside.balancer",
        )
        .unwrap();
    assert!(fails(&session, "ALTER SYSTEM SET nearside.restore_window_s = soon").contains("a number of seconds"));
    let all = |session: &Session| {
        let names = ["merge_idle_ms", "balancer", "restore_window_s", "background_write_mb_per_s"];
        names.map(|name| rows(session, &format!("SHOW nearside.{name}"))[0][1].clone())
    };
    let wanted = ["1234", "one_shot", "60", "7"].map(String::from);
    assert_eq!(all(&session), wanted);
    drop(session);
    for _ in 0..2 {
        // By the log's records first, then by the checkpoint that opening makes of them.
        drop(opened(&folder));
        assert_eq!(all(&opened(&folder)), wanted);
    }
    opened(&folder).execute("ALTER SYSTEM RESET ALL").unwrap();
    assert_eq!(all(&opened(&folder))[1..], ["one_shot", "0", "0"].map(String::from));
    // In memory there is nothing that they could be for; asking for the defaults is no fault.
    let memory = Database::builder().threads(1).memory_bytes(1 << 28).build().unwrap().session();
    let told = fails(&memory, "ALTER SYSTEM SET nearside.restore_window_s = 60");
    assert!(told.contains("restore_window_s") && told.contains("in memory alone"), "{told}");
    memory.execute("ALTER SYSTEM RESET ALL").unwrap();
}

#[test]
fn rights_are_there_again() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("db");
    let session = opened(&folder);
    session
        .execute(
            "CREATE ROLE ann; CREATE ROLE bob; ALTER ROLE bob SET nearside.max_rows = 7; CREATE SCHEMA s;
             ALTER SCHEMA s OWNER TO ann; CREATE TABLE t (a INT, b INT); CHECKPOINT;
             GRANT SELECT (a), UPDATE ON t TO bob WITH GRANT OPTION; SET ROLE ann; CREATE TABLE s.u (x SERIAL);
             ALTER DEFAULT PRIVILEGES IN SCHEMA s GRANT SELECT ON TABLES TO bob; CREATE TEMPORARY TABLE own (x INT);
             RESET ROLE; BEGIN; GRANT INSERT ON t TO ann; ALTER TABLE t RENAME TO r; COMMIT;
             BEGIN; GRANT DELETE ON r TO ann; ROLLBACK; GRANT SET ON PARAMETER nearside.max_rows TO bob",
        )
        .unwrap();
    drop(session);
    let all = |session: &Session| {
        let of_relations = "SELECT relname, pg_get_userbyid(relowner), relacl::text FROM pg_class
                            WHERE relname IN ('r', 'u', 'u_x_seq', 'own') ORDER BY 1";
        let others =
            "SELECT pg_get_userbyid(nspowner), (SELECT attacl::text FROM pg_attribute WHERE attacl IS NOT NULL),
                             (SELECT defaclacl::text FROM pg_default_acl), (SELECT paracl::text FROM pg_parameter_acl),
                             (SELECT rolconfig::text FROM pg_roles WHERE rolname = 'bob')
                      FROM pg_namespace WHERE nspname = 's'";
        [rows(session, of_relations), rows(session, others)].concat()
    };
    let wanted = [
        vec!["r", "nearside", "{nearside=arwdDxt/nearside,bob=w*/nearside,ann=a/nearside}"],
        vec!["u", "ann", "NULL"],
        vec!["u_x_seq", "ann", "NULL"],
        vec!["ann", "{bob=r*/nearside}", "{bob=r/ann}", "{bob=s/nearside}", "{nearside.max_rows=7}"],
    ];
    for _ in 0..2 {
        let session = opened(&folder);
        assert_eq!(all(&session), wanted);
        drop(session);
    }
    let session = opened(&folder);
    session
        .execute("SET ROLE ann; CREATE TABLE s.v (x INT); RESET ROLE; DROP TABLE r; CREATE TABLE r (a INT)")
        .unwrap();
    drop(session);
    let session = opened(&folder);
    assert_eq!(all(&session)[0], ["r", "nearside", "NULL"]);
    assert_eq!(rows(&session, "SELECT has_table_privilege('bob', 's.v', 'select')"), [["true"]]);
    assert!(fails(&session, "DROP ROLE ann").contains("owns"));
}

#[test]
fn enums_are_there_again() {
    let place = tempfile::tempdir().unwrap();
    let (folder, backup, script) = (place.path().join("db"), place.path().join("backup"), place.path().join("script"));
    let session = opened(&folder);
    session
        .execute(
            "CREATE TYPE mood AS ENUM ('sad', 'happy'); CREATE SCHEMA s;
             CREATE TYPE s.\"Odd one\" AS ENUM ('it''s', 'b');
             CREATE TABLE t (id INT PRIMARY KEY, m mood, o s.\"Odd one\" DEFAULT 'it''s'); CREATE INDEX ON t (m);
             CREATE TABLE c (m mood DEFAULT 'happy'::mood CHECK (m > 'sad' AND m <> 'sad'::mood));
             INSERT INTO t (id, m) VALUES (1, 'happy'); INSERT INTO t VALUES (2, 'sad', 'b'); CHECKPOINT;
             ALTER TYPE mood ADD VALUE 'ok' BEFORE 'happy';
             INSERT INTO t (id, m) VALUES (3, 'ok'); ALTER TYPE mood RENAME VALUE 'ok' TO 'fine';
             COMMENT ON TYPE mood IS 'how it is'; CREATE TYPE short AS ENUM ('a'); DROP TYPE short;
             BEGIN; CREATE TYPE made AS ENUM ('x', 'y'); CREATE TABLE u (c made); INSERT INTO u VALUES ('y'), ('x');
             COMMIT;
             BEGIN; CREATE TYPE undone AS ENUM ('z'); ALTER TYPE mood ADD VALUE 'never'; ROLLBACK",
        )
        .unwrap();
    let all = |session: &Session| {
        let labels = "SELECT typname, enumlabel FROM pg_enum JOIN pg_type t ON t.oid = enumtypid
                      ORDER BY typname, enumsortorder";
        (
            rows(session, labels),
            rows(session, "SELECT m, o FROM t ORDER BY m"),
            rows(session, "SELECT c FROM u ORDER BY c"),
            rows(session, "SELECT obj_description('mood'::regtype::oid, 'pg_type')"),
        )
    };
    let wanted = all(&session);
    assert_eq!(wanted.0.len(), 7);
    let moods: Vec<&str> = wanted.1.iter().map(|row| row[0].as_str()).collect();
    assert_eq!(moods, ["sad", "fine", "happy"]);
    assert_eq!(wanted.3[0][0], "how it is");
    session.execute(&format!("BACKUP DATABASE TO '{}'", backup.display())).unwrap();
    session.execute(&format!("EXPORT DATABASE '{}'", script.display())).unwrap();
    drop(session);
    for _ in 0..2 {
        // By the log's records first, then by the checkpoint that opening makes of them.
        assert_eq!(all(&opened(&folder)), wanted);
    }
    assert_eq!(all(&opened(&backup)), wanted);
    assert!(
        fails(&opened(&folder), "INSERT INTO t (id, m) VALUES (4, 'ok')").contains("'ok' is no label of enum mood")
    );
    let again = database().session();
    again.execute(&format!("IMPORT DATABASE '{}'", script.display())).unwrap();
    assert_eq!(all(&again), wanted);
}

#[test]
fn domains_and_checks_of_views_are_there_again() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("db");
    let session = opened(&folder);
    session
        .execute(
            "CREATE DOMAIN pos AS INT DEFAULT 7 CHECK (VALUE > 0); CREATE SCHEMA s;
             CREATE DOMAIN s.small AS pos NOT NULL CONSTRAINT top CHECK (VALUE < 100);
             CREATE TABLE t (a pos, b s.small, c VARCHAR(5)); INSERT INTO t VALUES (1, 2, 'x'); CHECKPOINT;
             BEGIN; ALTER DOMAIN pos ADD CONSTRAINT never_five CHECK (VALUE <> 5) NOT VALID; COMMIT;
             BEGIN; ALTER DOMAIN s.small DROP CONSTRAINT top; ROLLBACK;
             CREATE VIEW v AS SELECT a, c FROM t WHERE c <> 'no' WITH LOCAL CHECK OPTION;
             CREATE DOMAIN gone AS INT; DROP DOMAIN gone",
        )
        .unwrap();
    let look = |session: &Session| {
        for (sql, part) in [
            ("INSERT INTO t VALUES (5, 2)", "value for domain pos violates check constraint \"never_five\""),
            ("INSERT INTO t VALUES (1, 5)", "never_five"),
            ("INSERT INTO t VALUES (1, 200)", "value for domain s.small violates check constraint \"top\""),
            ("INSERT INTO t VALUES (1, NULL)", "domain s.small does not allow null values"),
            ("UPDATE v SET c = 'no'", "check option of view 'v'"),
            ("CREATE TABLE x AS SELECT 0::s.small AS z", "value for domain pos"),
            ("DROP SCHEMA s CASCADE", "column 'b' of table 't' is of a domain in schema 's'"),
            ("SELECT 1::gone", "gone"),
        ] {
            let told = fails(session, sql);
            assert!(told.contains(part), "{sql}: {told}");
        }
        session.execute("BEGIN; INSERT INTO t (c) VALUES ('d')").unwrap();
        assert_eq!(rows(session, "SELECT a, b FROM t WHERE c = 'd'"), [["7", "7"]]);
        session.execute("ROLLBACK").unwrap();
        assert_eq!(rows(session, "SELECT convalidated FROM pg_constraint WHERE conname = 'never_five'"), [["false"]]);
        assert_eq!(
            rows(session, "SELECT check_option FROM information_schema.views WHERE table_name = 'v'"),
            [["LOCAL"]]
        );
    };
    look(&session);
    drop(session);
    for _ in 0..2 {
        // By the log's records first, then by the checkpoint that opening makes of them.
        look(&opened(&folder));
    }
    let exported = place.path().join("exported");
    opened(&folder).execute(&format!("EXPORT DATABASE '{}'", exported.display())).unwrap();
    let other = Database::builder().threads(2).memory_bytes(1 << 30).build().unwrap().session();
    other.execute(&format!("IMPORT DATABASE '{}'", exported.display())).unwrap();
    look(&other);
}

#[test]
fn roles_are_there_again() {
    let place = tempfile::tempdir().unwrap();
    let (folder, backup) = (place.path().join("db"), place.path().join("backup"));
    let session = opened(&folder);
    session
        .execute(
            "CREATE ROLE readers; CREATE USER ann SUPERUSER PASSWORD 'secret' VALID UNTIL '2030-01-31 12:00:00+00';
             CHECKPOINT; GRANT readers TO ann WITH ADMIN OPTION; CREATE ROLE short; DROP ROLE short;
             BEGIN; CREATE ROLE made IN ROLE readers; ALTER ROLE nearside NOINHERIT; COMMIT;
             BEGIN; CREATE ROLE undone; ROLLBACK",
        )
        .unwrap();
    let all = |session: &Session| {
        let roles = "SELECT oid::bigint, rolname, rolsuper, rolinherit, rolcanlogin, coalesce(rolpassword, 'none'),
                     coalesce(rolvaliduntil::text, 'none') FROM pg_authid WHERE rolname !~ '^pg_' ORDER BY rolname";
        let members = "SELECT roleid::bigint, member::bigint, admin_option FROM pg_auth_members
                       WHERE member >= 16384 ORDER BY 1, 2";
        (rows(session, roles), rows(session, members))
    };
    let wanted = all(&session);
    assert_eq!((wanted.0.len(), wanted.1.len()), (4, 2));
    session.execute(&format!("BACKUP DATABASE TO '{}'", backup.display())).unwrap();
    drop(session);
    for _ in 0..2 {
        // By the log's records first, then by the checkpoint that opening makes of them.
        drop(opened(&folder));
        assert_eq!(all(&opened(&folder)), wanted);
    }
    assert_eq!(all(&opened(&backup)), wanted);
    // A number is given once.
    let session = opened(&folder);
    session.execute("DROP ROLE made; CREATE ROLE made").unwrap();
    let number = |rows: &[Vec<String>]| rows.iter().find(|row| row[1] == "made").unwrap()[0].clone();
    assert_ne!(number(&all(&session).0), number(&wanted.0));
    // Nothing on the disk knows the password.
    drop(session);
    for file in std::fs::read_dir(&folder).unwrap().map(|file| file.unwrap().path()).filter(|path| path.is_file()) {
        let bytes = std::fs::read(&file).unwrap();
        assert!(!bytes.windows(8).any(|window| window == b"'secret'"), "{}", file.display());
    }
}

#[test]
fn transactions_that_change_one_role_meet() {
    let database = Database::builder().threads(2).memory_bytes(1 << 29).build().unwrap();
    let (one, two) = (database.session(), database.session());
    one.execute("CREATE ROLE a; CREATE ROLE b").unwrap();
    one.execute("BEGIN; ALTER ROLE a LOGIN").unwrap();
    two.execute("ALTER ROLE b LOGIN").unwrap();
    one.execute("COMMIT").unwrap();
    assert_eq!(rows(&two, "SELECT count(*) FROM pg_roles WHERE rolcanlogin"), [["3"]]);
    one.execute("BEGIN; ALTER ROLE a SUPERUSER").unwrap();
    two.execute("DROP ROLE a").unwrap();
    assert!(fails(&one, "COMMIT").contains("role 'a'"));
    assert_eq!(rows(&two, "SELECT count(*) FROM pg_roles WHERE rolname !~ '^pg_'"), [["2"]]);
    // A membership in a role that goes meanwhile goes with it.
    one.execute("CREATE ROLE c; BEGIN; GRANT b TO c").unwrap();
    two.execute("DROP ROLE b").unwrap();
    one.execute("COMMIT").unwrap();
    assert_eq!(rows(&two, "SELECT count(*) FROM pg_auth_members WHERE member >= 16384"), [["0"]]);
}

/// The time of now, with all that was committed before it earlier and all that comes later.
fn moment() -> DateTime<Utc> {
    std::thread::sleep(Duration::from_millis(3));
    let now = Utc::now();
    std::thread::sleep(Duration::from_millis(3));
    now
}

#[test]
fn a_folder_goes_back_to_any_point_of_its_window() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("db");
    let session = opened(&folder);
    session.execute("CREATE TABLE t (id BIGINT PRIMARY KEY, v BIGINT); INSERT INTO t VALUES (0, 0)").unwrap();
    let too_early = Utc::now() - chrono::Duration::days(1);
    session.execute("ALTER SYSTEM SET nearside.restore_window_s = '1h'").unwrap();
    let sum = |session: &Session| {
        let is_there = rows(session, "SELECT table_name FROM information_schema.tables WHERE table_name = 't'").len();
        if is_there == 0 {
            return "no table".to_string();
        }
        let row = rows(session, "SELECT count(*), sum(v), count(DISTINCT id) FROM t").remove(0);
        row.join(" ")
    };
    let mut moments = Vec::new();
    // Small writes, which are records; loads, merges and definitions, which are checkpoints or records between them.
    for (step, sql) in [
        "INSERT INTO t VALUES (1, 10)",
        "UPDATE t SET v = 11 WHERE id = 1",
        "INSERT INTO t SELECT value, value FROM generate_series(1000, 40000) AS s(value)",
        "DELETE FROM t WHERE id = 2000",
        "BEGIN; UPDATE t SET v = v + 1 WHERE id = 3000; INSERT INTO t VALUES (-1, -1); COMMIT",
        "CHECKPOINT",
        "DELETE FROM t WHERE id % 2 = 0",
        "UPDATE t SET v = 0 WHERE id = 3001",
        "CREATE INDEX of_v ON t (v); ALTER TABLE t ADD COLUMN w INT DEFAULT 7",
        "INSERT INTO t VALUES (-2, -2, 0)",
        "DROP TABLE t",
        "CREATE TABLE other (a INT)",
        "CHECKPOINT",
    ]
    .into_iter()
    .enumerate()
    {
        session.execute(sql).unwrap();
        moments.push((step, moment(), sum(&session)));
    }
    let durability = rows(&session, "SELECT restorable_from < now(), history_bytes > 0 FROM nearside.durability");
    assert_eq!(durability, [["true", "true"]]);
    let backup = place.path().join("backup");
    session.execute(&format!("BACKUP DATABASE TO '{}'", backup.display())).unwrap();
    let then = place.path().join("of an open folder");
    let told = restore_folder(&folder, &then, moments[0].1).unwrap_err().to_string();
    assert!(told.contains("is in use by"), "{told}");
    drop(session);
    // Whoever opens it keeps what there is, also by the checkpoint that opening makes.
    let session = opened(&folder);
    assert_eq!(rows(&session, "SHOW nearside.restore_window_s")[0][1], "3600");
    session.execute("CHECKPOINT").unwrap();
    drop(session);
    drop(opened(&folder));
    assert!(check_folder(&folder).unwrap().history > 2);
    for (step, at, wanted) in &moments {
        let from = if step % 2 == 0 { &folder } else { &backup };
        let then = place.path().join(format!("then-{step}"));
        let restored = restore_folder(from, &then, *at).unwrap();
        assert!(restored.last_at <= *at && restored.bytes > 0, "{restored:?}");
        check_folder(&then).unwrap();
        let session = opened(&then);
        assert_eq!(&sum(&session), wanted, "after step {step}");
        // It is a database like any other, which goes on from there.
        session.execute("CREATE TABLE goes_on AS SELECT 1 AS a").unwrap();
        let again = restore_folder(from, &then, *at).unwrap_err().to_string();
        assert!(again.contains("is not empty"), "{again}");
    }
    let told = restore_folder(&folder, &place.path().join("early"), too_early).unwrap_err().to_string();
    assert!(told.contains("goes back to") && told.contains("restore_window_s"), "{told}");
    // Without a window the next checkpoint takes all of it away.
    let session = opened(&folder);
    session.execute("ALTER SYSTEM RESET nearside.restore_window_s; CHECKPOINT").unwrap();
    assert_eq!(rows(&session, "SELECT history_bytes FROM nearside.durability"), [["0"]]);
    drop(session);
    assert_eq!(check_folder(&folder).unwrap().history, 0);
}

#[test]
fn what_does_not_fit_is_told_before_it_is_loaded() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("db");
    let load = "CREATE TABLE large AS SELECT value * 104729 AS a, value * 7919 % 1000003 AS b
                FROM generate_series(1, 3000000) AS s(value);
                CREATE TABLE small AS SELECT 1 AS a";
    opened(&folder).execute(load).unwrap();
    let told = open_with(&folder, 4 << 20).map(drop).unwrap_err().to_string();
    assert!(told.contains("MiB of memory") && told.contains("'large'") && told.contains("larger budget"), "{told}");
    assert_eq!(number(&opened(&folder), "SELECT count(*) FROM large"), 3_000_000);
}

#[test]
fn a_backup_keeps_to_the_limit_of_the_background() {
    let place = tempfile::tempdir().unwrap();
    let session = opened(&place.path().join("db"));
    session
        .execute("CREATE TABLE t AS SELECT value * 104729 AS a FROM generate_series(1, 1000000) AS s(value)")
        .unwrap();
    let time = |session: &Session, to: &str| {
        let begun = Instant::now();
        session.execute(&format!("BACKUP DATABASE TO '{}'", place.path().join(to).display())).unwrap();
        begun.elapsed()
    };
    session.execute("ALTER SYSTEM SET nearside.background_write_mb_per_s = 10").unwrap();
    let slow = time(&session, "slow");
    let bytes = check_folder(&place.path().join("slow")).unwrap().bytes;
    let least = Duration::from_secs_f64((bytes as f64 - f64::from(1 << 20)) / 1e7);
    assert!(slow >= least, "{bytes} bytes in {slow:?}");
    for inside in ["db", "db/backup", "db/../db/a/b"] {
        let told = fails(&session, &format!("BACKUP DATABASE TO '{}'", place.path().join(inside).display()));
        assert!(told.contains("lies in the database's own folder"), "{told}");
    }
    // It can be ended while it waits.
    session.execute("ALTER SYSTEM SET nearside.background_write_mb_per_s = 1; SET statement_timeout = 300").unwrap();
    let begun = Instant::now();
    let told = fails(&session, &format!("BACKUP DATABASE TO '{}'", place.path().join("ended").display()));
    assert!(begun.elapsed() < Duration::from_secs(5) && told.contains("timeout"), "{told}");
}

/// A table `t (n, s, f)` of 200,000 rows, and a small one with a key, in a closed folder.
fn filled(folder: &Path) {
    let session = opened(folder);
    session
        .execute(
            "CREATE TABLE t AS SELECT n, 'text ' || (n % 1000) AS s, n * 0.5::DOUBLE AS f FROM range(200000) AS r(n);
             CREATE TABLE k (id BIGINT PRIMARY KEY, s TEXT);
             INSERT INTO k SELECT n, 'row ' || n FROM range(5000) AS r(n); CHECKPOINT",
        )
        .unwrap();
}

/// Columns come from the disk when they are read, and all of them soon after.
#[test]
fn columns_are_read_when_they_are_needed() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("db");
    filled(&folder);
    let wanted = "SELECT count(*), sum(n), max(s), sum(f) FROM t";
    let expected = [["200000", "19999900000", "text 999", "9999950000.0"]];
    for sql in [
        "UPDATE t SET s = 'new' WHERE n = 5; UPDATE t SET s = 'text 5' WHERE n = 5",
        "DELETE FROM t WHERE n = 1999; INSERT INTO t VALUES (1999, 'text 999', 999.5)",
        "BEGIN; UPDATE k SET s = s || '!' WHERE id = 7; UPDATE t SET f = f WHERE n < 10; COMMIT",
        "CREATE INDEX i ON t (s); DROP INDEX i",
        "ALTER TABLE t ADD COLUMN x INT; ALTER TABLE t DROP COLUMN x",
        "ALTER TABLE t SET PLACEMENT 'pp(2, range(n))'; ALTER TABLE t SET PLACEMENT rr",
        "CHECKPOINT",
        "UPDATE k SET s = 'again' WHERE id = 8",
        "SELECT * FROM k WHERE id = 3",
        "DROP TABLE k",
    ] {
        let session = opened(&folder);
        session.execute(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
        assert_eq!(rows(&session, wanted), expected, "{sql}");
    }
    let session = opened(&folder);
    let until = Instant::now() + Duration::from_secs(60);
    while rows(&session, "SELECT unread_columns FROM nearside.durability") != [["0"]] {
        assert!(Instant::now() < until, "the rest is read beside all else");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(rows(&session, wanted), expected);
    check_folder(&{
        drop(session);
        folder
    })
    .unwrap();
}

/// A file whose bytes were changed is told by whoever reads it, and by nobody else.
#[test]
fn damage_is_told_by_who_reads_it() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("db");
    filled(&folder);
    let files = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let data = files.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with("data-"));
    let largest = data.max_by_key(|path| std::fs::metadata(path).unwrap().len()).unwrap();
    let whole = std::fs::read(&largest).unwrap();
    // The numbers without a dictionary take most of it, behind the codes of the others.
    let mut bytes = whole.clone();
    let at = bytes.len() - 1000;
    bytes[at] ^= 0x40;
    std::fs::write(&largest, &bytes).unwrap();
    let session = opened(&folder);
    assert_eq!(rows(&session, "SELECT count(*) FROM t WHERE n < 10"), [["10"]]);
    assert_eq!(rows(&session, "SELECT s FROM k WHERE id = 4999"), [["row 4999"]]);
    for sql in [
        "SELECT sum(f) FROM t",
        "SELECT * FROM t LIMIT 1",
        "UPDATE t SET n = n + 1 WHERE n = 5",
        "INSERT INTO t VALUES (1, 'a', 1.0)",
        "DELETE FROM t WHERE f < 1",
        "CREATE INDEX i ON t (f)",
        "ALTER TABLE t SET PLACEMENT 'pp(2, range(n))'",
        "BEGIN; UPDATE t SET s = 'a' WHERE n = 7",
        "ROLLBACK; SELECT count(*) FROM k WHERE id IN (SELECT n FROM t WHERE f < 100)",
        "BEGIN; INSERT INTO t VALUES (1, 'a', 1.0), (2, 'b', 2.0)",
        "ROLLBACK; BEGIN; CREATE INDEX i ON t (f)",
        "ROLLBACK; BEGIN; ALTER TABLE t SET PLACEMENT 'pp(2, range(n))'",
        "ROLLBACK; BEGIN ISOLATION LEVEL SERIALIZABLE; UPDATE t SET s = 'a' WHERE n = 7",
    ] {
        let error = fails(&session, sql);
        let is_told = error.contains("table 't'") && error.contains("is damaged at byte");
        assert!(is_told && error.contains(largest.file_name().unwrap().to_str().unwrap()), "{sql}: {error}");
    }
    // What reads nothing of it, or nothing of that column, is done.
    session.execute("ROLLBACK; INSERT INTO k VALUES (5000, 'another'); CREATE INDEX i ON t (n); CHECKPOINT").unwrap();
    session.execute("ALTER TABLE t RENAME TO u; ALTER TABLE u RENAME TO t; ALTER TABLE t DROP COLUMN f").unwrap();
    session.execute("INSERT INTO t VALUES (-1, 'a'); DELETE FROM t WHERE n = 7; CHECKPOINT").unwrap();
    let wanted = "SELECT (SELECT count(*) FROM k), (SELECT count(*) FROM t), (SELECT min(n) FROM t)";
    assert_eq!(rows(&session, wanted), [["5001", "200000", "-1"]]);
    drop(session);
    assert_eq!(rows(&opened(&folder), wanted), [["5001", "200000", "-1"]]);

    std::fs::write(&largest, &bytes).unwrap();
    let session = opened(&folder);
    session.execute("TRUNCATE t; INSERT INTO t VALUES (1, 'b')").unwrap();
    assert_eq!(rows(&session, wanted), [["5001", "1", "1"]]);
}

/// Defaults and views mean the same when a folder is opened again, and in a script that was exported.
#[test]
fn defaults_and_views_are_kept_as_they_are_written() {
    let place = tempfile::tempdir().unwrap();
    let (folder, script) = (place.path().join("db"), place.path().join("script"));
    let session = opened(&folder);
    session
        .execute(
            "SET TIME ZONE 'Europe/Berlin';
             CREATE TABLE x (i INT, a INT DEFAULT -(-5), b INT DEFAULT - - 5, c INT DEFAULT ~5, d INT DEFAULT 1 # 3,
                 f TIMESTAMP DEFAULT DATE '2024-01-01' + INTERVAL '1 day' * 2,
                 g TEXT DEFAULT named_struct('a', 'q')['a'], h TIME DEFAULT TIME '10:00', j INT DEFAULT 3 * ~1,
                 k TIMESTAMP DEFAULT TIMESTAMPTZ '2024-07-01 00:00:00', l TIMESTAMPTZ DEFAULT '2024-07-01 00:00:00',
                 m TEXT DEFAULT 'it''s -- no comment', n DOUBLE DEFAULT 2 ^ 3, o INT DEFAULT NULL);
             ALTER TABLE x ADD COLUMN p INT DEFAULT - -7;
             CREATE VIEW v AS SELECT - - 5 AS a, 3 * ~1 AS b, 1 # 3 AS c, 2 ^ 3 ^ 2 AS d, - (-5 + 1) AS e;
             INSERT INTO x (i) VALUES (1)",
        )
        .unwrap();
    session.execute(&format!("EXPORT DATABASE '{}'", script.display())).unwrap();
    session.execute("ALTER TABLE x ADD COLUMN e INTERVAL DEFAULT INTERVAL '1 day' * 3").unwrap();
    let columns = "a, b, c, d, f, g, h, j, e, k, extract(epoch FROM l), m, n, o, p";
    let (table, view) = (format!("SELECT {columns} FROM x WHERE i = "), "SELECT * FROM v");
    let expected = (rows(&session, &format!("{table} 1")), rows(&session, view));
    assert_eq!(expected.0[0][..4], ["5", "5", "-6", "2"]);
    assert_eq!(expected.0[0][9], "2024-07-01T00:00:00");
    assert_eq!(expected.1[0][..3], ["5", "-6", "2"]);
    drop(session);
    for place in ["log", "checkpoint"] {
        if place == "checkpoint" {
            opened(&folder).execute("CHECKPOINT").unwrap();
        }
        let session = opened(&folder);
        session.execute("SET TIME ZONE '+00:00'; DELETE FROM x WHERE i = 2; INSERT INTO x (i) VALUES (2)").unwrap();
        // The instant of a TIMESTAMPTZ is kept; a TIMESTAMP has the time of the session that puts it there.
        let mut later = expected.0.clone();
        later[0][9] = "2024-06-30T22:00:00".into();
        assert_eq!(rows(&session, &format!("{table} 2")), later, "{place}");
        assert_eq!(rows(&session, view), expected.1, "{place}");
    }
    let imported = database().session();
    imported.execute(&format!("IMPORT DATABASE '{}'", script.display())).unwrap();
    imported.execute("INSERT INTO x (i) VALUES (3)").unwrap();
    assert_eq!(rows(&imported, view), expected.1);
    assert_eq!(rows(&imported, "SELECT a, b, c, d, f, g, h, j FROM x WHERE i = 3")[0][..], expected.0[0][..8]);
    for (wrong, told) in [
        ("CREATE TABLE y (a INT DEFAULT (SELECT 1))", "a query cannot be in a default"),
        ("CREATE TABLE y (a STRUCT<b INT> DEFAULT {b: 1})", "a"),
        ("CREATE TABLE y (a INT DEFAULT nothing)", "nothing"),
    ] {
        let error = fails(&imported, wrong);
        assert!(error.contains(told), "{wrong}: {error}");
    }
}

/// Comments, and when foreign keys are looked at, are kept in the log, in checkpoints and in scripts.
#[test]
fn comments_and_deferred_keys_last() {
    let place = tempfile::tempdir().unwrap();
    let (folder, script) = (place.path().join("db"), place.path().join("script"));
    let session = opened(&folder);
    session
        .execute(
            "CREATE TABLE p (id INT PRIMARY KEY); INSERT INTO p VALUES (1);
             CREATE TABLE c (p INT CONSTRAINT late REFERENCES p DEFERRABLE INITIALLY DEFERRED,
                 q INT CONSTRAINT may REFERENCES p DEFERRABLE, r INT CONSTRAINT other REFERENCES p,
                 u INT CONSTRAINT c_late UNIQUE DEFERRABLE INITIALLY DEFERRED, w INT UNIQUE DEFERRABLE);
             CREATE INDEX by_p ON c (p); CREATE VIEW v AS SELECT p FROM c; CREATE SEQUENCE s;
             COMMENT ON TABLE p IS 'it''s \"p\"'; COMMENT ON COLUMN c.q IS 'q';
             COMMENT ON CONSTRAINT late ON c IS 'late'; COMMENT ON INDEX by_p IS 'by p';
             COMMENT ON VIEW v IS 'a view'; COMMENT ON SEQUENCE s IS 'numbers';
             COMMENT ON TABLE c IS 'gone'; COMMENT ON TABLE c IS NULL;
             BEGIN; COMMENT ON VIEW v IS 'undone'; ROLLBACK; ALTER TABLE c ALTER CONSTRAINT other DEFERRABLE",
        )
        .unwrap();
    let keys = "SELECT constraint_name, is_deferrable, initially_deferred FROM information_schema.table_constraints \
                WHERE table_name = 'c' ORDER BY 1";
    let comments = "SELECT description, objsubid FROM pg_description ORDER BY 1";
    let expected = (rows(&session, keys), rows(&session, comments));
    assert_eq!(expected.0[..2], [["c_late", "YES", "YES"], ["c_w_key", "YES", "NO"]]);
    assert_eq!(expected.0[2..], [["late", "YES", "YES"], ["may", "YES", "NO"], ["other", "YES", "NO"]]);
    assert_eq!(expected.1.len(), 6);
    session.execute(&format!("EXPORT DATABASE '{}'", script.display())).unwrap();
    drop(session);
    for place in ["log", "checkpoint"] {
        if place == "checkpoint" {
            opened(&folder).execute("CHECKPOINT").unwrap();
        }
        let session = opened(&folder);
        assert_eq!((rows(&session, keys), rows(&session, comments)), expected, "{place}");
        session.execute("BEGIN; INSERT INTO c VALUES (5); INSERT INTO p VALUES (5); COMMIT").unwrap();
        session.execute("DELETE FROM c; DELETE FROM p WHERE id = 5; BEGIN; INSERT INTO c VALUES (6)").unwrap();
        assert!(fails(&session, "COMMIT").contains("violates foreign key 'late'"));
        session.execute("BEGIN; INSERT INTO c (u) VALUES (7), (7)").unwrap();
        assert!(fails(&session, "COMMIT").contains("two rows with the key (u) = (7)"));
        assert!(fails(&session, "INSERT INTO c (w) VALUES (7), (7)").contains("two rows with the key (w) = (7)"));
    }
    let imported = database().session();
    imported.execute(&format!("IMPORT DATABASE '{}'", script.display())).unwrap();
    assert_eq!((rows(&imported, keys), rows(&imported, comments)), expected);
}

/// What is not there, or not what it was, is found when the folder is opened.
#[test]
fn files_that_are_not_those_of_the_checkpoint_are_found_at_once() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("db");
    filled(&folder);
    let files = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    for path in files.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with("data-")) {
        let whole = std::fs::read(&path).unwrap();
        let name = path.file_name().unwrap().to_str().unwrap().to_string();
        std::fs::write(&path, &whole[..whole.len() - 1]).unwrap();
        let error = open_with(&folder, 1 << 30).unwrap_err().to_string();
        assert!(error.contains(&name) && error.contains("table '"), "{error}");
        std::fs::remove_file(&path).unwrap();
        let error = open_with(&folder, 1 << 30).unwrap_err().to_string();
        assert!(error.contains(&name) && error.contains("table '"), "{error}");
        std::fs::write(&path, &whole).unwrap();
    }
    assert_eq!(rows(&opened(&folder), "SELECT count(*) FROM t"), [["200000"]]);
}

#[test]
fn temporary_tables_are_of_one_session_and_do_not_last() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("db");
    let database = Database::builder().threads(2).memory_bytes(1 << 30).folder(&folder).build().unwrap();
    let (one, two) = (database.session(), database.session());
    one.execute("CREATE TABLE kept (a INT); INSERT INTO kept VALUES (1)").unwrap();
    for (session, rows) in [(&one, 100_000), (&two, 7)] {
        session.execute("CREATE TEMP TABLE t (id SERIAL PRIMARY KEY, n INT)").unwrap();
        session.execute(&format!("INSERT INTO t (n) SELECT value FROM generate_series(1, {rows}) g (value)")).unwrap();
    }
    // The same text is about another table in each.
    for _ in 0..3 {
        assert_eq!(number(&one, "SELECT count(*) FROM t"), 100_000);
        assert_eq!(number(&two, "SELECT count(*) FROM t"), 7);
    }
    one.execute(
        "BEGIN; INSERT INTO t (n) VALUES (5); INSERT INTO kept VALUES (2); UPDATE t SET n = 6 WHERE id = 1; COMMIT",
    )
    .unwrap();
    one.execute("DELETE FROM t WHERE id = 2; CREATE TEMP VIEW v AS SELECT * FROM t; CHECKPOINT").unwrap();
    one.execute("INSERT INTO t (n) VALUES (8)").unwrap();
    let copy = place.path().join("copy");
    one.execute(&format!("BACKUP DATABASE TO '{}'", copy.display())).unwrap();
    let schemas = "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'pg\\_temp%'";
    assert_eq!(number(&one, schemas), 2);
    drop(two);
    assert_eq!(number(&one, schemas), 1);
    drop(one);
    drop(database);
    for folder in [&folder, &copy] {
        check_folder(folder).unwrap();
        let session = opened(folder);
        assert_eq!(number(&session, "SELECT sum(a) FROM kept"), 3);
        assert_eq!(number(&session, schemas), 0);
        let left = "SELECT count(*) FROM pg_class WHERE relname IN ('t', 'v', 't_id_seq')";
        assert_eq!(number(&session, left), 0);
        assert!(fails(&session, "SELECT * FROM t").contains("does not exist"));
        session.execute("CREATE TEMP TABLE t (a INT); INSERT INTO t VALUES (1)").unwrap();
    }
}
