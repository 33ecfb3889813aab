//! Keys that are DEFERRABLE, of several transactions at the same time.

use nearside::Error;

use crate::read::{database, number};
use crate::transactions::{fails, line, run, until_one_waits};

const TABLE: &str =
    "CREATE TABLE t (a INT UNIQUE DEFERRABLE INITIALLY DEFERRED, b TEXT); INSERT INTO t VALUES (1, 'one')";

#[test]
fn who_writes_the_same_key_waits_and_sees_what_became_of_it() {
    for (end, has_it) in [("COMMIT", true), ("ROLLBACK", false)] {
        let database = database();
        let first = database.session();
        run(&first, TABLE);
        run(&first, "BEGIN; INSERT INTO t VALUES (2, 'first')");
        std::thread::scope(|scope| {
            let second = scope.spawn(|| {
                let second = database.session();
                second.execute("INSERT INTO t VALUES (2, 'second')").map(drop)
            });
            until_one_waits(&database);
            // Other keys are nobody's business.
            run(&database.session(), "INSERT INTO t VALUES (3, 'third')");
            run(&first, end);
            let inserted = second.join().unwrap();
            assert_eq!(inserted.is_err(), has_it);
            if let Err(error) = inserted {
                assert!(error.to_string().contains("two rows with the key (a) = (2)"), "{error}");
            }
        });
        let owner = if has_it { "first" } else { "second" };
        assert_eq!(line(&first, "SELECT a, b FROM t ORDER BY a"), format!("1,one 2,{owner} 3,third"));
    }
}

#[test]
fn a_key_that_is_about_to_go_is_waited_for() {
    let database = database();
    let first = database.session();
    run(&first, TABLE);
    run(&first, "BEGIN; DELETE FROM t WHERE a = 1");
    std::thread::scope(|scope| {
        let second = scope.spawn(|| run(&database.session(), "INSERT INTO t VALUES (1, 'second')"));
        until_one_waits(&database);
        run(&first, "COMMIT");
        second.join().unwrap();
    });
    assert_eq!(line(&first, "SELECT a, b FROM t"), "1,second");
}

#[test]
fn one_snapshot_is_not_written_over_and_own_rows_are_no_others() {
    let database = database();
    let first = database.session();
    run(&first, TABLE);
    run(&first, "BEGIN ISOLATION LEVEL REPEATABLE READ");
    assert_eq!(number(&first, "SELECT count(*) FROM t"), 1);
    run(&database.session(), "INSERT INTO t VALUES (2, 'other')");
    run(&first, "UPDATE t SET b = 'mine' WHERE a = 1; INSERT INTO t VALUES (2, 'mine')");
    let error = fails(&first, "COMMIT");
    assert!(matches!(&error, Error::Serialization(_)), "{error}");
    assert_eq!(line(&first, "SELECT a, b FROM t ORDER BY a"), "1,one 2,other");
    // Others have written other keys only.
    run(&first, "BEGIN ISOLATION LEVEL REPEATABLE READ");
    assert_eq!(number(&first, "SELECT count(*) FROM t"), 2);
    run(&database.session(), "INSERT INTO t VALUES (5, 'other')");
    run(&first, "UPDATE t SET b = 'mine' WHERE a = 1; DELETE FROM t WHERE a = 2; INSERT INTO t VALUES (2, 'mine')");
    run(&first, "COMMIT");
    assert_eq!(line(&first, "SELECT a, b FROM t ORDER BY a"), "1,mine 2,mine 5,other");
}

/// Many rows, whose table the transaction owns.
#[test]
fn many_rows_are_looked_at_together() {
    let database = database();
    let session = database.session();
    run(&session, TABLE);
    run(&session, "BEGIN; INSERT INTO t SELECT value, 'x' FROM generate_series(2, 20000) AS s (value)");
    run(&session, "INSERT INTO t VALUES (777, 'again')");
    assert!(fails(&session, "COMMIT").to_string().contains("two rows with the key (a) = (777)"));
    run(&session, "INSERT INTO t SELECT value, 'x' FROM generate_series(2, 20000) AS s (value)");
    run(&session, "UPDATE t SET a = 20001 - a");
    assert_eq!(number(&session, "SELECT count(DISTINCT a) FROM t"), 20_000);
    assert!(fails(&session, "UPDATE t SET a = 1 WHERE a > 19998").to_string().contains("(a) = (1)"));
}
