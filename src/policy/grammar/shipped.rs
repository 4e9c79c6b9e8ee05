//! The program files that are compiled in.
//!
//! Purpose: from a base name to its grammar. Files are parsed when first asked for, so that a start
//! pays only for the programs of its policy; a test parses all of them. Called by `judge`.

use std::collections::HashMap;
use std::sync::{LazyLock, OnceLock};

use super::library::Grammar;

/// One file: the base names it is about (a test compares them with the file), and its text.
struct Shipped {
    names: &'static [&'static str],
    text: &'static str,
    compiled: OnceLock<Result<Grammar, String>>,
}

macro_rules! shipped {
    ($($file:literal: $($name:literal)+;)+) => {
        static FILES: [Shipped; [$($file),+].len()] = [$(Shipped {
            names: &[$($name),+],
            text: include_str!(concat!("../../../policy/programs/", $file, ".toml")),
            compiled: OnceLock::new(),
        }),+];
    };
}

// File without its suffix, and the base names it is about.
shipped! {
    "ab": "ab" "abs";
    "ack": "ack" "ack-grep";
    "ag": "ag";
    "age": "age" "rage";
    "aria2c": "aria2c";
    "arp": "arp";
    "awk": "awk" "gawk" "mawk" "nawk" "original-awk";
    "bat": "bat" "batcat";
    "cargo": "cargo";
    "cat": "cat" "gcat";
    "cloc": "cloc";
    "cmake": "cmake" "cmake3";
    "cp": "cp" "gcp";
    "csplit": "csplit" "gcsplit";
    "csvtool": "csvtool";
    "curl": "curl";
    "cut": "cut" "gcut";
    "date": "date" "gdate";
    "dd": "dd" "gdd";
    "delv": "delv";
    "diff": "diff" "gdiff";
    "diff3": "diff3" "gdiff3";
    "dig": "dig" "mdig";
    "dmesg": "dmesg";
    "dmidecode": "dmidecode";
    "drill": "drill";
    "du": "du" "gdu";
    "dumpcap": "dumpcap";
    "echo": "echo" "gecho";
    "fd": "fd" "fdfind";
    "ffmpeg": "ffmpeg" "ffprobe" "ffplay" "avconv" "avprobe";
    "file": "file";
    "find": "find" "gfind" "bfind" "bfs";
    "finger": "finger";
    "gcc": "gcc" "g++" "cc" "c++" "c89" "c99" "gfortran";
    "getent": "getent";
    "git": "git";
    "go": "go";
    "gpg": "gpg" "gpg2" "gpg1";
    "gpgv": "gpgv" "gpgv2" "gpgv1" "gpgv-static";
    "grep": "grep" "ggrep" "egrep" "fgrep" "gegrep" "gfgrep" "rgrep";
    "head": "head" "ghead";
    "hg": "hg";
    "host": "host";
    "http": "http" "https" "httpie" "xh" "xhs";
    "install": "install" "ginstall";
    "ip": "ip" "bridge" "tc";
    "jq": "jq" "gojq" "jaq";
    "kdig": "kdig" "khost" "knslookup";
    "ld": "ld" "ld.bfd" "ld.gold" "ld.lld" "gold";
    "ldapsearch": "ldapsearch";
    "ldconfig": "ldconfig" "ldconfig.real";
    "ln": "ln" "gln";
    "logger": "logger";
    "ls": "ls" "gls" "dir" "vdir";
    "lwp-request": "lwp-request" "lwp-dump" "lwp-mirror" "lwp-download" "GET" "HEAD" "POST";
    "magick": "magick" "convert" "identify" "mogrify" "composite" "montage" "compare" "stream" "display" "animate" "import" "conjure" "magick-script" "convert-im6" "convert-im6.q16" "identify-im6.q16" "mogrify-im6.q16" "composite-im6.q16" "montage-im6.q16" "compare-im6.q16" "stream-im6.q16" "display-im6.q16" "animate-im6.q16" "import-im6.q16" "conjure-im6.q16" "convert-im7.q16" "magick-im7.q16" "gm";
    "make": "make" "gmake";
    "mtr": "mtr" "mtr-tiny";
    "mv": "mv" "gmv";
    "mysql": "mysql" "mariadb";
    "mysqldump": "mysqldump" "mariadb-dump";
    "nc": "nc" "netcat" "nc.openbsd";
    "nm": "nm" "gnm" "eu-nm";
    "nmap": "nmap";
    "npm": "npm";
    "nslookup": "nslookup";
    "openssl": "openssl";
    "pandoc": "pandoc";
    "pg_dump": "pg_dump" "pg_dumpall";
    "pg_restore": "pg_restore";
    "pidstat": "pidstat";
    "ping": "ping" "ping4" "ping6";
    "pip": "pip";
    "printf": "printf" "gprintf";
    "psql": "psql";
    "pwd": "pwd" "gpwd";
    "pytest": "pytest" "py.test";
    "redis-cli": "redis-cli" "valkey-cli" "keydb-cli";
    "rg": "rg";
    "rsync": "rsync";
    "scp": "scp";
    "sdiff": "sdiff" "gsdiff";
    "sed": "sed" "gsed";
    "sftp": "sftp";
    "shuf": "shuf" "gshuf";
    "sort": "sort" "gsort";
    "split": "split" "gsplit";
    "sqlite3": "sqlite3" "sqlite" "sqlcipher";
    "ss": "ss";
    "ssh": "ssh" "slogin";
    "ssh-add": "ssh-add";
    "ssh-copy-id": "ssh-copy-id";
    "ssh-keygen": "ssh-keygen";
    "ssh-keyscan": "ssh-keyscan";
    "stat": "stat" "gstat";
    "strip": "strip" "gstrip";
    "svn": "svn";
    "sysctl": "sysctl";
    "tail": "tail" "gtail";
    "tar": "tar" "gtar" "bsdtar";
    "tcpdump": "tcpdump";
    "tee": "tee" "gtee";
    "tr": "tr" "gtr";
    "tracepath": "tracepath" "tracepath6";
    "traceroute": "traceroute" "traceroute6" "tcptraceroute" "lft" "traceroute.db" "traceroute6.db";
    "true": "true" "false" "gtrue" "gfalse";
    "tshark": "tshark";
    "uniq": "uniq" "guniq";
    "wc": "wc" "gwc";
    "wget": "wget";
    "whois": "whois";
    "xorriso": "xorriso" "osirrox" "xorrecord";
    "yq": "yq";
    "zic": "zic";
}

static BY_NAME: LazyLock<HashMap<&'static [u8], usize>> = LazyLock::new(|| {
    let names = |(index, file): (usize, &'static Shipped)| {
        file.names.iter().map(move |name| (name.as_bytes(), index))
    };
    FILES.iter().enumerate().flat_map(names).collect()
});

/// The grammar of the program with this base name, if there is a file for it.
///
/// # Errors
/// When the file is broken, which a test of the build would have found.
pub fn find(name: &[u8]) -> Result<Option<&'static Grammar>, String> {
    let Some(file) = BY_NAME.get(name).and_then(|index| FILES.get(*index)) else { return Ok(None) };
    match file.compiled.get_or_init(|| Grammar::parse(file.text)) {
        Ok(grammar) => Ok(Some(grammar)),
        Err(problem) => Err(problem.clone()),
    }
}

/// Every base name that has a file.
pub fn names() -> impl Iterator<Item = &'static str> {
    FILES.iter().flat_map(|file| file.names.iter().copied())
}

/// Every file, loaded.
///
/// # Errors
/// When one is broken.
pub fn programs() -> Result<Vec<&'static Grammar>, String> {
    let first = FILES.iter().filter_map(|file| file.names.first());
    first.filter_map(|name| find(name.as_bytes()).transpose()).collect()
}
