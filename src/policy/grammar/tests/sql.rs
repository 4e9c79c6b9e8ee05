//! What the reader of texts for databases finds.

use proptest::prelude::*;

use crate::policy::grammar::sql::{mysql, psql, sqlite};

type Scan = fn(&[u8]) -> Option<&'static str>;

#[track_caller]
fn table(scan: Scan, rows: &[(&str, Option<&str>)]) {
    for (text, expected) in rows {
        assert_eq!(scan(text.as_bytes()), *expected, "{text:?}");
    }
}

#[test]
fn sqlite_commands_and_names_are_found() {
    table(
        sqlite,
        &[
            ("", None),
            ("select * from t where a = 'attach me' and b = .5;", None),
            (".tables", None),
            (".schema t", None),
            (".mode csv", None),
            (".shell id", Some("command")),
            (".sh id", Some("command")),
            (".system id", Some("command")),
            (".output |id", Some("command")),
            (".once f", Some("command")),
            (".import \"|id\" t", Some("command")),
            (".read f", Some("command")),
            (".load ./x", Some("command")),
            (".open f", Some("command")),
            (".excel", Some("command")),
            ("select 1;\n .shell id", Some("command")),
            ("select readfile('/etc/passwd')", Some("file")),
            ("select READFILE ('x')", Some("file")),
            ("select \"readfile\"('x')", Some("file")),
            ("select [writefile]('x', 1)", Some("file")),
            ("select * from 'fsdir'('/')", Some("file")),
            ("attach database 'x' as y", Some("file")),
            ("AT/**/TACH 'x' as y", None),
            ("/* x */attach 'x' as y", Some("file")),
            ("-- x\nattach 'x' as y", Some("file")),
            ("select 1 -- attach", None),
            ("vacuum into 'x'", Some("file")),
            ("VACUUM main INTO 'x'", Some("file")),
            ("vacuum; insert into t values (1)", None),
            ("pragma temp_store_directory = 'x'", Some("file")),
            ("select load_extension('./x')", Some("code")),
            ("select fts3_tokenizer('x', y)", Some("code")),
            ("select edit('x', 'id')", Some("code")),
            ("select `edit`/**/ ('x', 'id')", Some("code")),
            ("select edit from t", None),
            ("select 'it''s', readfile('x')", Some("file")),
            ("select \u{feff}readfile('x')", Some("file")),
            ("select a\u{feff}b from t", None),
            ("vacuum /*;*/ into 'x'", Some("file")),
            ("select '''', readfile('x')", Some("file")),
        ],
    );
}

#[test]
fn psql_takes_commands_that_describe_and_text_for_the_server() {
    table(
        psql,
        &[
            ("select 1", None),
            ("\\dt+ public.*", None),
            ("\\l", None),
            ("\\! id", Some("command")),
            (" \\!id", Some("command")),
            ("\\copy t from program 'id'", Some("command")),
            ("\\o |id", Some("command")),
            ("\\i f", Some("command")),
            ("\\d `id`", Some("command")),
            ("\\d \\! id", Some("command")),
            ("copy t to stdout", None),
            ("COPY t FROM PROGRAM 'id'", Some("code")),
            ("copy/**/t from\nprogram 'id'", Some("code")),
            ("copy t to '/tmp/x'", Some("file")),
            ("copy t to '/tmp/x' -- stdout", Some("file")),
            ("copy t to '/tmp/x'; copy t to stdout", Some("file")),
            ("copy t to $$/tmp/x$$; select 'stdout'", Some("file")),
            ("copy t from/* stdin */e'/tmp/x'", Some("file")),
            ("copy (select a from b) to stdout with (delimiter ',')", None),
            ("select pg_read_file('/etc/passwd')", Some("file")),
            ("select lo_import('/etc/passwd')", Some("file")),
            ("alter system set archive_command = 'id'", Some("code")),
            ("load './x.so'", Some("code")),
            ("create extension plpython3u", Some("code")),
        ],
    );
}

#[test]
fn mysql_commands_are_found_where_a_statement_may_begin() {
    table(
        mysql,
        &[
            ("select 1; show tables", None),
            ("select source, `system` from t", None),
            ("\\! id", Some("command")),
            ("select 1 \\! id", Some("command")),
            ("\\. f", Some("command")),
            ("\\T f", Some("command")),
            ("\\P id", Some("command")),
            ("system id", Some("command")),
            ("SYSTEM id", Some("command")),
            ("select 1; system id", Some("command")),
            ("select 1\\G system id", Some("command")),
            ("select 1\n  source f", Some("command")),
            ("/* x */ pager id", Some("command")),
            ("tee f", Some("command")),
            ("delimiter x", Some("command")),
            ("select 1 into outfile '/tmp/x'", Some("file")),
            ("select 1 /*!50000 INTO DUMPFILE*/ '/tmp/x'", Some("file")),
            ("load data local infile '/etc/passwd' into table t", Some("file")),
            ("select load_file('/etc/passwd')", Some("file")),
            ("create function f returns int soname 'x.so'", Some("code")),
            ("install plugin x soname 'x.so'", Some("code")),
        ],
    );
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_have_an_answer(text in proptest::collection::vec(any::<u8>(), 0..200)) {
        for scan in [sqlite as Scan, psql, mysql] {
            prop_assert_eq!(scan(&text), scan(&text));
        }
    }

    /// Statements around it do not hide one that reaches out, and none of them is refused by itself.
    #[test]
    fn harmless_statements_do_not_hide_another(
        before in proptest::collection::vec(
            proptest::sample::select(vec![
                "select 1;", "select 'it''s';", "select \"a\" from t;", "-- note\n", "/* note */", "vacuum;",
                "insert into t values ('x', 2.5);", "select '--', '/*';",
            ]),
            0..8,
        ),
        statement in proptest::sample::select(vec![
            (sqlite as Scan, "attach 'x' as y"),
            (sqlite, "select readfile('x')"),
            (sqlite, "select load_extension('x')"),
            (psql, "copy t from program 'id'"),
            (psql, "copy t to '/tmp/x'"),
            (mysql, "system id"),
            (mysql, "select 1 into outfile 'x'"),
        ]),
    ) {
        let (scan, statement) = statement;
        let before = before.concat();
        let text = format!("{before}{statement}");
        prop_assert!(scan(text.as_bytes()).is_some(), "{}", text);
        prop_assert_eq!(scan(before.as_bytes()), None, "{}", text);
    }
}
