//! SELECT .. FOR UPDATE and its like, and LOCK TABLE: who waits for whom, what is left out, what is seen then.

use std::collections::BTreeSet;

use nearside::{Database, ScalarValue, Session, SqlState};
use random::Random;

use crate::read::{database, number};
use crate::transactions::{fails, line, run, until_one_waits};

const JOBS: &str = "CREATE TABLE jobs (id BIGINT PRIMARY KEY, state TEXT, n BIGINT);
    INSERT INTO jobs VALUES (1, 'new', 10), (2, 'new', 20), (3, 'new', 30), (4, 'done', 40)";

/// A session that has run this.
fn with(database: &Database, sql: &str) -> Session {
    let session = database.session();
    run(&session, sql);
    session
}

/// What a statement gives that has to wait until `meanwhile` is done.
fn waits(database: &Database, session: &Session, sql: &str, meanwhile: impl FnOnce()) -> String {
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| match session.query(sql).and_then(|rows| rows.collect_all()) {
            Ok(_) if !sql.starts_with("SELECT") => "done".to_string(),
            Ok(batches) => {
                let shown = nearside::arrow::util::pretty::pretty_format_batches(&batches).unwrap().to_string();
                let cells = shown.lines().filter(|line| line.starts_with('|')).skip(1);
                let cells = cells.map(|line| line.trim_matches('|').split('|').map(str::trim).collect::<Vec<_>>());
                cells.map(|cells| cells.join(",")).collect::<Vec<_>>().join(" ")
            }
            Err(error) => error.code().as_str().to_string(),
        });
        until_one_waits(database);
        meanwhile();
        waiting.join().unwrap()
    })
}

#[test]
fn rows_that_are_locked_are_waited_for_and_read_anew() {
    let database = database();
    let own = with(&database, JOBS);
    let other = with(&database, "BEGIN");
    run(&own, "BEGIN");
    assert_eq!(line(&own, "SELECT id, n FROM jobs WHERE id < 3 ORDER BY id FOR UPDATE"), "1,10 2,20");
    // Others read, and change other rows.
    assert_eq!(line(&other, "SELECT n FROM jobs WHERE id = 1"), "10");
    run(&other, "UPDATE jobs SET n = 31 WHERE id = 3");
    // Whoever wants one of the rows waits, whatever way it goes, and sees what became of it.
    let found = waits(&database, &other, "SELECT id, n FROM jobs WHERE n < 25 ORDER BY id FOR UPDATE", || {
        run(&own, "UPDATE jobs SET n = 25 WHERE id = 2; UPDATE jobs SET n = n + 1 WHERE id = 1; COMMIT");
    });
    assert_eq!(found, "1,11");
    run(&own, "BEGIN");
    let found = waits(&database, &own, "UPDATE jobs SET n = n + 100 WHERE id = 1", || drop(run(&other, "COMMIT")));
    assert_eq!(found, "done");
    run(&own, "COMMIT");
    assert_eq!(line(&own, "SELECT id, n FROM jobs ORDER BY id"), "1,111 2,25 3,31 4,40");
    // What was locked and not changed lives.
    run(&own, "BEGIN; SELECT * FROM jobs FOR UPDATE; DELETE FROM jobs WHERE id = 4; COMMIT");
    assert_eq!(line(&own, "SELECT id FROM jobs ORDER BY id"), "1 2 3");
    run(&own, "BEGIN; SELECT * FROM jobs FOR UPDATE; ROLLBACK");
    run(&other, "UPDATE jobs SET n = 0");
    assert_eq!(line(&own, "SELECT sum(n) FROM jobs"), "0");
}

#[test]
fn a_statement_by_itself_waits_and_locks_until_it_ends() {
    let database = database();
    let own = with(&database, JOBS);
    let other = database.session();
    run(&own, "BEGIN; UPDATE jobs SET n = 11 WHERE id = 1");
    let found = waits(&database, &other, "SELECT n FROM jobs WHERE id = 1 FOR SHARE", || drop(run(&own, "COMMIT")));
    assert_eq!(found, "11");
    assert_eq!(line(&other, "SELECT n FROM jobs WHERE id = 1 FOR UPDATE"), "11");
    run(&own, "UPDATE jobs SET n = 12 WHERE id = 1");
    assert_eq!(number(&own, "SELECT count(*) FROM nearside.transactions"), 0);
}

#[test]
fn nowait_fails_and_skip_locked_leaves_out() {
    let database = database();
    let own = with(&database, JOBS);
    let other = database.session();
    run(&own, "BEGIN; SELECT * FROM jobs WHERE id = 1 FOR UPDATE");
    for session in [&other, &with(&database, "BEGIN")] {
        let error = fails(session, "SELECT * FROM jobs FOR UPDATE NOWAIT");
        assert_eq!(error.code(), SqlState::LockNotAvailable, "{error}");
        assert!(error.to_string().contains("a row of table 'jobs' is locked by transaction"), "{error}");
    }
    assert_eq!(line(&other, "SELECT id FROM jobs WHERE id > 1 ORDER BY id FOR UPDATE NOWAIT"), "2 3 4");
    let next = "SELECT id FROM jobs WHERE state = 'new' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED";
    assert_eq!(line(&other, next), "2");
    assert_eq!(line(&other, &next.replace("LIMIT 1", "LIMIT 1 OFFSET 1")), "3");
    assert_eq!(line(&other, &next.replace("LIMIT 1", "LIMIT 9")), "2 3");
    assert_eq!(line(&other, &next.replace("LIMIT 1", "")), "2 3");
    assert_eq!(line(&other, &next.replace("LIMIT 1", "LIMIT 0")), "");
    assert_eq!(fails(&other, &next.replace("LIMIT 1", "LIMIT -1")).code().as_str(), "2201W");
    // Each takes one that nobody has.
    let workers: Vec<Session> = (0..3).map(|_| with(&database, "BEGIN")).collect();
    assert_eq!(workers.iter().map(|worker| line(worker, next)).collect::<Vec<_>>(), ["2", "3", ""]);
    // Prepared, with a value for the LIMIT.
    let prepared =
        other.prepare("SELECT id FROM jobs WHERE n > $1 ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED").unwrap();
    let given = prepared.query(&[ScalarValue::Int64(Some(5))]).unwrap().collect_all().unwrap();
    assert_eq!(given.iter().map(|batch| batch.num_rows()).sum::<usize>(), 1);
}

#[test]
fn kinds_of_locks_go_together_as_in_postgresql() {
    let database = database();
    let (a, b) = (with(&database, JOBS), database.session());
    let kinds = ["KEY SHARE", "SHARE", "NO KEY UPDATE", "UPDATE"];
    for (held, fitting) in kinds.iter().zip([&kinds[..3], &kinds[..2], &kinds[..1], &kinds[..0]]) {
        for wanted in kinds {
            run(&a, &format!("BEGIN; SELECT * FROM jobs WHERE id = 1 FOR {held}"));
            run(&b, "BEGIN");
            let outcome = b.query(&format!("SELECT id FROM jobs WHERE id = 1 FOR {wanted} NOWAIT"));
            assert_eq!(outcome.is_ok(), fitting.contains(&wanted), "{held} and {wanted}");
            run(&a, "COMMIT");
            run(&b, "ROLLBACK");
        }
    }
    // Two share a row: who wants to change it waits for both.
    run(&a, "BEGIN; SELECT * FROM jobs WHERE id = 1 FOR SHARE");
    run(&b, "BEGIN; SELECT * FROM jobs WHERE id = 1 FOR SHARE");
    let c = with(&database, "BEGIN");
    let found = waits(&database, &c, "UPDATE jobs SET n = 0 WHERE id = 1", || {
        run(&a, "COMMIT");
        until_one_waits(&database);
        run(&b, "COMMIT");
    });
    assert_eq!(found, "done");
    run(&c, "COMMIT");
    // Both want to: one gives way.
    run(&a, "BEGIN; SELECT * FROM jobs WHERE id = 1 FOR SHARE");
    run(&b, "BEGIN; SELECT * FROM jobs WHERE id = 1 FOR SHARE");
    let found = waits(&database, &a, "UPDATE jobs SET n = 1 WHERE id = 1", || {
        assert_eq!(fails(&b, "UPDATE jobs SET n = 2 WHERE id = 1").code(), SqlState::DeadlockDetected);
        run(&b, "ROLLBACK");
    });
    assert_eq!(found, "done");
    run(&a, "COMMIT");
}

#[test]
fn levels_with_one_snapshot_fail_where_a_row_was_changed() {
    let database = database();
    let (own, other) = (with(&database, JOBS), database.session());
    for level in ["REPEATABLE READ", "SERIALIZABLE"] {
        run(&own, &format!("BEGIN ISOLATION LEVEL {level}; SELECT * FROM jobs"));
        run(&other, "UPDATE jobs SET n = n + 1 WHERE id = 1");
        assert_eq!(line(&own, "SELECT id FROM jobs WHERE id = 2 FOR UPDATE"), "2");
        let error = fails(&own, "SELECT n FROM jobs WHERE id = 1 FOR UPDATE");
        assert_eq!(error.code(), SqlState::SerializationFailure, "{level}: {error}");
        run(&own, "ROLLBACK");
    }
    // Merged meanwhile, a row is where it is.
    run(&own, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT * FROM jobs");
    run(&other, "UPDATE jobs SET n = 0 WHERE id = 4; CREATE INDEX by_state ON jobs (state)");
    assert_eq!(line(&own, "SELECT id FROM jobs WHERE id = 3 FOR UPDATE"), "3");
    run(&own, "COMMIT");
}

#[test]
fn savepoints_give_back_what_was_locked_behind_them() {
    let database = database();
    let (own, other) = (with(&database, JOBS), database.session());
    let is_free = |id: i64| {
        let sql = format!("SELECT id FROM jobs WHERE id = {id} FOR UPDATE NOWAIT");
        other.query(&sql).is_ok()
    };
    run(&own, "BEGIN; SELECT * FROM jobs WHERE id = 1 FOR UPDATE; SAVEPOINT s");
    run(&own, "SELECT * FROM jobs WHERE id < 3 FOR UPDATE; DELETE FROM jobs WHERE id = 1");
    assert_eq!((is_free(1), is_free(2), is_free(3)), (false, false, true));
    run(&own, "ROLLBACK TO s");
    assert_eq!((is_free(1), is_free(2), is_free(3)), (false, true, true));
    assert_eq!(line(&own, "SELECT id FROM jobs WHERE id < 3 ORDER BY id"), "1 2");
    run(&own, "UPDATE jobs SET n = 7 WHERE id = 1; COMMIT");
    assert_eq!((is_free(1), line(&other, "SELECT n FROM jobs WHERE id = 1")), (true, "7".into()));
}

#[test]
fn tables_of_joins_are_locked_as_of_says() {
    let database = database();
    let own = with(&database, JOBS);
    run(&own, "CREATE TABLE parts (job BIGINT, part BIGINT); INSERT INTO parts VALUES (1, 1), (1, 2), (2, 1), (9, 9)");
    run(&own, "CREATE VIEW open AS SELECT * FROM jobs WHERE state = 'new'");
    let other = database.session();
    let free = |table: &str, key: &str| {
        let sql = format!("SELECT {key} FROM {table} ORDER BY 1 FOR UPDATE SKIP LOCKED");
        line(&other, &sql)
    };
    let (jobs, parts) = ("1 2 3 4", "1 1 2 9");
    for (sql, free_jobs, free_parts) in [
        ("SELECT * FROM jobs JOIN parts ON job = id WHERE id = 1 FOR UPDATE", "2 3 4", "2 9"),
        ("SELECT * FROM jobs j, parts p WHERE job = id AND id = 1 FOR UPDATE OF j", "2 3 4", parts),
        ("SELECT * FROM jobs j, parts p WHERE job = id AND id = 1 FOR SHARE OF p FOR KEY SHARE OF j", "2 3 4", "2 9"),
        ("SELECT * FROM parts LEFT JOIN jobs ON job = id FOR UPDATE OF parts", jobs, ""),
        ("SELECT * FROM (SELECT id FROM jobs WHERE id > 2) AS x FOR UPDATE", "1 2", parts),
        (
            "SELECT * FROM (SELECT id FROM jobs JOIN parts ON job = id) x, parts WHERE id = 2 AND job = 9 FOR UPDATE",
            "1 3 4",
            "1 1",
        ),
        ("SELECT c FROM open, (SELECT count(*) AS c FROM parts) AS x FOR UPDATE OF open", "4", parts),
        ("WITH x AS (SELECT * FROM parts) SELECT * FROM jobs, x WHERE id = 1 FOR UPDATE", "2 3 4", parts),
        ("SELECT a.id FROM jobs a, jobs b WHERE a.id = 1 AND b.id = 2 FOR UPDATE OF a, b", "3 4", parts),
        ("SELECT * FROM jobs, generate_series(1, 2) WHERE id = 2 FOR UPDATE", "1 3 4", parts),
        ("SELECT * FROM jobs WHERE id IN (SELECT job FROM parts) FOR UPDATE", "3 4", parts),
        ("SELECT state, n + 1 FROM jobs ORDER BY id DESC LIMIT 2 FOR UPDATE", "1 2", parts),
        ("SELECT 1 FOR UPDATE", jobs, parts),
    ] {
        run(&own, &format!("BEGIN; {sql}"));
        assert_eq!((free("jobs", "id"), free("parts", "job")), (free_jobs.into(), free_parts.into()), "{sql}");
        run(&own, "ROLLBACK");
    }
}

#[test]
fn what_has_no_rows_of_tables_is_refused() {
    let database = database();
    let own = with(&database, JOBS);
    for sql in [
        "SELECT count(*) FROM jobs FOR UPDATE",
        "SELECT state FROM jobs GROUP BY state FOR UPDATE",
        "SELECT DISTINCT state FROM jobs FOR SHARE",
        "SELECT id FROM jobs UNION SELECT n FROM jobs FOR UPDATE",
        "SELECT id FROM jobs EXCEPT SELECT n FROM jobs FOR UPDATE",
        "SELECT row_number() OVER () FROM jobs FOR UPDATE",
        "SELECT unnest([id]) FROM jobs FOR UPDATE",
        "SELECT * FROM (SELECT count(*) FROM jobs) x FOR UPDATE",
        "SELECT * FROM jobs a LEFT JOIN jobs b USING (id) FOR UPDATE",
        "WITH x AS (SELECT * FROM jobs) SELECT * FROM x FOR UPDATE OF x",
        "SELECT * FROM (SELECT * FROM jobs FOR UPDATE) x",
        "EXPLAIN SELECT * FROM jobs FOR UPDATE",
        "CREATE VIEW v AS SELECT * FROM jobs FOR UPDATE",
    ] {
        let error = fails(&own, sql);
        assert_eq!(error.code(), SqlState::FeatureNotSupported, "{sql}: {error}");
        assert!(error.to_string().contains("FOR ") || error.to_string().contains("WITH"), "{sql}: {error}");
    }
    assert_eq!(fails(&own, "SELECT * FROM jobs FOR UPDATE OF nothing").code(), SqlState::UndefinedTable);
    assert_eq!(fails(&own, "SELECT * FROM jobs j FOR UPDATE OF jobs").code(), SqlState::UndefinedTable);
    assert_eq!(fails(&own, "SELECT * FROM jobs FOR UPDATE OF").code(), SqlState::SyntaxError);
    run(&own, "BEGIN READ ONLY");
    assert_eq!(fails(&own, "SELECT * FROM jobs FOR UPDATE").code(), SqlState::ReadOnlySqlTransaction);
    run(&own, "ROLLBACK");
}

#[test]
fn rows_of_the_transaction_itself_are_given_and_rows_by_keys_are_locked_too() {
    let database = database();
    let (own, other) = (with(&database, JOBS), database.session());
    let add = own.prepare("INSERT INTO jobs VALUES ($1, 'new', $2)").unwrap();
    let set = own.prepare("UPDATE jobs SET n = $2 WHERE id = $1").unwrap();
    let get = own.prepare("SELECT n FROM jobs WHERE id = $1 FOR UPDATE").unwrap();
    let long = |value: i64| ScalarValue::Int64(Some(value));
    run(&own, "BEGIN");
    // Planned once they go by the key.
    for (id, n) in [(5, 50), (6, 60)] {
        add.run(&[long(id), long(n)]).unwrap();
    }
    assert_eq!(line(&own, "SELECT id, n FROM jobs WHERE id > 3 ORDER BY id FOR UPDATE"), "4,40 5,50 6,60");
    run(&own, "COMMIT");
    for n in 1..4 {
        run(&own, "BEGIN");
        get.query(&[long(4)]).unwrap().collect_all().unwrap();
        assert!(other.query("SELECT * FROM jobs WHERE id = 4 FOR UPDATE NOWAIT").is_err());
        set.run(&[long(4), long(n)]).unwrap();
        set.run(&[long(4), long(n + 1)]).unwrap();
        set.run(&[long(5), long(n)]).unwrap();
        run(&own, "COMMIT");
        assert_eq!(
            line(&other, "SELECT n FROM jobs WHERE id IN (4, 5) ORDER BY id FOR UPDATE"),
            format!("{} {n}", n + 1)
        );
    }
    // A key of a row that is only locked is taken, and nobody has to wait to be told.
    run(&own, "BEGIN; SELECT * FROM jobs WHERE id = 1 FOR UPDATE");
    assert_eq!(fails(&other, "INSERT INTO jobs VALUES (1, 'twice', 0)").code(), SqlState::UniqueViolation);
    run(&own, "ROLLBACK");
}

#[test]
fn tables_are_locked() {
    let database = database();
    let (own, other) = (with(&database, JOBS), with(&database, "BEGIN"));
    assert_eq!(fails(&own, "LOCK TABLE jobs").code(), SqlState::NoActiveSqlTransaction);
    run(&own, "BEGIN; LOCK TABLE jobs IN EXCLUSIVE MODE");
    assert_eq!(line(&other, "SELECT count(*) FROM jobs"), "4");
    for mode in ["", "IN SHARE MODE", "IN ACCESS EXCLUSIVE MODE", "IN ROW EXCLUSIVE MODE"] {
        let other = with(&database, "BEGIN");
        let error = fails(&other, &format!("LOCK jobs {mode} NOWAIT"));
        assert_eq!(error.code(), SqlState::LockNotAvailable, "{mode}: {error}");
    }
    run(&own, "INSERT INTO jobs VALUES (7, 'new', 70); UPDATE jobs SET n = 1 WHERE id = 1");
    let found = waits(&database, &other, "UPDATE jobs SET n = n + 1 WHERE id = 1", || drop(run(&own, "COMMIT")));
    assert_eq!(found, "done");
    run(&other, "COMMIT");
    assert_eq!(line(&own, "SELECT n FROM jobs WHERE id IN (1, 7) ORDER BY id"), "2 70");
    // The weaker modes keep the definition as it is.
    run(&own, "BEGIN; LOCK TABLE jobs IN ROW SHARE MODE");
    run(&other, "BEGIN; UPDATE jobs SET n = 3 WHERE id = 1");
    let third = with(&database, "BEGIN");
    assert_eq!(fails(&third, "LOCK TABLE jobs IN SHARE MODE NOWAIT").code(), SqlState::LockNotAvailable);
    run(&third, "ROLLBACK");
    run(&other, "COMMIT");
    run(&other, "BEGIN");
    let found = waits(&database, &other, "ALTER TABLE jobs ADD COLUMN more INT", || drop(run(&own, "COMMIT")));
    assert_eq!(found, "done");
    run(&other, "ROLLBACK");
    // Back before it was locked, it is free.
    run(&own, "BEGIN; SAVEPOINT s; LOCK TABLE jobs; ROLLBACK TO s");
    run(&other, "UPDATE jobs SET n = 4 WHERE id = 1");
    run(&own, "COMMIT");
    run(&own, "BEGIN");
    assert_eq!(fails(&own, "LOCK TABLE nothing").code(), SqlState::UndefinedTable);
    run(&own, "ROLLBACK; CREATE VIEW v AS SELECT 1; BEGIN");
    assert_eq!(fails(&own, "LOCK TABLE v").code(), SqlState::WrongObjectType);
    run(&own, "ROLLBACK; BEGIN READ ONLY; LOCK TABLE jobs IN ACCESS SHARE MODE");
    assert_eq!(fails(&own, "LOCK TABLE jobs").code(), SqlState::ReadOnlySqlTransaction);
}

/// Workers take jobs from a queue, and each job is taken once; merges go on beside.
#[test]
fn a_queue_gives_each_job_to_one_worker() {
    const ROWS: i64 = 120;
    let database = database();
    let session = with(
        &database,
        "CREATE TABLE queue (id BIGINT PRIMARY KEY, payload TEXT); ALTER SYSTEM SET nearside.merge_idle_ms = 1",
    );
    run(&session, &format!("INSERT INTO queue SELECT value, 'job' FROM generate_series(1, {ROWS})"));
    let next = "SELECT id FROM queue ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED";
    let taken: Vec<i64> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..4)
            .map(|seed| {
                let worker = database.session();
                scope.spawn(move || {
                    let mut random = Random::new(seed);
                    let mut taken = Vec::new();
                    let next = worker.prepare(next).unwrap();
                    loop {
                        run(&worker, "BEGIN");
                        let most = 1 + random.below(3) as i64;
                        let batches =
                            next.query(&[ScalarValue::Int64(Some(most))]).and_then(|rows| rows.collect_all()).unwrap();
                        let ids: Vec<i64> = batches
                            .iter()
                            .flat_map(|batch| {
                                use nearside::arrow::array::AsArray;
                                batch
                                    .column(0)
                                    .as_primitive::<nearside::arrow::datatypes::Int64Type>()
                                    .values()
                                    .to_vec()
                            })
                            .collect();
                        if ids.is_empty() {
                            run(&worker, "ROLLBACK");
                            return taken;
                        }
                        for id in &ids {
                            run(&worker, &format!("DELETE FROM queue WHERE id = {id}"));
                        }
                        match random.one_in(4) {
                            true => drop(run(&worker, "ROLLBACK")),
                            false => {
                                run(&worker, "COMMIT");
                                taken.extend(ids);
                            }
                        }
                    }
                })
            })
            .collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    let distinct: BTreeSet<i64> = taken.iter().copied().collect();
    assert_eq!(distinct.len(), taken.len(), "a job was taken twice");
    let left = number(&session, "SELECT count(*) FROM queue");
    assert_eq!(left + taken.len() as i64, ROWS);
}

#[test]
fn who_goes_back_before_it_wrote_a_table_is_in_nobodys_way() {
    let database = database();
    let (own, other) = (with(&database, JOBS), database.session());
    run(&other, "SET statement_timeout = 5000");
    for (place, write) in [
        "UPDATE jobs SET n = 0 WHERE id = 1",
        "INSERT INTO jobs VALUES (50, 'new', 1)",
        "SELECT * FROM jobs FOR UPDATE",
        "LOCK TABLE jobs IN ROW SHARE MODE",
        "DELETE FROM jobs",
    ]
    .into_iter()
    .enumerate()
    {
        run(&own, &format!("BEGIN; SELECT 1; SAVEPOINT s; {write}; SAVEPOINT t; SELECT 1; ROLLBACK TO t"));
        run(&other, "SET statement_timeout = 50");
        assert_eq!(fails(&other, "ALTER TABLE jobs ADD COLUMN more INT").code(), SqlState::QueryCanceled, "{write}");
        run(&other, "SET statement_timeout = 5000");
        run(&own, "ROLLBACK TO s");
        run(&other, &format!("ALTER TABLE jobs ADD COLUMN c{place} INT"));
        // With one snapshot for each statement the transaction goes on with what is there now.
        run(&own, &format!("UPDATE jobs SET c{place} = {place} WHERE id = 1; COMMIT"));
        assert_eq!(line(&other, &format!("SELECT c{place}, n FROM jobs WHERE id = 1")), format!("{place},10"));
    }
}

#[test]
fn rows_by_their_keys_keep_one_snapshot() {
    let database = database();
    let (own, other) = (with(&database, JOBS), database.session());
    let long = |value: i64| ScalarValue::Int64(Some(value));
    let get = own.prepare("SELECT n FROM jobs WHERE id = $1").unwrap();
    let set = own.prepare("UPDATE jobs SET n = n + $2 WHERE id = $1").unwrap();
    let add = own.prepare("INSERT INTO jobs VALUES ($1, 'new', $2)").unwrap();
    let gone = own.prepare("DELETE FROM jobs WHERE id = $1").unwrap();
    let read = |id: i64| {
        let batches = get.query(&[long(id)]).unwrap().collect_all().unwrap();
        let batch = batches.iter().find(|batch| batch.num_rows() > 0)?;
        use nearside::arrow::array::AsArray;
        Some(batch.column(0).as_primitive::<nearside::arrow::datatypes::Int64Type>().value(0))
    };
    let begin = || run(&own, "BEGIN ISOLATION LEVEL REPEATABLE READ");
    run(&own, "UPDATE jobs SET n = 10 WHERE id = 1");
    for round in 0..3 {
        // What others do is not seen, and what is one's own is.
        begin();
        assert_eq!((read(1), read(9)), (Some(10), None));
        run(&other, "UPDATE jobs SET n = 77 WHERE id = 2; INSERT INTO jobs VALUES (9, 'new', 9)");
        run(&other, "DELETE FROM jobs WHERE id = 3");
        assert_eq!((read(2), read(9), read(3)), (Some(20), None, Some(30)), "round {round}");
        set.run(&[long(1), long(5)]).unwrap();
        set.run(&[long(1), long(5)]).unwrap();
        add.run(&[long(10), long(1)]).unwrap();
        gone.run(&[long(4)]).unwrap();
        assert_eq!((read(1), read(10), read(4)), (Some(20), Some(1), None), "round {round}");
        assert_eq!(line(&own, "SELECT id, n FROM jobs ORDER BY id"), "1,20 2,20 3,30 10,1");
        set.run(&[long(10), long(1)]).unwrap();
        assert_eq!((read(10), read(9)), (Some(2), None));
        run(&own, "COMMIT");
        assert_eq!(line(&other, "SELECT id, n FROM jobs ORDER BY id"), "1,20 2,77 9,9 10,2");
        run(&other, "DELETE FROM jobs");
        run(&other, "INSERT INTO jobs VALUES (1, 'new', 10), (2, 'new', 20), (3, 'new', 30), (4, 'done', 40)");
    }
    // Who comes second fails.
    for write in ["UPDATE jobs SET n = 1 WHERE id = 1", "DELETE FROM jobs WHERE id = 1", "UPDATE jobs SET n = n"] {
        begin();
        assert_eq!(read(2), Some(20));
        run(&other, write);
        let before = if write.contains("SET n = 1 ") { 10 } else { 1 };
        assert_eq!(read(1), Some(before), "{write}");
        let error = set.run(&[long(1), long(1)]).unwrap_err();
        assert_eq!(error.code(), SqlState::SerializationFailure, "{write}: {error}");
        run(&own, "ROLLBACK");
        if write.contains("DELETE") {
            run(&other, "INSERT INTO jobs VALUES (1, 'new', 1)");
        }
    }
    // Who waits fails as well, if the other commits, and goes on else.
    for (ends, is_there) in [("COMMIT", false), ("ROLLBACK", true)] {
        begin();
        assert_eq!(read(1), Some(1));
        run(&other, "BEGIN; UPDATE jobs SET n = 1 WHERE id = 1");
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| set.run(&[long(1), long(0)]).map(drop));
            until_one_waits(&database);
            run(&other, ends);
            assert_eq!(waits.join().unwrap().is_ok(), is_there, "{ends}");
        });
        run(&own, "ROLLBACK");
    }
    // Behind what moves rows, and what changes names, it is the snapshot still.
    begin();
    assert_eq!((read(1), read(4)), (Some(1), Some(40)));
    set.run(&[long(2), long(1)]).unwrap();
    run(
        &other,
        "CREATE TABLE more AS SELECT * FROM jobs;
        INSERT INTO jobs SELECT value, 'x', 0 FROM generate_series(100, 5000) AS g(value)",
    );
    assert_eq!((read(1), read(2), read(100)), (Some(1), Some(21), None));
    assert_eq!(line(&own, "SELECT id, n FROM jobs WHERE id < 5 ORDER BY id"), "1,1 2,21 3,30 4,40");
    set.run(&[long(2), long(1)]).unwrap();
    assert_eq!((read(2), read(101)), (Some(22), None));
    run(&own, "COMMIT");
    assert_eq!(line(&other, "SELECT n, (SELECT count(*) FROM jobs) FROM jobs WHERE id = 2"), "22,4905");
}
