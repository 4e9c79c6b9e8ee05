//! The verdict against the real programs: what the policy allows is run, unconfined and observed.
//!
//! For each program a seeded generator makes argument vectors. Those that the policy allows are started in
//! a throw-away directory with the environment that the policy gives, under strace, in namespaces where a
//! mistake can hurt nothing. A vector that starts a program other than its own and its declared helpers,
//! writes outside of the directory, or writes at all where the grammar says that the program only reads, is
//! a find: it is printed as a row for `tests/corpora/differential_finds.jsonl`, which is replayed by verdict.
//!
//! `COFFERDAM_DIFFERENTIAL=N` runs N times as many vectors.

mod generator;
mod lab;
mod trace;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;

use cofferdam::policy::grammar;
use serde_json::{Value, json};

use self::generator::{Random, Stock};
use self::lab::{Lab, Outcome};
use crate::scan::root;

/// Vectors of a program that are run by default.
const VECTORS: usize = 150;
/// Makes them more.
const SCALE: &str = "COFFERDAM_DIFFERENTIAL";
/// Vectors that one set of namespaces runs.
const BATCH: usize = 100;

const FINDS: &str = "tests/corpora/differential_finds.jsonl";

/// A program, and lines that do something in the stage of `drive.sh`.
struct Subject {
    name: &'static str,
    package: &'static str,
    /// Its grammar refuses what writes files.
    reads_only: bool,
    basics: &'static [&'static str],
    /// Options that write all the same, in the directory, by their letters or the begin of their names.
    writing: (&'static str, &'static [&'static str]),
}

impl Subject {
    /// Finds of its vectors.
    fn test(&self) {
        let lab = Lab::new();
        let grammar = grammar::program(self.name.as_bytes()).unwrap().unwrap();
        let names: BTreeSet<&str> = grammar.names().iter().map(String::as_str).collect();
        let rows = corpora(&names);
        let stock = Stock::new(self.name, grammar, self.basics, &rows);
        let scale = std::env::var(SCALE).map_or(1, |text| text.parse().expect("a whole number"));
        let (wanted, mut random) = (VECTORS * scale, Random::new(self.name));
        let (mut vectors, mut seen, mut made) = (Vec::new(), BTreeSet::new(), 0);
        while vectors.len() < wanted && made < wanted * 60 {
            made += 1;
            let vector = stock.vector(&mut random);
            if seen.insert(vector.clone())
                && let Some(environment) = lab.allowed(&vector)
            {
                vectors.push((vector, environment));
            }
        }
        assert!(
            vectors.len() * 10 > wanted * 9,
            "{}: {} of {made} vectors are allowed",
            self.name,
            vectors.len()
        );
        let (mut finds, mut told, mut ran, mut content, mut slow) = (String::new(), BTreeSet::new(), 0, 0, 0);
        for batch in vectors.chunks(BATCH) {
            for ((vector, _), outcome) in batch.iter().zip(lab.run(batch)) {
                ran += usize::from(outcome.started(self.name));
                content += usize::from(outcome.status == 0);
                slow += usize::from(outcome.status == 137);
                if let Some(effect) = self.find(vector, &outcome, grammar.helpers(), &names) {
                    // A row of each program that is started, and of each name that is written.
                    let kind: Vec<&str> =
                        effect.split(' ').filter(|word| !word.contains('.')).take(3).collect();
                    if told.insert(kind.join(" ")) {
                        let row = json!({"argv": vector, "verdict": "deny", "why": effect});
                        writeln!(finds, "{row}").unwrap();
                    }
                }
            }
        }
        println!(
            "{}: {made} vectors made, {} allowed, {ran} started, {content} successful, {slow} stopped, {} finds",
            self.name,
            vectors.len(),
            told.len()
        );
        assert_eq!(ran, vectors.len(), "{}: vectors that were not started", self.name);
        assert!(finds.is_empty(), "rows for {FINDS}:\n{finds}");
        // Vectors that a program does not understand would prove little.
        assert!(content * 8 > ran, "{}: {content} of {ran} vectors were successful", self.name);
    }

    /// What a run did that it should not have.
    fn find(
        &self,
        vector: &[String],
        outcome: &Outcome,
        helpers: &[String],
        names: &BTreeSet<&str>,
    ) -> Option<String> {
        if let Some(exec) = outcome.foreign(helpers, names) {
            return Some(format!("starts {}", exec.argv.join(" ")));
        }
        if let Some(what) = outcome.outside.first() {
            return Some(format!("changes outside of the directory: {what}"));
        }
        if self.reads_only
            && !vector.iter().any(|item| self.may_write(item))
            && let Some(what) = outcome.inside.first()
        {
            return Some(format!("writes: {what}"));
        }
        None
    }
}

impl Subject {
    /// Whether an element is one of the options that write.
    fn may_write(&self, item: &str) -> bool {
        let (letters, names) = self.writing;
        match item.strip_prefix('-') {
            Some(cluster) if !cluster.starts_with('-') => cluster.contains(|letter| letters.contains(letter)),
            Some(_) => names.iter().any(|name| item.starts_with(name)),
            None => false,
        }
    }
}

/// The vectors of the corpora about a program, its name left out.
fn corpora(names: &BTreeSet<&str>) -> Vec<Vec<String>> {
    let mut files: Vec<_> =
        fs::read_dir(root().join("tests/corpora")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut found = BTreeSet::new();
    for file in files.iter().filter(|file| file.extension().is_some_and(|suffix| suffix == "jsonl")) {
        for line in fs::read_to_string(file).unwrap().lines() {
            let row: Value = serde_json::from_str(line).unwrap();
            let argv = strings(&row["argv"]);
            if let Some((name, rest)) = argv.split_first()
                && names.contains(name.as_str())
            {
                found.insert(rest.to_vec());
            }
        }
    }
    found.into_iter().collect()
}

/// An array of strings; empty when it is none.
fn strings(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(|item| Some(item.as_str()?.to_owned())).collect()
}

/// A line, split at blanks and quotes.
fn words(line: &str) -> Vec<String> {
    let (mut found, mut current, mut quote) = (Vec::new(), None::<String>, None);
    for letter in line.chars() {
        match (quote, letter) {
            (None, '\'' | '"') => {
                quote = Some(letter);
                current.get_or_insert_default();
            }
            (Some(open), _) if open == letter => quote = None,
            (None, ' ') => found.extend(current.take()),
            _ => current.get_or_insert_default().push(letter),
        }
    }
    found.extend(current);
    found
}

const fn first(list: &[(&'static str, &'static [&'static str])]) -> (&'static str, &'static [&'static str]) {
    list[0]
}

macro_rules! subjects {
    ($($test:ident: $name:literal of $package:literal, reads_only $reads_only:literal $(but $letters:literal [$($begin:literal),+])?: [$($line:literal),+ $(,)?];)+) => {
        static SUBJECTS: &[Subject] = &[$(Subject {
            name: $name, package: $package, reads_only: $reads_only, basics: &[$($line),+],
            writing: first(&[$(($letters, &[$($begin),+]),)? ("", &[])]),
        }),+];
        $(
            #[test]
            fn $test() {
                SUBJECTS.iter().find(|subject| subject.name == $name).unwrap().test();
            }
        )+
    };
}

subjects! {
    git_does_what_its_verdict_says: "git" of "git", reads_only false: [
        "git log -p", "git log --stat main..topic", "git diff HEAD", "git diff main topic", "git show HEAD", "git grep -n MATCH", "git status",
        "git blame data", "git archive HEAD", "git commit -am x", "git merge topic", "git rebase topic", "git branch x",
        "git checkout topic", "git fetch origin", "git clone . out", "git ls-remote .", "git pull origin main", "git push origin main",
        "git stash", "git tag x", "git tag -a x -m m", "git cherry-pick topic", "git am one.patch", "git apply one.patch", "git format-patch -1",
        "git bundle list-heads all.bundle", "git config --list", "git config user.name", "git remote -v", "git remote add x ./x",
        "git submodule status", "git worktree add out", "git gc", "git repack -ad", "git fsck", "git bisect start HEAD main", "git notes add -m x",
        "git cat-file -p HEAD", "git rev-list HEAD", "git shortlog HEAD", "git describe --tags", "git reset --hard", "git rm data", "git mv data out",
        "git init out", "git add -A", "git clean -n", "git range-diff main topic main", "git reflog", "git rerere", "git replace -l", "git help -a",
        "git fast-export HEAD", "git diff --no-index data list", "git interpret-trailers data", "git merge-file data list names", "git send-email one.patch",
        "git request-pull main .", "git var -l", "git column", "git credential fill", "git mailinfo out out2", "git sparse-checkout list",
        "git for-each-ref", "git checkout-index -a", "git read-tree HEAD", "git commit-tree -m x main^{tree}", "git verify-tag v1", "git log --show-signature",
    ];
    tar_does_what_its_verdict_says: "tar" of "tar", reads_only false: [
        "tar -cf out.tar data dir", "tar czf out.tgz dir", "tar -xf x.tar", "tar xzf x.tgz", "tar -tvf x.tar", "tar -xf x.tar -C dir", "tar -xf climb.tar",
        "tar -xf absolute.tar", "tar -xf link.tar", "tar -rf x.tar list", "tar -df x.tar", "tar -cf out.tar -T list", "tar -xOf x.tar data",
        "tar --delete -f x.tar data", "tar -uf x.tar data", "tar -Af x.tar climb.tar", "tar -xf x.tar --transform s/data/out/", "tar -cMf out.tar -L 10 data dir",
        "tar -cf out.tar -g out.snar dir", "tar -caf out.tar.xz dir",
    ];
    bsdtar_does_what_its_verdict_says: "bsdtar" of "libarchive-tools", reads_only false: [
        "bsdtar -cf out.tar data dir", "bsdtar czf out.tgz dir", "bsdtar -xf x.tar", "bsdtar xzf x.tgz", "bsdtar -tvf x.tar", "bsdtar -xf x.tar -C dir",
        "bsdtar -xf climb.tar", "bsdtar -xf absolute.tar", "bsdtar -xf link.tar", "bsdtar -rf x.tar list", "bsdtar -cf out.tar -T list",
        "bsdtar -xOf x.tar data", "bsdtar -uf x.tar data", "bsdtar -xf x.tar -s /data/out/", "bsdtar -caf out.zip dir", "bsdtar -cf out.tar @x.tar",
        "bsdtar -cf out.tar --format=mtree dir", "bsdtar -c -f out --lzop dir",
    ];
    sort_does_what_its_verdict_says: "sort" of "coreutils", reads_only true: [
        "sort data", "sort -k2,2n data", "sort -u data list", "sort -m data data", "sort -S 1K data data words list", "sort -c data", "sort -R data", "sort -t b -k 2 data",
    ];
    find_does_what_its_verdict_says: "find" of "findutils", reads_only true: [
        "find .", "find . -name data -print", "find dir -type f -printf %p", "find . -newer data -ls", "find . ( -name a -o -name data ) -print0",
        "find -L . -maxdepth 2 -not -empty", "find . -regextype posix-extended -regex .*data", "find -D tree . -prune",
    ];
    gawk_does_what_its_verdict_says: "gawk" of "gawk", reads_only true but "dop" ["--d", "--p"]: [
        "gawk '{print $1}' data", "gawk -F: '{print $1}' data", "gawk -v x=1 '{print x}' data", "gawk 'BEGIN{print 1}'", "gawk '/a|b/' data",
        "gawk 'END{print NR > 2}' data", "gawk '{ n += $2 } END { printf \"%d\\n\", n }' data", "gawk '{ getline; print }' data", "gawk -b '$2 > 1' data",
        "gawk 'BEGIN { x[1] = 2; for (i in x) print i | x[i] }' data", "gawk '{ print $1, $2 }' OFS=/ data", "gawk 'function f(a) { return a \"|\" } { print f($1) }' data",
    ];
    mawk_does_what_its_verdict_says: "mawk" of "mawk", reads_only true: [
        "mawk '{print $1}' data", "mawk -F: '{print $1}' data", "mawk -v x=1 '{print x}' data", "mawk 'BEGIN{print 1}'", "mawk '/a|b/' data",
        "mawk '{ n += $2 } END { printf \"%d\\n\", n }' data", "mawk '{ getline; print }' data", "mawk '$2 > 1' data", "mawk -W version", "mawk '{ print $1, $2 }' OFS=/ data",
    ];
    sed_does_what_its_verdict_says: "sed" of "sed", reads_only true: [
        "sed p data", "sed -n 1,2p data", "sed s/a/b/ data", "sed -e s/a/b/ -e p data", "sed -E 's/(a)/\\1/g' data", "sed '/a/,/b/d' data", "sed 'y/ab/ba/' data",
        "sed '1{h;d};G' data", "sed ':x;N;$!bx;s/a/b/' data", "sed '2i text' data", "sed 's/b/e/;t;w' data", "sed = data", "sed -s -n '$p' data list", "sed '/x/!s|a|w|g' data",
    ];
    rg_does_what_its_verdict_says: "rg" of "ripgrep", reads_only true: [
        "rg MATCH", "rg -n MATCH dir", "rg --files", "rg --json a data", "rg -z a", "rg -e a -e b data", "rg -f list data", "rg -r x a data", "rg --type-list", "rg --sort path MATCH",
        "rg --hyperlink-format default --color always a data", "rg --generate man", "rg --pre-glob * a", "rg --search-zip a data.gz",
    ];
    split_does_what_its_verdict_says: "split" of "coreutils", reads_only false: [
        "split data", "split -l 1 data out", "split -b 2 data out", "split -n 2 data", "split -n l/2 data", "split -C 5 data", "split -d -a 3 data out", "split -t b data",
        "split --additional-suffix=.x data", "split -n r/2 data", "split --verbose -e -n 3 data dir/out",
    ];
}

/// The recorder sees what the rules are there for, and nothing in ordinary work.
#[test]
fn what_is_refused_would_be_seen() {
    let lab = Lab::new();
    let seen = |line: &str| {
        let vector = words(line);
        let subject = SUBJECTS.iter().find(|subject| subject.name == vector[0]).unwrap();
        let grammar = grammar::program(subject.name.as_bytes()).unwrap().unwrap();
        let names = grammar.names().iter().map(String::as_str).collect();
        let environment = lab.allowed(&[subject.name.to_owned(), "data".to_owned()]);
        let environment = environment.or_else(|| lab.allowed(&words("git status"))).unwrap();
        let outcome = lab.run(&[(vector.clone(), environment)]).remove(0);
        assert!(outcome.started(subject.name));
        subject.find(&vector, &outcome, grammar.helpers(), &names)
    };
    for (line, what) in [
        ("git -c alias.x=!./bait x", "starts "),
        ("git grep -O./bait MATCH", "starts "),
        ("git diff --no-index --output=../outside/x data list", "changes outside"),
        ("tar -xf x.tar --to-command=./bait", "starts "),
        ("tar -xPf climb.tar", "changes outside"),
        ("tar -xPf absolute.tar", "changes outside"),
        ("tar -cf /usr/x data", "changes outside"),
        ("bsdtar -xPf link.tar", "changes outside"),
        ("bsdtar -cf out.tar --use-compress-program=./bait data", "starts "),
        ("sort -S 1K -o out data", "writes: "),
        ("find data -exec ./bait ;", "starts "),
        ("find data -exec ./missing ;", "starts "),
        ("find data -delete", "writes: "),
        ("gawk 'BEGIN{system(\"./bait\")}'", "starts "),
        ("mawk '{print > \"out\"}' data", "writes: "),
        ("sed '1e ./bait' data", "starts "),
        ("sed -i s/a/b/ data", "writes: "),
        ("rg --pre ./bait MATCH dir", "starts "),
        ("split --filter ./bait data", "starts "),
        ("split data ../outside/x", "changes outside"),
    ] {
        let found = seen(line);
        assert!(found.as_ref().is_some_and(|found| found.starts_with(what)), "{line}: {found:?}");
    }
    for line in ["git log -p", "tar -czf out.tgz dir", "sort data", "split data out", "rg -z a data.gz"] {
        assert_eq!(seen(line), None, "{line}");
    }
}

/// Vectors that once did something else than their verdict said.
#[test]
fn finds_are_refused() {
    let lab = Lab::new();
    let text = fs::read_to_string(root().join(FINDS)).unwrap();
    assert!(!text.is_empty());
    let mut wrong = Vec::new();
    for line in text.lines() {
        let row: Value = serde_json::from_str(line).unwrap();
        assert!(!row["why"].as_str().unwrap().is_empty(), "{line}");
        let allowed = lab.allowed(&strings(&row["argv"])).is_some();
        let expected = match row["verdict"].as_str().unwrap() {
            "allow" => true,
            "deny" => false,
            other => panic!("verdict {other}"),
        };
        if allowed != expected {
            wrong.push(line);
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
