//! Transactions over several statements: what they see, what they wait for, what they are told.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use nearside::arrow::array::AsArray;
use nearside::arrow::datatypes::Int64Type;
use nearside::{Database, Error, Outcome, Prepared, ScalarValue, Session};
use random::Random;

use crate::read::{database, number, rows};

/// A session that has run this.
fn with(database: &Database, sql: &str) -> Session {
    let session = database.session();
    run(&session, sql);
    session
}

/// Runs statements that succeed; the tag of the last.
pub fn run(session: &Session, sql: &str) -> String {
    match session.execute(sql) {
        Ok(Outcome::Done(done)) => done.tag,
        Ok(Outcome::Rows(rows)) => {
            rows.collect_all().unwrap_or_else(|e| panic!("{sql}: {e}"));
            "SELECT".into()
        }
        Err(error) => panic!("{sql}: {error}"),
    }
}

/// Runs a statement that fails.
pub fn fails(session: &Session, sql: &str) -> Error {
    match session.query(sql).and_then(|rows| rows.collect_all()) {
        Ok(_) => panic!("{sql}: it should fail"),
        Err(error) => error,
    }
}

/// All rows of a query in one line.
pub fn line(session: &Session, sql: &str) -> String {
    rows(session, sql).iter().map(|row| row.join(",")).collect::<Vec<_>>().join(" ")
}

/// Waits until a transaction waits for another.
pub fn until_one_waits(database: &Database) {
    let (session, begun) = (database.session(), Instant::now());
    while number(&session, "SELECT count(*) FROM nearside.transactions WHERE waits_for IS NOT NULL") == 0 {
        assert!(begun.elapsed() < Duration::from_secs(30), "nobody waits");
    }
}

const ACCOUNTS: &str = "CREATE TABLE accounts (id BIGINT PRIMARY KEY, owner TEXT, balance BIGINT);
    INSERT INTO accounts VALUES (1, 'ann', 100), (2, 'bob', 200), (3, 'eve', 300)";

#[test]
fn what_is_not_committed_is_seen_by_its_transaction_alone() {
    let database = database();
    let other = with(&database, ACCOUNTS);
    let own = with(&database, "BEGIN");
    run(&own, "UPDATE accounts SET balance = balance - 50 WHERE id = 1");
    run(&own, "UPDATE accounts SET balance = balance + 50 WHERE id = 2");
    run(&own, "INSERT INTO accounts VALUES (4, 'dan', 0)");
    run(&own, "DELETE FROM accounts WHERE id = 3");
    let query = "SELECT id, balance FROM accounts ORDER BY id";
    assert_eq!(line(&own, query), "1,50 2,250 4,0");
    assert_eq!(line(&own, "SELECT owner FROM accounts WHERE id = 4"), "dan");
    assert_eq!(line(&own, "SELECT count(*) FROM accounts WHERE id = 3"), "0");
    assert_eq!(line(&other, query), "1,100 2,200 3,300");
    // What it has written itself it may write again.
    run(&own, "UPDATE accounts SET balance = balance + 1 WHERE id = 4");
    run(&own, "UPDATE accounts SET balance = balance + 1 WHERE id IN (1, 4)");
    run(&own, "DELETE FROM accounts WHERE id = 2");
    run(&own, "INSERT INTO accounts VALUES (2, 'again', 7), (3, 'again', 8)");
    run(
        &own,
        "INSERT INTO accounts VALUES (2, 'upsert', 9), (5, 'upsert', 9)
        ON CONFLICT (id) DO UPDATE SET balance = excluded.balance",
    );
    assert_eq!(line(&own, query), "1,51 2,9 3,8 4,2 5,9");
    assert_eq!(line(&other, query), "1,100 2,200 3,300");
    assert_eq!(run(&own, "COMMIT"), "COMMIT");
    assert_eq!(line(&other, query), "1,51 2,9 3,8 4,2 5,9");
    assert_eq!(line(&other, "SELECT owner FROM accounts WHERE id = 2"), "again");

    run(&own, "START TRANSACTION; DELETE FROM accounts; INSERT INTO accounts VALUES (9, 'x', 9)");
    assert_eq!(line(&own, query), "9,9");
    assert_eq!(run(&own, "ROLLBACK"), "ROLLBACK");
    for session in [&own, &other] {
        assert_eq!(line(session, query), "1,51 2,9 3,8 4,2 5,9");
    }
    run(&other, "UPDATE accounts SET balance = 0");
    assert_eq!(number(&other, "SELECT count(*) FROM nearside.transactions"), 0);
}

#[test]
fn a_transaction_is_all_or_nothing_over_several_tables() {
    let database = database();
    let own = with(&database, ACCOUNTS);
    run(&own, "CREATE TABLE log (entry BIGINT, said TEXT)");
    run(&own, "BEGIN; INSERT INTO log VALUES (1, 'a'); UPDATE accounts SET balance = 0 WHERE id = 1");
    run(&own, "INSERT INTO log SELECT value, 'many' FROM generate_series(1, 5000); COMMIT");
    assert_eq!(line(&own, "SELECT count(*), sum(balance) FROM log, accounts WHERE id = 1"), "5001,0");
    run(&own, "BEGIN; INSERT INTO log VALUES (1, 'a'); UPDATE accounts SET balance = 5 WHERE id = 1");
    let error = fails(&own, "INSERT INTO accounts VALUES (1, 'twice', 1)");
    assert!(error.to_string().contains("(id) = (1)"), "{error}");
    // Nothing else goes on, and what was done is undone.
    assert!(matches!(fails(&own, "SELECT 1"), Error::Transaction(_)));
    assert_eq!(own.transaction(), Some(false));
    assert_eq!(run(&own, "COMMIT"), "ROLLBACK");
    assert_eq!(own.transaction(), None);
    assert_eq!(line(&own, "SELECT count(*), sum(balance) FROM log, accounts WHERE id = 1"), "5001,0");
    // A session that ends with one rolls it back.
    let gone = with(&database, "BEGIN; UPDATE accounts SET balance = 77; INSERT INTO accounts VALUES (8, 'h', 8)");
    drop(gone);
    run(&own, "UPDATE accounts SET balance = 1 WHERE id = 1; INSERT INTO accounts VALUES (8, 'i', 8)");
    assert_eq!(number(&own, "SELECT count(*) FROM nearside.transactions"), 0);
}

#[test]
fn savepoints_are_gone_back_to() {
    let database = database();
    let own = with(&database, ACCOUNTS);
    let balances = "SELECT id, balance FROM accounts ORDER BY id";
    run(&own, "BEGIN; UPDATE accounts SET balance = 1 WHERE id = 1; SAVEPOINT a");
    run(&own, "UPDATE accounts SET balance = 2 WHERE id = 2; INSERT INTO accounts VALUES (4, 'd', 4); SAVEPOINT b");
    run(&own, "DELETE FROM accounts WHERE id = 3; CREATE TABLE t (a INT); SAVEPOINT a; INSERT INTO t VALUES (1)");
    assert!(matches!(fails(&own, "SELECT nothing"), Error::Plan { .. } | Error::NotFound { .. }));
    run(&own, "ROLLBACK TO a");
    assert_eq!(line(&own, "SELECT count(*) FROM t"), "0");
    run(&own, "RELEASE a; ROLLBACK TO SAVEPOINT b");
    assert_eq!(line(&own, balances), "1,1 2,2 3,300 4,4");
    assert!(own.query("SELECT * FROM t").is_err());
    run(&own, "ROLLBACK TO b; ROLLBACK TO a");
    assert_eq!(line(&own, balances), "1,1 2,200 3,300");
    // What was locked since is free.
    let other =
        with(&database, "UPDATE accounts SET balance = 20 WHERE id = 2; INSERT INTO accounts VALUES (4, 'o', 0)");
    assert_eq!(line(&own, balances), "1,1 2,20 3,300 4,0");
    let error = fails(&own, "ROLLBACK TO b");
    assert!(matches!(&error, Error::NotFound { kind: "savepoint", .. }), "{error}");
    run(&own, "ROLLBACK TO a; COMMIT");
    assert_eq!(line(&other, balances), "1,1 2,20 3,300 4,0");
    assert!(matches!(fails(&own, "SAVEPOINT c"), Error::Transaction(_)));
    assert!(matches!(fails(&own, "RELEASE c"), Error::Transaction(_)));
    // Settings go back as well.
    run(&own, "SET nearside.statement_timeout_ms = 70000; BEGIN; SET nearside.statement_timeout_ms = 80000; ROLLBACK");
    assert_eq!(line(&own, "SHOW nearside.statement_timeout_ms").split(',').next_back(), Some("70000"));
}

#[test]
fn levels_decide_what_is_seen_of_others() {
    let database = database();
    let other = with(&database, ACCOUNTS);
    let sum = "SELECT sum(balance) FROM accounts";
    for (level, sees) in [("READ COMMITTED", true), ("REPEATABLE READ", false), ("SERIALIZABLE", false)] {
        let before = line(&other, sum);
        let own = with(&database, &format!("BEGIN ISOLATION LEVEL {level}"));
        assert_eq!(line(&own, sum), before);
        run(&other, "UPDATE accounts SET balance = balance + 1; INSERT INTO accounts VALUES (10, 'x', 10)");
        let after = line(&other, sum);
        assert_eq!(line(&own, sum), if sees { after.clone() } else { before.clone() }, "{level}");
        assert_eq!(line(&own, "SELECT count(*) FROM accounts WHERE id = 10"), if sees { "1" } else { "0" });
        // Also where keys of rows are looked up, and behind a merge.
        run(&other, "ALTER SYSTEM SET nearside.merge_idle_ms = 1");
        run(&other, "INSERT INTO accounts SELECT value, 'y', 0 FROM generate_series(100, 5000)");
        assert_eq!(line(&own, sum), if sees { after } else { before }, "{level}");
        run(&own, "COMMIT");
        run(&other, "DELETE FROM accounts WHERE id >= 10");
    }
}

#[test]
fn who_writes_the_same_row_waits_and_works_on_the_new_version() {
    let database = database();
    let first = with(&database, ACCOUNTS);
    run(&first, "BEGIN; UPDATE accounts SET balance = balance + 1 WHERE id = 1");
    std::thread::scope(|scope| {
        let second = scope.spawn(|| {
            let second = with(&database, "BEGIN; UPDATE accounts SET balance = balance * 2 WHERE id = 1");
            run(&second, "COMMIT");
        });
        until_one_waits(&database);
        // Others go on, and so do readers.
        let other =
            with(&database, "UPDATE accounts SET balance = 7 WHERE id = 3; INSERT INTO accounts VALUES (6, 'f', 6)");
        assert_eq!(line(&other, "SELECT balance FROM accounts WHERE id = 1"), "100");
        run(&first, "COMMIT");
        second.join().unwrap();
    });
    assert_eq!(line(&first, "SELECT balance FROM accounts WHERE id = 1"), "202");
    // A statement by itself waits as well, small or not, and never fails for it.
    run(&first, "BEGIN; UPDATE accounts SET balance = 1 WHERE id = 1; DELETE FROM accounts WHERE id = 2");
    std::thread::scope(|scope| {
        let small = scope.spawn(|| run(&database.session(), "UPDATE accounts SET balance = balance + 5 WHERE id = 1"));
        let key = scope.spawn(|| run(&database.session(), "INSERT INTO accounts VALUES (2, 'new', 2)"));
        let large = scope
            .spawn(|| run(&database.session(), "SET nearside.small_writes = false; UPDATE accounts SET owner = 'all'"));
        std::thread::sleep(Duration::from_millis(100));
        assert!(!small.is_finished() && !key.is_finished() && !large.is_finished());
        run(&first, "COMMIT");
        for thread in [small, key, large] {
            thread.join().unwrap();
        }
    });
    assert_eq!(line(&first, "SELECT id, balance FROM accounts ORDER BY id"), "1,6 2,2 3,7 6,6");
}

#[test]
fn one_snapshot_is_not_written_over() {
    let database = database();
    let other = with(&database, ACCOUNTS);
    for level in ["REPEATABLE READ", "SERIALIZABLE"] {
        let own = with(&database, &format!("BEGIN ISOLATION LEVEL {level}; SELECT sum(balance) FROM accounts"));
        run(&other, "UPDATE accounts SET balance = balance + 1 WHERE id = 1");
        // Another row is no matter.
        run(&own, "UPDATE accounts SET balance = balance + 1 WHERE id = 2");
        let error = fails(&own, "UPDATE accounts SET balance = balance + 1 WHERE id = 1");
        assert!(matches!(&error, Error::Serialization(_)), "{error}");
        run(&own, "ROLLBACK");
        // A row that is gone, and a key that has come.
        let own =
            with(&database, &format!("BEGIN ISOLATION LEVEL {level}; SELECT sum(balance) FROM accounts; SAVEPOINT s"));
        run(&other, "DELETE FROM accounts WHERE id = 3; INSERT INTO accounts VALUES (4, 'd', 4)");
        assert!(matches!(fails(&own, "DELETE FROM accounts WHERE id = 3"), Error::Serialization(_)));
        run(&own, "ROLLBACK TO s");
        let error = fails(&own, "INSERT INTO accounts VALUES (4, 'own', 4)");
        assert!(matches!(&error, Error::Serialization(_)), "{error}");
        run(&own, "ROLLBACK");
        run(&other, "DELETE FROM accounts WHERE id = 4; INSERT INTO accounts VALUES (3, 'eve', 300)");
    }
}

#[test]
fn keys_that_are_not_committed_are_waited_for() {
    let database = database();
    let first = with(&database, ACCOUNTS);
    for (end, becomes) in [("COMMIT", "first"), ("ROLLBACK", "second")] {
        run(&first, "DELETE FROM accounts WHERE id > 3; BEGIN; INSERT INTO accounts VALUES (4, 'first', 0)");
        std::thread::scope(|scope| {
            let second = scope.spawn(|| {
                let second = with(&database, "BEGIN");
                let inserted = second.execute("INSERT INTO accounts VALUES (4, 'second', 0)").map(drop);
                run(&second, "COMMIT");
                inserted
            });
            let nothing = scope.spawn(|| {
                run(&database.session(), "INSERT INTO accounts VALUES (4, 'third', 0) ON CONFLICT (id) DO NOTHING");
            });
            until_one_waits(&database);
            assert!(!nothing.is_finished());
            run(&first, end);
            let inserted = second.join().unwrap();
            nothing.join().unwrap();
            if end == "COMMIT" {
                assert!(inserted.unwrap_err().to_string().contains("(id) = (4)"));
            }
        });
        let owner = line(&first, "SELECT owner FROM accounts WHERE id = 4");
        assert!(owner == becomes || end == "ROLLBACK" && owner == "third", "{owner}");
    }
}

#[test]
fn a_deadlock_has_one_victim() {
    let database = database();
    let first = with(&database, ACCOUNTS);
    run(&first, "BEGIN; UPDATE accounts SET balance = 1 WHERE id = 1");
    let second = with(&database, "BEGIN; UPDATE accounts SET balance = 2 WHERE id = 2");
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| run(&second, "UPDATE accounts SET balance = 2 WHERE id = 1"));
        until_one_waits(&database);
        let error = fails(&first, "UPDATE accounts SET balance = 1 WHERE id = 2");
        assert!(matches!(&error, Error::Deadlock(_)), "{error}");
        run(&first, "ROLLBACK");
        waits.join().unwrap();
    });
    run(&second, "COMMIT");
    assert_eq!(line(&first, "SELECT id, balance FROM accounts ORDER BY id"), "1,2 2,2 3,300");
}

#[test]
fn write_skew_is_for_repeatable_read_alone() {
    let database = database();
    let other = with(&database, "CREATE TABLE doctors (name TEXT, on_call BOOLEAN)");
    for (level, is_prevented) in [("REPEATABLE READ", false), ("SERIALIZABLE", true)] {
        run(&other, "TRUNCATE TABLE doctors; INSERT INTO doctors VALUES ('a', true), ('b', true)");
        let begin = format!("BEGIN ISOLATION LEVEL {level}");
        let (first, second) = (with(&database, &begin), with(&database, &begin));
        for session in [&first, &second] {
            assert_eq!(line(session, "SELECT count(*) FROM doctors WHERE on_call"), "2");
        }
        run(&first, "UPDATE doctors SET on_call = false WHERE name = 'a'");
        run(&second, "UPDATE doctors SET on_call = false WHERE name = 'b'");
        run(&first, "COMMIT");
        let committed = second.execute("COMMIT").map(drop);
        assert_eq!(committed.is_err(), is_prevented, "{level}: {committed:?}");
        let left = line(&other, "SELECT count(*) FROM doctors WHERE on_call");
        assert_eq!(left, if is_prevented { "1" } else { "0" });
        assert_eq!((first.transaction(), second.transaction()), (None, None));
    }
    // Who only reads never fails.
    let reader = with(&database, "BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY; SELECT * FROM doctors");
    run(&other, "UPDATE doctors SET on_call = true");
    run(&reader, "SELECT * FROM doctors; COMMIT");
}

/// Statements that write and read a row by its key, prepared and as texts that are alike, between others, which have to
/// see what they wrote.
#[test]
fn rows_by_their_keys_are_written_among_other_statements() {
    let database = database();
    let other = with(&database, "CREATE TABLE accounts (id BIGINT PRIMARY KEY, balance BIGINT)");
    let own = with(&database, "CREATE TABLE log (who BIGINT, what TEXT)");
    let prepared = |sql: &str| own.prepare(sql).unwrap();
    let add = prepared("UPDATE accounts SET balance = balance + $2 WHERE id = $1");
    let put = prepared(
        "INSERT INTO accounts VALUES ($1, $2)
         ON CONFLICT (id) DO UPDATE SET balance = accounts.balance + excluded.balance",
    );
    let take = prepared("DELETE FROM accounts WHERE id = $1");
    let note = prepared("INSERT INTO log VALUES ($1, $2)");
    let balance = prepared("SELECT balance FROM accounts WHERE id = $1");
    let write = |of: &Prepared, values: &[ScalarValue]| match of.run(values).unwrap() {
        Outcome::Done(done) => done.rows.unwrap(),
        Outcome::Rows(_) => panic!("rows"),
    };
    let long = |value: i64| ScalarValue::Int64(Some(value));
    let of = |id: i64| -> Option<i64> {
        let batches = balance.query(&[long(id)]).unwrap().collect_all().unwrap();
        batches
            .iter()
            .find(|batch| batch.num_rows() > 0)
            .map(|batch| batch.column(0).as_primitive::<Int64Type>().value(0))
    };
    for merges in [false, true] {
        run(&other, "TRUNCATE TABLE accounts; INSERT INTO accounts VALUES (1, 100), (2, 200), (3, 300)");
        run(&own, "TRUNCATE TABLE log; BEGIN");
        assert_eq!(write(&add, &[long(1), long(5)]), 1);
        assert_eq!(write(&add, &[long(1), long(5)]), 1);
        assert_eq!(write(&add, &[long(9), long(5)]), 0);
        assert_eq!(write(&put, &[long(4), long(40)]), 1);
        assert_eq!(write(&put, &[long(4), long(2)]), 1);
        assert_eq!(write(&put, &[long(2), long(1)]), 1);
        assert_eq!(write(&take, &[long(3)]), 1);
        assert_eq!(write(&take, &[long(3)]), 0);
        assert_eq!(write(&note, &[long(1), ScalarValue::from("paid")]), 1);
        assert_eq!([of(1), of(2), of(3), of(4), of(9)], [Some(110), Some(201), None, Some(42), None]);
        assert_eq!(line(&other, "SELECT * FROM accounts ORDER BY id"), "1,100 2,200 3,300");
        assert_eq!(line(&other, "SELECT written_rows FROM nearside.transactions"), "7");
        if merges {
            // Rows of others get other places meanwhile.
            run(&other, "INSERT INTO accounts SELECT value, 0 FROM generate_series(1000, 9000) AS s(value)");
            run(&other, "DELETE FROM accounts WHERE id >= 1000");
            assert_eq!([of(1), of(3)], [Some(110), None]);
            assert_eq!(write(&add, &[long(1), long(0)]), 1);
        }
        // What is gone can come again; a savepoint has what was there by then.
        run(&own, "SAVEPOINT s");
        assert_eq!(write(&put, &[long(3), long(7)]), 1);
        assert_eq!(write(&take, &[long(1)]), 1);
        assert_eq!([of(1), of(3)], [None, Some(7)]);
        run(&own, "ROLLBACK TO s");
        assert_eq!([of(1), of(3)], [Some(110), None]);
        // All others see it, and go on from there.
        assert_eq!(line(&own, "SELECT * FROM accounts ORDER BY id"), "1,110 2,201 4,42");
        assert_eq!(write(&add, &[long(4), long(1)]), 1);
        assert_eq!(line(&own, "SELECT sum(balance), (SELECT count(*) FROM log) FROM accounts"), "354,1");
        // A key that is taken fails the statement, and with it the transaction, until it goes back.
        run(&own, "SAVEPOINT t");
        let told = fails(&own, "INSERT INTO accounts VALUES (4, 0)").to_string();
        assert!(told.contains("would hold two rows with the key (id) = (4)"), "{told}");
        run(&own, "ROLLBACK TO t; COMMIT");
        assert_eq!(line(&other, "SELECT * FROM accounts ORDER BY id"), "1,110 2,201 4,43");
        assert_eq!(line(&other, "SELECT * FROM log"), "1,paid");
        run(&own, "BEGIN");
        write(&add, &[long(1), long(1)]);
        write(&take, &[long(2)]);
        run(&own, "ROLLBACK");
        assert_eq!(line(&other, "SELECT * FROM accounts ORDER BY id"), "1,110 2,201 4,43");
        assert_eq!(line(&other, "UPDATE accounts SET balance = 0 WHERE id = 2"), "1");
    }
    // Texts that are alike.
    run(&own, "BEGIN");
    for n in 0..5 {
        run(&own, &format!("UPDATE accounts SET balance = balance + {n} WHERE id = 1"));
        run(&own, &format!("INSERT INTO accounts VALUES ({}, {n})", 20 + n));
        assert_eq!(line(&own, &format!("SELECT balance FROM accounts WHERE id = {}", 20 + n)), n.to_string());
    }
    let told = fails(&own, "INSERT INTO accounts VALUES (22, 0)").to_string();
    assert!(told.contains("would hold two rows with the key (id) = (22)"), "{told}");
    run(&own, "ROLLBACK");
    run(&own, "BEGIN READ ONLY");
    assert!(matches!(add.run(&[long(1), long(1)]), Err(Error::Transaction(_))));
    run(&own, "ROLLBACK");
    assert_eq!(line(&other, "SELECT count(*) FROM accounts"), "3");
}

#[test]
fn what_is_set_locally_ends_with_the_transaction() {
    let database = database();
    let session = with(&database, "SET synchronous_commit = off; SET statement_timeout = 70000");
    let shown = || {
        ["synchronous_commit", "statement_timeout"].map(|of| rows(&session, &format!("SHOW {of}"))[0].pop().unwrap())
    };
    assert_eq!(shown(), ["off", "70s"]);
    for end in ["COMMIT", "ROLLBACK"] {
        run(&session, "BEGIN; SET LOCAL synchronous_commit = on; SET LOCAL statement_timeout = '50s'");
        assert_eq!(shown(), ["on", "50s"]);
        run(&session, end);
        assert_eq!(shown(), ["off", "70s"], "{end}");
    }
    // What is set beside it stays, even of the same setting.
    run(
        &session,
        "BEGIN; SET LOCAL statement_timeout = 30000; SET statement_timeout = 20000; SET synchronous_commit = on",
    );
    assert_eq!(shown(), ["on", "20s"]);
    run(&session, "COMMIT");
    assert_eq!(shown(), ["on", "20s"]);
    // Savepoints.
    run(&session, "BEGIN; SAVEPOINT s; SET LOCAL statement_timeout = 30000; ROLLBACK TO s");
    assert_eq!(shown()[1], "20s");
    run(&session, "SET statement_timeout = 40000; COMMIT");
    assert_eq!(shown()[1], "40s");
    run(&session, "BEGIN; SET LOCAL TIME ZONE 'Asia/Tokyo'; COMMIT; RESET statement_timeout");
    assert_eq!(shown()[1], "0");
    let told = fails(&session, "SET LOCAL statement_timeout = 1").to_string();
    assert!(told.contains("SET LOCAL is for transactions"), "{told}");
}

/// What a serializable transaction reads, what it writes, what another writes meanwhile, and whether that matters.
#[test]
fn what_was_not_read_may_be_changed_by_others() {
    let database = database();
    let other = with(&database, "CREATE TABLE log (a INT); CREATE TABLE t (id BIGINT PRIMARY KEY, k INT, v TEXT)");
    for (read, change, is_in_the_way) in [
        ("SELECT * FROM t WHERE id = 5", "UPDATE t SET v = 'x' WHERE id = 6", false),
        ("SELECT * FROM t WHERE id = 5", "UPDATE t SET v = 'x' WHERE id = 5", true),
        ("SELECT * FROM t WHERE id = 5", "DELETE FROM t WHERE id = 5", true),
        ("SELECT * FROM t WHERE id = 100", "INSERT INTO t VALUES (100, 0, '')", true),
        ("SELECT * FROM t WHERE id = 100", "INSERT INTO t VALUES (101, 0, '')", false),
        // A row that comes into a range, and one that leaves it.
        ("SELECT count(*) FROM t WHERE k BETWEEN 3 AND 4", "UPDATE t SET k = 3 WHERE id = 1", true),
        ("SELECT count(*) FROM t WHERE k BETWEEN 3 AND 4", "UPDATE t SET k = 9 WHERE id = 3", true),
        ("SELECT count(*) FROM t WHERE k BETWEEN 3 AND 4", "UPDATE t SET k = 9 WHERE id = 1", false),
        ("SELECT sum(id) FROM t WHERE v LIKE 'text 1%' AND k > 5", "UPDATE t SET v = 'text 1' WHERE id = 7", true),
        ("SELECT sum(id) FROM t WHERE v LIKE 'text 1%' AND k > 5", "UPDATE t SET v = 'text 1' WHERE id = 2", false),
        // A condition that fails for what came since.
        ("SELECT count(*) FROM t WHERE 10 / k > 3", "INSERT INTO t VALUES (105, 0, '')", true),
        // All of a table, by a join or a subquery too.
        ("SELECT count(*) FROM t", "INSERT INTO t VALUES (102, 0, '')", true),
        ("SELECT a.v FROM t a JOIN t b ON a.id = b.k WHERE a.id = 3", "DELETE FROM t WHERE id = 8", true),
        ("SELECT 1 WHERE EXISTS (SELECT FROM t WHERE k = 77)", "INSERT INTO t VALUES (103, 77, '')", true),
        ("SELECT 1 WHERE EXISTS (SELECT FROM t WHERE k = 77)", "INSERT INTO t VALUES (103, 78, '')", false),
        // What a write reads.
        ("UPDATE t SET v = 'y' WHERE k = 2", "INSERT INTO t VALUES (104, 2, '')", true),
        ("UPDATE t SET v = 'y' WHERE k = 2", "INSERT INTO t VALUES (104, 3, '')", false),
        ("DELETE FROM t WHERE k = 77", "UPDATE t SET k = 77 WHERE id = 9", true),
        ("INSERT INTO t VALUES (200, 0, '')", "INSERT INTO t VALUES (201, 0, '')", false),
        ("INSERT INTO t VALUES (5, 0, '') ON CONFLICT DO NOTHING", "DELETE FROM t WHERE id = 5", true),
        // Prepared, with values.
        ("PREPARE p AS SELECT * FROM t WHERE id = $1; EXECUTE p(5); EXECUTE p(8)", "DELETE FROM t WHERE id = 8", true),
        ("PREPARE q AS SELECT * FROM t WHERE id = $1; EXECUTE q(5); EXECUTE q(8)", "DELETE FROM t WHERE id = 7", false),
    ] {
        for is_merged in [false, true] {
            let rows = "SELECT value, value, 'text ' || value FROM generate_series(1, 10) AS s(value)";
            run(&other, &format!("TRUNCATE TABLE t; INSERT INTO t {rows}"));
            if is_merged {
                // Rows of segments, and of the delta beside them.
                let many = "SELECT value, value + 1000, '' FROM generate_series(1000, 9000) AS s(value)";
                run(
                    &other,
                    &format!("INSERT INTO t {many}; INSERT INTO t VALUES (300, 1, ''); DELETE FROM t WHERE id = 300"),
                );
            }
            let own = with(&database, "BEGIN ISOLATION LEVEL SERIALIZABLE");
            run(&own, read);
            run(&own, "INSERT INTO log VALUES (1)");
            run(&other, change);
            let committed = own.execute("COMMIT").map(drop);
            assert_eq!(committed.is_err(), is_in_the_way, "{read} / {change} ({is_merged}): {committed:?}");
            if let Err(error) = committed {
                let told = error.to_string();
                assert!(matches!(error, Error::Serialization(_)) && told.contains("of table 't'"), "{told}");
            }
        }
    }
}

#[test]
fn definitions_are_part_of_transactions() {
    let database = database();
    let other = with(&database, ACCOUNTS);
    let own = with(
        &database,
        "BEGIN; CREATE SCHEMA s; CREATE TABLE s.t (a INT PRIMARY KEY); INSERT INTO s.t VALUES (1), (2)",
    );
    run(
        &own,
        "CREATE VIEW v AS SELECT sum(a) AS total FROM s.t; ALTER TABLE accounts ADD COLUMN note TEXT DEFAULT 'none'",
    );
    run(&own, "CREATE INDEX balances ON accounts (balance); INSERT INTO accounts (id, balance) VALUES (4, 400)");
    run(&own, "UPDATE s.t SET a = a + 10; ALTER TABLE s.t RENAME TO u");
    assert!(own.query("SELECT * FROM v").is_err());
    run(
        &own,
        "ROLLBACK; BEGIN; CREATE SCHEMA s; CREATE TABLE s.t (a INT PRIMARY KEY); INSERT INTO s.t VALUES (1), (2)",
    );
    run(
        &own,
        "CREATE VIEW v AS SELECT sum(a) AS total FROM s.t; ALTER TABLE accounts ADD COLUMN note TEXT DEFAULT 'none'",
    );
    run(&own, "INSERT INTO accounts (id, balance) VALUES (4, 400); UPDATE s.t SET a = a + 10");
    assert_eq!(line(&own, "SELECT total, note FROM v, accounts WHERE id = 4"), "23,none");
    // Others see nothing of it, and may read what it changes.
    assert!(other.query("SELECT * FROM s.t").is_err() && other.query("SELECT note FROM accounts").is_err());
    assert_eq!(line(&other, "SELECT count(*) FROM accounts"), "3");
    run(&own, "COMMIT");
    assert_eq!(line(&other, "SELECT total, note FROM v, accounts WHERE id = 4"), "23,none");
    assert!(fails(&other, "INSERT INTO s.t VALUES (11)").to_string().contains("(a) = (11)"));

    // Who drops a table waits for who writes it, and names are who commits first's.
    run(&own, "BEGIN; UPDATE accounts SET balance = 0 WHERE id = 1");
    std::thread::scope(|scope| {
        let drops = scope.spawn(|| run(&database.session(), "DROP TABLE accounts"));
        std::thread::sleep(Duration::from_millis(50));
        assert!(!drops.is_finished());
        run(&own, "COMMIT");
        drops.join().unwrap();
    });
    run(&own, "BEGIN; CREATE TABLE accounts (own INT)");
    run(&other, "CREATE TABLE accounts (others INT)");
    assert!(matches!(fails(&own, "COMMIT"), Error::Serialization(_)));
    run(&other, "INSERT INTO accounts VALUES (1)");
    // A table that is emptied, cut and filled again.
    run(&own, "BEGIN; TRUNCATE TABLE accounts; INSERT INTO accounts SELECT * FROM generate_series(1, 4000)");
    run(&own, "ALTER TABLE accounts SET PLACEMENT 'pp(4, range(others))'; DELETE FROM accounts WHERE others > 3000");
    assert_eq!(line(&other, "SELECT count(*) FROM accounts"), "1");
    run(&own, "COMMIT");
    assert_eq!(line(&other, "SELECT count(*), sum(others) FROM accounts"), "3000,4501500");
}

#[test]
fn modes_are_kept() {
    let database = database();
    let own = with(&database, ACCOUNTS);
    run(&own, "BEGIN READ ONLY; SELECT * FROM accounts");
    for sql in ["INSERT INTO accounts VALUES (9, 'x', 1)", "CREATE TABLE t (a INT)", "DROP TABLE accounts"] {
        assert!(matches!(fails(&own, sql), Error::Transaction(_)), "{sql}");
        run(&own, "ROLLBACK; BEGIN READ ONLY");
    }
    run(&own, "COMMIT; BEGIN; SET TRANSACTION ISOLATION LEVEL SERIALIZABLE, READ ONLY; SELECT 1");
    assert_eq!(line(&own, "SELECT level, read_only, state FROM nearside.transactions"), "serializable,true,running");
    assert!(matches!(fails(&own, "SET TRANSACTION READ WRITE"), Error::Transaction(_)));
    run(&own, "ROLLBACK AND CHAIN");
    assert_eq!(line(&own, "SELECT level, read_only FROM nearside.transactions"), "serializable,true");
    run(&own, "COMMIT; SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL REPEATABLE READ; BEGIN");
    assert_eq!(line(&own, "SELECT level, read_only FROM nearside.transactions"), "repeatable read,false");
    assert!(matches!(fails(&own, "BEGIN READ ONLY"), Error::Transaction(_)));
    run(&own, "BEGIN; COMMIT; COMMIT; ROLLBACK");
    assert!(matches!(fails(&own, "SET default_transaction_isolation = 'snapshot'"), Error::Setting(_)));
    // Statements by themselves that are serializable.
    run(
        &own,
        "SET default_transaction_isolation = 'serializable'; UPDATE accounts SET balance = 0; SELECT * FROM accounts",
    );
    assert_eq!(line(&own, "SELECT sum(balance) FROM accounts"), "0");
    run(&own, "ALTER SYSTEM SET nearside.merge_idle_ms = 7; BEGIN");
    assert!(fails(&own, "ALTER SYSTEM SET nearside.merge_idle_ms = 8").to_string().contains("outside"));
    run(&own, "ABORT; SET default_transaction_read_only = on; SELECT * FROM accounts");
    assert!(matches!(fails(&own, "DELETE FROM accounts"), Error::Transaction(_)));
    run(&own, "BEGIN ISOLATION LEVEL SERIALIZABLE READ WRITE NOT DEFERRABLE; DELETE FROM accounts; COMMIT");
    // What it has made itself it may have read, and taken away.
    run(
        &own,
        "BEGIN READ WRITE; CREATE TABLE x (a INT); SELECT * FROM x; DROP TABLE x;
         INSERT INTO accounts VALUES (1, 'a', 1); COMMIT",
    );
}

#[test]
fn who_is_idle_for_long_is_rolled_back() {
    let database = database();
    let own = with(&database, ACCOUNTS);
    run(&own, "SET idle_in_transaction_session_timeout = 50; BEGIN; UPDATE accounts SET balance = 0");
    // It would wait for ever.
    run(&database.session(), "UPDATE accounts SET balance = balance + 1");
    let error = fails(&own, "SELECT 1");
    assert!(error.to_string().contains("idle"), "{error}");
    run(&own, "ROLLBACK");
    assert_eq!(line(&own, "SELECT sum(balance) FROM accounts"), "603");
}

/// A row is held while others write many rows of its table at once, in ways that merge it first.
#[test]
fn what_is_written_beside_a_held_row_is_there() {
    let database = database();
    let setup = with(
        &database,
        "CREATE TABLE a (k BIGINT PRIMARY KEY, v BIGINT); INSERT INTO a SELECT value, 0 FROM generate_series(1, 2000)",
    );
    let own = with(&database, "BEGIN; UPDATE a SET v = 1 WHERE k = 7");
    // Of many rows that are proposed few are new; keys that are not there; rows that are many.
    run(&setup, "INSERT INTO a SELECT value, 2 FROM generate_series(8, 3010) ON CONFLICT DO NOTHING");
    assert_eq!(line(&setup, "SELECT count(*), sum(v) FROM a"), "3010,2020");
    run(&setup, "INSERT INTO a SELECT value, 0 FROM generate_series(10001, 16000); DELETE FROM a WHERE k > 11000");
    run(&setup, "UPDATE a SET v = 3 WHERE k BETWEEN 100 AND 2900");
    let keyed = database.keyed("a").unwrap();
    let keys: Vec<i64> = (20_000..23_000).chain([10_001]).collect();
    assert_eq!(keyed.delete(&keys[..]).unwrap(), 1);
    assert_eq!(line(&setup, "SELECT count(*), sum(v), min(v) FROM a"), "4009,8623,0");
    assert_eq!(line(&own, "SELECT count(*), sum(v) FROM a"), "4009,8624");
    run(&own, "UPDATE a SET v = v + 1 WHERE k <= 10; COMMIT");
    assert_eq!(line(&setup, "SELECT sum(v) FROM a WHERE k <= 10"), "11");
    assert_eq!(line(&setup, "SELECT count(*), sum(v) FROM a"), "4009,8634");
    assert!(fails(&setup, "INSERT INTO a VALUES (7, 7)").to_string().contains("(k) = (7)"));
}

/// A table that was dropped and came back is not what it was for who saw it before others changed it.
#[test]
fn what_a_transaction_has_once_owned_is_looked_at_again() {
    let database = database();
    let other = with(&database, ACCOUNTS);
    let own = with(&database, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT * FROM accounts");
    run(&other, "UPDATE accounts SET balance = 1 WHERE id = 1");
    run(&own, "SAVEPOINT s; DROP TABLE accounts; ROLLBACK TO s");
    // Nobody waits for what is not owned any more.
    run(&other, "UPDATE accounts SET balance = 2 WHERE id = 2");
    assert!(matches!(fails(&own, "UPDATE accounts SET balance = 0"), Error::Serialization(_)));
    run(&own, "ROLLBACK");
    assert_eq!(line(&other, "SELECT sum(balance) FROM accounts"), "303");
}

/// What is found by a key and not written is read: two that would not have found it so one after the other do not both
/// commit.
#[test]
fn look_ups_of_keys_are_reads() {
    let database = database();
    let setup = with(&database, "CREATE TABLE a (k INT PRIMARY KEY); CREATE TABLE b (n INT); INSERT INTO a VALUES (1)");
    let begin = "BEGIN ISOLATION LEVEL SERIALIZABLE";
    let (first, second) = (with(&database, begin), with(&database, begin));
    run(&first, "INSERT INTO a VALUES (1) ON CONFLICT DO NOTHING; INSERT INTO b VALUES (1)");
    run(&second, "SELECT count(*) FROM b; DELETE FROM a WHERE k = 1; COMMIT");
    assert!(matches!(fails(&first, "COMMIT"), Error::Serialization(_)));
    assert_eq!(line(&setup, "SELECT count(*) FROM b"), "0");
}

/// Rows that a transaction has added it may take away again, as the last thing that it does.
#[test]
fn own_rows_are_taken_away_again() {
    let database = database();
    let own =
        with(&database, "CREATE TABLE t (a INT); CREATE TABLE other (a INT); BEGIN; INSERT INTO t VALUES (10), (11)");
    run(&own, "DELETE FROM t WHERE a = 10; DELETE FROM t WHERE a = 99; SAVEPOINT s; DELETE FROM t");
    run(&database.session(), "INSERT INTO t VALUES (1)");
    assert_eq!(line(&own, "SELECT a FROM t"), "1");
    run(&own, "ROLLBACK TO s");
    assert_eq!(line(&own, "SELECT a FROM t ORDER BY a"), "1 11");
    run(&own, "INSERT INTO other VALUES (1); DELETE FROM t WHERE a = 11; COMMIT");
    assert_eq!(line(&own, "SELECT a FROM t"), "1");
}

/// What fails because a table has another name by now leaves nothing locked; schemas that come and go are none.
#[test]
fn names_that_change_lock_nobody_out() {
    let database = database();
    let own = with(&database, "CREATE TABLE t (a INT); INSERT INTO t VALUES (1)");
    run(&own, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT * FROM t");
    let other = with(&database, "ALTER TABLE t RENAME TO u");
    assert!(matches!(fails(&own, "INSERT INTO t VALUES (2)"), Error::Serialization(_)));
    run(&own, "ROLLBACK");
    run(&other, "DROP TABLE u; BEGIN; CREATE SCHEMA s; CREATE TABLE s.t (a INT); DROP SCHEMA s CASCADE; COMMIT");
    run(&other, "CREATE SCHEMA s; BEGIN; DROP SCHEMA s; CREATE SCHEMA s; CREATE TABLE s.t AS SELECT 7 AS a; COMMIT");
    assert_eq!(line(&own, "SELECT a FROM s.t"), "7");
    // What is made of an old snapshot does not take the place of what is newer.
    run(&own, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT * FROM s.t");
    run(&other, "INSERT INTO s.t VALUES (8)");
    assert!(matches!(fails(&own, "CREATE OR REPLACE TABLE s.t AS SELECT * FROM s.t"), Error::Serialization(_)));
    run(&own, "ROLLBACK");
    assert_eq!(line(&own, "SELECT sum(a) FROM s.t"), "15");
    assert_eq!(line(&own, "SHOW transaction_isolation"), "read committed");
    run(&own, "BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY");
    assert_eq!(
        line(&own, "SHOW TRANSACTION ISOLATION LEVEL") + &line(&own, "SHOW transaction_read_only"),
        "serializableon"
    );
    run(&own, "COMMIT");
}

/// Merges move rows of a table without a key while a transaction has one snapshot of it; nobody else writes.
#[test]
fn merges_are_no_changes() {
    let database = database();
    let own = with(&database, "ALTER SYSTEM SET nearside.merge_idle_ms = 1; CREATE TABLE t (a INT, b TEXT)");
    for level in ["REPEATABLE READ", "SERIALIZABLE"] {
        run(&own, "INSERT INTO t VALUES (1, 'x'), (2, 'y')");
        run(&own, &format!("BEGIN ISOLATION LEVEL {level}; SELECT * FROM t"));
        std::thread::sleep(Duration::from_millis(300));
        run(&own, "UPDATE t SET b = 'z' WHERE a = 1; SELECT * FROM t");
        std::thread::sleep(Duration::from_millis(100));
        run(&own, "UPDATE t SET b = b || b; ALTER TABLE t ADD COLUMN IF NOT EXISTS c INT; COMMIT");
    }
    assert_eq!(line(&own, "SELECT a, b FROM t WHERE a = 2 ORDER BY b"), "2,yy 2,yyyy");
}

/// A query whose rows end with an error has failed, and so has its transaction.
#[test]
fn errors_that_come_with_rows_fail_a_transaction() {
    let database = database();
    let own = with(&database, "CREATE TABLE a (k INT); INSERT INTO a VALUES (1), (0); BEGIN; INSERT INTO a VALUES (2)");
    assert!(own.query("SELECT 1 / k FROM a").and_then(|rows| rows.collect_all()).is_err());
    assert!(matches!(fails(&own, "SELECT 1"), Error::Transaction(_)));
    assert_eq!(run(&own, "COMMIT"), "ROLLBACK");
    assert_eq!(line(&own, "SELECT count(*) FROM a"), "2");
}

/// Transfers between accounts of two tables, beside single statements, loads and merges: no money is made or lost,
/// whatever the level, and nobody sees a half of a transfer.
#[test]
fn money_is_neither_made_nor_lost() {
    const ACCOUNTS: usize = 20;
    let database = database();
    let setup = database.session();
    run(&setup, "ALTER SYSTEM SET nearside.merge_idle_ms = 1");
    run(
        &setup,
        "CREATE TABLE a (id BIGINT PRIMARY KEY, balance BIGINT, n BIGINT);
         CREATE TABLE b (id BIGINT, balance BIGINT, n BIGINT)",
    );
    for table in ["a", "b"] {
        run(&setup, &format!("INSERT INTO {table} SELECT value, 100, 0 FROM generate_series(0, {})", ACCOUNTS - 1));
    }
    let total = "SELECT (SELECT sum(balance) FROM a) + (SELECT sum(balance) FROM b)";
    let expected = number(&setup, total);
    let (is_over, transfers, failed) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let (database, is_over, transfers, failed) = (&database, &is_over, &transfers, &failed);
            scope.spawn(move || {
                let (session, mut random) = (database.session(), Random::new(thread));
                while !is_over.load(SeqCst) {
                    let level = ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"][random.below(3)];
                    let transfer = |random: &mut Random| -> nearside::Result<()> {
                        session.execute(&format!("BEGIN ISOLATION LEVEL {level}"))?;
                        for change in ["balance - 3", "balance + 3"] {
                            let table = ["a", "b"][random.below(2)];
                            let id = random.below(ACCOUNTS);
                            session.execute(&format!(
                                "UPDATE {table} SET balance = {change}, n = n + 1 WHERE id = {id}"
                            ))?;
                        }
                        if random.below(10) == 0 {
                            return session.execute("ROLLBACK").map(drop);
                        }
                        session.execute("COMMIT")?;
                        transfers.fetch_add(1, SeqCst);
                        Ok(())
                    };
                    if let Err(error) = transfer(&mut random) {
                        assert!(matches!(error, Error::Serialization(_) | Error::Deadlock(_)), "{error}");
                        failed.fetch_add(1, SeqCst);
                        run(&session, "ROLLBACK");
                    }
                }
            });
        }
        let (others, database) = (&is_over, &database);
        scope.spawn(move || {
            let (session, mut random) = (database.session(), Random::new(77));
            while !others.load(SeqCst) {
                let sql = match random.below(4) {
                    0 => "UPDATE a SET n = n + 1 WHERE id < 5",
                    1 => "UPDATE b SET n = n",
                    2 => "INSERT INTO b SELECT value, 0, 0 FROM generate_series(1000, 3100)",
                    _ => "DELETE FROM b WHERE id >= 1000",
                };
                session.execute(sql).map(drop).unwrap_or_else(|error| panic!("{sql}: {error}"));
            }
        });
        let begun = Instant::now();
        let session = database.session();
        // A machine that does much else gets longer.
        let is_enough = || transfers.load(SeqCst) > 20 || begun.elapsed() > Duration::from_secs(100);
        while begun.elapsed() < Duration::from_secs(4) || !is_enough() {
            assert_eq!(number(&session, total), expected);
        }
        is_over.store(true, SeqCst);
    });
    assert_eq!(number(&setup, total), expected);
    let (transfers, failed) = (transfers.into_inner(), failed.into_inner());
    assert!(transfers > 20, "{transfers} transfers, {failed} failed");
    // Each transfer has counted twice, where nobody else has.
    assert_eq!(number(&setup, "SELECT count(*) FROM nearside.transactions"), 0);
    eprintln!("{transfers} transfers, {failed} failed");
}
